"""Spec of the operator that keeps a graph, and what an algorithm says of its vertices."""

from __future__ import annotations

import enum

from sqlstream.specs.spec import OperatorSpec, StateBound


class GraphAlgorithm(enum.Enum):
    """What is known of each vertex; the value is the SQL function's name."""

    CONNECTED_COMPONENTS = "CONNECTED_COMPONENTS"

    @property
    def is_undirected(self) -> bool:
        """Whether an edge from a to b is one from b to a."""
        return self is GraphAlgorithm.CONNECTED_COMPONENTS


class GraphSpec(OperatorSpec, frozen=True, tag="graph"):
    """Keep the graph whose edges are the rows, and what `algorithm` says of each vertex, in one subtask.

    The columns of a row are the vertices at the ends of an edge; a row with NULL is no edge. Edges that are there several times
    count once. `keeps_edges`: edges go, too, or the algorithm reads them.
    """

    algorithm: GraphAlgorithm
    keeps_edges: bool

    def kept_state(self) -> str:
        edges = "each edge with how often it is there, " if self.keeps_edges else ""
        return f"{edges}each vertex with what was emitted of it; dropped: with the last edge"

    def state_bound(self) -> StateBound:
        if self.keeps_edges:
            return StateBound("the number of distinct edges", False, "edge")
        return StateBound("the number of vertices", False, "vertex")
