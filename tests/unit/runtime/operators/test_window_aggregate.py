"""Window aggregation equals a row-at-a-time reference, however the input is cut and wherever state is moved."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import (
    Clock,
    Collected,
    ManualClock,
    feed,
    finish,
    operator_context,
    restored,
    run_operator,
)
from window_reference import windows_of

from sqlstream import types as sql
from sqlstream.elements import WATERMARK_MAX, Watermark, WatermarkStatus
from sqlstream.expressions import AggregateCall
from sqlstream.functions.aggregates import accumulator_fields
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.window import framed, window_aggregate
from sqlstream.runtime.state.logs import slice_log
from sqlstream.schema import Field, Schema
from sqlstream.specs import AggregatePhase, WindowAggregateSpec, WindowKind, WindowSpec

ROWS = Schema.of(("key", sql.STRING), ("value", sql.BIGINT), ("time", sql.timestamp(3)))
BOUNDS = (
    ("window_start", sql.timestamp(3)),
    ("window_end", sql.timestamp(3)),
    ("window_time", sql.timestamp(3)),
)
CALLS = (
    AggregateCall("COUNT", (), sql.BIGINT),
    AggregateCall("SUM", (1,), sql.BIGINT),
    AggregateCall("MIN", (1,), sql.BIGINT),
    AggregateCall("AVG", (1,), sql.BIGINT),
)
RESULT = Schema.of(
    ("key", sql.STRING), ("n", sql.BIGINT), ("s", sql.BIGINT), ("m", sql.BIGINT), ("a", sql.BIGINT), *BOUNDS
)
TUMBLE = WindowSpec(WindowKind.TUMBLE, 10)
HOP = WindowSpec(WindowKind.HOP, 10, 4, 1)
CUMULATE = WindowSpec(WindowKind.CUMULATE, 12, 4)
SESSION = WindowSpec(WindowKind.SESSION, 5)
Row = tuple[Any, ...]


@pytest.fixture(
    scope="module", autouse=True, params=[(4_096, 64, 262_144), (1, 64, 1), (3, 2, 8)], ids="chunks={}".format
)
def chunking(request: pytest.FixtureRequest) -> Iterator[None]:
    """How the log of partials is cut, put together and compacted is nobody's business outside."""
    large_rows, small_chunks, log_rows = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slice_log, "_LARGE_ROWS", large_rows)
        patch.setattr(slice_log, "_SMALL_CHUNKS_MAX", small_chunks)
        patch.setattr(window_aggregate, "_LOG_ROWS_MIN", log_rows)
        if log_rows == 1:
            # All windows that fire together are frames, emitted a few at a time.
            patch.setattr(framed, "_ROWS_PER_RESULT", 0)
            patch.setattr(window_aggregate, "_ROWS_ALONE_MIN", 1)
            patch.setattr(window_aggregate, "RESULTS_MAX", 8)
        if log_rows == 8:
            # Windows are emitted two and three at a time, and large ones alone.
            patch.setattr(window_aggregate, "_ROWS_TOGETHER_MAX", 6)
            patch.setattr(window_aggregate, "_TOGETHER_MAX", 3)
            patch.setattr(window_aggregate, "_ROWS_ALONE_MIN", 3)
            patch.setattr(window_aggregate, "_GROWING_MAX", 2)
            patch.setattr(window_aggregate, "_FOLD_ROWS_MIN", 2)
        yield


def results(values: list[int | None]) -> tuple[Any, ...]:
    present = [v for v in values if v is not None]
    total = sum(present) if present else None
    mean = None if total is None else int(total / len(present))
    return len(values), total, min(present, default=None), mean


