"""WatermarkAssigner."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from expression_harness import call, col, lit
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Clock, Collected, ManualClock, feed, operator_context, restored, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN, Watermark, WatermarkStatus
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Field, Schema
from sqlstream.specs import EmitStrategy, WatermarkAssignerSpec
from sqlstream.specs.watermark import ROW_WATERMARK_COLUMN
from sqlstream.types import BIGINT

TS = sql.timestamp(3)
INPUT = Schema.of(("ts", TS))
PER_ROW = INPUT.concat(Schema((Field(ROW_WATERMARK_COLUMN, BIGINT),)))
MINUS_TEN = call("-", col(0, TS), lit(10, sql.INTERVAL_DAY_TIME))
PERIODIC = WatermarkAssignerSpec(0, MINUS_TEN)
ON_EVENT = WatermarkAssignerSpec(0, MINUS_TEN, EmitStrategy.ON_EVENT)

TIMES = st.lists(st.lists(st.integers(-100, 100), max_size=6), max_size=5)


@given(TIMES)
@settings(max_examples=60, deadline=None)
def test_the_watermark_is_the_highest_so_far_and_never_falls(batches: list[list[int]]) -> None:
    output = run_operator(PERIODIC, operator_context([INPUT], INPUT), [[(t,) for t in b] for b in batches])
    expected, current = [], WATERMARK_MIN
    for times in batches:
        highest = max((t - 10 for t in times), default=WATERMARK_MIN)
        if highest > current:
            current = highest
            expected.append(current)
    assert output.watermarks == [*expected, WATERMARK_MAX]
    assert output.rows == [(t,) for b in batches for t in b]


@given(TIMES)
@settings(max_examples=60, deadline=None)
def test_each_row_carries_the_watermark_of_the_rows_before_it(batches: list[list[int]]) -> None:
    output = run_operator(ON_EVENT, operator_context([INPUT], PER_ROW), [[(t,) for t in b] for b in batches])
    expected, current = [], WATERMARK_MIN
    for t in (t for b in batches for t in b):
        expected.append((t, current))
        current = max(current, t - 10)
    assert output.rows == expected


def test_null_watermarks_are_passed_over() -> None:
    schema = Schema.of(("ts", TS), ("w", TS))
    spec = WatermarkAssignerSpec(0, col(1, TS))
    output = run_operator(spec, operator_context([schema], schema), [[(1, None)], [(2, 5), (3, None)]])
    assert output.watermarks == [5, WATERMARK_MAX]


def test_a_row_without_event_time_fails() -> None:
    with pytest.raises(UserError, match='rowtime "ts" is null'):
        run_operator(PERIODIC, operator_context([INPUT], INPUT), [[(1,), (None,)]])


def test_microseconds_are_floored() -> None:
    schema = Schema.of(("ts", sql.timestamp(6)))
    output = run_operator(
        WatermarkAssignerSpec(0, col(0, sql.timestamp(6))),
        operator_context([schema], schema),
        [[(-1,)], [(1_999,)]],
    )
    assert output.watermarks == [-1, 1, WATERMARK_MAX]


def test_upstream_watermarks_are_swallowed_but_the_last() -> None:
    items = [Watermark(50), [(20,)], Watermark(WATERMARK_MAX), Watermark(WATERMARK_MAX)]
    output = run_operator(PERIODIC, operator_context([INPUT], INPUT), items, ends=False)
    assert output.watermarks == [10, WATERMARK_MAX]


def test_watermarks_of_the_source_are_handed_on_and_its_column_to_those_who_read_it() -> None:
    items = [[(90, -5), (20, 80)], Watermark(7), Watermark(6), [(8, 7)]]
    for spec, schema, rows in (
        (ON_EVENT, PER_ROW, [(90, -5), (20, 80), (8, 7)]),
        (PERIODIC, INPUT, [(90,), (20,), (8,)]),
    ):
        by_source = msgspec.structs.replace(spec, is_by_source=True)
        output = run_operator(by_source, operator_context([PER_ROW], schema), items)
        assert output.rows == rows
        assert output.watermarks == [7, WATERMARK_MAX]


def test_without_rows_the_output_turns_idle_and_active_with_the_next_row() -> None:
    spec = WatermarkAssignerSpec(0, MINUS_TEN, idle_timeout_ms=100)
    context = operator_context([INPUT], INPUT, now_ms=ManualClock())
    output = Collected()
    feed(
        make_operator(spec, context), [Clock(50), [(1,)], Clock(149), Clock(150), Clock(500), [(2,)]], output
    )
    statuses = [e for e in output.elements if isinstance(e, WatermarkStatus)]
    assert statuses == [WatermarkStatus(True), WatermarkStatus(False)]
    assert output.elements.index(WatermarkStatus(False)) == len(output.elements) - 3


def test_a_restored_subtask_says_that_it_is_active_before_its_first_row() -> None:
    """Those behind it may have saved that it was idle, and would leave its watermarks out."""
    spec = WatermarkAssignerSpec(0, MINUS_TEN, idle_timeout_ms=100)
    context = operator_context([INPUT], INPUT, now_ms=ManualClock())
    before = make_operator(spec, context)
    feed(before, [Clock(0), [(1,)], Clock(100)], Collected())
    output = Collected()
    operator = restored(spec, context, [before.context.state.snapshot()], 0, 1)
    feed(operator, [Clock(150), [(2,)], [(3,)]], output)
    assert [e for e in output.elements if isinstance(e, WatermarkStatus)] == [WatermarkStatus(False)]
    assert output.elements[0] == WatermarkStatus(False)


def test_a_task_that_takes_no_rows_because_its_outputs_are_full_does_not_turn_idle() -> None:
    clock, output = ManualClock(), Collected()
    spec = WatermarkAssignerSpec(0, MINUS_TEN, idle_timeout_ms=100)
    operator = make_operator(spec, operator_context([INPUT], INPUT, now_ms=clock))
    feed(operator, [Clock(50), [(1,)]], output)
    operator.on_held_back(1_000)
    assert operator.next_processing_time_ms() == 1_100
    feed(operator, [Clock(1_099)], output)
    assert WatermarkStatus(True) not in output.elements
    feed(operator, [Clock(1_100)], output)
    assert WatermarkStatus(True) in output.elements


def statuses_by_time(
    clock: ManualClock, items: list[Any], idle_timeout_ms: int = 100
) -> list[tuple[int, bool]]:
    """When the output turned idle (True) and active (False)."""
    context = operator_context([INPUT], INPUT, now_ms=clock)
    operator, output = (
        make_operator(WatermarkAssignerSpec(0, MINUS_TEN, idle_timeout_ms=idle_timeout_ms), context),
        Collected(),
    )
    seen: list[tuple[int, bool]] = []
    for item in items:
        before = len(output.elements)
        feed(operator, [item], output)
        seen += [(clock(), e.is_idle) for e in output.elements[before:] if isinstance(e, WatermarkStatus)]
    return seen


def test_a_source_that_falls_silent_again_turns_idle_again() -> None:
    clock = ManualClock()
    turns = [Clock(ms) for ms in range(0, 1_000, 10)]
    items = [
        *turns[:5],
        [(1,)],
        *turns[5:30],
        [(2,)],
        *turns[30:35],
        [(3,)],
        *turns[35:60],
        [(4,)],
        *turns[60:],
    ]
    # Rows came at 40, 290, 340 and 590.
    assert statuses_by_time(clock, items) == [
        (140, True),
        (290, False),
        (440, True),
        (590, False),
        (690, True),
    ]


def test_a_source_that_never_had_rows_turns_idle() -> None:
    clock = ManualClock(1_000)
    assert statuses_by_time(clock, [Clock(1_099), [], Clock(1_100)]) == [(1_100, True)]


def test_the_idle_timeout_starts_anew_when_the_source_says_that_it_is_active() -> None:
    clock = ManualClock()
    items = [WatermarkStatus(True), Clock(500), WatermarkStatus(False), Clock(599), Clock(600)]
    assert statuses_by_time(clock, items) == [(0, True), (500, False), (600, True)]


def test_without_an_idle_timeout_or_after_the_end_nothing_turns_idle() -> None:
    assert statuses_by_time(ManualClock(), [[(1,)], Clock(10**9)], idle_timeout_ms=0) == []
    assert statuses_by_time(ManualClock(), [[(1,)], Watermark(WATERMARK_MAX), Clock(10**9)]) == []


def test_the_idle_timeout_does_not_begin_before_the_task_runs() -> None:
    """The restore of other operators' state may take longer."""
    clock = ManualClock()
    spec = msgspec.structs.replace(PERIODIC, idle_timeout_ms=100)
    operator = make_operator(spec, operator_context([INPUT], INPUT, now_ms=clock))
    clock.now_ms = 500
    assert [operator.next_processing_time_ms(), operator.next_processing_time_ms()] == [600, 600]
    clock.now_ms = 550
    assert operator.next_processing_time_ms() == 600


