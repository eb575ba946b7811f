"""A snapshot join equals a model that takes one row at a time, however the rows come and wherever the state moves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from changelog_harness import cut, cuts_strategy, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Clock, Collected, ManualClock, Row, feed, operator_context, restore, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import EndOfInput, Watermark
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Schema
from sqlstream.specs import JoinKind, SnapshotJoinSpec

LEFT_ROWS = Schema.of(("key", sql.STRING), ("a", sql.BIGINT))
RIGHT_ROWS = Schema.of(("t", sql.timestamp(3)), ("b", sql.BIGINT), ("key", sql.STRING))
OUTPUT = LEFT_ROWS.concat(RIGHT_ROWS)
A_BELOW_B: Expression = Call("<", (InputRef(1, sql.BIGINT), InputRef(3, sql.BIGINT)), sql.BOOLEAN)
LOADED_MS = 20
NS_PER_MS = 1_000_000
keys = st.sampled_from(["a", "b", None])
left_rows = st.lists(st.tuples(keys, st.integers(0, 3)), min_size=1, max_size=6)
kinds = st.sampled_from([JoinKind.INNER, JoinKind.LEFT])


def snapshot(kind: JoinKind, condition: Expression | None = None, **others: Any) -> SnapshotJoinSpec:
    loaded = Literal(LOADED_MS * NS_PER_MS, sql.timestamp(3).not_null())
    return SnapshotJoinSpec(kind, (0,), (2,), 0, loaded, condition, **others)


def context(mode: ChangelogMode = ChangelogMode.RETRACT, **others: Any) -> Any:
    modes = [ChangelogMode.INSERT_ONLY, mode]
    return operator_context([LEFT_ROWS, RIGHT_ROWS], OUTPUT, input_modes=modes, **others)


@st.composite
def changes(draw: st.DrawFn) -> list[Row]:
    """A changelog of the right side in which rows come, go and change, also their times and keys. The halves of an update are
    one item of two rows."""
    there: list[Row] = []
    made: list[Any] = []
    for _ in range(draw(st.integers(0, 14))):
        row = (draw(st.integers(0, 40)), draw(st.integers(0, 4)), draw(keys))
        kind = draw(st.sampled_from(["+I", "+I", "-D", "-U"]))
        if kind == "+I" or not there:
            there.append(row)
            made.append([("+I", *row)])
            continue
        old = there.pop(draw(st.integers(0, len(there) - 1)))
        if kind == "-D":
            made.append([("-D", *old)])
        else:
            there.append(row)
            made.append([("-U", *old), ("+U", *row)])
    return made


@st.composite
def cases(draw: st.DrawFn) -> list[Any]:
    """Batches of both sides and watermarks of both, in any order."""
    items: list[Any] = []
    for portion in cut(draw(changes()), draw(cuts_strategy)):
        batch = [row for change in portion for row in change]
        if batch:
            items.append((1, batch))
        if draw(st.booleans()):
            items.append((0, draw(left_rows)))
        if draw(st.booleans()):
            items.append((1, Watermark(draw(st.integers(0, 45)))))
    return items


def expected(items: list[Any], kind: JoinKind, condition: Expression | None) -> Counter[Row]:
    """Row by row: changes wait for their times, those of a key for all before them."""
    result: Counter[Row] = Counter()
    waiting: list[tuple[int, int, Row]] = []
    held: Counter[Row] = Counter()
    left: list[Row] = []
    right_ms, is_loaded = -1, False

    def apply() -> None:
        for time, sign, row in sorted((w for w in waiting if w[0] <= right_ms), key=lambda w: w[0]):
            waiting.remove((time, sign, row))
            held[row] += sign

    def join(mine: Row) -> None:
        found = [r for r in held.elements() if r[2] is not None and r[2] == mine[0]]
        found = [r for r in found if condition is None or mine[1] < r[1]]
        result.update(mine + r for r in found)
        if not found and kind is JoinKind.LEFT:
            result[(*mine, None, None, None)] += 1

    for index, item in [*items, (1, Watermark(10**6))]:
        if isinstance(item, Watermark):
            right_ms = max(right_ms, item.timestamp_ms)
            apply()
            if right_ms >= LOADED_MS and not is_loaded:
                is_loaded = True
                for mine in left:
                    join(mine)
        elif index == 0:
            for mine in item:
                join(mine) if is_loaded else left.append(mine)
        else:
            for place, (op, *row) in enumerate(item):
                time = max(row[0], item[place + 1][1]) if op == "-U" else row[0]
                earlier = [w[0] for w in waiting if w[2][2] == row[2]]
                waiting.append((max([time, *earlier]), 1 if op[0] == "+" else -1, tuple(row)))
            apply()
    assert all(count >= 0 for count in held.values())
    return result


@given(cases(), kinds, st.sampled_from([None, A_BELOW_B]))
@settings(max_examples=150, deadline=None)
def test_each_row_meets_what_the_right_side_holds(items: list[Any], kind: JoinKind, condition: Any) -> None:
    assert run_operator(snapshot(kind, condition), context(), items).table() == expected(
        items, kind, condition
    )


@given(cases(), kinds, st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(items: list[Any], kind: JoinKind, at: int) -> None:
    output = run_moved(snapshot(kind), context(), items, at, [(0,), (2,)])
    assert output.table() == expected(items, kind, None)


@given(cases())
@settings(max_examples=40, deadline=None)
def test_where_the_right_side_ends_first_it_is_the_plain_join(items: list[Any]) -> None:
    right = [item for item in items if item[0] == 1 and isinstance(item[1], list)]
    left = [item for item in items if item[0] == 0]
    spec = snapshot(JoinKind.LEFT)
    first = run_operator(spec, context(), [*left, *right]).table()
    assert first == run_operator(spec, context(), [*right, (1, EndOfInput()), *left]).table()


def test_no_row_sees_one_half_of_an_update() -> None:
    operator, output = make_operator(snapshot(JoinKind.LEFT), context()), Collected()
    update = [("-U", 1, 1, "a"), ("+U", 30, 2, "a")]
    feed(operator, [(1, [("+I", 1, 1, "a")]), (1, Watermark(20)), (1, update), (0, [("a", 0)])], output)
    feed(operator, [(1, Watermark(29)), (0, [("a", 1)]), (1, Watermark(30)), (0, [("a", 2)])], output)
    assert [(row[1], row[3]) for row in output.rows] == [(0, 1), (1, 1), (2, 2)]


def test_watermarks_of_the_left_side_wait_for_its_rows_and_those_of_the_right_side_do_not_go_on() -> None:
    operator, output = (
        make_operator(snapshot(JoinKind.INNER), context(ChangelogMode.INSERT_ONLY)),
        Collected(),
    )
    feed(operator, [(1, [(5, 1, "a")]), (0, [("a", 0)]), Watermark(7), (1, Watermark(19))], output)
    assert output.elements == []
    feed(operator, [(1, Watermark(20)), (1, Watermark(50)), Watermark(9)], output)
    assert [e if isinstance(e, Watermark) else e.num_rows for e in output.elements] == [
        1,
        Watermark(7),
        Watermark(9),
    ]


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_right_side_that_rests_is_loaded_after_the_timeout(is_restored: bool) -> None:
    spec, now = snapshot(JoinKind.LEFT, idle_timeout_ms=100), ManualClock(0)
    operator, output = make_operator(spec, context(now_ms=now)), Collected()
    feed(
        operator,
        [(1, [("+I", 9, 1, "a")]), (0, [("a", 0)]), Clock(90), (1, Watermark(3)), Clock(180)],
        output,
    )
    assert output.rows == []
    if is_restored:
        saved, operator = operator.context.state.snapshot(), make_operator(spec, context(now_ms=now))
        restore(operator, saved)
        feed(operator, [Clock(279)], output)
        assert output.rows == []
    feed(operator, [Clock(280)], output)
    # Also the change that the watermark has not passed.
    assert output.rows == [("a", 0, 9, 1, "a")]
    feed(operator, [(1, [("+I", 12, 2, "b")]), (0, [("b", 0)]), Clock(380), (0, [("b", 1)])], output)
    assert output.rows[1:] == [("b", 0, None, None, None), ("b", 1, 12, 2, "b")]


def test_time_that_no_room_is_left_for_output_is_no_rest() -> None:
    operator = make_operator(snapshot(JoinKind.LEFT, idle_timeout_ms=100), context(now_ms=ManualClock(0)))
    operator.on_held_back(70)
    assert operator.next_processing_time_ms() == 170


def test_keys_that_are_used_live_on_and_nothing_is_forgotten_while_it_is_loaded() -> None:
    now = ManualClock(0)
    spec = snapshot(JoinKind.LEFT, right_ttl_ms=100)
    operator, output = make_operator(spec, context(now_ms=now)), Collected()
    rows = [("+I", 1, 1, "a"), ("+I", 1, 2, "b"), ("+I", 1, 3, "c")]
    feed(operator, [(1, rows), (1, Watermark(1))], output)
    now.now_ms = 500
    feed(operator, [(1, Watermark(20))], output)
    now.now_ms = 590
    feed(operator, [(0, [("a", 0)]), (1, [("+I", 2, 4, "c")])], output)
    now.now_ms = 610
    feed(operator, [(0, [("a", 1), ("b", 1), ("c", 1)])], output)
    assert [(row[0], row[3]) for row in output.rows] == [("a", 1), ("a", 1), ("c", 3), ("c", 4), ("b", None)]


def test_what_waits_and_what_finds_no_match_is_counted() -> None:
    counts: Counter[str] = Counter()
    counted = context(count=lambda name, n: counts.update({name: n}))
    operator = make_operator(snapshot(JoinKind.INNER), counted)
    feed(operator, [(0, [("a", 0), ("b", 0)]), (1, [("+I", 1, 1, "a")])], Collected())
    assert (counts["numProbeSideRecordsBuffered"], counts["currentPhase"]) == (2, 0)
    feed(operator, [(1, Watermark(20))], Collected())
    assert (counts["numProbeSideRecordsBuffered"], counts["currentPhase"]) == (0, 1)
    assert counts["numUnmatchedProbeRecords"] == 1
