"""Group aggregation equals a row-at-a-time reference over changelogs, cut and moved anywhere."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

import pytest
from changelog_harness import run_handed_over
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

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.expressions import AggregateCall
from sqlstream.functions.aggregates import accumulator_fields
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Field, Schema
from sqlstream.specs import AggregatePhase, GroupAggregateSpec

ROWS = Schema.of(
    ("key", sql.STRING),
    ("value", sql.BIGINT),
    ("price", sql.decimal(10, 2)),
    ("name", sql.STRING),
    ("flag", sql.BOOLEAN),
)
SPLITTABLE = (
    AggregateCall("COUNT", (), sql.BIGINT),
    AggregateCall("SUM", (1,), sql.BIGINT),
    AggregateCall("SUM", (2,), sql.decimal(38, 2)),
    AggregateCall("COUNT", (1,), sql.BIGINT, filter=4),
)
MERGED = (
    *SPLITTABLE,
    AggregateCall("MIN", (3,), sql.STRING),
    AggregateCall("MAX", (2,), sql.decimal(10, 2)),
)
KEEPING = (
    *MERGED,
    AggregateCall("COUNT", (3,), sql.BIGINT, is_distinct=True),
    AggregateCall("SUM", (1,), sql.BIGINT, is_distinct=True),
    AggregateCall("COUNT", (1,), sql.BIGINT, is_distinct=True, filter=4),
    AggregateCall("SUM", (1,), sql.BIGINT, is_distinct=True, filter=4),
    AggregateCall("COUNT", (3,), sql.BIGINT, is_distinct=True, filter=4),
)
RETRACT, UPSERT, APPEND = ChangelogMode.RETRACT, ChangelogMode.UPSERT, ChangelogMode.INSERT_ONLY
Row = tuple[Any, ...]


def result_schema(calls: tuple[AggregateCall, ...]) -> Schema:
    return Schema((ROWS.fields[0], *(Field(f"c{i}", c.type) for i, c in enumerate(calls))))


def aggregate(call: AggregateCall, rows: list[Row]) -> Any:
    if call.filter >= 0:
        rows = [r for r in rows if r[call.filter]]
    if not call.args:
        return len(rows)
    values = [r[call.args[0]] for r in rows if r[call.args[0]] is not None]
    if call.is_distinct:
        values = list(set(values))
    if call.function == "COUNT":
        return len(values)
    if not values:
        return None
    return {"SUM": sum, "MIN": min, "MAX": max}[call.function](values)


def reference(calls: tuple[AggregateCall, ...], rows: list[Row]) -> Counter[Row]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[0]].append(row)
    return Counter((key, *(aggregate(c, members) for c in calls)) for key, members in groups.items())


prices = st.one_of(st.none(), st.integers(-(10**9), 10**9).map(lambda n: Decimal(n) / 100))
row_strategy = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.one_of(st.none(), st.integers(-(2**40), 2**40)),
    prices,
    st.sampled_from(["x", "yy", "é", None]),
    st.sampled_from([True, False, None]),
)


@st.composite
def changelogs(draw: st.DrawFn) -> list[Row]:
    """Rows that come, and some of them taken back later."""
    log: list[Row] = []
    live: list[Row] = []
    for row in draw(st.lists(row_strategy, max_size=30)):
        log.append(("+I", *row))
        live.append(row)
        if live and draw(st.booleans()):
            gone = live.pop(draw(st.integers(0, len(live) - 1)))
            log.append(("-D", *gone))
    return log


def final_rows(log: list[Row]) -> list[Row]:
    live: list[Row] = []
    for kind, *row in log:
        live.append(tuple(row)) if kind in ("+I", "+U") else live.remove(tuple(row))
    return live


def cut(rows: list[Row], cuts: list[int]) -> list[list[Row]]:
    places = [0, *sorted(c for c in cuts if c < len(rows)), len(rows)]
    return [rows[a:b] for a, b in itertools.pairwise(places) if a < b]


cuts_strategy = st.lists(st.integers(1, 40), max_size=6)


@given(rows=st.lists(row_strategy, max_size=40), cuts=cuts_strategy, mode=st.sampled_from([RETRACT, UPSERT]))
@settings(max_examples=60, deadline=None)
def test_rows_that_only_come_give_the_batch_answer(
    rows: list[Row], cuts: list[int], mode: ChangelogMode
) -> None:
    context = operator_context([ROWS], result_schema(KEEPING), output_mode=mode)
    output = run_operator(GroupAggregateSpec((0,), KEEPING), context, cut(rows, cuts))
    table = output.table([0]) if mode is RETRACT else Counter(output.upserted([0]).values())
    assert table == reference(KEEPING, rows)


@given(log=changelogs(), cuts=cuts_strategy, mode=st.sampled_from([RETRACT, UPSERT]))
@settings(max_examples=80, deadline=None)
def test_rows_that_are_taken_back_leave_no_trace(
    log: list[Row], cuts: list[int], mode: ChangelogMode
) -> None:
    context = operator_context([ROWS], result_schema(KEEPING), input_modes=[RETRACT], output_mode=mode)
    spec = GroupAggregateSpec((0,), KEEPING, is_retracting=True)
    output = run_operator(spec, context, cut(log, cuts))
    table = output.table([0]) if mode is RETRACT else Counter(output.upserted([0]).values())
    assert table == reference(KEEPING, final_rows(log))


def in_two_phases(
    calls: tuple[AggregateCall, ...], parts: list[list[Row]], flushes: set[int], mode: ChangelogMode
) -> Counter[Row]:
    is_retracting = mode is RETRACT
    accumulators = [f for c in calls for f in accumulator_fields(c, ROWS) or ()]
    counts = [Field("$row_count", sql.BIGINT)] if is_retracting else []
    partial = Schema((ROWS.fields[0], *counts, *accumulators))
    operator = make_operator(
        GroupAggregateSpec((0,), calls, AggregatePhase.LOCAL, is_retracting),
        operator_context([ROWS], partial, input_modes=[mode]),
    )
    local = Collected()
    for number, part in enumerate(parts):
        feed(operator, [part], local)
        if number in flushes:
            operator.flush(local)
    finish(operator, local)
    context = operator_context([partial], result_schema(calls), output_mode=RETRACT)
    spec = GroupAggregateSpec((0,), calls, AggregatePhase.GLOBAL, is_retracting)
    return run_operator(spec, context, local.batches).table([0])


@given(log=changelogs(), cuts=cuts_strategy, flushes=st.sets(st.integers(0, 6)))
@settings(max_examples=60, deadline=None)
def test_two_phases_equal_one_whenever_partials_are_sent(
    log: list[Row], cuts: list[int], flushes: set[int]
) -> None:
    assert in_two_phases(SPLITTABLE, cut(log, cuts), flushes, RETRACT) == reference(
        SPLITTABLE, final_rows(log)
    )


@given(rows=st.lists(row_strategy, max_size=40), cuts=cuts_strategy, flushes=st.sets(st.integers(0, 6)))
@settings(max_examples=60, deadline=None)
def test_two_phases_of_rows_that_only_come_equal_one(
    rows: list[Row], cuts: list[int], flushes: set[int]
) -> None:
    assert in_two_phases(MERGED, cut(rows, cuts), flushes, APPEND) == reference(MERGED, rows)


@given(log=changelogs(), cuts=cuts_strategy, at=st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(log: list[Row], cuts: list[int], at: int) -> None:
    context = operator_context([ROWS], result_schema(KEEPING), input_modes=[RETRACT], output_mode=RETRACT)
    spec = GroupAggregateSpec((0,), KEEPING, is_retracting=True)
    parts = cut(log, cuts)
    first, output = make_operator(spec, context), Collected()
    feed(first, parts[:at], output)
    snapshot = first.context.state.snapshot()
    rest = [row for part in parts[at:] for row in part]
    for subtask in range(3):
        operator = restored(spec, context, [snapshot], subtask, 3)
        mine = [row for row in rest if owner(row[1]) == subtask]
        feed(operator, [mine] if mine else [], output)
        finish(operator, output)
    assert output.table([0]) == reference(KEEPING, final_rows(log))


@given(
    log=changelogs(),
    cuts=cuts_strategy,
    early=st.sets(st.integers(0, 2)),
    moved=st.integers(0, 6),
    over=st.integers(0, 6),
    mode=st.sampled_from([RETRACT, UPSERT]),
)
@settings(max_examples=80, deadline=None)
def test_results_wait_for_the_end_of_histories_and_are_emitted_once_whichever_subtasks_knew_of_it(
    log: list[Row], cuts: list[int], early: set[int], moved: int, over: int, mode: ChangelogMode
) -> None:
    context = operator_context([ROWS], result_schema(KEEPING), input_modes=[RETRACT], output_mode=mode)
    spec = GroupAggregateSpec((0,), KEEPING, is_retracting=True, holds_history=True)
    output = run_handed_over(spec, context, cut(log, cuts), (0,), early, moved, over)
    table = output.table([0]) if mode is RETRACT else Counter(output.upserted([0]).values())
    assert table == reference(KEEPING, final_rows(log))


def test_a_result_that_is_taken_back_before_the_histories_end_is_never_emitted() -> None:
    context = operator_context([ROWS], result_schema(SPLITTABLE), input_modes=[RETRACT], output_mode=RETRACT)
    spec = GroupAggregateSpec((0,), SPLITTABLE, is_retracting=True, holds_history=True)
    row, other = ("a", 1, None, "x", True), ("b", 2, None, "x", None)
    output = Collected()
    operator = make_operator(spec, context)
    feed(operator, [[("+I", *row), ("+I", *other)], [("-D", *row)], [("+I", *other)]], output)
    assert operator.on_watermark(5, output) == 5
    assert output.rows == [("+I", "b", 2, 4, None, 0)]
    feed(operator, [[("-D", *other)]], output)
    assert output.table([0]) == reference(SPLITTABLE, [other])


def owner(key: str | None) -> int:
    import pyarrow as pa

    from sqlstream.runtime.kernels.keys.hashing import hash_columns, key_groups

    return int(key_groups(hash_columns([pa.array([key], pa.string())]), 128)[0]) * 3 // 128


COUNT = (AggregateCall("COUNT", (), sql.BIGINT),)
TOTAL = Schema.of(("n", sql.BIGINT))


def test_a_changed_result_takes_back_the_one_before_and_an_unchanged_one_is_silent() -> None:
    context = operator_context([ROWS], Schema.of(("key", sql.STRING), ("m", sql.BIGINT)), output_mode=RETRACT)
    spec = GroupAggregateSpec((0,), (AggregateCall("MAX", (1,), sql.BIGINT),))
    batches = [[("a", 3, None, None, None)], [("a", 2, None, None, None)], [("a", 5, None, None, None)]]
    assert run_operator(spec, context, batches).rows == [("+I", "a", 3), ("-U", "a", 3), ("+U", "a", 5)]


def test_without_keys_no_row_at_all_still_has_a_result() -> None:
    context = operator_context([ROWS], TOTAL, output_mode=RETRACT)
    assert run_operator(GroupAggregateSpec((), COUNT), context, []).rows == [("+I", 0)]


def test_without_keys_taking_everything_back_leaves_the_empty_result() -> None:
    context = operator_context([ROWS], TOTAL, input_modes=[RETRACT], output_mode=RETRACT)
    row = ("a", 1, None, None, None)
    output = run_operator(
        GroupAggregateSpec((), COUNT, is_retracting=True), context, [[("+I", *row)], [("-D", *row)]]
    )
    assert output.table() == Counter([(0,)])


def test_distinct_rows_come_out_once() -> None:
    context = operator_context([ROWS], Schema.of(("key", sql.STRING)))
    rows = [(k, 1, None, None, None) for k in ("a", "b", "a", None, None)]
    output = run_operator(GroupAggregateSpec((0,), ()), context, cut(rows, [2]))
    assert output.rows == [("a",), ("b",), (None,)]


def test_a_group_untouched_for_its_ttl_starts_anew() -> None:
    clock = ManualClock(1_000)
    schema = Schema.of(("key", sql.STRING), ("n", sql.BIGINT))
    context = operator_context([ROWS], schema, output_mode=UPSERT, now_ms=clock)
    spec = GroupAggregateSpec((0,), COUNT, state_ttl_ms=100)
    row = ("a", 1, None, None, None)
    operator, output = make_operator(spec, context), Collected()
    feed(operator, [[row], [row], Clock(1_050), [row], Clock(1_200), [row]], output)
    assert [r[0] for r in output.rows] == ["+I", "+U", "+U", "+I"]
    assert output.rows[-1] == ("+I", "a", 1)
    feed(operator, [Clock(9_000)], output)
    assert dataclasses.is_dataclass(operator.context.state.snapshot())
    assert operator.context.state.snapshot().keyed["groups"].num_rows == 0


def test_without_keys_a_group_that_is_touched_in_time_lives_on() -> None:
    context = operator_context(
        [ROWS], Schema.of(("n", sql.BIGINT)), output_mode=UPSERT, now_ms=ManualClock(0)
    )
    operator = make_operator(GroupAggregateSpec((), COUNT, state_ttl_ms=100), context)
    row, output = ("a", 1, None, None, None), Collected()
    feed(operator, [[row], Clock(50), [row], Clock(100), [row], Clock(900), [row]], output)
    assert output.rows == [("+I", 1), ("+U", 2), ("+U", 3), ("+I", 1)]


@pytest.mark.parametrize("moves", [False, True])
def test_a_group_without_keys_that_expired_is_no_aggregate_of_no_rows(moves: bool) -> None:
    context = operator_context(
        [ROWS], Schema.of(("n", sql.BIGINT)), output_mode=UPSERT, now_ms=ManualClock(0)
    )
    spec = GroupAggregateSpec((), COUNT, state_ttl_ms=100)
    operator, output = make_operator(spec, context), Collected()
    feed(operator, [[("a", 1, None, None, None)], Clock(500)], output)
    if moves:
        operator = restored(spec, context, [operator.context.state.snapshot()], 0, 2)
    finish(operator, output)
    assert output.rows == [("+I", 1)]


def test_listagg_puts_the_separator_of_its_row_before_a_value() -> None:
    schema = Schema.of(("k", sql.INT), ("v", sql.STRING), ("by", sql.STRING))
    context = operator_context([schema], Schema.of(("k", sql.INT), ("r", sql.STRING)), output_mode=UPSERT)
    spec = GroupAggregateSpec((0,), (AggregateCall("LISTAGG", (1, 2), sql.STRING),))
    rows = [(1, "a", "-"), (2, "p", "/"), (1, None, "?"), (1, "b", "+"), (2, "q", ":"), (1, "c", None)]
    for cuts in ([], [1], [2, 4]):
        assert run_operator(spec, context, cut(rows, cuts)).upserted([0]) == {
            (1,): (1, "a+bc"),
            (2,): (2, "p:q"),
        }


def test_a_column_of_type_null_is_a_key_and_has_no_value() -> None:
    schema = Schema.of(("n", sql.NULL))
    names = ("COUNT", "MIN", "LAST_VALUE")
    calls = [AggregateCall(f, (0,), sql.BIGINT if f == "COUNT" else sql.NULL) for f in names]
    calls.append(AggregateCall("COUNT", (0,), sql.BIGINT, is_distinct=True))
    output_schema = Schema.of(("n", sql.NULL), *((f"c{i}", c.type) for i, c in enumerate(calls)))
    context = operator_context([schema], output_schema, output_mode=RETRACT)
    output = run_operator(GroupAggregateSpec((0,), tuple(calls)), context, [[(None,)], [(None,)]])
    assert output.rows == [("+I", None, 0, None, None, 0)]


@pytest.mark.parametrize(
    ("function", "type_", "values", "expected"),
    [
        ("AVG", sql.BIGINT, [1, 2, None, -6], -1),
        ("AVG", sql.BIGINT, [-(2**63), 0], -(2**62)),
        ("AVG", sql.DOUBLE, [1.0, 2.0], 1.5),
        ("AVG", sql.decimal(5, 2), [Decimal("1.00"), Decimal("1.01"), Decimal("1.01")], Decimal("1.006667")),
        ("SUM", sql.INT, [2**31 - 1, 1], -(2**31)),
        ("SUM", sql.decimal(20, 0), [Decimal(10**19), Decimal(10**19), Decimal(-5)], Decimal(2 * 10**19 - 5)),
        ("SUM", sql.decimal(38, 0), [Decimal(10**38 - 1), Decimal(10**38 - 1)], None),
        ("SUM", sql.decimal(38, 0), [Decimal(10**38 - 1), Decimal(10**38 - 1), Decimal(1 - 10**38)], None),
        ("SUM", sql.decimal(38, 0), [Decimal(10**38 - 1), Decimal(1)], None),
        ("SUM", sql.decimal(38, 0), [Decimal(1 - 10**38), Decimal(1)], Decimal(2 - 10**38)),
        ("AVG", sql.decimal(38, 0), [Decimal(10**38 - 1), Decimal(10**38 - 1)], None),
        ("MIN", sql.decimal(20, 0), [Decimal(3), Decimal(-(10**19)), Decimal(5)], Decimal(-(10**19))),
        ("MAX", sql.BOOLEAN, [False, None, True], True),
        ("VAR_POP", sql.DOUBLE, [1e9 + 1, 1e9 + 2, 1e9 + 3], 2 / 3),
        ("STDDEV_SAMP", sql.DOUBLE, [1.0], None),
        ("FIRST_VALUE", sql.STRING, [None, "p", "q"], "p"),
        ("LAST_VALUE", sql.STRING, ["p", "q", None], "q"),
        ("LISTAGG", sql.STRING, ["p", None, "q"], "p,q"),
        ("MAX", sql.FLOAT, [1.5, None], 1.5),
    ],
)
def test_each_function_gives_its_documented_value(
    function: str, type_: sql.LogicalType, values: list[Any], expected: Any
) -> None:
    from sqlstream.functions import AGGREGATE_FUNCTIONS

    result = AGGREGATE_FUNCTIONS[function].result_type((type_,))
    assert result is not None
    schema = Schema.of(("v", type_))
    call = AggregateCall(function, (0,), result)
    context = operator_context([schema], Schema.of(("r", result)), output_mode=UPSERT)
    rows = [(v,) for v in values]
    for cuts in ([], [1], [1, 2]):
        value = run_operator(GroupAggregateSpec((), (call,)), context, cut(rows, cuts)).rows[-1][1]
        assert value == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_one_value_that_is_left_has_no_deviation() -> None:
    call = AggregateCall("STDDEV_POP", (0,), sql.DOUBLE)
    context = operator_context(
        [Schema.of(("v", sql.DOUBLE))],
        Schema.of(("r", sql.DOUBLE)),
        input_modes=[RETRACT],
        output_mode=UPSERT,
    )
    gone = [1.0, 29.0, 13.0]
    changes = [("+I", 2.0), *(("+I", v) for v in gone), *(("-D", v) for v in gone)]
    spec = GroupAggregateSpec((), (call,), is_retracting=True)
    for parts in ([changes], [[change] for change in changes]):
        assert run_operator(spec, context, parts).rows[-1][1] == 0.0
