"""A window join equals nested loops over the rows of each window."""

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
from operator_harness import Collected, Row, feed, finish, operator_context, restored, run_operator

from sqlstream import types as sql
from sqlstream.elements import Watermark
from sqlstream.expressions import Call, Expression, InputRef
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.operators.window import window_join as window_join_module
from sqlstream.schema import Schema
from sqlstream.specs import JoinKind, WindowJoinSpec

TIME = sql.timestamp(3)
LEFT_ROWS = Schema.of(("key", sql.STRING), ("a", sql.BIGINT), ("window_start", TIME), ("window_end", TIME))
RIGHT_ROWS = Schema.of(("window_start", TIME), ("window_end", TIME), ("b", sql.BIGINT), ("key", sql.STRING))
JOINED = LEFT_ROWS.concat(RIGHT_ROWS)
INNER, LEFT = JoinKind.INNER, JoinKind.LEFT
A_BELOW_B: Expression = Call("<", (InputRef(1, sql.BIGINT), InputRef(6, sql.BIGINT)), sql.BOOLEAN)
keys = st.sampled_from(["a", "b", None])
windows = st.sampled_from([(0, 10), (0, 20), (10, 20), (20, 30)])
left_rows = st.tuples(keys, st.integers(0, 3), windows).map(lambda r: (*r[:2], *r[2]))
right_rows = st.tuples(windows, st.integers(0, 3), keys).map(lambda r: (*r[0], *r[1:]))
cases = st.tuples(
    st.tuples(st.lists(left_rows, max_size=25), st.lists(right_rows, max_size=25)),
    cuts_strategy,
    cuts_strategy,
    st.lists(st.booleans(), max_size=14),
)
CONTEXT = operator_context([LEFT_ROWS, RIGHT_ROWS], JOINED)
Case = tuple[tuple[list[Row], list[Row]], list[int], list[int], list[bool]]


