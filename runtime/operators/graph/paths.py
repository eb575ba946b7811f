"""Shortest paths: how far each vertex is from one of them, along edges in their direction."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.kernels.graph import (
    IS_SEEN,
    PATH_LISTS,
    PATH_WIDTH,
    REACHED,
    SEEN,
    find_paths,
    lose_paths,
)
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.operators.graph.emitted import Changed, ValueColumn, changed_values
from sqlstream.runtime.operators.graph.graph_edges import GraphEdges
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_table import KeyedTable

_NONE = np.empty(0, dtype=np.int64)


class Paths:
    """The distance of each vertex that is reached from the one with the key `source`, and, where `emitted` has a second column,
    the number of edges on the path, the fewest of those of this distance. State: none that is saved; 24 bytes per vertex, and 12
    for lists of them."""

    def __init__(
        self, emitted: list[ValueColumn], vertices: KeyedTable, edges: GraphEdges, source: pa.Array
    ) -> None:
        self._emitted = emitted
        self._vertices = vertices
        self._edges = edges
        self._source = source
        dtype = emitted[0].values.dtype
        self._limit = np.array([np.iinfo(np.int64).max if dtype == np.int64 else np.inf, 0, 1], dtype=dtype)
        self._distances = GrowingArray(dtype)
        self._cells = GrowingArray(np.int32, PATH_WIDTH)
        self._lists = GrowingArray(np.int32, PATH_LISTS)
        self._counts = np.zeros(3, dtype=np.int64)

    def change(self, came: Array, went: Array) -> Changed:
        """What changes with edges that came and that went, by their slots. UserError SS5420 for a weight below zero, SS5421 for a
        distance beyond BIGINT."""
        edges = self._edges
        if len(went):
            lose_paths(self._cells.values, self._lists.values, self._counts, edges.edges, edges.heads, went)
            edges.unlink(went)
        if len(came):
            edges.link(came)
            _check(edges.weights, came)
        for array in (self._cells, self._lists, self._distances):
            array.reserve(self._vertices.slot_count + 1)
        first = int(self._vertices.find([self._source])[0])
        gone = _NONE
        if first >= 0 and edges.are_alone(np.array([first]))[0]:
            self._cells.values[first, REACHED] = 0
            first, gone = -1, np.array([first])
        is_too_far = find_paths(
            self._cells.values, self._lists.values, self._counts, self._distances.values, edges.edges,
            edges.heads, edges.weights, self._limit, first, came,
        )  # fmt: skip
        if is_too_far:
            raise UserError(
                "SS5421",
                "a distance of SHORTEST_PATHS leaves the range of BIGINT",
                hint="CAST the weight to DOUBLE in a subquery",
            )
        touched = self._lists.values[: self._counts[SEEN], SEEN].astype(np.int64)
        self._counts[SEEN] = 0
        self._cells.values[touched, IS_SEEN] = 0
        return self._changed(np.unique(np.concatenate([touched, gone])))

    def _changed(self, touched: Array) -> Changed:
        hops = self._cells.values[touched, REACHED].astype(np.int64) - 1
        distances = np.where(hops >= 0, self._distances.values[touched], -1)
        return changed_values(self._emitted, touched, [distances, hops][: len(self._emitted)])

    def forget(self, vertices: Array) -> None:
        """Nothing is known of vertices that no edge leads to."""

    def rebuild(self) -> None:
        """Find all paths anew."""
        self.change(self._edges.slots(), _NONE)

    def nbytes(self) -> int:
        return self._distances.nbytes + self._cells.nbytes + self._lists.nbytes


def _check(weights: Array, came: Array) -> None:
    if len(weights) and not (weights[came] >= 0).all():
        raise UserError(
            "SS5420",
            f"an edge of SHORTEST_PATHS has the weight {weights[came].min()}",
            hint="weights are 0 or more: leave the others out, WHERE weight >= 0",
        )
