"""A graph function over a table of edges."""

from __future__ import annotations

import dataclasses

from sqlstream.planner.physical.description import describe
from sqlstream.planner.physical.node import PhysicalNode, Traits
from sqlstream.planner.physical.planning import SINGLETON, Planning, over
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.specs.graph import GraphAlgorithm, GraphSpec


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GraphFunction(base.SingleInputNode):
    """What `algorithm` says of each vertex of the graph whose edges are the rows: see GraphSpec. The vertex comes first.
    `arguments` are the fields of the spec that are constants of the call."""

    algorithm: GraphAlgorithm
    arguments: tuple[tuple[str, int | float | str], ...] = ()

    def describe(self) -> str:
        arguments = (f"{name}=[{value}]" for name, value in self.arguments)
        return base.join_parts(f"algorithm=[{self.algorithm.value}]", *arguments)

    def result_keys(self) -> tuple[base.Key, ...]:
        return ((0,),)


def plan_graph_function(planning: Planning, inputs: Inputs, node: GraphFunction) -> PhysicalNode:
    """All edges go to one subtask, which knows the graph."""
    source = inputs[0]
    is_growing = source.traits.is_insert_only and node.algorithm is GraphAlgorithm.CONNECTED_COMPONENTS
    return planning.node(
        "GraphFunction",
        GraphSpec(node.algorithm, not is_growing, **dict(node.arguments)),  # type: ignore[arg-type]
        over(source, SINGLETON),
        node.schema,
        Traits(False, source.traits.is_bounded, keys=frozenset({frozenset({0})})),
        describe(
            "GraphFunction",
            algorithm=node.algorithm.value,
            edge=f"[{', '.join(source.schema.names)}]",
            **{name: str(value) for name, value in node.arguments},
        ),
        node.span,
        parallelism=1,
    )
