"""Changelog inference: which row kinds flow over each edge (Flink: FlinkChangelogModeInferenceProgram).

Two passes. `Traits.is_insert_only` is set bottom-up while operators are planned: no output row is ever retracted.
Here, top-down, each consumer requires -U rows or not. An operator none of whose consumers requires -U rows leaves
them out, which halves the traffic of an aggregation into an upsert sink.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.expressions import inputs_of
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode, walk_plan
from sqlstream.planner.physical.planning import digest, over
from sqlstream.planner.physical.sink import needs_update_before
from sqlstream.specs import (
    CalcSpec,
    ChangelogNormalizeSpec,
    ChangingSinkSpec,
    DeduplicateSpec,
    DropUpdateBeforeSpec,
    FromChangelogSpec,
    GroupAggregateSpec,
    KeptValuesSpec,
    MarkChangesSpec,
    RankSpec,
    SinkSpec,
    SourceSpec,
    ToChangelogSpec,
    WatermarkAssignerSpec,
    WindowAggregateSpec,
)
from sqlstream.spi.changelog_options import sink_mode_of
from sqlstream.spi.connector import ConnectorDescriptor

_Modes = dict[int, ChangelogMode]
"""Changelog mode by id() of the node; nodes of a plan are interned objects."""


def infer_changelog_modes(
    sinks: tuple[PhysicalNode, ...], connectors: Mapping[str, ConnectorDescriptor]
) -> tuple[PhysicalNode, ...]:
    """The plan with `changelog_mode` in every node; shared nodes stay shared."""
    nodes = list(walk_plan(sinks))
    can_upsert = _can_leave_out_update_before(nodes)
    wanted: dict[int, bool] = {}
    modes: _Modes = {}
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
    return _with_modes(sinks, nodes, modes)


def _with_modes(
    sinks: tuple[PhysicalNode, ...], nodes: list[PhysicalNode], modes: _Modes
) -> tuple[PhysicalNode, ...]:
    rebuilt: dict[int, PhysicalNode] = {}
    for node in nodes:
        inputs = tuple(PhysicalInput(rebuilt[id(i.node)], i.exchange) for i in node.inputs)
        rebuilt[id(node)] = dataclasses.replace(node, inputs=inputs, changelog_mode=modes[id(node)])
    return tuple(rebuilt[id(sink)] for sink in sinks)


def _can_leave_out_update_before(nodes: list[PhysicalNode]) -> dict[int, bool]:
    """By id(): whether the node's output is correct without -U rows. A filter's is not: an update may leave its range,
    and only the -U row, which is a -D then, deletes the old row."""
    can: dict[int, bool] = {}
    for node in nodes:
        match node.spec:
            case GroupAggregateSpec() | WindowAggregateSpec() | RankSpec():
                can[id(node)] = True
            case DeduplicateSpec() | MarkChangesSpec() | ChangelogNormalizeSpec():
                can[id(node)] = True
            case SourceSpec() | FromChangelogSpec():
                can[id(node)] = node.traits.is_insert_only or node.traits.is_by_key
            case CalcSpec() if not _keeps_updates(node):
                can[id(node)] = node.traits.is_insert_only
            case CalcSpec() | KeptValuesSpec() | WatermarkAssignerSpec() | SinkSpec() | None:
                can[id(node)] = all(can[id(i.node)] for i in node.inputs if not i.node.traits.is_insert_only)
            case _:
                can[id(node)] = node.traits.is_insert_only
    return can


def _keeps_updates(node: PhysicalNode) -> bool:
    """Whether a Calc lets all changes of a row through, or none: its condition is over a key, which no update changes."""
    assert isinstance(node.spec, CalcSpec)
    if node.spec.condition is None:
        return True
    reads = inputs_of(node.spec.condition)
    keys = node.inputs[0].node.traits.keys
    return any(reads <= key for key in keys) and is_deterministic(node.spec.condition)


def _needs_update_before(
    node: PhysicalNode, mode: ChangelogMode, connectors: Mapping[str, ConnectorDescriptor]
) -> bool:
    match node.spec:
        case SinkSpec() as spec:
            return needs_update_before(spec, connectors[spec.connector], node.traits.keys)
        case None | WatermarkAssignerSpec() | KeptValuesSpec():
            return mode is ChangelogMode.RETRACT
        case CalcSpec() if _keeps_updates(node):
            return mode is ChangelogMode.RETRACT
        case ChangelogNormalizeSpec():
            return False
        case ToChangelogSpec() as spec:
            # By another key than that of the query, an update may delete a row.
            is_by_key = not spec.keys or frozenset(spec.keys) in node.inputs[0].node.traits.keys
            return spec.codes[RowKind.UPDATE_BEFORE] is not None or not is_by_key
        case _:
            return True


def _settle(nodes: list[PhysicalNode], modes: _Modes) -> None:
    """Correct the modes of operators that copy row kinds: their output has the -U rows that another consumer of their
    input required. The mode of a sink is that of the rows it receives."""
    for node in nodes:
        below = [modes[id(i.node)] for i in node.inputs]
        if isinstance(node.spec, SinkSpec):
            modes[id(node)] = below[0]
        elif (
            node.spec is None or isinstance(node.spec, CalcSpec | WatermarkAssignerSpec | KeptValuesSpec)
        ) and ChangelogMode.RETRACT in below:
            modes[id(node)] = ChangelogMode.RETRACT


# Sinks that replace rows by a key get no -U rows.


def drop_update_before(
    sinks: tuple[PhysicalNode, ...], connectors: Mapping[str, ConnectorDescriptor]
) -> tuple[PhysicalNode, ...]:
    """Insert a DropUpdateBefore before each sink that takes upserts by its primary key and whose input has -U rows, because the
    query needs them, another consumer does, or its key is another one."""
    result = []
    for sink in sinks:
        spec = sink.spec
        assert isinstance(spec, SinkSpec)
        takes_upserts = sink_mode_of(connectors[spec.connector], spec.options) is ChangelogMode.UPSERT
        changes_rows = isinstance(spec, ChangingSinkSpec) and spec.action.changes_rows
        is_retracting = sink.inputs[0].node.changelog_mode is ChangelogMode.RETRACT
        if takes_upserts and spec.primary_key and is_retracting and not changes_rows:
            sink = _behind_drop(sink, spec)
        result.append(sink)
    return tuple(result)


def _behind_drop(sink: PhysicalNode, sink_spec: SinkSpec) -> PhysicalNode:
    (physical_input,) = sink.inputs
    # A row that moves to another partition of the table leaves the one that it was in.
    keys = tuple(dict.fromkeys((*sink_spec.primary_key, *sink_spec.partition_keys)))
    spec = DropUpdateBeforeSpec(keys)
    schema = physical_input.node.schema
    drop = PhysicalNode(
        name="DropUpdateBefore",
        spec=spec,
        inputs=over(physical_input.node),
        schema=schema,
        traits=physical_input.node.traits,
        description=describe("DropUpdateBefore", key=describe_columns(keys, schema)),
        uid=digest(spec, over(physical_input.node), schema),
        span=sink.span,
        changelog_mode=ChangelogMode.UPSERT,
    )
    inputs = (PhysicalInput(drop, physical_input.exchange),)
    return dataclasses.replace(sink, inputs=inputs, changelog_mode=ChangelogMode.UPSERT)
