"""Spec of the operator that keeps a graph, and what an algorithm says of its vertices."""

from __future__ import annotations

import enum

from sqlstream.specs.spec import OperatorSpec, StateBound


class GraphAlgorithm(enum.Enum):
    """What is known of each vertex; the value is the SQL function's name."""

    CONNECTED_COMPONENTS = "CONNECTED_COMPONENTS"
    SHORTEST_PATHS = "SHORTEST_PATHS"
    TRIANGLES = "TRIANGLES"
    PAGERANK = "PAGERANK"
    LABEL_PROPAGATION = "LABEL_PROPAGATION"

    @property
    def is_undirected(self) -> bool:
        """Whether an edge from a to b is one from b to a."""
        return self not in (GraphAlgorithm.SHORTEST_PATHS, GraphAlgorithm.PAGERANK)


class GraphSpec(OperatorSpec, frozen=True, tag="graph"):
    """Keep the graph whose edges are the rows, and what `algorithm` says of each vertex, in one subtask.

    The columns of a row are the vertices at the ends of an edge; a row with NULL is no edge. Edges that are there several times
    count once. `keeps_edges`: edges go, too, or the algorithm reads them. The third column of SHORTEST_PATHS, if there is one, is
    the weight of the edge, and `source` the vertex where paths begin; `damping` is that of PAGERANK, and `iterations` the number
    of rounds of the algorithms that have rounds.
    """

    algorithm: GraphAlgorithm
    keeps_edges: bool
    source: int | str = 0
    damping: float = 0.0
    iterations: int = 0

    def kept_state(self) -> str:
        edges = "each edge with how often it is there, " if self.keeps_edges else ""
        return f"{edges}each vertex with what was emitted of it; dropped: with the last edge"

    def state_bound(self) -> StateBound:
        if self.keeps_edges:
            return StateBound("the number of distinct edges", False, "edge")
        return StateBound("the number of vertices", False, "vertex")
