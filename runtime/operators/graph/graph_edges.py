"""The edges of a graph: how often each is there, and which ones a vertex has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.accumulate import add_into
from sqlstream.runtime.kernels.graph import DEGREES, EDGE_WIDTH, ENDS, HEAD_WIDTH, link, unlink
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.state.operator_state import OperatorState
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.slot_columns import NumberColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable


class GraphEdges:
    """Counts edges, which are known by their columns, the keys of the vertices at their ends first.

    State: the table `edges`, with a count; and what follows from it, for kernels: `edges` and `weights` by slot, and `heads` by
    slot of a vertex (see runtime/kernels/graph.py).
    """

    def __init__(self, schema: pa.Schema, state: OperatorState, vertices: KeyedTable) -> None:
        self._vertices = vertices
        self._counts = NumberColumn("$count", pa.int64())
        self._table = state.add(KeyedTable("edges", schema, [self._counts], state.scope))
        self._edges = GrowingArray(np.int32, EDGE_WIDTH)
        self._heads = GrowingArray(np.int32, HEAD_WIDTH)
        weight = schema.types[2].to_pandas_dtype() if len(schema) > 2 else np.int64
        self._weights = GrowingArray(weight)

    @property
    def edges(self) -> Array:
        return self._edges.values

    @property
    def weights(self) -> Array:
        """The third column of edges, by slot; empty where they have none."""
        return self._weights.values

    @property
    def heads(self) -> Array:
        return self._heads.values

    def change(self, columns: Sequence[pa.Array], signs: Array) -> tuple[Array, Array, Array]:
        """(came, went, idle): slots of edges that are there now, that are no longer, and of such that were not and are not, by
        rows that add (+1) or retract (-1) one each. A retraction may come before its row, and counts until then."""
        slots, _ = self._table.get_or_create(columns)
        distinct = np.unique(slots)
        self._table.writing(distinct)
        counts = self._counts.values
        before = counts[distinct] > 0
        add_into(counts, slots, signs)
        left = counts[distinct]
        after = left > 0
        return distinct[after & ~before], distinct[before & ~after], distinct[~before & (left == 0)]

    def enter(self, slots: Array) -> None:
        """Note the vertices at the ends of edges that came, which get a slot unless they have one."""
        source, target, *weight = self._table.keys(slots)
        ends, _ = self._vertices.get_or_create([pa.concat_arrays([source, target])])
        self._heads.reserve(self._vertices.slot_count)
        self._edges.reserve(self._table.slot_count)
        self.edges[slots, ENDS] = ends[: len(slots)]
        self.edges[slots, ENDS + 1] = ends[len(slots) :]
        if weight:
            self._weights.reserve(self._table.slot_count)
            self.weights[slots] = weight[0].to_numpy()

    def link(self, slots: Array) -> None:
        """Put edges that came into the chains of the vertices at their ends."""
        self.enter(slots)
        link(self.edges, self.heads, slots)

    def unlink(self, slots: Array) -> None:
        unlink(self.edges, self.heads, slots)

    def ends(self, slots: Array) -> tuple[Array, Array]:
        """The vertices at the ends of edges, also of those that went."""
        ends = self.edges[slots].astype(np.int64)
        return ends[:, ENDS].copy(), ends[:, ENDS + 1].copy()

    def are_alone(self, vertices: Array) -> Array:
        """bool[n]: vertices without an edge."""
        is_alone: Array = self.heads[vertices, DEGREES : DEGREES + 2].sum(axis=1) == 0
        return is_alone

    def forget(self, slots: Array) -> None:
        """Drop edges that are in no chain, unless retractions of them came first."""
        self._table.forget(slots[self._counts.values[slots] == 0])

    def slots(self) -> Array:
        """The edges that are there."""
        slots = self._table.slots()
        return slots[self._counts.values[slots] > 0]

    def nbytes(self) -> int:
        return self._edges.nbytes + self._heads.nbytes + self._weights.nbytes
