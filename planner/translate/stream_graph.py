"""Physical plan → StreamGraph: parallelism, exchanges, and uids that depend on the query alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from sqlstream import config
from sqlstream.errors import Span, UserError
from sqlstream.graph.key_groups import default_max_parallelism
from sqlstream.graph.scaling import Scaling
from sqlstream.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from sqlstream.planner.physical.node import PhysicalNode, walk_plan
from sqlstream.planner.translate.scaling import edges_of, parallelism_of

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
    for place, node in enumerate(walk_plan(sinks)):
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
            )
        )
    return StreamGraph(tuple(translated))


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
