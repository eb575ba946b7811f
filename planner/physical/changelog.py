"""Changelog inference: which row kinds flow over each edge (Flink: FlinkChangelogModeInferenceProgram).

Two passes. `Traits.is_insert_only` is set bottom-up while operators are planned: no output row is ever retracted.
Here, top-down, each consumer requires -U rows or not. An operator none of whose consumers requires -U rows leaves
them out, which halves the traffic of an aggregation into an upsert sink.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream import specs
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.expressions import inputs_of, references, substitute
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode, rebuild_plan, walk_plan
from sqlstream.planner.physical.planning import digest, over
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
    return rebuild_plan(sinks, lambda node, made: dataclasses.replace(made, changelog_mode=modes[id(node)]))


def _can_leave_out_update_before(nodes: list[PhysicalNode]) -> dict[int, bool]:
    """By id(): whether the node's output is correct without -U rows. A filter's is not: an update may leave its range,
    and only the -U row, which is a -D then, deletes the old row."""
    can: dict[int, bool] = {}
    for node in nodes:
        match node.spec:
            case specs.GroupAggregateSpec() | specs.WindowAggregateSpec() | specs.RankSpec():
                can[id(node)] = True
            case specs.GraphSpec():
                can[id(node)] = True
            case specs.DeduplicateSpec() | specs.MarkChangesSpec() | specs.ChangelogNormalizeSpec():
                can[id(node)] = True
            case specs.SourceSpec() | specs.FromChangelogSpec() | specs.ProcessTableSpec():
                can[id(node)] = node.traits.is_insert_only or node.traits.is_by_key
            case specs.CalcSpec() if not _keeps_updates(node):
                can[id(node)] = node.traits.is_insert_only
            case (
                specs.CalcSpec()
                | specs.KeptValuesSpec()
                | specs.WatermarkAssignerSpec()
                | specs.ProcessOutputSpec()
                | specs.SinkSpec()
                | None
            ):
                can[id(node)] = all(can[id(i.node)] for i in node.inputs if not i.node.traits.is_insert_only)
            case _:
                can[id(node)] = node.traits.is_insert_only
    return can


def _keeps_updates(node: PhysicalNode) -> bool:
    """Whether a Calc lets all changes of a row through, or none: its condition is over a key, which no update changes."""
    assert isinstance(node.spec, specs.CalcSpec)
    if node.spec.condition is None:
        return True
    reads = inputs_of(node.spec.condition)
    keys = node.inputs[0].node.traits.keys
    return any(reads <= key for key in keys) and is_deterministic(node.spec.condition)


def _needs_update_before(
    node: PhysicalNode, mode: ChangelogMode, connectors: Mapping[str, ConnectorDescriptor]
) -> bool:
    match node.spec:
        case specs.SinkSpec() as spec:
            return needs_update_before(spec, connectors[spec.connector], node.traits.keys)
        case None | specs.WatermarkAssignerSpec() | specs.KeptValuesSpec() | specs.ProcessOutputSpec():
            return mode is ChangelogMode.RETRACT
        case specs.CalcSpec() if _keeps_updates(node):
            return mode is ChangelogMode.RETRACT
        case specs.ChangelogNormalizeSpec():
            return False
        case specs.ToChangelogSpec() as spec:
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
        if isinstance(node.spec, specs.SinkSpec):
            modes[id(node)] = below[0]
        elif (
            node.spec is None
            or isinstance(node.spec, specs.CalcSpec | specs.WatermarkAssignerSpec | specs.KeptValuesSpec)
            or (isinstance(node.spec, specs.ProcessOutputSpec) and not node.traits.is_insert_only)
        ) and ChangelogMode.RETRACT in below:
            modes[id(node)] = ChangelogMode.RETRACT


# Sinks that replace rows by a key get no -U rows.


def drop_update_before(
    sinks: tuple[PhysicalNode, ...], connectors: Mapping[str, ConnectorDescriptor]
) -> tuple[PhysicalNode, ...]:
    """Insert a DropUpdateBefore before each sink that takes upserts by its primary key and whose input has -U rows. It has
    them where the query needs them, another consumer does, or its key is another one."""
    result = []
    for sink in sinks:
        spec = sink.spec
        assert isinstance(spec, specs.SinkSpec)
        takes_upserts = sink_mode_of(connectors[spec.connector], spec.options) is ChangelogMode.UPSERT
        changes_rows = isinstance(spec, specs.ChangingSinkSpec) and spec.action.changes_rows
        is_retracting = sink.inputs[0].node.changelog_mode is ChangelogMode.RETRACT
        if takes_upserts and spec.primary_key and is_retracting and not changes_rows:
            sink = _behind_drop(sink, spec)
        result.append(sink)
    return tuple(result)


def _behind_drop(sink: PhysicalNode, sink_spec: specs.SinkSpec) -> PhysicalNode:
    (physical_input,) = sink.inputs
    # A row that moves to another partition of the table leaves the one that it was in.
    keys = tuple(dict.fromkeys((*sink_spec.primary_key, *sink_spec.partition_keys)))
    spec = specs.DropUpdateBeforeSpec(keys)
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


def needs_update_before(
    spec: specs.SinkSpec, descriptor: ConnectorDescriptor, keys: frozenset[frozenset[int]]
) -> bool:
    """Whether the sink requires -U rows; it does not when it ignores them, or replaces rows by the query's own key."""
    if descriptor.writing.takes_upserts:
        return False
    mode = sink_mode_of(descriptor, spec.options)
    return mode is not ChangelogMode.UPSERT or frozenset(spec.primary_key) not in keys


def without_idle_keeping(sinks: tuple[PhysicalNode, ...]) -> tuple[PhysicalNode, ...]:
    """The plan in which values are computed anew where no consumer reads -U rows."""
    idle = {id(n) for n in walk_plan(sinks) if _is_idle(n)}
    if not idle:
        return sinks

    def without(node: PhysicalNode, made: PhysicalNode) -> PhysicalNode:
        reads_idle = len(node.inputs) == 1 and id(node.inputs[0].node) in idle
        return _computing(node, made.inputs[0].node) if reads_idle else made

    return rebuild_plan(sinks, without)


def _is_idle(node: PhysicalNode) -> bool:
    return isinstance(node.spec, specs.KeptValuesSpec) and node.changelog_mode is ChangelogMode.UPSERT


def _computing(calc: PhysicalNode, kept: PhysicalNode) -> PhysicalNode:
    """The Calc over what `kept` reads."""
    assert isinstance(calc.spec, specs.CalcSpec)
    assert isinstance(kept.spec, specs.KeptValuesSpec)
    source = kept.inputs[0].node
    below = (*references(source.schema.types), *kept.spec.expressions)
    condition = None if calc.spec.condition is None else substitute(calc.spec.condition, below)
    spec = specs.CalcSpec(tuple(substitute(p, below) for p in calc.spec.projections), condition)
    return dataclasses.replace(
        calc, spec=spec, inputs=over(source), uid=digest(spec, over(source), calc.schema)
    )
