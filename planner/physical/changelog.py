"""Changelog inference: which rows flow over each edge (Flink: FlinkChangelogModeInferenceProgram).

Two passes. While operators are planned, bottom-up, each says whether its output is ever taken back
(`Traits.is_insert_only`). Here, top-down, consumers say whether they need -U rows: where none does, the
operator that makes updates leaves them out, which halves the traffic of an aggregation into an upsert sink.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.physical.node import PhysicalNode, walk_plan
from planner.physical.sink import needs_update_before
from sqlstream.changelog import ChangelogMode
from sqlstream.specs import CalcSpec, DeduplicateSpec, GroupAggregateSpec, RankSpec, SinkSpec
from sqlstream.spi.connector import ConnectorDescriptor

Modes = dict[int, ChangelogMode]
"""By id() of the node: plans are graphs of interned objects."""


def infer_changelog_modes(
    sinks: tuple[PhysicalNode, ...], connectors: Mapping[str, ConnectorDescriptor]
) -> Modes:
    """The mode of each node's output."""
    nodes = list(walk_plan(sinks))
    can_upsert = can_leave_out_update_before(nodes)
    wanted: dict[int, bool] = {}
    modes: Modes = {}
    for node in reversed(nodes):
        if node.traits.is_insert_only:
            mode = ChangelogMode.INSERT_ONLY
        elif wanted.get(id(node), False) or not can_upsert[id(node)]:
            mode = ChangelogMode.RETRACT
        else:
            mode = ChangelogMode.UPSERT
        modes[id(node)] = mode
        needs = _needs_update_before(node, mode, connectors)
        for physical_input in node.inputs:
            wanted[id(physical_input.node)] = wanted.get(id(physical_input.node), False) or needs
    _settle(nodes, modes)
    return modes


def can_leave_out_update_before(nodes: list[PhysicalNode]) -> dict[int, bool]:
    """By id(): whether the node can do without -U. A filter cannot: an update may leave its range, and only
    the -U tells."""
    can: dict[int, bool] = {}
    for node in nodes:
        match node.spec:
            case GroupAggregateSpec() | RankSpec() | DeduplicateSpec():
                can[id(node)] = True
            case CalcSpec(condition=None) | SinkSpec() | None:
                can[id(node)] = all(can[id(i.node)] for i in node.inputs if not i.node.traits.is_insert_only)
            case _:
                can[id(node)] = node.traits.is_insert_only
    return can


def _needs_update_before(
    node: PhysicalNode, mode: ChangelogMode, connectors: Mapping[str, ConnectorDescriptor]
) -> bool:
    match node.spec:
        case SinkSpec() as spec:
            return needs_update_before(spec, connectors[spec.connector], node.traits.keys)
        case CalcSpec(condition=None) | None:
            return mode is ChangelogMode.RETRACT
        case _:
            return True


def _settle(nodes: list[PhysicalNode], modes: Modes) -> None:
    """What passes row kinds through passes on the -U that another consumer of its input asked for. A sink's
    "output" is what it writes: the rows that it is given."""
    for node in nodes:
        below = [modes[id(i.node)] for i in node.inputs]
        if isinstance(node.spec, SinkSpec):
            modes[id(node)] = below[0]
        elif (node.spec is None or isinstance(node.spec, CalcSpec)) and ChangelogMode.RETRACT in below:
            modes[id(node)] = ChangelogMode.RETRACT
