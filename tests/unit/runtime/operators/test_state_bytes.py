"""What operators say of the size of their state, held to the memory that can be reached from them."""

from __future__ import annotations

import dataclasses
import gc
import types
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from operator_harness import Collected, ManualClock, feed, operator_context

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import Watermark
from sqlstream.expressions import AggregateCall, SortKey
from sqlstream.functions.aggregates import accumulator_fields
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.operator import Operator, OperatorContext
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
COUNT = 3_000
TEXT = 200
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


def rows(context: OperatorContext, side: int) -> list[tuple[Any, ...]]:
    plain = [(n, f"{n:0{TEXT}}", 100, 1_000) for n in range(COUNT)]
    return plain if context.input_modes[side].is_insert_only else [("+I", *row) for row in plain]


@pytest.mark.parametrize("name", OPERATORS)
def test_the_size_of_state_is_the_memory_that_it_holds(name: str) -> None:
    spec, context = OPERATORS[name]
    context.now_ms = ManualClock(5)
    operator = make_operator(spec, context)
    assert operator.context.state.nbytes() <= held_bytes(operator)
    items = [(side, rows(context, side)) for side in range(len(context.input_schemas))]
    feed(operator, [(0, Watermark(0)), *items], Collected())
    size = operator.context.state.nbytes()
    assert 0.9 * held_bytes(operator) <= size <= 1.1 * held_bytes(operator)
    # Keys at least, and texts where they are kept.
    has_texts = name not in ("count", "average", "variance", "with a time to live")
    assert size >= COUNT * (8 + TEXT * has_texts) * len(items)


@pytest.mark.parametrize("name", OPERATORS)
def test_state_goes_with_its_operator_without_a_garbage_collection(name: str) -> None:
    spec, context = OPERATORS[name]
    operator = make_operator(spec, dataclasses.replace(context))
    items = [(side, rows(context, side)) for side in range(len(context.input_schemas))]
    feed(operator, [(0, Watermark(0)), *items], Collected())
    held = [weakref.ref(operator), *(weakref.ref(table) for table in operator.context.state.tables)]
    gc.disable()
    try:
        del operator
        assert [reference() for reference in held] == [None] * len(held)
    finally:
        gc.enable()


def held_bytes(operator: Operator[Any]) -> int:
    """The memory of all arrays, of numpy and Arrow, that can be reached from an operator: each buffer once."""
    sizes: dict[int, int] = {}
    seen: set[int] = set()
    waiting: list[Any] = [vars(operator)]
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, _PASSED_BY):
            continue
        seen.add(id(found))
        if isinstance(found, np.ndarray):
            _add(sizes, found.__array_interface__["data"][0], found.nbytes)
            waiting.append(found.base)
        elif isinstance(found, pa.Array | pa.RecordBatch):
            for column in [found] if isinstance(found, pa.Array) else found.columns:
                for buffer in column.buffers():
                    if buffer is not None:
                        _add(sizes, buffer.address, buffer.size)
        else:
            waiting += gc.get_referents(found)
    return sum(sizes.values())


_PASSED_BY = (types.ModuleType, types.FunctionType, type, OperatorContext, Schema, str, int)


def _add(sizes: dict[int, int], address: int, size: int) -> None:
    sizes[address] = max(sizes.get(address, 0), size)