def reference(window: WindowSpec, rows: list[Row]) -> set[Row]:
    groups: dict[Row, list[int | None]] = defaultdict(list)
    if window.kind is WindowKind.SESSION:
        for key, value, time in sorted(rows, key=lambda r: r[2]):
            open_sessions = [g for g in groups if g[0] == key and g[2] >= time]
            if open_sessions:
                old = open_sessions[0]
                groups[(key, old[1], max(old[2], time + window.size_ms))] = [*groups.pop(old), value]
            else:
                groups[(key, time, time + window.size_ms)] = [value]
    else:
        for key, value, time in rows:
            for start, end in windows_of(window, time):
                groups[(key, start, end)].append(value)
    return {(key, *results(v), start, end, end - 1) for (key, start, end), v in groups.items()}


def spec_of(window: WindowSpec, **others: Any) -> WindowAggregateSpec:
    return WindowAggregateSpec((0,), CALLS, window, time_column=2, **others)


rows_strategy = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.integers(-50, 50)), st.integers(-40, 60)
    ),
    max_size=40,
)
cuts_strategy = st.lists(st.integers(1, 40), max_size=6)


def cut(rows: list[Row], cuts: list[int]) -> list[list[Row]]:
    places = [0, *sorted(c for c in cuts if c < len(rows)), len(rows)]
    return [rows[a:b] for a, b in itertools.pairwise(places) if a < b]


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE, SESSION], ids=str)
@given(rows=rows_strategy, cuts=cuts_strategy)
@settings(max_examples=40, deadline=None)
def test_any_cut_of_the_input_gives_the_reference_answer(
    window: WindowSpec, rows: list[Row], cuts: list[int]
) -> None:
    """In-order watermarks between batches change when windows fire, never what they hold."""
    rows = sorted(rows, key=lambda r: r[2])
    # A session takes in the row that comes at its very end, as long as it is open: it must not close between rows of one time.
    behind_ms = 2 if window.kind is WindowKind.SESSION else 1
    items: list[Any] = []
    for part in cut(rows, cuts):
        items += [part, Watermark(part[-1][2] - behind_ms)]
    output = run_operator(spec_of(window), operator_context([ROWS], RESULT), items)
    assert sorted(output.rows, key=repr) == sorted(reference(window, rows), key=repr)


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE, SESSION], ids=str)
@given(rows=rows_strategy, cuts=cuts_strategy)
@settings(max_examples=60, deadline=None)
def test_the_order_of_rows_that_no_watermark_has_passed_does_not_matter(
    window: WindowSpec, rows: list[Row], cuts: list[int]
) -> None:
    output = run_operator(spec_of(window), operator_context([ROWS], RESULT), cut(rows, cuts))
    assert sorted(output.rows, key=repr) == sorted(reference(window, rows), key=repr)


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE], ids=str)
@given(rows=rows_strategy, cuts=cuts_strategy)
@settings(max_examples=40, deadline=None)
def test_local_and_global_together_equal_the_single_phase(
    window: WindowSpec, rows: list[Row], cuts: list[int]
) -> None:
    accumulators = [f for c in CALLS for f in accumulator_fields(c, ROWS) or ()]
    partial = Schema((ROWS.fields[0], *accumulators, Field("$slice_end", sql.BIGINT)))
    local = run_operator(
        spec_of(window, phase=AggregatePhase.LOCAL), operator_context([ROWS], partial), cut(rows, cuts)
    )
    final = run_operator(
        spec_of(window, phase=AggregatePhase.GLOBAL), operator_context([partial], RESULT), local.batches
    )
    assert sorted(final.rows, key=repr) == sorted(reference(window, rows), key=repr)


