"""OVER: by row time, by arrival, at the end of bounded input, or updated with every row of the partition."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from sqlstream.errors import UserError
from sqlstream.expressions import InputRef
from sqlstream.planner.physical.calc import plan_calc
from sqlstream.planner.physical.description import describe, describe_columns, describe_order
from sqlstream.planner.physical.node import PhysicalNode, Traits, WindowTrait
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.relational.nodes import RelationalNode, Window
from sqlstream.schema import Schema
from sqlstream.specs.over import NEIGHBOURS, RANKING, WHOLE_PARTITION_RANKING, OverCall, OverSpec, OverTiming
from sqlstream.types import is_proctime, is_rowtime


def plan_over(
    planning: Planning, inputs: tuple[PhysicalNode, ...], node: RelationalNode
) -> PhysicalNode | None:
    """Calls in order of time whose frames reach differently far are operators of their own, one over the other."""
    if not isinstance(node, Window):
        return None
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
    projections = tuple(InputRef(p, made.schema.types[p]) for p in places)
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


def call_in_words(call: OverCall, schema: Schema) -> str:
    args = [schema.names[a] for a in call.args]
    if call.number:
        args.insert(1, str(call.number))
    distinct = "DISTINCT " if call.is_distinct else ""
    text = f"{call.function}({distinct}{', '.join(args) or ('*' if call.function == 'COUNT' else '')})"
    if call.filter >= 0:
        text += f" FILTER {schema.names[call.filter]}"
    return f"{text} {call.frame}" if call.has_frame else text


# How far from a row its frames reach: what an OVER in order of time must keep and wait for.


class Reach(NamedTuple):
    """As in OverSpec. `kind` keeps those apart that an operator cannot serve together; `is_known`: it has an end."""

    kind: str = ""
    rows_before: int = 0
    rows_after: int = 0
    ms_before: int = 0
    ms_after: int = 0
    is_known: bool = True


_UNKNOWN = Reach("unknown", is_known=False)
_ALL_BEFORE = -1
_FOLLOWING = "following"
"""Waits for rows, however late they come: such rows have no place in order of time, and no other operator of time above."""
_CARRIED = frozenset({"FIRST_VALUE", "LAST_VALUE"})


def time_reach(call: OverCall) -> Reach:
    """In order of row time: rows of one time come together."""
    frame = call.frame
    if call.function in WHOLE_PARTITION_RANKING:
        return _UNKNOWN
    if call.function in RANKING:
        return Reach("running")
    if call.function in NEIGHBOURS:
        return _neighbour(call)
    if frame.end is None:
        return _UNKNOWN
    if frame.start is None:
        if frame.end == 0 and _is_carried(call):
            return Reach("running")
        after = max(int(frame.end), 0)
        if frame.is_range:
            return Reach(f"all, {after} ms", rows_before=_ALL_BEFORE, ms_after=after)
        return Reach(_FOLLOWING if after else "all", rows_before=_ALL_BEFORE, rows_after=after)
    before, after = max(-int(frame.start), 0), max(int(frame.end), 0)
    if frame.is_range:
        return Reach("range", ms_before=before, ms_after=after)
    return Reach(_FOLLOWING if after else "rows", rows_before=before, rows_after=after)


def arrival_reach(call: OverCall) -> Reach:
    """In order of arrival: no row waits for another."""
    frame = call.frame
    if call.function in NEIGHBOURS or not call.has_frame:
        reach = time_reach(call)
        return _UNKNOWN if reach.rows_after else reach
    if frame.end is None or frame.end > 0 or (frame.is_range and frame.end):
        return _UNKNOWN
    if frame.start is None or not frame.is_range:
        return time_reach(call)._replace(ms_before=0)
    if not frame.start:
        return Reach("rows")
    # Each length of time has an operator of its own, which keeps the rows of that time only.
    length = -int(frame.start)
    return Reach(f"range {length}", ms_before=length)


def grouped_by_reach(
    calls: tuple[OverCall, ...], reach_of: Callable[[OverCall], Reach]
) -> dict[Reach, list[tuple[int, OverCall]]]:
    """The calls, with their numbers, of each operator, the first one first; its reach is the farthest of its calls."""
    kinds: dict[str, list[tuple[int, OverCall]]] = {}
    for number, call in enumerate(calls):
        kinds.setdefault(reach_of(call).kind, []).append((number, call))
    ordered = sorted(kinds, key=lambda kind: kind == _FOLLOWING)
    return {_farthest([reach_of(call) for _, call in kinds[kind]]): kinds[kind] for kind in ordered}


def _farthest(reaches: list[Reach]) -> Reach:
    before = [r.rows_before for r in reaches]
    return Reach(
        reaches[0].kind,
        _ALL_BEFORE if _ALL_BEFORE in before else max(before),
        max(r.rows_after for r in reaches),
        max(r.ms_before for r in reaches),
        max(r.ms_after for r in reaches),
        all(r.is_known for r in reaches),
    )


def _neighbour(call: OverCall) -> Reach:
    if call.function == "LAG":
        return Reach("all", rows_before=_ALL_BEFORE) if call.skips_nulls else Reach("rows", call.number)
    if call.skips_nulls:
        return _UNKNOWN
    return Reach(_FOLLOWING if call.number else "rows", rows_after=call.number)


def _is_carried(call: OverCall) -> bool:
    """Whether an accumulator stands for all rows before."""
    if call.is_distinct and call.function not in ("MIN", "MAX"):
        return False
    if call.ref is not None:
        return True
    if call.function in _CARRIED:
        return call.skips_nulls
    return call.function in _FRAMED


_FRAMED = frozenset(
    (
        "COUNT",
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        "VAR_POP",
        "VAR_SAMP",
        "VARIANCE",
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
    )
)
