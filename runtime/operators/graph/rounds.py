"""Values by rounds: ranks of vertices, and labels that they take from their neighbours."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.graph import (
    ROUND_TOUCHED,
    ROUND_WIDTH,
    label_rounds,
    note_edges,
    rank_rounds,
)
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.words import order_of, plain_type
from sqlstream.runtime.operators.graph.emitted import Changed, ValueColumn, VertexColumn, changed_values
from sqlstream.runtime.operators.graph.graph_edges import GraphEdges
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_table import KeyedTable

_NONE = np.empty(0, dtype=np.int64)
RANK_ONE = 1 << 32
"""The rank 1 as a whole number."""


class Rounds:
    """The values of each vertex in `iterations` rounds, the last of which is emitted: with `damping` ranks, without it labels.
    What changes in a round reaches neighbours in the next one. State: none that is saved; per vertex 8 bytes for each round, and
    44."""

    def __init__(
        self,
        emitted: ValueColumn | VertexColumn,
        vertices: KeyedTable,
        edges: GraphEdges,
        iterations: int,
        damping: float | None,
    ) -> None:
        self._emitted = emitted
        self._vertices = vertices
        self._edges = edges
        self._damping = damping
        self._kind = order_of(plain_type(vertices.schema.field(0).type))
        self._values = GrowingArray(np.int64, iterations + 1)
        self._cells = GrowingArray(np.int32, ROUND_WIDTH)
        self._lists = GrowingArray(np.int32, ROUND_WIDTH)
        self._votes = GrowingArray(np.int32)
        self._counts = np.zeros(ROUND_WIDTH, dtype=np.int64)

    def change(self, came: Array, went: Array) -> Changed:
        """What changes with edges that came and that went, by their slots."""
        edges = self._edges
        edges.unlink(went)
        edges.link(came)
        for array in (self._values, self._cells, self._lists, self._votes):
            array.reserve(self._vertices.slot_count)
        lists = self._cells.values, self._lists.values, self._counts
        tables = *lists, self._values.values, edges.edges, edges.heads
        note_edges(*tables, np.concatenate([came, went]), -1 if self._damping is None else RANK_ONE)
        if self._damping is None:
            keys, arena, place = self._vertices.stored_keys(0)
            order = np.array([place, self._kind], dtype=np.int64)
            label_rounds(*tables, self._votes.values, keys, arena, order)
        else:
            least = round((1 - self._damping) * RANK_ONE)
            rank_rounds(*tables, np.array([self._damping]), least)
        touched = self._lists.values[: self._counts[ROUND_TOUCHED], ROUND_TOUCHED].astype(np.int64)
        self._counts[ROUND_TOUCHED] = 0
        self._cells.values[touched, ROUND_TOUCHED] = 0
        values = self._values.values[touched, -1]
        news = values if self._damping is None else values / RANK_ONE
        news[edges.are_alone(touched)] = -1
        return changed_values([self._emitted], touched, [news])

    def forget(self, vertices: Array) -> None:
        """Values of vertices without an edge are overwritten when these come again."""

    def rebuild(self) -> None:
        """Compute all rounds anew."""
        if isinstance(self._emitted, VertexColumn):
            self._emitted.settle()
        self.change(self._edges.slots(), _NONE)

    def nbytes(self) -> int:
        lists = self._cells.nbytes + self._lists.nbytes + self._votes.nbytes
        return self._values.nbytes + lists