@pytest.fixture(scope="module", autouse=True, params=[0, 1_024], ids="rows a window>={}".format)
def window_by_window(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whether windows are joined one by one or all at once is nobody's business outside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_join_module, "_WINDOW_ROWS_MIN", request.param)
        yield


def context_of(kind: JoinKind) -> OperatorContext:
    return operator_context([LEFT_ROWS, RIGHT_ROWS], output_schema(kind, LEFT_ROWS, RIGHT_ROWS))


def window_join(
    kind: JoinKind, keyed: bool = True, condition: Expression | None = None, **others: Any
) -> WindowJoinSpec:
    left_keys, right_keys = ((0,), (3,)) if keyed else ((), ())
    return WindowJoinSpec(kind, left_keys, right_keys, 2, 3, 0, 1, condition, **others)


def reference(spec: WindowJoinSpec, left: list[Row], right: list[Row]) -> Counter[Row]:
    def is_match(mine: Row, other: Row) -> bool:
        return (
            mine[2:4] == other[:2]
            and (not spec.left_keys or (mine[0] is not None and mine[0] == other[3]))
            and (spec.condition is None or mine[1] < other[2])
        )

    return nested_loops(spec.kind, left, right, is_match, (4, 4))


def in_time(case: Case) -> list[Any]:
    """Batches of both sides, each behind the latest watermark that makes no later row late."""
    (left, right), left_cuts, right_cuts, turns = case
    items = interleaved(cut(left, left_cuts), cut(right, right_cuts), turns)
    result: list[Any] = []
    for place, (index, rows) in enumerate(items):
        ends = [row[3] if i == 0 else row[1] for i, batch in items[place:] for row in batch]
        result += [(0, Watermark(min(ends) - 2)), (index, rows)]
    return result


@given(cases, st.sampled_from(list(JoinKind)), st.booleans(), st.sampled_from([None, A_BELOW_B]))
@settings(max_examples=100, deadline=None)
def test_pairs_and_padded_rows_are_those_of_nested_loops(
    case: Case, kind: JoinKind, keyed: bool, condition: Expression | None
) -> None:
    spec = window_join(kind, keyed, condition)
    assert run_operator(spec, context_of(kind), in_time(case)).table() == reference(spec, *case[0])


@given(cases, st.sampled_from(list(JoinKind)), st.booleans(), st.integers(0, 20))
@settings(max_examples=50, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(
    case: Case, kind: JoinKind, keyed: bool, at: int
) -> None:
    spec = window_join(kind, keyed)
    output = run_moved(spec, context_of(kind), in_time(case), at, (spec.left_keys, spec.right_keys))
    assert output.table() == reference(spec, *case[0])


@given(cases, st.booleans(), st.integers(0, 20), st.booleans(), st.sampled_from([0, 1]))
@settings(max_examples=60, deadline=None)
def test_a_broadcast_side_is_whole_in_every_subtask_after_a_restore(
    case: Case, keyed: bool, at: int, is_second_slow: bool, broadcast: int
) -> None:
    spec = window_join(INNER, keyed, broadcast_input=broadcast)
    items, output = in_time(case), Collected()
    subtasks = [make_operator(spec, dataclasses.replace(CONTEXT, subtask=i, parallelism=2)) for i in range(2)]
    for place, item in enumerate(items[:at]):
        for number, subtask in enumerate(subtasks):
            is_watermark = isinstance(item[1], Watermark)
            is_shared = is_watermark or item[0] == broadcast
            is_passed_over = is_watermark and number == 1 and is_second_slow
            feed(
                subtask,
                [item] if (is_shared or place // 2 % 2 == number) and not is_passed_over else [],
                output,
            )
    snapshots = [subtask.context.state.snapshot() for subtask in subtasks]
    for number in range(3):
        operator = restored(spec, CONTEXT, snapshots, number, 3)
        shared = [(p, i, isinstance(i[1], Watermark) or i[0] == broadcast) for p, i in enumerate(items[at:])]
        feed(operator, [i for p, i, is_shared in shared if is_shared or p % 3 == number], output)
        finish(operator, output)
    assert output.table() == reference(spec, *case[0])


def test_a_window_goes_out_when_the_watermark_closes_it() -> None:
    operator, output = make_operator(window_join(LEFT), CONTEXT), Collected()
    rows = [("a", 1, 0, 10), ("b", 2, 0, 10), ("a", 3, 10, 20)]
    feed(operator, [(0, rows), (1, [(0, 10, 5, "a")]), (0, Watermark(8))], output)
    assert output.rows == []
    feed(operator, [(0, Watermark(9))], output)
    assert output.rows == [("a", 1, 0, 10, 0, 10, 5, "a"), ("b", 2, 0, 10, None, None, None, None)]
    assert output.watermarks == [8, 9]
    assert operator.context.state.snapshot().keyed["left"].num_rows == 1


def test_late_rows_are_dropped_and_counted() -> None:
    counts: Counter[str] = Counter()
    context = dataclasses.replace(CONTEXT, count=lambda name, n: counts.update({name: n}))
    late = [("a", 1, 0, 10), ("a", 2, 10, 20)]
    items = [(0, Watermark(9)), (0, late), (1, [(0, 10, 5, "a"), (10, 20, 6, "a")])]
    assert run_operator(window_join(INNER), context, items).rows == [("a", 2, 10, 20, 10, 20, 6, "a")]
    both = {"numLateRecordsDropped": 2, "numRecordsDone": 2}
    assert counts == {**both, **{f"{name}.{side}": 1 for name in both for side in ("left", "right")}}


def test_windows_may_be_told_apart_by_their_ends_alone() -> None:
    spec = WindowJoinSpec(INNER, (), (), 3, 3, 1, 1)
    items = [(0, [("a", 1, 0, 10), ("a", 2, 10, 20)]), (1, [(10, 20, 6, "b")])]
    assert run_operator(spec, CONTEXT, items).rows == [("a", 2, 10, 20, 10, 20, 6, "b")]