def test_local_partials_go_before_the_barrier_of_a_checkpoint() -> None:
    accumulators = [f for c in CALLS for f in accumulator_fields(c, ROWS) or ()]
    partial = Schema((ROWS.fields[0], *accumulators, Field("$slice_end", sql.BIGINT)))
    local = make_operator(spec_of(TUMBLE, phase=AggregatePhase.LOCAL), operator_context([ROWS], partial))
    output = Collected()
    feed(local, cut([("a", 1, 1_000), ("b", 2, 1_001)], []), output)
    assert not output.batches
    local.prepare_snapshot(output)
    assert sum(batch.num_rows for batch in output.batches) == 2
    assert local.context.state.snapshot().keyed == {}


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE, SESSION], ids=str)
@given(rows=rows_strategy, cuts=cuts_strategy, at=st.integers(0, 6))
@settings(max_examples=30, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(
    window: WindowSpec, rows: list[Row], cuts: list[int], at: int
) -> None:
    rows = sorted(rows, key=lambda r: r[2])
    parts = cut(rows, cuts)
    before, after = parts[:at], parts[at:]
    context = operator_context([ROWS], RESULT)
    first, output = make_operator(spec_of(window), context), Collected()
    for part in before:
        feed(first, [part, Watermark(part[-1][2] - 1)], output)
    snapshot = first.context.state.snapshot()
    rest = [r for part in after for r in part]
    for subtask in range(3):
        operator = restored(spec_of(window), context, [snapshot], subtask, 3)
        mine = [r for r in rest if owner(r[0]) == subtask]
        feed(operator, [mine] if mine else [], output)
        finish(operator, output)
    assert sorted(output.rows, key=repr) == sorted(reference(window, rows), key=repr)


def owner(key: str | None) -> int:
    import pyarrow as pa

    from sqlstream.runtime.kernels.keys.hashing import hash_columns, key_groups

    group = int(key_groups(hash_columns([pa.array([key], pa.string())]), 128)[0])
    return group * 3 // 128


def test_a_row_is_late_when_all_its_windows_are_closed() -> None:
    counts: dict[str, int] = defaultdict(int)

    def count(name: str, n: int) -> None:
        counts[name] += n

    context = operator_context([ROWS], RESULT, count=count)
    items = [[("a", 1, 3)], Watermark(9), [("a", 2, 9), ("a", 3, 10)]]
    output = run_operator(spec_of(TUMBLE), context, items)
    assert output.rows == [("a", 1, 1, 1, 1, 0, 10, 9), ("a", 1, 3, 3, 3, 10, 20, 19)]
    assert counts == {"numLateRecordsDropped": 1, "numRecordsDone": 2}


def test_a_late_row_still_counts_in_the_windows_that_are_open() -> None:
    items = [Watermark(12), [("a", 5, 9)]]
    output = run_operator(spec_of(HOP), operator_context([ROWS], RESULT), items)
    assert [(r[1], r[5], r[6]) for r in output.rows] == [(1, 5, 15), (1, 9, 19)]


def test_row_watermarks_decide_lateness_whatever_the_cut() -> None:
    schema = Schema((*ROWS.fields, Field("$watermark", sql.BIGINT)))
    spec = spec_of(TUMBLE, row_watermark_column=3)
    rows = [("a", 1, 3, -(2**63)), ("a", 2, 25, 3), ("a", 3, 4, 25), ("a", 4, 21, 25)]
    for cuts in ([], [1], [2], [1, 2, 3]):
        output = run_operator(spec, operator_context([schema], RESULT), cut(rows, cuts))
        assert [(r[1], r[5]) for r in output.rows] == [(1, 0), (2, 20)]


def test_row_watermarks_keep_a_row_out_of_the_shorter_windows_that_they_closed() -> None:
    schema = Schema((*ROWS.fields, Field("$watermark", sql.BIGINT)))
    spec = spec_of(CUMULATE, row_watermark_column=3)
    rows = [("a", 1, 1, -(2**63)), ("a", 2, 6, 1), ("a", 3, 2, 6), ("a", 4, 3, 7), ("a", 5, 0, 11)]
    for cuts in ([], [1], [2], [1, 2, 3, 4]):
        output = run_operator(spec, operator_context([schema], RESULT), cut(rows, cuts))
        assert [(r[2], r[6]) for r in output.rows] == [(1, 4), (6, 8), (10, 12)]


@pytest.mark.parametrize(
    "window", [WindowSpec(WindowKind.HOP, 60, 1), WindowSpec(WindowKind.CUMULATE, 3_000, 1)], ids=str
)
def test_windows_that_one_watermark_closes_are_emitted_together_in_order(window: WindowSpec) -> None:
    rows = [("ab"[time % 2], time, time) for time in range(1_000)]
    items = [rows, Watermark(WATERMARK_MAX)]
    output = run_operator(spec_of(window), operator_context([ROWS], RESULT), items)
    assert sorted(output.rows) == sorted(reference(window, rows))
    ends = [row[6] for row in output.rows]
    assert ends == sorted(ends)
    if min(window_aggregate._ROWS_TOGETHER_MAX, window_aggregate.RESULTS_MAX) > 100:
        assert len(output.batches) < len(set(ends)) / 100


FRAMED_CALLS = {
    "merged": (
        AggregateCall("SUM", (2,), sql.DOUBLE),
        AggregateCall("AVG", (3,), sql.decimal(38, 6), filter=5),
        AggregateCall("SUM", (3,), sql.decimal(38, 2)),
        AggregateCall("SUM", (1,), sql.BIGINT),
        AggregateCall("MAX", (2,), sql.DOUBLE),
        AggregateCall("MIN", (4,), sql.STRING),
        AggregateCall("MAX", (3,), sql.decimal(10, 2)),
    ),
    "rows": (
        AggregateCall("FIRST_VALUE", (4,), sql.STRING),
        AggregateCall("LAST_VALUE", (2,), sql.DOUBLE, filter=5),
        AggregateCall("AVG", (2,), sql.DOUBLE),
        AggregateCall("COUNT", (2, 4), sql.BIGINT),
    ),
    "distinct": (
        AggregateCall("COUNT", (4,), sql.BIGINT, is_distinct=True),
        AggregateCall("COUNT", (1, 4), sql.BIGINT, is_distinct=True, filter=5),
        AggregateCall("SUM", (2,), sql.DOUBLE, is_distinct=True),
        AggregateCall("COUNT", (), sql.BIGINT),
    ),
}


@pytest.mark.parametrize("window", [HOP, CUMULATE], ids=str)
@pytest.mark.parametrize("calls", FRAMED_CALLS.values(), ids=FRAMED_CALLS)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", None]),
            st.integers(-(2**62), 2**62),
            st.none() | st.floats(-1e9, 1e9) | st.just(math.nan),
            st.none() | st.decimals(-(10**8) + 1, 10**8 - 1, places=2),
            st.sampled_from(["x", "y", "", None]),
            st.sampled_from([True, False, None]),
            st.integers(-40, 60),
        ),
        max_size=40,
    ),
    cuts=cuts_strategy,
    has_key=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_results_of_frames_are_those_of_copied_rows_bit_by_bit(
    window: WindowSpec, calls: tuple[AggregateCall, ...], rows: list[Row], cuts: list[int], has_key: bool
) -> None:
    keys = (("key", sql.STRING),) if has_key else ()
    schema = Schema.of(
        ("key", sql.STRING),
        ("value", sql.BIGINT),
        ("d", sql.DOUBLE),
        ("c", sql.decimal(10, 2)),
        ("s", sql.STRING),
        ("b", sql.BOOLEAN),
        ("time", sql.timestamp(3)),
    )
    result = Schema.of(*keys, *((f"r{i}", call.type) for i, call in enumerate(calls)), *BOUNDS)
    spec = WindowAggregateSpec((0,) if has_key else (), calls, window, time_column=6)
    items: list[Any] = []
    for part in cut(rows, cuts):
        items += [part, Watermark(min(row[6] for row in rows) + 7 * len(items))]
    found = []
    for rows_per_result in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(framed, "_ROWS_PER_RESULT", rows_per_result)
            found.append(repr(run_operator(spec, operator_context([schema], result), items).rows))
    assert found[0] == found[1]


