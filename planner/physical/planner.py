"""Relational nodes → physical nodes: the operator for each, over its inputs."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping

from sqlstream.cancellation import check_not_given_up
from sqlstream.operators import OPERATORS
from sqlstream.planner.physical.calc import identity, plan_calc
from sqlstream.planner.physical.group_aggregate import plan_group_aggregate
from sqlstream.planner.physical.join import plan_join
from sqlstream.planner.physical.lookup_join import plan_lookup_join
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning
from sqlstream.planner.physical.rank import plan_rank, plan_sort
from sqlstream.planner.physical.row_shapes import plan_union
from sqlstream.planner.physical.sink import plan_sink
from sqlstream.planner.physical.source import plan_source, plan_values
from sqlstream.planner.physical.watermark import plan_late_rows, plan_watermark
from sqlstream.planner.physical.window_aggregate import (
    absorbs_tvf,
    attached_window,
    plan_absorbing_aggregate,
    plan_attached_aggregate,
    plan_window_tvf,
)
from sqlstream.planner.relational.nodes import (
    Aggregate,
    Filter,
    Join,
    LateRows,
    LookupJoin,
    Project,
    Rank,
    RelationalNode,
    Sink,
    Sort,
    TableScan,
    Union,
    Values,
    Watermark,
    WindowTvf,
)
from sqlstream.specs.window import WindowKind
from sqlstream.spi.connector import ConnectorDescriptor


def plan_statements(
    sinks: tuple[Sink, ...], settings: Mapping[str, str], connectors: Mapping[str, ConnectorDescriptor]
) -> tuple[PhysicalNode, ...]:
    """One physical sink per statement, over one graph of shared operators. UserError SS30xx for a node without an
    operator."""
    planner = _Planner(Planning(settings, connectors, shared_nodes(sinks)))
    return tuple(planner.plan(sink) for sink in sinks)


def shared_nodes(roots: tuple[RelationalNode, ...]) -> frozenset[RelationalNode]:
    """The nodes that more than one node reads."""
    readers: Counter[RelationalNode] = Counter()
    seen: set[RelationalNode] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node in seen and not isinstance(node, Sink):
            continue
        seen.add(node)
        readers.update(node.inputs)
        pending += node.inputs
    return frozenset(node for node, count in readers.items() if count > 1)


class _Planner:
    """Dispatch by node type. Equal nodes are planned once while reuse is enabled."""

    def __init__(self, planning: Planning) -> None:
        self.planning = planning
        self._planned: dict[tuple[RelationalNode, bool], PhysicalNode] = {}

    def plan(self, node: RelationalNode, needs_row_watermark: bool = False) -> PhysicalNode:
        """`needs_row_watermark`: the consumer is a window aggregate that decides lateness row by row."""
        key = (node, needs_row_watermark)
        if not self.planning.is_reuse_enabled or isinstance(node, Sink):
            return self._plan(node, needs_row_watermark)
        if key not in self._planned:
            self._planned[key] = self._plan(node, needs_row_watermark)
        return self._planned[key]

    def _plan(self, node: RelationalNode, needs_row_watermark: bool) -> PhysicalNode:
        check_not_given_up()
        planning = self.planning
        match node:
            case TableScan():
                return plan_source(planning, node)
            case Values():
                return plan_values(planning, node)
            case Watermark():
                return plan_watermark(planning, self.plan(node.input), node, needs_row_watermark)
            case Filter() | Project():
                return self._plan_calc(node, needs_row_watermark)
            case Aggregate() if absorbs_tvf(node):
                return self._plan_absorbing_aggregate(node)
            case WindowTvf() if node.window.kind is WindowKind.SESSION:
                return plan_window_tvf(planning, self.plan(node.input, needs_row_watermark=True), node)
            case LateRows():
                return plan_late_rows(planning, self.plan(node.input, needs_row_watermark=True), node)
            case LookupJoin():
                return plan_lookup_join(planning, self.plan(node.left), node)
        inputs = tuple(self.plan(i) for i in node.inputs)
        for plan in _planners():
            planned = plan(planning, inputs, node)
            if planned is not None:
                return planned
        return self._plan_over(inputs, node)

    def _plan_over(self, inputs: tuple[PhysicalNode, ...], node: RelationalNode) -> PhysicalNode:
        planning = self.planning
        match node:
            case WindowTvf():
                return plan_window_tvf(planning, inputs[0], node)
            case Aggregate():
                return self._plan_aggregate(inputs[0], node)
            case Rank():
                return plan_rank(planning, inputs[0], node)
            case Sort():
                return plan_sort(planning, inputs[0], node)
            case Join():
                return plan_join(planning, inputs[0], inputs[1], node)
            case Union():
                return plan_union(planning, inputs, node)
            case Sink():
                return plan_sink(planning, inputs[0], node)
        raise AssertionError(f"no operator for {type(node).__name__}")

    def _plan_calc(self, node: Filter | Project, needs_row_watermark: bool) -> PhysicalNode:
        source = self.plan(node.input, needs_row_watermark)
        projections = node.expressions if isinstance(node, Project) else identity(node.schema)
        return plan_calc(
            self.planning,
            source,
            projections,
            node.condition if isinstance(node, Filter) else None,
            node.schema,
            node.span,
            may_merge=node.input not in self.planning.shared,
        )

    def _plan_absorbing_aggregate(self, node: Aggregate) -> PhysicalNode:
        assert isinstance(node.input, WindowTvf)
        source = self.plan(node.input.input, needs_row_watermark=True)
        return plan_absorbing_aggregate(self.planning, source, node)

    def _plan_aggregate(self, source: PhysicalNode, node: Aggregate) -> PhysicalNode:
        planning = self.planning
        trait = attached_window(source, node) if source.traits.is_insert_only else None
        if trait is not None:
            return plan_attached_aggregate(planning, source, node, trait)
        return plan_group_aggregate(planning, source, node)


PlanOperator = Callable[[Planning, tuple[PhysicalNode, ...], RelationalNode], PhysicalNode | None]


@functools.cache
def _planners() -> tuple[PlanOperator, ...]:
    """The functions of operators that know by themselves which relational nodes they are for."""
    return tuple(entry.load_planner() for entry in OPERATORS if entry.planner)
