"""Physical plan → Scaling, and from it the parallelism and the exchanges of every operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlstream import config
from sqlstream.graph.scaling import PlannedInput, PlannedNode, Scaling
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind, StreamEdge
from sqlstream.planner.physical.node import PhysicalNode, walk_plan

REBALANCE = Exchange(ExchangeKind.REBALANCE)


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


def parallelism_of(scaling: Scaling) -> tuple[int, ...]:
    """That of each node."""
    found: list[int] = []
    for node in scaling.nodes:
        found.append(node.parallelism or _open_parallelism(node, scaling, found))
    return tuple(found)


def _open_parallelism(node: PlannedNode, scaling: Scaling, found: Sequence[int]) -> int:
    forward = [found[i.source] for i in node.inputs if i.exchange == FORWARD]
    if not forward:
        return scaling.parallelism
    # Over more subtasks the versions of one row would lose their order; one subtask keeps it.
    keeps_order = all(scaling.nodes[i.source].is_insert_only for i in node.inputs)
    return max(forward) if keeps_order or len(set(forward)) == 1 else 1


def edges_of(scaling: Scaling, place: int, parallelism: Sequence[int]) -> Iterator[StreamEdge]:
    """The inputs of one operator, unions resolved. FORWARD needs equal parallelism and is a REBALANCE otherwise. Between single
    subtasks every exchange is a FORWARD."""
    for ordinal, planned in enumerate(scaling.nodes[place].inputs):
        for source in _without_unions(scaling, planned.source):
            exchange = _exchange(planned.exchange, parallelism[source], parallelism[place])
            yield StreamEdge(scaling.nodes[source].operator, ordinal, exchange)


def _without_unions(scaling: Scaling, place: int) -> Iterator[int]:
    node = scaling.nodes[place]
    if node.operator:
        yield place
        return
    for branch in node.inputs:
        yield from _without_unions(scaling, branch.source)


def _exchange(wanted: Exchange, source: int, target: int) -> Exchange:
    if source == target == 1:
        return FORWARD
    return REBALANCE if wanted == FORWARD and source != target else wanted