def test_windows_fire_in_order_of_their_end_and_only_once() -> None:
    items = [[("a", 1, 25), ("b", 1, 3)], Watermark(9), Watermark(9), Watermark(35), Watermark(WATERMARK_MAX)]
    output = run_operator(spec_of(TUMBLE), operator_context([ROWS], RESULT), items)
    assert [(r[0], r[6]) for r in output.rows] == [("b", 10), ("a", 30)]


@pytest.mark.parametrize("window", [HOP, CUMULATE], ids=str)
def test_empty_windows_cost_nothing_however_many_there_are(window: WindowSpec) -> None:
    rows = [("a", 1, 0), ("a", 2, 10**14), ("b", 3, 10**14 + 7)]
    output = run_operator(spec_of(window), operator_context([ROWS], RESULT), [rows])
    assert set(output.rows) == reference(window, rows)


def test_distinct_and_ordered_calls_work_in_every_window_kind() -> None:
    calls = (
        AggregateCall("COUNT", (1,), sql.BIGINT, is_distinct=True),
        AggregateCall("FIRST_VALUE", (1,), sql.BIGINT),
        AggregateCall("LISTAGG", (0,), sql.STRING),
    )
    result = Schema.of(("d", sql.BIGINT), ("f", sql.BIGINT), ("l", sql.STRING), *BOUNDS)
    rows = [("a", 7, 1), ("b", 7, 2), ("c", 8, 3), ("d", 9, 18)]
    expected = {
        TUMBLE: [(2, 7, "a,b,c", 0, 10, 9), (1, 9, "d", 10, 20, 19)],
        SESSION: [(2, 7, "a,b,c", 1, 8, 7), (1, 9, "d", 18, 23, 22)],
    }
    for window, rows_out in expected.items():
        spec = WindowAggregateSpec((), calls, window, time_column=2)
        for cuts in ([], [1], [2, 3]):
            assert run_operator(spec, operator_context([ROWS], result), cut(rows, cuts)).rows == rows_out


