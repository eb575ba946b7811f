"""Relational nodes → physical nodes: the function of OPERATORS for each class of nodes, over its inputs."""

from __future__ import annotations

import functools
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlstream.cancellation import check_not_given_up
from sqlstream.operators import OPERATORS, load_planner
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import LowerHistory, Planning
from sqlstream.planner.relational.node import RelationalNode
from sqlstream.spi.connector import ConnectorDescriptor


def plan_statements(
    sinks: tuple[RelationalNode, ...],
    settings: Mapping[str, str],
    connectors: Mapping[str, ConnectorDescriptor],
    lower_history: LowerHistory,
) -> tuple[PhysicalNode, ...]:
    """One physical sink per statement, over one graph of shared operators. UserError SS30xx for what no operator computes."""
    planner = _Planner(Planning(settings, connectors, shared_nodes(sinks), lower_history))
    return tuple(planner.plan(sink) for sink in sinks)


def plan_parts(planning: Planning, nodes: tuple[RelationalNode, ...]) -> tuple[PhysicalNode, ...]:
    """Parts of a statement, for themselves."""
    planner = _Planner(planning)
    return tuple(planner.plan(node) for node in nodes)


def shared_nodes(roots: tuple[RelationalNode, ...]) -> frozenset[RelationalNode]:
    """The nodes that more than one node reads."""
    readers: Counter[RelationalNode] = Counter()
    seen: set[RelationalNode] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node in seen and node.is_reusable:
            continue
        seen.add(node)
        readers.update(node.inputs)
        pending += node.inputs
    return frozenset(node for node, count in readers.items() if count > 1)


class Inputs:
    """The inputs of a relational node as physical nodes, each planned when it is first read.

    `needs_row_watermark`: the consumer of the node is a window aggregate that decides lateness row by row.
    """

    def __init__(self, planner: _Planner, node: RelationalNode, needs_row_watermark: bool) -> None:
        self.needs_row_watermark = needs_row_watermark
        self._planner = planner
        self._nodes = node.inputs
        self._planned: dict[int, PhysicalNode] = {}

    def __getitem__(self, index: int) -> PhysicalNode:
        if index not in self._planned:
            self._planned[index] = self._planner.plan(self._nodes[index])
        return self._planned[index]

    def __iter__(self) -> Iterator[PhysicalNode]:
        return (self[index] for index in range(len(self._nodes)))

    def of(self, node: RelationalNode, needs_row_watermark: bool) -> PhysicalNode:
        """An input that is read otherwise, or a node below one."""
        return self._planner.plan(node, needs_row_watermark)


class _Planner:
    """Dispatch by node type. Equal nodes are planned once while reuse is enabled."""

    def __init__(self, planning: Planning) -> None:
        self._planning = planning
        self._planned: dict[tuple[RelationalNode, bool], PhysicalNode] = {}

    def plan(self, node: RelationalNode, needs_row_watermark: bool = False) -> PhysicalNode:
        key = (node, needs_row_watermark)
        if not self._planning.is_reuse_enabled or not node.is_reusable:
            return self._plan(node, needs_row_watermark)
        if key not in self._planned:
            self._planned[key] = self._plan(node, needs_row_watermark)
        return self._planned[key]

    def _plan(self, node: RelationalNode, needs_row_watermark: bool) -> PhysicalNode:
        check_not_given_up()
        inputs = Inputs(self, node, needs_row_watermark)
        for plan in _planners().get(type(node), ()):
            planned = plan(self._planning, inputs, node)
            if planned is not None:
                return planned
        raise AssertionError(f"no operator for {type(node).__name__}")


PlanOperator = Callable[[Planning, Inputs, Any], PhysicalNode | None]


@functools.cache
def _planners() -> Mapping[type[RelationalNode], tuple[PlanOperator, ...]]:
    """By class of nodes the functions whose parameter `node` has it, that of the last operator first."""
    found: dict[type[RelationalNode], tuple[PlanOperator, ...]] = {}
    for place in dict.fromkeys(entry.planner for entry in reversed(OPERATORS) if entry.planner):
        plan = load_planner(place)
        kind = typing.get_type_hints(plan)["node"]
        for each in typing.get_args(kind) or (kind,):
            found[each] = (*found.get(each, ()), plan)
    return found
