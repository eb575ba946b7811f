"""Operators with state, each with a spec and a context: what tests of all of them feed with `ROWS`."""

from __future__ import annotations

from typing import Any

from operator_harness import operator_context

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.expressions import AggregateCall, SortKey
from sqlstream.functions.aggregates import accumulator_fields
from sqlstream.schema import Field, Schema
from sqlstream.specs import (
    AggregatePhase,
    DeduplicateSpec,
    GroupAggregateSpec,
    IntervalJoinSpec,
    JoinKind,
    JoinSpec,
    Keep,
    RankSpec,
    SortSpec,
    WindowAggregateSpec,
    WindowJoinSpec,
    WindowKind,
    WindowRankSpec,
    WindowSpec,
)

ROWS = Schema.of(
    ("key", sql.BIGINT),
    ("text", sql.STRING),
    ("start", sql.timestamp(3)),
    ("end", sql.timestamp(3)),
)
BOTH = ROWS.concat(ROWS)
BOUNDS = tuple((name, sql.timestamp(3)) for name in ("window_start", "window_end", "window_time"))
RETRACT = ChangelogMode.RETRACT
INSERT_ONLY = ChangelogMode.INSERT_ONLY
BY_KEY = (SortKey(0),)
TUMBLE = WindowSpec(WindowKind.TUMBLE, 1_000)


def aggregate(name: str, argument: int, result: sql.LogicalType, **others: Any) -> tuple[AggregateCall, ...]:
    return (AggregateCall(name, (argument,), result, **others),)


def grouped(calls: tuple[AggregateCall, ...], mode: ChangelogMode = INSERT_ONLY, **others: Any) -> Any:
    result = Schema((ROWS.fields[0], *(Field(f"f{i}", c.type) for i, c in enumerate(calls))))
    spec = GroupAggregateSpec((0,), calls, is_retracting=mode is RETRACT, **others)
    return spec, operator_context([ROWS], result, input_modes=[mode], output_mode=RETRACT)


def windowed(window: WindowSpec, phase: AggregatePhase = AggregatePhase.SINGLE) -> Any:
    calls = aggregate("MAX", 1, sql.STRING)
    accumulators = [f for c in calls for f in accumulator_fields(c, ROWS) or ()]
    result = Schema.of(("key", sql.BIGINT), ("f", sql.STRING), *BOUNDS)
    if phase is AggregatePhase.LOCAL:
        result = Schema((ROWS.fields[0], *accumulators, Field("$slice_end", sql.BIGINT)))
    spec = WindowAggregateSpec((0,), calls, window, phase=phase, time_column=2)
    return spec, operator_context([ROWS], result)


def joined(spec: Any) -> Any:
    return spec, operator_context([ROWS, ROWS], BOTH)


def of_rows(spec: Any, output: Schema = ROWS, mode: ChangelogMode = INSERT_ONLY) -> Any:
    output_mode = INSERT_ONLY if isinstance(spec, SortSpec | WindowRankSpec) else RETRACT
    return spec, operator_context([ROWS], output, input_modes=[mode], output_mode=output_mode)


OPERATORS: dict[str, Any] = {
    "count": grouped(aggregate("COUNT", 1, sql.BIGINT)),
    "average": grouped(aggregate("AVG", 0, sql.BIGINT)),
    "variance": grouped(aggregate("VAR_POP", 0, sql.DOUBLE)),
    "maximum of texts": grouped(aggregate("MAX", 1, sql.STRING)),
    "retracting maximum": grouped(aggregate("MAX", 1, sql.STRING), RETRACT),
    "distinct": grouped(aggregate("COUNT", 1, sql.BIGINT, is_distinct=True)),
    "last value": grouped(aggregate("LAST_VALUE", 1, sql.STRING)),
    "list": grouped(aggregate("LISTAGG", 1, sql.STRING)),
    "retracting list": grouped(aggregate("LISTAGG", 1, sql.STRING), RETRACT),
    "with a time to live": grouped(aggregate("COUNT", 1, sql.BIGINT), state_ttl_ms=1_000_000),
    "tumbling windows": windowed(TUMBLE),
    "hopping windows": windowed(WindowSpec(WindowKind.HOP, 1_000, 500)),
    "sessions": windowed(WindowSpec(WindowKind.SESSION, 1_000)),
    "local windows": windowed(TUMBLE, AggregatePhase.LOCAL),
    "join": joined(JoinSpec(JoinKind.INNER, (0,), (0,))),
    "join with a time to live": joined(JoinSpec(JoinKind.INNER, (0,), (0,), left_ttl_ms=10**6, right_ttl_ms=10**6)),
    "interval join": joined(IntervalJoinSpec(JoinKind.INNER, (0,), (0,), 2, 2, -10, 10, None)),
    "window join": joined(WindowJoinSpec(JoinKind.INNER, (0,), (0,), 2, 3, 2, 3, None)),
    "rank": of_rows(RankSpec((0,), (SortKey(1),), 1, 2, False)),
    "rank with a time to live": of_rows(RankSpec((0,), (SortKey(1),), 1, 2, False, state_ttl_ms=10**6)),
    "retracting rank": of_rows(RankSpec((0,), (SortKey(1),), 1, 2, False, is_retracting=True), mode=RETRACT),
    "deduplicate": of_rows(DeduplicateSpec((0,), Keep.LAST, 2)),
    "sort": of_rows(SortSpec(BY_KEY)),
    "retracting sort": of_rows(SortSpec(BY_KEY), mode=RETRACT),
    "window rank": of_rows(WindowRankSpec((0,), (SortKey(1),), 2, 3, 1, 2, False)),
}  # fmt: skip