def test_ordered_calls_see_the_order_of_arrival_where_later_batches_have_earlier_rows() -> None:
    calls = (AggregateCall("LAST_VALUE", (1,), sql.BIGINT), AggregateCall("LISTAGG", (0,), sql.STRING))
    result = Schema.of(("f", sql.BIGINT), ("l", sql.STRING), *BOUNDS)
    spec = WindowAggregateSpec((), calls, TUMBLE, time_column=2)
    batches = [[("a", 1, 12)], [("b", 2, 3), ("c", 3, 14)], [("d", 4, 21), ("e", 5, 2)]]
    expected = [(5, "b,e", 0, 10, 9), (3, "a,c", 10, 20, 19), (4, "d", 20, 30, 29)]
    assert run_operator(spec, operator_context([ROWS], result), batches).rows == expected


def test_local_hands_on_when_a_window_can_close_and_keeps_its_partials_in_a_snapshot() -> None:
    accumulators = [f for c in CALLS for f in accumulator_fields(c, ROWS) or ()]
    partial = Schema((ROWS.fields[0], *accumulators, Field("$slice_end", sql.BIGINT)))
    context = operator_context([ROWS], partial)
    spec = spec_of(TUMBLE, phase=AggregatePhase.LOCAL)
    operator, output = make_operator(spec, context), Collected()
    feed(operator, [Watermark(0), [("a", 1, 1)], Watermark(2), [("a", 2, 2)], Watermark(3)], output)
    assert output.rows == []
    assert operator.context.state.nbytes() > 0
    moved = restored(spec, context, [operator.context.state.snapshot()], 0, 1)
    feed(moved, [Watermark(9)], output)
    assert [row[1] for row in output.rows] == [2]
    assert output.watermarks[-1] == 9
    feed(moved, [[("a", 3, 12)], WatermarkStatus(True)], output)
    assert [row[1] for row in output.rows] == [2, 1]


