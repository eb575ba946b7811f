"""OVER: columns computed from the neighbours of each row."""

from __future__ import annotations

import dataclasses

import msgspec

from sqlstream.errors import UserError
from sqlstream.expressions import SortKey, references
from sqlstream.planner.physical.calc import plan_calc
from sqlstream.planner.physical.description import call_in_words, describe, describe_columns, describe_order
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits, WindowTrait
from sqlstream.planner.physical.over_reach import Reach, arrival_reach, grouped_by_reach, time_reach
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.schema import Schema
from sqlstream.specs.over import OverCall, OverSpec, OverTiming
from sqlstream.types import is_proctime, is_rowtime


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Window(base.SingleInputNode):
    """Appends a column per call OVER (PARTITION BY … ORDER BY … its frame). `ttl_ms`: what a hint says of its state."""

    partition_keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    calls: tuple[OverCall, ...]
    ttl_ms: int | None = None

    def describe(self) -> str:
        return base.join_parts(
            f"partition=[{base.columns_text(self.partition_keys)}]",
            f"order=[{base.order_text(self.order)}]",
            f"calls=[{', '.join(map(call_text, self.calls))}]",
            "" if self.ttl_ms is None else f"stateTtl=[{self.ttl_ms} ms]",
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        width = len(self.input.schema)
        kept = tuple(i for i in range(len(self.calls)) if width + i in wanted)
        if not kept:
            return pruning.trim(self.input, wanted, time)
        below = {c for c in wanted if c < width} | set(self.partition_keys) | {k.column for k in self.order}
        for i in kept:
            below |= self.calls[i].columns()
        is_by_time = bool(self.order) and is_rowtime(self.input.schema.types[self.order[0].column])
        source, places = pruning.trim(self.input, frozenset(below), time or is_by_time)
        schema = Schema(source.schema.fields + tuple(self.schema.fields[width + i] for i in kept))
        made = base.over_input(
            self,
            source,
            schema=schema,
            partition_keys=tuple(places[k] for k in self.partition_keys),
            order=base.moved_order(self.order, places),
            calls=tuple(self.calls[i].moved(places) for i in kept),
        )
        own = base.places_of(tuple(width + i for i in kept))
        return made, places | {old: len(source.schema) + new for old, new in own.items()}

    def result_keys(self) -> tuple[base.Key, ...]:
        width = len(self.input.schema)
        numbered = tuple(
            (*self.partition_keys, width + i)
            for i, call in enumerate(self.calls)
            if call.function == "ROW_NUMBER"
        )
        return (*numbered, *self.input.result_keys())

    def passed(self, conditions: tuple[base.Condition, ...]) -> list[list[base.Condition]]:
        return [base.of_columns(conditions, self.partition_keys)]

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        return self.copied(column)


def call_text(call: OverCall) -> str:
    """The call for EXPLAIN."""
    parts = ["DISTINCT "] if call.is_distinct else []
    args = [f"${a}" for a in call.args]
    if call.number:
        args.insert(1, str(call.number))
    text = f"{call.function}({''.join(parts)}{', '.join(args) or ('*' if call.function == 'COUNT' else '')})"
    if call.filter >= 0:
        text += f" FILTER ${call.filter}"
    return f"{text} {call.frame}" if call.has_frame else text


# OVER: by row time, by arrival, at the end of bounded input, or updated with every row of the partition.


def plan_over(planning: Planning, inputs: Inputs, node: Window) -> PhysicalNode:
    """Calls in order of time whose frames reach differently far are operators of their own, one over the other."""
    source = inputs[0]
    timing = _timing(source, node)
    if timing in (OverTiming.AT_END, OverTiming.ON_CHANGE):
        return _operator(
            planning, source, node, node.calls, timing, Reach(), _schema(source, node, node.calls)
        )
    by_arrival = timing is OverTiming.ARRIVAL
    groups = grouped_by_reach(node.calls, arrival_reach if by_arrival else time_reach)
    assert all(reach.is_known for reach in groups)
    made, columns = source, []
    for reach, calls in groups.items():
        numbers = [number for number, _ in calls]
        own = tuple(_by_arrival(call) if by_arrival else call for _, call in calls)
        columns += numbers
        schema = _schema(made, node, tuple(node.calls[n] for n in numbers))
        made = _operator(planning, made, node, own, timing, reach, schema)
    return _in_order(planning, source, made, node, columns)


def _timing(source: PhysicalNode, node: Window) -> OverTiming:
    is_insert_only, is_bounded = source.traits.is_insert_only, source.traits.is_bounded
    settled = OverTiming.AT_END if is_bounded else OverTiming.ON_CHANGE
    if not is_insert_only or not node.order or node.order[0].is_descending:
        return settled
    first = node.order[0].column
    t = source.schema.types[first]
    if is_proctime(t):
        unknown = [c for c in node.calls if not arrival_reach(c).is_known]
        if unknown and not is_bounded:
            raise _never(unknown[0], node, "by processing time a frame ends with the current row")
        return settled if unknown else OverTiming.ARRIVAL
    if not is_rowtime(t) or first not in source.traits.times:
        return settled
    unknown = [c for c in node.calls if not time_reach(c).is_known]
    if unknown and not is_bounded:
        raise _never(
            unknown[0], node, "it needs the last row of a partition, and an unbounded table has none"
        )
    return settled if unknown else OverTiming.ROW_TIME


def _never(call: OverCall, node: Window, reason: str) -> UserError:
    shown = f"{call.function}() OVER {call.frame}" if call.has_frame else f"{call.function}() OVER"
    return UserError(
        "SS3401",
        f"{shown} in order of time has no result: {reason}",
        span=node.span,
        hint="end the frame with CURRENT ROW or n FOLLOWING, or order by a column that is no time attribute, as by"
        " CAST(time AS TIMESTAMP(3)), for a result that is updated",
    )


def _by_arrival(call: OverCall) -> OverCall:
    """Rows have no peers, and the operator keeps those only that a RANGE of time reaches."""
    frame = call.frame
    if not call.has_frame or not frame.is_range:
        return call
    start = 0 if frame.start == 0 else None
    return msgspec.structs.replace(call, frame=msgspec.structs.replace(frame, is_range=False, start=start))


def _schema(source: PhysicalNode, node: Window, calls: tuple[OverCall, ...]) -> Schema:
    width = len(node.input.schema)
    own = tuple(node.schema.fields[width + node.calls.index(call)] for call in calls)
    return Schema(source.schema.fields + own)


def _in_order(
    planning: Planning, source: PhysicalNode, made: PhysicalNode, node: Window, columns: list[int]
) -> PhysicalNode:
    """The columns of the calls in the order of `node`, which operators for one reach after the other do not have."""
    if columns == sorted(columns):
        return made
    width = len(source.schema)
    places = [*range(width), *(width + columns.index(n) for n in range(len(columns)))]
    projections = references(made.schema.types, places)
    return plan_calc(planning, made, projections, None, made.schema.select(tuple(places)), node.span)


def _operator(
    planning: Planning,
    source: PhysicalNode,
    node: Window,
    calls: tuple[OverCall, ...],
    timing: OverTiming,
    reach: Reach,
    schema: Schema,
) -> PhysicalNode:
    is_by_time = timing is OverTiming.ROW_TIME
    spec = OverSpec(
        partition_keys=node.partition_keys,
        order=node.order,
        calls=calls,
        timing=timing,
        time_column=node.order[0].column if is_by_time else -1,
        rows_before=reach.rows_before,
        rows_after=reach.rows_after,
        ms_before=reach.ms_before,
        ms_after=reach.ms_after,
        state_ttl_ms=planning.ttl_ms(node.ttl_ms),
    )
    return planning.node(
        "OverAggregate",
        spec,
        over(source, hash_or_singleton(node.partition_keys)),
        schema,
        _traits(source, node, spec),
        describe_over("OverAggregate", spec, source.schema),
        node.span,
        parallelism=0 if node.partition_keys else 1,
    )


def _traits(source: PhysicalNode, node: Window, spec: OverSpec) -> Traits:
    """Rows keep their columns, and so their keys. Those that wait for rows behind them come after the watermark. Where results
    are updated, the changes of a row's number stand beside those of its own columns, in no order of the numbers."""
    traits = source.traits.distributed(node.partition_keys)
    width = len(source.schema)
    is_insert_only = spec.timing is not OverTiming.ON_CHANGE
    numbered = {
        frozenset({*node.partition_keys, width + i})
        for i, call in enumerate(spec.calls)
        if is_insert_only and call.function == "ROW_NUMBER"
    }
    keeps_time = spec.timing in (OverTiming.AT_END, OverTiming.ARRIVAL) or (
        spec.timing is OverTiming.ROW_TIME and not spec.rows_after
    )
    times = frozenset({spec.time_column}) if spec.timing is OverTiming.ROW_TIME else traits.times
    return dataclasses.replace(
        traits,
        is_insert_only=is_insert_only,
        keys=traits.keys | numbered,
        windows=_open_windows(traits, spec) if keeps_time else (),
        times=traits.times & times if keeps_time else frozenset(),
    )


def _open_windows(traits: Traits, spec: OverSpec) -> tuple[WindowTrait, ...]:
    """Those that are not closed before their rows are emitted: in order of time, a row waits until the watermark passes it."""
    is_by_time = spec.timing is OverTiming.ROW_TIME
    return tuple(w for w in traits.windows if not is_by_time or w.is_open_at(spec.time_column))


def describe_over(name: str, spec: OverSpec, schema: Schema) -> str:
    return describe(
        name,
        partitionBy=describe_columns(spec.partition_keys, schema),
        orderBy=describe_order(spec.order, schema),
        select="[" + ", ".join(call_in_words(call, schema) for call in spec.calls) + "]",
        emit=spec.timing.value,
    )