def test_idleness_of_the_source_is_handed_on() -> None:
    items = [WatermarkStatus(True), WatermarkStatus(True), [(5,)]]
    output = run_operator(PERIODIC, operator_context([INPUT], INPUT), items, ends=False)
    assert output.elements[:2] == [WatermarkStatus(True), WatermarkStatus(False)]


def test_several_restored_into_one_take_the_lowest_watermark() -> None:
    context = operator_context([INPUT], PER_ROW)
    snapshots = []
    for time in (40, 90):
        operator = make_operator(ON_EVENT, context)
        feed(operator, [[(time,)]], Collected())
        snapshots.append(operator.context.state.snapshot())
    output = Collected()
    feed(restored(ON_EVENT, context, snapshots, 0, 1), [[(50,)]], output)
    assert output.rows == [(50, 30)]


def test_a_subtask_that_was_idle_does_not_set_back_the_watermark_of_the_others() -> None:
    context = operator_context([INPUT], PER_ROW)
    snapshots = []
    for items in ([[(40,)]], [[(90,)]], [WatermarkStatus(True)]):
        operator = make_operator(ON_EVENT, context)
        feed(operator, items, Collected())
        snapshots.append(operator.context.state.snapshot())
    output = Collected()
    feed(restored(ON_EVENT, context, snapshots, 0, 1), [[(50,)]], output)
    assert output.rows == [(50, 30)]


def test_a_subtask_without_rows_that_is_not_idle_holds_the_watermark_back() -> None:
    context = operator_context([INPUT], PER_ROW)
    snapshots = []
    for items in ([[(40,)]], []):
        operator = make_operator(ON_EVENT, context)
        feed(operator, items, Collected())
        snapshots.append(operator.context.state.snapshot())
    output = Collected()
    feed(restored(ON_EVENT, context, snapshots, 0, 1), [[(20,)]], output)
    assert output.rows == [(20, WATERMARK_MIN)]


def test_the_watermark_of_changes_by_key_is_not_computed_of_deletions() -> None:
    schema = Schema.of(("k", sql.BIGINT), ("t", sql.STRING))
    spec = WatermarkAssignerSpec(-1, Call("CAST", (col(1, sql.STRING),), TS))
    context = operator_context(
        [schema], schema, input_modes=[ChangelogMode.UPSERT], output_mode=ChangelogMode.UPSERT
    )
    rows = [("+I", 1, "1970-01-01 00:00:01"), ("-D", 1, "")]
    output = run_operator(spec, context, [rows, [("-D", 2, None)]])
    assert output.watermarks == [1_000, WATERMARK_MAX]
