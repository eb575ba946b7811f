"""Window aggregates: GROUP BY window_start and window_end of a window function, in one phase or two."""

from __future__ import annotations

import dataclasses

import msgspec

from sqlstream import specs
from sqlstream.errors import Span, UserError
from sqlstream.expressions import references
from sqlstream.planner.physical.calc import narrow, plan_calc
from sqlstream.planner.physical.description import describe, describe_calls, describe_columns
from sqlstream.planner.physical.node import PhysicalNode, Traits, WindowTrait
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import refuse_ttl, require_prompt_rows, require_retractable
from sqlstream.planner.relational.aggregate import (
    Aggregate,
    history_below,
    read_columns,
    split_calls,
)
from sqlstream.planner.relational.planner import Inputs
from sqlstream.planner.relational.window_tvf import WindowTvf, require_common_watermark, window_rows
from sqlstream.schema import Field, Schema
from sqlstream.specs.aggregate import SLICE_END_COLUMN, WINDOW_START_COLUMN
from sqlstream.types import BIGINT, LogicalType, timestamp


@dataclasses.dataclass(frozen=True)
class _Windowed:
    """One window aggregation over `source`: the origin of each row's window, and the other group keys."""

    planning: Planning
    node: Aggregate
    source: PhysicalNode
    spec: specs.WindowAggregateSpec
    trait: WindowTrait
    time_type: LogicalType


def plan_window_aggregate(planning: Planning, inputs: Inputs, node: Aggregate) -> PhysicalNode | None:
    """By windows: those of the window function below it, or those whose bounds the input has; None for any other GROUP BY."""
    if (backfill := history_below(node.input)) is not None:
        from sqlstream.planner.relational.backfill import plan_backfilled_aggregate

        return plan_backfilled_aggregate(planning, inputs, node, backfill)
    if _absorbs_tvf(node):
        assert isinstance(node.input, WindowTvf)
        source = inputs.of(node.input.input, needs_row_watermark=True)
        return _absorbing(planning, source, node)
    source = inputs[0]
    trait = _attached_window(source, node) if source.traits.is_insert_only else None
    return None if trait is None else _attached(planning, source, node, trait)


def _absorbs_tvf(node: Aggregate) -> bool:
    """Whether the aggregation can assign windows itself: GROUP BY has both bounds, and no call reads one."""
    if not isinstance(node.input, WindowTvf):
        return False
    tvf = node.input
    own = len(tvf.input.schema)
    is_session = tvf.window.kind is specs.WindowKind.SESSION
    if is_session and {k for k in node.keys if k < own} != set(tvf.partition_keys):
        return False
    return {own, own + 1} <= set(node.keys) and all(c < own for c in read_columns((), node.calls))


def _absorbing(planning: Planning, source: PhysicalNode, node: Aggregate) -> PhysicalNode:
    """Plan the aggregation and the window function below it as one operator; `source` is the function's input. UserError
    SS3018 for what lateness row by row would not decide."""
    refuse_ttl(node.ttl_ms, "a window aggregation", node.span)
    tvf = node.input
    assert isinstance(tvf, WindowTvf)
    if tvf.window.is_event_time:
        require_prompt_rows(source, tvf.time_column, "a window", node.span or tvf.span)
    own = len(tvf.input.schema)
    keys = tuple(k for k in node.keys if k < own)
    has_row_watermarks = source.traits.row_watermark_column >= 0
    if tvf.window.kind is specs.WindowKind.SESSION:
        require_common_watermark(source, node.span or tvf.span)
        if not source.traits.is_insert_only:
            # Which sessions there are is known when they close: their rows, which never change then, are aggregated above.
            source = window_rows(planning, source, tvf)
            trait = _attached_window(source, node)
            assert trait is not None
            return _attached(planning, source, node, trait)
    spec = specs.WindowAggregateSpec(
        keys=keys,
        aggregates=node.calls,
        window=tvf.window,
        time_column=tvf.time_column,
        row_watermark_column=source.traits.row_watermark_column,
    )
    trait = WindowTrait(
        tvf.window, starts=frozenset({own}), ends=frozenset({own + 1}), times=frozenset({own + 2})
    )
    if has_row_watermarks and tvf.window.kind is specs.WindowKind.HOP:
        # A row may be late for some of its windows only, which slices that windows share could not tell.
        start = len(source.schema)
        source = window_rows(planning, source, tvf)
        spec = msgspec.structs.replace(
            spec, time_column=-1, window_start_column=start, window_end_column=start + 1
        )
    return _plan(_Windowed(planning, node, source, spec, trait, tvf.schema.types[own + 2]))


def _attached_window(source: PhysicalNode, node: Aggregate) -> WindowTrait | None:
    """The window of the input whose bounds are both in GROUP BY, if the aggregation can emit rows when it closes."""
    keys = set(node.keys)
    for trait in source.traits.windows:
        is_firing = trait.spec.is_event_time or not trait.is_closed
        if trait.starts & keys and trait.ends & keys and is_firing:
            return trait
    return None


