"""Physical plan → StreamGraph: parallelism, exchanges, and uids that depend on the query alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from planner.physical.node import PhysicalInput, PhysicalNode, walk_plan
from sqlstream import config
from sqlstream.errors import UserError
from sqlstream.graph.key_groups import default_max_parallelism
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind, StreamEdge, StreamGraph, StreamNode

REBALANCE = Exchange(ExchangeKind.REBALANCE)
EDGES_MAX = 10_000
"""Inputs of one operator, unions resolved."""


def translate_stream_graph(sinks: tuple[PhysicalNode, ...], settings: Mapping[str, str]) -> StreamGraph:
    """Operators with their parallelism and the exchanges between them; a union becomes several edges.

    FORWARD needs equal parallelism and is a REBALANCE otherwise. Between single subtasks every exchange is
    a FORWARD. UserError SS4002 when pipeline.max-parallelism is below the parallelism of an operator.
    """
    default = default_parallelism(settings)
    nodes = list(walk_plan(sinks))
    parallelism: dict[int, int] = {}
    for node in nodes:
        parallelism[id(node)] = node.parallelism or _open_parallelism(node, parallelism, default)
    max_parallelism = _max_parallelism(settings, max(parallelism.values(), default=1))
    operators = [n for n in nodes if n.spec is not None]
    ids = {id(node): number for number, node in enumerate(operators, start=1)}
    uids: set[str] = set()
    translated = []
    for node in operators:
        assert node.spec is not None
        translated.append(
            StreamNode(
                id=ids[id(node)],
                uid=_unique(node.uid, uids),
                name=f"{node.name}[{ids[id(node)]}]",
                spec=node.spec,
                inputs=tuple(_edges(node, ids, parallelism)),
                output_schema=node.schema,
                output_mode=node.settled_mode,
                parallelism=parallelism[id(node)],
                max_parallelism=max_parallelism,
                description=node.description,
                span=node.span,
                state=node.state,
            )
        )
    return StreamGraph(tuple(translated))


def default_parallelism(settings: Mapping[str, str]) -> int:
    """table.exec.resource.default-parallelism, or else parallelism.default."""
    for_tables = int(config.get(settings, "table.exec.resource.default-parallelism"))
    return for_tables if for_tables > 0 else int(config.get(settings, "parallelism.default"))


def _open_parallelism(node: PhysicalNode, parallelism: dict[int, int], default: int) -> int:
    forward = [parallelism[id(i.node)] for i in node.inputs if i.exchange == FORWARD]
    if not forward:
        return default
    # Over more subtasks the versions of one row would lose their order; one subtask keeps it.
    keeps_order = all(i.node.traits.is_insert_only for i in node.inputs)
    return max(forward) if keeps_order or len(set(forward)) == 1 else 1


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


def _edges(node: PhysicalNode, ids: dict[int, int], parallelism: dict[int, int]) -> Iterator[StreamEdge]:
    count = 0
    for ordinal, physical_input in enumerate(node.inputs):
        for source in _without_unions(physical_input):
            count += 1
            if count > EDGES_MAX:
                raise UserError(
                    "SS3019",
                    f"an operator of this statement would read more than {EDGES_MAX} inputs",
                    span=node.span,
                    hint="a chain of UNION ALL doubles the rows with every link: union fewer queries",
                )
            pair = (parallelism[id(source)], parallelism[id(node)])
            yield StreamEdge(ids[id(source)], ordinal, _exchange(physical_input.exchange, *pair))


def _without_unions(physical_input: PhysicalInput) -> Iterator[PhysicalNode]:
    if physical_input.node.spec is not None:
        yield physical_input.node
        return
    for branch in physical_input.node.inputs:
        yield from _without_unions(branch)


def _exchange(wanted: Exchange, source: int, target: int) -> Exchange:
    if source == target == 1:
        return FORWARD
    return REBALANCE if wanted == FORWARD and source != target else wanted


def _unique(uid: str, used: set[str]) -> str:
    """A distinct uid: equal operators (two INSERTs of one query into one table) are numbered in the order of the script."""
    number, candidate = 0, uid
    while candidate in used:
        number += 1
        candidate = hashlib.sha256(f"{uid}#{number}".encode()).hexdigest()[:32]
    used.add(candidate)
    return candidate