def test_state_has_the_columns_that_the_calls_need_under_their_names() -> None:
    schema = Schema((*ROWS.fields, Field("unread", sql.STRING), Field("is_paid", sql.BOOLEAN)))
    rows = [("a", 7, 1, "x" * 99, True), ("a", 7, 2, "x" * 99, False), ("a", 8, 3, "x" * 99, True)]
    merged = (AggregateCall("SUM", (1,), sql.BIGINT, filter=4),)
    distinct = (AggregateCall("COUNT", (1,), sql.BIGINT, is_distinct=True, filter=4),)
    result = Schema.of(("key", sql.STRING), ("f", sql.BIGINT), *BOUNDS)
    session = ["$session_start", "$session_end", "$rows"]
    for window, table, calls, columns, final in (
        (TUMBLE, "slices", merged, ["key", "sum$0", "sum$1", "$slice_end"], 15),
        (TUMBLE, "slices", distinct, ["key", "value", "is_paid", "$slice_end"], 2),
        (SESSION, "sessions", merged, ["key", "sum$0", "sum$1", *session], 15),
        (SESSION, "sessions", distinct, ["key", "value", "is_paid", *session], 2),
    ):
        spec = WindowAggregateSpec((0,), calls, window, time_column=2)
        operator, output = make_operator(spec, operator_context([schema], result)), Collected()
        feed(operator, [rows], output)
        assert operator.context.state.snapshot().keyed[table].column_names[3:] == columns
        finish(operator, output)
        assert [row[1] for row in output.rows] == [final]


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE, SESSION], ids=str)
def test_windows_by_processing_time_fire_when_the_clock_reaches_their_end(window: WindowSpec) -> None:
    """The input stays open and no row follows: only the clock can close them."""
    spec = spec_of(msgspec.structs.replace(window, is_event_time=False))
    clock = ManualClock()
    operator = make_operator(spec, operator_context([ROWS], RESULT, now_ms=clock))
    arrivals = [("a", 5, 3), ("a", 7, 7), ("b", 1, 13)]
    output, arrived = Collected(), []
    assert operator.next_processing_time_ms() is None
    for now_ms in range(40):
        feed(operator, [Clock(now_ms)], output)
        # Being asked too early closes nothing.
        operator.on_processing_time(now_ms, output)
        closed = {row for row in reference(window, arrived) if row[6] <= now_ms}
        assert (now_ms, sorted(output.rows)) == (now_ms, sorted(closed))
        for row in arrivals:
            if row[2] == now_ms:
                # What the row itself says of its time is not asked.
                feed(operator, [[(*row[:2], 0)], Watermark(10**6)], output)
                arrived.append(row)
    assert len(output.rows) == len(reference(window, arrivals))
    assert operator.next_processing_time_ms() is None


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE, SESSION], ids=str)
def test_the_end_of_bounded_input_closes_windows_by_processing_time(window: WindowSpec) -> None:
    spec = spec_of(msgspec.structs.replace(window, is_event_time=False))
    context = operator_context([ROWS], RESULT, now_ms=ManualClock(2))
    output = run_operator(spec, context, [[("a", 5, 0)]])
    assert set(output.rows) == reference(window, [("a", 5, 2)])


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE, SESSION], ids=str)
def test_windows_by_processing_time_wake_where_they_are_restored(window: WindowSpec) -> None:
    spec = spec_of(msgspec.structs.replace(window, is_event_time=False))
    clock = ManualClock(2)
    context = operator_context([ROWS], RESULT, now_ms=clock)
    first, output = make_operator(spec, context), Collected()
    feed(first, [[("a", 5, 0)]], output)
    moved = restored(spec, context, [first.context.state.snapshot()], 0, 1)
    feed(moved, [Clock(40)], output)
    assert set(output.rows) == reference(window, [("a", 5, 2)])


