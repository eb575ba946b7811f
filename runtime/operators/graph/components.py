"""Connected components: each vertex with the least vertex that it is connected to."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.graph import (
    CELL_WIDTH,
    FREE,
    LIST_WIDTH,
    SET,
    TOUCHED,
    changed_sets,
    part,
    touch_moved,
    unite,
)
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.words import order_of, plain_type
from sqlstream.runtime.operators.graph.emitted import Changed, VertexColumn
from sqlstream.runtime.operators.graph.graph_edges import GraphEdges
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_table import KeyedTable

_NONE = np.empty(0, dtype=np.int64)
_NO_EDGES = np.empty((0, 1), dtype=np.int32)


class Components:
    """Sets of connected vertices, by the slots of a table of vertices. With `edges`, some of which go, a spanning forest of them
    is kept. State: none that is saved; 32 bytes per vertex, and 20 for lists of them."""

    def __init__(self, emitted: VertexColumn, vertices: KeyedTable, edges: GraphEdges | None) -> None:
        self._emitted = emitted
        self._vertices = vertices
        self._edges = edges
        self._kind = order_of(plain_type(emitted.fields[0].type))
        self._cells = GrowingArray(np.int32, CELL_WIDTH)
        self._lists = GrowingArray(np.int32, LIST_WIDTH)
        self._counts = np.zeros(4, dtype=np.int64)

    def insert(self, sources: Array, targets: Array) -> Changed:
        """What changes when edges come between these vertices, without `edges`."""
        self._unite(_NONE, sources, targets)
        return self._changed()

    def change(self, came: Array, went: Array) -> Changed:
        """What changes with edges that came and that went, by their slots."""
        assert self._edges is not None
        if len(went):
            part(*self._tables(), self._edges.edges, self._edges.heads, went)
            self._edges.unlink(went)
        if len(came):
            self._edges.link(came)
            self._unite(came, *self._edges.ends(came))
        return self._changed()

    def _changed(self) -> Changed:
        cells, lists, counts = self._cells.values, self._lists.values, self._counts
        emitted = self._emitted.values[: self._vertices.slot_count]
        touch_moved(cells, lists, counts, emitted)
        vertices, olds, news = (np.empty(counts[TOUCHED], dtype=np.int64) for _ in range(3))
        heads = _NO_EDGES if self._edges is None else self._edges.heads
        count = changed_sets(cells, lists, counts, emitted, heads, vertices, olds, news)
        return Changed(vertices[:count], [olds[:count]], [news[:count]])

    def forget(self, vertices: Array) -> None:
        """Drop vertices, each of which is alone."""
        cells = self._cells.values
        free = int(self._counts[FREE])
        self._lists.values[free : free + len(vertices), FREE] = cells[vertices, SET] - 1
        self._counts[FREE] += len(vertices)
        cells[vertices, SET] = 0

    def rebuild(self) -> None:
        """Make the sets anew from what was restored."""
        self._emitted.settle()
        if self._edges is not None:
            self.change(self._edges.slots(), _NONE)
            return
        vertices = self._vertices.slots()
        self.insert(vertices, self._emitted.values[vertices])

    def _tables(self) -> tuple[Array, Array, Array, Array, Array, Array]:
        slots = self._vertices.slot_count
        self._cells.reserve(slots)
        self._lists.reserve(slots + 1)
        keys, arena, place = self._vertices.stored_keys(0)
        order = np.array([place, self._kind], dtype=np.int64)
        return self._cells.values, self._lists.values, self._counts, keys, arena, order

    def _unite(self, came: Array, sources: Array, targets: Array) -> None:
        edges = _NO_EDGES if self._edges is None else self._edges.edges
        unite(*self._tables(), edges, came, sources, targets)

    def nbytes(self) -> int:
        return self._cells.nbytes + self._lists.nbytes
