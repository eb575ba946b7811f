"""How many triangles each vertex is a corner of."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.graph import IS_COUNTED, TRIANGLE_WIDTH, count_triangles
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.operators.graph.emitted import Changed, ValueColumn, changed_values
from sqlstream.runtime.operators.graph.graph_edges import GraphEdges
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_table import KeyedTable

_NONE = np.empty(0, dtype=np.int64)


class Triangles:
    """Counts the triangles of each vertex. State: none that is saved; 24 bytes per vertex."""

    def __init__(self, emitted: list[ValueColumn], vertices: KeyedTable, edges: GraphEdges) -> None:
        self._emitted = emitted
        self._vertices = vertices
        self._edges = edges
        self._cells = GrowingArray(np.int32, TRIANGLE_WIDTH)
        self._totals = GrowingArray(np.int64)
        self._touched = GrowingArray(np.int64)

    def change(self, came: Array, went: Array) -> Changed:
        """What changes with edges that came and that went, by their slots."""
        edges, counts = self._edges, np.zeros(1, dtype=np.int64)
        edges.enter(came)
        for array in (self._cells, self._totals, self._touched):
            array.reserve(self._vertices.slot_count)
        for ids, change in ((went, -1), (came, 1)):
            count_triangles(
                self._cells.values, self._totals.values, self._touched.values, counts, edges.edges,
                edges.heads, ids, change,
            )  # fmt: skip
        touched = self._touched.values[: counts[0]].copy()
        self._cells.values[touched, IS_COUNTED] = 0
        totals = self._totals.values[touched]
        totals[edges.are_alone(touched)] = -1
        return changed_values(self._emitted, touched, [totals])

    def forget(self, vertices: Array) -> None:
        """Vertices without an edge have no triangle."""

    def rebuild(self) -> None:
        """Count all triangles anew."""
        self.change(self._edges.slots(), _NONE)

    def nbytes(self) -> int:
        return self._cells.nbytes + self._totals.nbytes + self._touched.nbytes