@pytest.mark.parametrize("window", [TUMBLE, HOP, CUMULATE, SESSION], ids=str)
def test_rows_by_processing_time_come_after_closed_windows_although_the_clock_is_behind(
    window: WindowSpec,
) -> None:
    """That of the machine where the job goes on."""
    spec = spec_of(msgspec.structs.replace(window, is_event_time=False))
    clock = ManualClock(32)
    first, output = make_operator(spec, operator_context([ROWS], RESULT, now_ms=clock)), Collected()
    feed(first, [[("a", 5, 0)], Clock(70)], output)
    closed = set(output.rows)
    assert closed == reference(window, [("a", 5, 32)])
    closed_ms = max(row[6] for row in closed) - 1
    behind = operator_context([ROWS], RESULT, now_ms=ManualClock(3))
    moved = restored(spec, behind, [first.context.state.snapshot()], 0, 1)
    feed(moved, [[("a", 7, 0)], Clock(8), [("b", 1, 0)]], output)
    assert set(output.rows) == closed
    feed(moved, [Clock(90)], output)
    later = reference(window, [("a", 7, closed_ms + 1), ("b", 1, closed_ms + 1)])
    assert len(output.rows) == len(closed) + len(later)
    assert set(output.rows) == closed | later


def test_partials_by_processing_time_do_not_wait_for_a_watermark() -> None:
    accumulators = [f for c in CALLS for f in accumulator_fields(c, ROWS) or ()]
    partial = Schema((ROWS.fields[0], *accumulators, Field("$slice_end", sql.BIGINT)))
    window = msgspec.structs.replace(TUMBLE, is_event_time=False)
    clock = ManualClock(3)
    local = operator_context([ROWS], partial, now_ms=clock)
    sent = Collected()
    sender = make_operator(spec_of(window, phase=AggregatePhase.LOCAL), local)
    feed(sender, [[("a", 5, 0)]], sent)
    sender.flush(sent)
    assert [row[-1] for row in sent.rows] == [10]
    final = make_operator(
        spec_of(window, phase=AggregatePhase.GLOBAL), operator_context([partial], RESULT, now_ms=clock)
    )
    output = Collected()
    # The second comes when its window has closed, and counts in the one that is open.
    feed(final, [sent.batches[0], Clock(10), sent.batches[0], Clock(19)], output)
    assert [(row[1], row[5]) for row in output.rows] == [(1, 0)]
    feed(final, [Clock(20)], output)
    assert [(row[1], row[5]) for row in output.rows] == [(1, 0), (1, 10)]


def test_partials_by_processing_time_are_held_while_the_task_is_busy_and_not_beyond_their_window() -> None:
    accumulators = [f for c in CALLS for f in accumulator_fields(c, ROWS) or ()]
    partial = Schema((ROWS.fields[0], *accumulators, Field("$slice_end", sql.BIGINT)))
    window = WindowSpec(WindowKind.TUMBLE, 1_000, is_event_time=False)
    clock, sent = ManualClock(200), Collected()
    context = operator_context([ROWS], partial, now_ms=clock)
    sender = make_operator(spec_of(window, phase=AggregatePhase.LOCAL), context)
    assert sender.next_processing_time_ms() is None
    feed(sender, [[("a", 1, 0)], Watermark(7), Clock(250), [("a", 2, 0), ("b", 3, 0)]], sent)
    assert sent.batches == []
    assert sender.next_processing_time_ms() == 300
    feed(sender, [Clock(300)], sent)
    assert [(row[0], row[1]) for row in sent.rows] == [("a", 1), ("a", 1), ("b", 1)]
    assert len(sent.batches) == 1
    feed(sender, [Clock(970), [("a", 4, 0)]], sent)
    # Its window ends before the wait does.
    assert sender.next_processing_time_ms() == 1_000
    sender.flush(sent)
    assert len(sent.batches) == 2
    assert sender.next_processing_time_ms() is None
    assert context.state.snapshot().keyed == {}
