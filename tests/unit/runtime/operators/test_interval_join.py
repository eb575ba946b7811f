"""An interval join equals nested loops over all rows, whatever their order, as long as none is late."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from changelog_harness import cut, cuts_strategy, interleaved, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from join_reference import nested_loops, output_schema
from operator_harness import (
    Clock,
    Collected,
    ManualClock,
    Row,
    feed,
    finish,
    operator_context,
    restored,
    rows_of,
    run_operator,
)

from sqlstream import types as sql
from sqlstream.elements import Watermark
from sqlstream.expressions import Call, Expression, InputRef
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.join import interval_join as interval_join_module
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.schema import Schema
from sqlstream.specs import IntervalJoinSpec, JoinKind


@pytest.fixture(scope="module", autouse=True, params=[1, 4_096], ids="chunks of {} rows have an index".format)
def indexed_rows(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whether chunks are indexed is nobody's business outside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval_join_module, "_INDEXED_ROWS_MIN", request.param)
        if request.param == 1:
            patch.setattr(interval_join_module, "_INDEXED_TIMES", 0)
            patch.setattr(interval_join_module, "_PROBES_MIN", 0)
        yield


LEFT_ROWS = Schema.of(("key", sql.STRING), ("a", sql.BIGINT), ("t", sql.timestamp(3)))
RIGHT_ROWS = Schema.of(("t", sql.timestamp(6)), ("b", sql.BIGINT), ("key", sql.STRING))
JOINED = LEFT_ROWS.concat(RIGHT_ROWS)
INNER, LEFT = JoinKind.INNER, JoinKind.LEFT
A_BELOW_B: Expression = Call("<", (InputRef(1, sql.BIGINT), InputRef(4, sql.BIGINT)), sql.BOOLEAN)
keys = st.sampled_from(["a", "b", "c", None])
left_rows = st.tuples(keys, st.integers(0, 3), st.integers(0, 60))
right_rows = st.tuples(st.integers(0, 60).map(lambda ms: ms * 1_000), st.integers(0, 3), keys)
bounds = st.sampled_from([(-5, 5), (0, 10), (-10, 0), (-20, -5), (5, 20), (0, 0)])
sides = st.tuples(st.lists(left_rows, max_size=30), st.lists(right_rows, max_size=30))
cases = st.tuples(
    sides,
    cuts_strategy,
    cuts_strategy,
    st.lists(st.booleans(), max_size=14),
    st.lists(st.integers(0, 40), max_size=14),
)
CONTEXT = operator_context([LEFT_ROWS, RIGHT_ROWS], JOINED)
Case = tuple[tuple[list[Row], list[Row]], list[int], list[int], list[bool], list[int]]


def context_of(kind: JoinKind) -> OperatorContext:
    return operator_context([LEFT_ROWS, RIGHT_ROWS], output_schema(kind, LEFT_ROWS, RIGHT_ROWS))


def interval(
    kind: JoinKind,
    lower_ms: int,
    upper_ms: int,
    keyed: bool = True,
    condition: Expression | None = None,
    **others: Any,
) -> IntervalJoinSpec:
    left_keys, right_keys = ((0,), (2,)) if keyed else ((), ())
    return IntervalJoinSpec(kind, left_keys, right_keys, 2, 0, lower_ms, upper_ms, condition, **others)


def reference(spec: IntervalJoinSpec, left: list[Row], right: list[Row]) -> Counter[Row]:
    def is_match(mine: Row, other: Row) -> bool:
        return (
            (not spec.left_keys or (mine[0] is not None and mine[0] == other[2]))
            and spec.lower_ms <= mine[2] - other[0] // 1_000 <= spec.upper_ms
            and (spec.condition is None or mine[1] < other[1])
        )

    return nested_loops(spec.kind, left, right, is_match, (3, 3))


def in_time(case: Case) -> list[Any]:
    """Batches of both sides, and between them watermarks, none of which makes a row late."""
    (left, right), left_cuts, right_cuts, turns, delays = case
    items = interleaved(cut(left, left_cuts), cut(right, right_cuts), turns)
    result: list[Any] = []
    for place, (index, rows) in enumerate(items):
        rest = [time_of(i, row) for i, batch in items[place:] for row in batch]
        delay = delays[place] if place < len(delays) else 1_000
        watermarks = [w.timestamp_ms for _, w in result if isinstance(w, Watermark)]
        result.append((0, Watermark(max([min(rest) - 1 - delay, *watermarks]))))
        result.append((index, rows))
    return result


def time_of(side: int, row: Row) -> int:
    return int(row[2]) if side == 0 else row[0] // 1_000


@given(cases, bounds, st.sampled_from(list(JoinKind)), st.booleans(), st.sampled_from([None, A_BELOW_B]))
@settings(max_examples=120, deadline=None)
def test_pairs_and_padded_rows_are_those_of_nested_loops(
    case: Case, bound: tuple[int, int], kind: JoinKind, keyed: bool, condition: Expression | None
) -> None:
    spec = interval(kind, *bound, keyed, condition)
    assert run_operator(spec, context_of(kind), in_time(case)).table() == reference(spec, *case[0])


@given(cases, bounds, st.sampled_from(list(JoinKind)))
@settings(max_examples=80, deadline=None)
def test_no_output_row_is_late_for_the_watermark_handed_on(
    case: Case, bound: tuple[int, int], kind: JoinKind
) -> None:
    output = run_operator(interval(kind, *bound), context_of(kind), in_time(case))
    watermark = -(2**63)
    for element in output.elements:
        if isinstance(element, Watermark):
            watermark = element.timestamp_ms
            continue
        for row in rows_of(element):
            assert row[2] is None or row[2] > watermark
            assert len(row) == 3 or row[3] is None or row[3] // 1_000 > watermark


@given(cases, bounds, st.sampled_from(list(JoinKind)), st.booleans(), st.integers(0, 20))
@settings(max_examples=50, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(
    case: Case, bound: tuple[int, int], kind: JoinKind, keyed: bool, at: int
) -> None:
    spec = interval(kind, *bound, keyed)
    output = run_moved(spec, context_of(kind), in_time(case), at, (spec.left_keys, spec.right_keys))
    assert output.table() == reference(spec, *case[0])


@given(cases, bounds, st.booleans(), st.integers(0, 20), st.sampled_from([0, 1]))
@settings(max_examples=60, deadline=None)
def test_a_broadcast_side_is_whole_in_every_subtask_after_a_restore(
    case: Case, bound: tuple[int, int], keyed: bool, at: int, broadcast: int
) -> None:
    spec = interval(INNER, *bound, keyed, broadcast_input=broadcast)
    items, output = in_time(case), Collected()
    subtasks = [make_operator(spec, dataclasses.replace(CONTEXT, subtask=i, parallelism=2)) for i in range(2)]
    for place, item in enumerate(items[:at]):
        is_shared = isinstance(item[1], Watermark) or item[0] == broadcast
        for number, subtask in enumerate(subtasks):
            feed(subtask, [item] if is_shared or place // 2 % 2 == number else [], output)
    snapshots = [subtask.context.state.snapshot() for subtask in subtasks]
    for number in range(3):
        operator = restored(spec, CONTEXT, snapshots, number, 3)
        shared = [(p, i, isinstance(i[1], Watermark) or i[0] == broadcast) for p, i in enumerate(items[at:])]
        feed(operator, [i for p, i, is_shared in shared if is_shared or p % 3 == number], output)
        finish(operator, output)
    assert output.table() == reference(spec, *case[0])


def test_a_broadcast_row_that_only_the_slowest_subtask_still_needs_is_there_after_a_restore() -> None:
    spec = interval(INNER, 0, 5, broadcast_input=1)
    snapshots = []
    for number, watermark in enumerate((100, 1)):
        operator = make_operator(spec, dataclasses.replace(CONTEXT, subtask=number, parallelism=2))
        feed(operator, [(1, [(10_000, 7, "a")]), (0, Watermark(watermark))], Collected())
        snapshots.append(operator.context.state.snapshot())
    for number in range(2):
        output = Collected()
        feed(restored(spec, CONTEXT, snapshots, number, 2), [(0, [("a", 1, 12)])], output)
        assert output.rows == [("a", 1, 12, 10_000, 7, "a")]


def test_both_bounds_are_inclusive() -> None:
    spec = interval(INNER, -2, 3)
    left = [("a", n, n) for n in (7, 8, 13, 14)]
    output = run_operator(spec, CONTEXT, [(0, left), (1, [(10_000, 0, "a")])])
    assert [row[1] for row in output.rows] == [8, 13]


def test_rows_are_forgotten_when_no_match_can_come() -> None:
    spec = interval(INNER, -2, 3)
    operator, output = make_operator(spec, CONTEXT), Collected()
    feed(operator, [(0, [("a", 0, 10)]), (1, [(10_000, 0, "a")]), (0, Watermark(11))], output)
    assert {n: t.num_rows for n, t in operator.context.state.snapshot().keyed.items()} == {
        "left": 1,
        "right": 1,
    }
    feed(operator, [(0, Watermark(12))], output)
    assert {n: t.num_rows for n, t in operator.context.state.snapshot().keyed.items()} == {"right": 1}
    feed(operator, [(0, Watermark(13))], output)
    assert operator.context.state.snapshot().keyed == {}
    assert output.watermarks == [8, 9, 10]


def test_a_left_row_without_a_match_goes_out_when_none_can_come() -> None:
    spec = interval(LEFT, -2, 3)
    operator, output = make_operator(spec, CONTEXT), Collected()
    feed(operator, [(0, [("a", 0, 10), (None, 1, 10)]), (0, Watermark(11))], output)
    assert output.rows == []
    feed(operator, [(0, Watermark(12))], output)
    assert output.rows == [("a", 0, 10, None, None, None), (None, 1, 10, None, None, None)]


def test_a_late_row_still_meets_the_rows_that_are_kept_and_is_not_kept_itself() -> None:
    spec = interval(LEFT, -2, 3)
    operator, output = make_operator(spec, CONTEXT), Collected()
    feed(operator, [(1, [(10_000, 5, "a")]), (0, Watermark(12)), (0, [("a", 1, 10), ("b", 2, 10)])], output)
    assert output.rows == [("a", 1, 10, 10_000, 5, "a"), ("b", 2, 10, None, None, None)]
    feed(operator, [(1, [(10_000, 6, "b")])], output)
    assert len(output.rows) == 2


def test_by_processing_time_rows_meet_within_the_interval_of_their_arrival() -> None:
    clock = ManualClock(100)
    context = dataclasses.replace(CONTEXT, now_ms=clock)
    operator, output = make_operator(interval(LEFT, -10, 0, is_event_time=False), context), Collected()
    items = [(0, [("a", 1, 0), ("b", 2, 0)]), (0, Clock(110)), (1, [(0, 5, "a")]), (0, Clock(112))]
    feed(operator, items, output)
    assert output.rows == [("a", 1, 0, 0, 5, "a"), ("b", 2, 0, None, None, None)]
    feed(operator, [(1, [(0, 6, "a")])], output)
    assert len(output.rows) == 2


def test_by_processing_time_a_row_without_a_match_goes_out_when_the_clock_passes_its_interval() -> None:
    clock = ManualClock(100)
    context = dataclasses.replace(CONTEXT, now_ms=clock)
    operator, output = make_operator(interval(LEFT, -10, 0, is_event_time=False), context), Collected()
    assert operator.next_processing_time_ms() is None
    feed(operator, [(0, [("a", 1, 0)]), (0, Clock(105)), (0, [("b", 2, 0)]), (0, Clock(110))], output)
    assert output.rows == []
    feed(operator, [(0, Clock(111))], output)
    assert output.rows == [("a", 1, 0, None, None, None)]
    feed(operator, [(0, Clock(115)), (1, [(0, 5, "b")])], output)
    assert operator.context.state.nbytes() > 0
    feed(operator, [(0, Clock(116))], output)
    assert output.rows[1:] == [("b", 2, 0, 0, 5, "b")]
    assert operator.context.state.nbytes() == 0
    assert operator.next_processing_time_ms() is None


def test_by_processing_time_rows_meet_although_the_clock_is_behind_that_of_the_rows_before() -> None:
    clock = ManualClock(100)
    context = dataclasses.replace(CONTEXT, now_ms=clock)
    operator, output = make_operator(interval(LEFT, -10, 0, is_event_time=False), context), Collected()
    feed(operator, [(0, [("a", 1, 0)]), (0, Clock(200)), (0, [("c", 3, 0)]), (0, Clock(400))], output)
    assert len(output.rows) == 2
    clock.now_ms = 50
    feed(operator, [(0, [("b", 2, 0)]), (1, [(0, 5, "b")])], output)
    assert output.rows[2:] == [("b", 2, 0, 0, 5, "b")]


@pytest.mark.parametrize("size", [1, 40, 500])
def test_many_small_batches_of_state_are_probed_all(size: int) -> None:
    left = [("a", n, n) for n in range(size)]
    output = run_operator(
        interval(INNER, -10_000, 10_000), CONTEXT, [*((0, [r]) for r in left), (1, [(0, 0, "a")])]
    )
    assert len(output.rows) == size


@pytest.mark.parametrize("is_left_first", [True, False])
@pytest.mark.parametrize(("lower", "upper"), [(-5, 5), (-20, -10), (10, 20), (0, 0)])
def test_a_single_row_of_state_meets_a_row_at_each_bound_and_none_beyond(
    lower: int, upper: int, is_left_first: bool
) -> None:
    met = []
    for distance in range(lower - 2, upper + 3):
        left: Any = (0, [("a", 1, 100 + distance)])
        right: Any = (1, [(100_000, 2, "a")])
        items = [left, right] if is_left_first else [right, left]
        if run_operator(interval(INNER, lower, upper), CONTEXT, items).rows:
            met.append(distance)
    assert met == list(range(lower, upper + 1))


def test_a_large_chunk_is_indexed_once_several_small_batches_have_probed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interval_join_module, "_INDEXED_ROWS_MIN", 8)
    monkeypatch.setattr(interval_join_module, "_INDEXED_TIMES", 4)
    monkeypatch.setattr(interval_join_module, "_PROBES_MIN", 2)
    spec = interval(INNER, -5, 5)
    operator, output = make_operator(spec, CONTEXT), Collected()
    left = [("ab"[n % 2], n, n) for n in range(16)]
    right = [(n * 1_000, n, "b") for n in range(5)]
    (log, _) = operator._logs  # type: ignore[attr-defined]
    feed(operator, [(0, left)], output)
    before = log.nbytes()
    for number, row in enumerate(right):
        assert (log.chunks[0].index is not None) is (number > 2)
        feed(operator, [(1, [row])], output)
    assert log.nbytes() == before + log.chunks[0].index.nbytes
    assert Counter(output.rows) == reference(spec, left, right)