def _attached(planning: Planning, source: PhysicalNode, node: Aggregate, trait: WindowTrait) -> PhysicalNode:
    """Plan an aggregation over rows that have their window as columns from an operator below."""
    refuse_ttl(node.ttl_ms, "a window aggregation", node.span)
    spec = specs.WindowAggregateSpec(
        keys=tuple(k for k in node.keys if k not in trait.columns),
        aggregates=node.calls,
        window=trait.spec,
        window_start_column=min(trait.starts & set(node.keys)),
        window_end_column=min(trait.ends & set(node.keys)),
    )
    # Without a window_time column no consumer can read it, and its type does not matter.
    time = min(trait.times, default=spec.window_end_column)
    return _plan(_Windowed(planning, node, source, spec, trait, source.schema.types[time]))


def _plan(windowed: _Windowed) -> PhysicalNode:
    is_session = windowed.spec.window.kind is specs.WindowKind.SESSION
    emit = emit_strategy(windowed.planning, windowed.spec, windowed.node.span)
    windowed = dataclasses.replace(windowed, spec=msgspec.structs.replace(windowed.spec, emit=emit))
    if not windowed.source.traits.is_insert_only:
        return _in_order(windowed, _retracting(windowed))
    calls = windowed.spec.aggregates
    accumulators = split_calls(windowed.planning, calls, windowed.source.schema, is_retracting=False)
    if accumulators is None or (is_session and windowed.spec.time_column >= 0):
        result = _single(windowed)
    else:
        result = _two_phases(windowed, accumulators)
    return _in_order(windowed, result)


def _retracting(windowed: _Windowed) -> PhysicalNode:
    """Over rows that may be retracted, all of which are kept until the window closes."""
    require_retractable(windowed.source, windowed.spec.aggregates, windowed.node.span)
    spec = msgspec.structs.replace(windowed.spec, is_retracting=True)
    return _single(dataclasses.replace(windowed, spec=spec))


def _two_phases(windowed: _Windowed, accumulators: tuple[Field, ...]) -> PhysicalNode:
    planning, node, source, spec = windowed.planning, windowed.node, windowed.source, windowed.spec
    attached = (Field(WINDOW_START_COLUMN, BIGINT.not_null()),) if spec.time_column < 0 else ()
    keys = source.schema.select(spec.keys).fields
    slice_end = (Field(SLICE_END_COLUMN, BIGINT.not_null()),)
    local = planning.node(
        "LocalWindowAggregate",
        msgspec.structs.replace(spec, phase=specs.AggregatePhase.LOCAL),
        over(source),
        Schema(keys + accumulators + slice_end + attached),
        Traits(is_bounded=source.traits.is_bounded),
        _describe("LocalWindowAggregate", windowed),
        node.span,
    )
    global_spec = msgspec.structs.replace(
        spec, keys=tuple(range(len(keys))), phase=specs.AggregatePhase.GLOBAL, row_watermark_column=-1
    )
    return _aggregation("GlobalWindowAggregate", windowed, local, global_spec)


def _aggregation(
    name: str, windowed: _Windowed, below: PhysicalNode, spec: specs.WindowAggregateSpec
) -> PhysicalNode:
    """The node that emits the results: `spec` is that of `windowed` over the columns of `below`."""
    return windowed.planning.node(
        name,
        spec,
        over(below, hash_or_singleton(spec.keys)),
        _output_schema(windowed),
        _output_traits(windowed),
        _describe(name, windowed),
        windowed.node.span,
        parallelism=0 if spec.keys else 1,
    )


def _single(windowed: _Windowed) -> PhysicalNode:
    planning, spec = windowed.planning, windowed.spec
    columns = read_columns(
        spec.keys,
        spec.aggregates,
        spec.time_column,
        spec.window_start_column,
        spec.window_end_column,
        spec.row_watermark_column,
    )
    narrowed = narrow(planning, windowed.source, columns)
    places = {c: i for i, c in enumerate(columns)} | {-1: -1}
    moved = specs.WindowAggregateSpec(
        keys=tuple(places[k] for k in spec.keys),
        aggregates=tuple(call.moved(places) for call in spec.aggregates),
        window=spec.window,
        time_column=places[spec.time_column],
        window_start_column=places[spec.window_start_column],
        window_end_column=places[spec.window_end_column],
        row_watermark_column=places[spec.row_watermark_column],
        is_retracting=spec.is_retracting,
        emit=spec.emit,
    )
    return _aggregation("WindowAggregate", windowed, narrowed, moved)


def _output_schema(windowed: _Windowed) -> Schema:
    node, spec = windowed.node, windowed.spec
    calls = node.schema.fields[len(node.keys) :]
    bound = timestamp(3).not_null()
    window = (
        Field("window_start", bound),
        Field("window_end", bound),
        Field("window_time", windowed.time_type),
    )
    return Schema(windowed.source.schema.select(spec.keys).fields + calls + window)


