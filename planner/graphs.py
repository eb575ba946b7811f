"""Physical plan → Scaling → StreamGraph: what each operator runs with, and the exchanges between them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from sqlstream import config
from sqlstream.errors import Span, UserError
from sqlstream.graph.job_graph import ChainedOperator, JobVertex
from sqlstream.graph.key_groups import default_max_parallelism
from sqlstream.graph.parallelism import edges_of, parallelism_of
from sqlstream.graph.scaling import PlannedInput, PlannedNode, Scaling
from sqlstream.graph.stream_graph import (
    DEFAULT_GROUP,
    SLOT_SHARING_GROUP,
    StreamEdge,
    StreamGraph,
    StreamNode,
)
from sqlstream.planner.physical.node import PhysicalNode, walk_plan
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.specs.sink import COLLECT

EDGES_MAX = 10_000
"""Inputs of one operator, unions resolved."""


def translate_stream_graph(
    sinks: tuple[PhysicalNode, ...], scaling: Scaling, settings: Mapping[str, str]
) -> StreamGraph:
    """Operators with their parallelism and the exchanges between them; a union becomes several edges. UserError SS4002 when
    pipeline.max-parallelism is below the parallelism of an operator."""
    parallelism = parallelism_of(scaling)
    max_parallelism = _max_parallelism(settings, max(parallelism, default=1))
    uids: set[str] = set()
    translated = []
    groups: list[str] = []
    for place, node in enumerate(walk_plan(sinks)):
        groups.append(_slot_sharing_group(node, {groups[i.source] for i in scaling.nodes[place].inputs}))
        if node.spec is None:
            continue
        operator = scaling.nodes[place].operator
        translated.append(
            StreamNode(
                id=operator,
                uid=_unique(node.uid, uids),
                name=f"{node.name}[{operator}]",
                spec=node.spec,
                inputs=_edges(scaling, place, parallelism, node.span),
                output_schema=node.schema,
                output_mode=node.settled_mode,
                parallelism=parallelism[place],
                max_parallelism=max_parallelism,
                description=node.description,
                span=node.span,
                state=node.state,
                slot_sharing_group=groups[place],
            )
        )
    return StreamGraph(tuple(translated))


def _slot_sharing_group(node: PhysicalNode, groups_of_inputs: set[str]) -> str:
    """That of the node's table, or else of all that it reads, if they have one (Flink: StreamGraphGenerator)."""
    options = node.spec.options if isinstance(node.spec, SourceSpec | SinkSpec) else {}
    if SLOT_SHARING_GROUP in options:
        return options[SLOT_SHARING_GROUP].strip()
    return min(groups_of_inputs) if len(groups_of_inputs) == 1 else DEFAULT_GROUP


def _max_parallelism(settings: Mapping[str, str], highest: int) -> int:
    """The number of key groups, one for all operators: that of the option, or what follows from the highest parallelism."""
    wanted = int(config.get(settings, "pipeline.max-parallelism"))
    if wanted > 0:
        if wanted < highest:
            raise UserError(
                "SS4002",
                f"pipeline.max-parallelism is {wanted}, below the parallelism {highest} of an operator",
                hint=f"SET 'pipeline.max-parallelism' = '{highest}' or more",
            )
        return wanted
    return default_max_parallelism(highest)


def _edges(
    scaling: Scaling, place: int, parallelism: Sequence[int], span: Span | None
) -> tuple[StreamEdge, ...]:
    edges: list[StreamEdge] = []
    for edge in edges_of(scaling, place, parallelism):
        edges.append(edge)
        if len(edges) > EDGES_MAX:
            raise UserError(
                "SS3019",
                f"an operator of this statement would read more than {EDGES_MAX} inputs",
                span=span,
                hint="a chain of UNION ALL doubles the rows with every link: union fewer queries",
            )
    return tuple(edges)


def _unique(uid: str, used: set[str]) -> str:
    """A distinct uid: equal operators (two INSERTs of one query into one table) are numbered in the order of the script."""
    number, candidate = 0, uid
    while candidate in used:
        number += 1
        candidate = hashlib.sha256(f"{uid}#{number}".encode()).hexdigest()[:32]
    used.add(candidate)
    return candidate


# Physical plan → Scaling.


def plan_scaling(sinks: tuple[PhysicalNode, ...], settings: Mapping[str, str]) -> Scaling:
    """Operators are numbered from 1 in the order of `walk_plan`."""
    places: dict[int, int] = {}
    nodes: list[PlannedNode] = []
    operators = 0
    for place, node in enumerate(walk_plan(sinks)):
        places[id(node)] = place
        operators += node.spec is not None
        inputs = tuple(PlannedInput(places[id(i.node)], i.exchange) for i in node.inputs)
        operator = operators if node.spec is not None else 0
        nodes.append(PlannedNode(operator, inputs, node.parallelism, node.traits.is_insert_only))
    return Scaling(default_parallelism(settings), tuple(nodes))


def default_parallelism(settings: Mapping[str, str]) -> int:
    """table.exec.resource.default-parallelism, or else parallelism.default."""
    for_tables = int(config.get(settings, "table.exec.resource.default-parallelism"))
    return for_tables if for_tables > 0 else int(config.get(settings, "parallelism.default"))


# The operator that hands the rows of another one to the client.


_COLLECTING = f"Sink: {COLLECT}"


def collecting(head: ChainedOperator, id: int, uid: str) -> ChainedOperator:
    """The sink `collect` behind `head`, with its rows as they are."""
    schema, mode = head.output_schema, head.output_mode
    spec = SinkSpec(COLLECT, COLLECT, {"connector": COLLECT}, schema)
    return ChainedOperator(id, uid, _COLLECTING, spec, head.id, (schema,), (mode,), schema, mode, _COLLECTING)


def collecting_vertex(id: str, head: ChainedOperator) -> JobVertex:
    """One task of two operators: `head`, whose rows are the answer to the client."""
    sink = collecting(head, head.id + 1, f"{id}-sink")
    return JobVertex(id, f"{head.name} -> {_COLLECTING}", (head, sink), parallelism=1, max_parallelism=1)