def _output_traits(windowed: _Windowed) -> Traits:
    spec = windowed.spec
    start = len(spec.keys) + len(spec.aggregates)
    own = frozenset(range(len(spec.keys)))
    starts, ends, times = (frozenset({start + i}) for i in range(3))
    window = WindowTrait(spec.window, starts, ends, times, is_closed=spec.emit is None)
    keys = {own | {start, start + 1}}
    if spec.window.kind in (specs.WindowKind.TUMBLE, specs.WindowKind.HOP):
        keys |= {own | {start}, own | {start + 1}}
    # Updates by late rows are behind the watermark: what reads them cannot close the window by it.
    has_late = spec.lateness_ms > 0
    return Traits(
        is_insert_only=spec.emit is None,
        is_bounded=windowed.source.traits.is_bounded,
        keys=frozenset(keys),
        windows=() if has_late else (window,),
        times=frozenset() if has_late else _times(spec.window, ends, times),
        is_single_row_per_window=not spec.keys and spec.emit is None,
    )


def _times(window: specs.WindowSpec, ends: frozenset[int], times: frozenset[int]) -> frozenset[int]:
    """The columns that can be compared with the watermark, which a local time of another zone cannot."""
    if not window.is_event_time:
        return frozenset()
    return ends | times if window.time_zone == "UTC" else times


def _in_order(windowed: _Windowed, result: PhysicalNode) -> PhysicalNode:
    """`result` with its columns in the plan's order: the GROUP BY keys with the window bounds, then the calls."""
    node, spec, trait = windowed.node, windowed.spec, windowed.trait
    key_count = len(spec.keys)
    start = key_count + len(spec.aggregates)
    places = []
    for key in node.keys:
        if key in trait.starts:
            places.append(start)
        elif key in trait.ends:
            places.append(start + 1)
        elif key in trait.times:
            places.append(start + 2)
        else:
            places.append(spec.keys.index(key))
    places += [key_count + i for i in range(len(spec.aggregates))]
    refs = references(result.schema.types, places)
    return plan_calc(windowed.planning, result, refs, None, node.schema, node.span)


def _describe(name: str, windowed: _Windowed) -> str:
    spec, schema = windowed.spec, windowed.source.schema
    if spec.time_column >= 0:
        time = schema.fields[spec.time_column].name
    else:
        time = describe_columns((spec.window_start_column, spec.window_end_column), schema)
    return describe(
        name,
        groupBy=describe_columns(spec.keys, schema),
        window=f"[{spec.window}, time={time}]",
        emit=str(spec.emit) if spec.emit is not None else "",
        select=describe_calls(spec.aggregates, schema),
    )


# Early and late firing of windows, as the settings of the session ask for it.


def emit_strategy(
    planning: Planning, spec: specs.WindowAggregateSpec, span: Span | None
) -> specs.EmitSpec | None:
    """When the windows of an aggregation emit; None when each emits its final result once. UserError SS4002 for late firing
    without a lateness, SS3011 for sessions that an operator below has found, once they had closed."""
    window = spec.window
    is_early = bool(planning.setting("table.exec.emit.early-fire.enabled"))
    lateness_ms = _lateness_ms(planning, span) if window.is_event_time else 0
    if not is_early and not lateness_ms:
        return None
    if window.kind is specs.WindowKind.SESSION and spec.time_column < 0:
        raise UserError(
            "SS3011",
            "a SESSION whose rows are used one by one cannot fire early or late: its rows come when it closes",
            span=span,
            detail="'table.exec.emit.*' is set, and the aggregation does not group by just the window and its partition keys, or"
            " it reads the rows from another operator, such as a Top-N",
            hint="GROUP BY window_start, window_end and the keys of PARTITION BY, or RESET 'table.exec.emit.early-fire.enabled'"
            " and 'table.exec.emit.allow-lateness' for this query",
        )
    gathers_late = bool(planning.setting("table.exec.emit.late-fire.enabled"))
    return specs.EmitSpec(
        early_ms=int(planning.setting("table.exec.emit.early-fire.delay")) if is_early else -1,
        late_ms=int(planning.setting("table.exec.emit.late-fire.delay")) if gathers_late else 0,
        lateness_ms=lateness_ms,
    )


def _lateness_ms(planning: Planning, span: Span | None) -> int:
    allowed = int(planning.setting("table.exec.emit.allow-lateness"))
    if allowed or not planning.setting("table.exec.emit.late-fire.enabled"):
        return allowed
    if not planning.state_ttl_ms:
        raise UserError(
            "SS4002",
            "'table.exec.emit.late-fire.enabled' needs to know how late a row may be",
            span=span,
            hint="SET 'table.exec.emit.allow-lateness' = '1 h', or 'table.exec.state.ttl'",
        )
    return planning.state_ttl_ms
