"""Several rows of a subquery that is used as a value fail the job where they stay, and hold the outer row back until then."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from changelog_harness import changelogs, cut, cuts_strategy, final_rows, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Clock, Collected, ManualClock, Row, feed, operator_context, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.expressions import Call, InputRef, Literal
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.checks import LOOK_MS, LOOKS
from sqlstream.schema import Schema
from sqlstream.specs import SingleRowCheckSpec

SCHEMA = Schema.of(("k", sql.INT), ("tags", sql.array(sql.INT)), ("value", sql.INT), ("count", sql.BIGINT))
COUNT = InputRef(3, sql.BIGINT)
SEVERAL = Call(">", (COUNT, Literal(1, sql.BIGINT)), sql.BOOLEAN)
CHECK = Call("SINGLE_ROW", (InputRef(2, sql.INT), COUNT), sql.INT)
BOUNDED = SingleRowCheckSpec(SEVERAL, (CHECK,), (0,), True)
ENDLESS = SingleRowCheckSpec(SEVERAL, (CHECK,), (0,), False)
RETRACT = ChangelogMode.RETRACT

rows = st.tuples(
    st.integers(0, 2) | st.none(),
    st.lists(st.integers(0, 1), max_size=1) | st.none(),
    st.integers(0, 1),
    st.integers(0, 2) | st.none(),
)


def context(**more: Any) -> Any:
    return operator_context([SCHEMA], SCHEMA, input_modes=(RETRACT,), output_mode=RETRACT, **more)


def folded(output: Collected) -> Counter[str]:
    left: Counter[str] = Counter()
    for kind, *row in output.rows:
        assert (row[3] or 0) < 2
        left[repr(row)] += 1 if kind in ("+I", "+U") else -1
        assert left[repr(row)] >= 0
    return +left


@given(changelogs(rows), cuts_strategy, st.integers(0, 6))
@settings(deadline=None, max_examples=60)
def test_rows_pass_that_have_one_however_the_changes_come_and_the_state_moves(
    changes: list[Row], cuts: list[int], at: int
) -> None:
    batches = cut(changes, cuts)
    left = final_rows(changes)
    for run in (
        lambda: run_operator(BOUNDED, context(), batches),
        lambda: run_moved(BOUNDED, context(), batches, min(at, len(batches)), [(0,)]),
    ):
        if any((row[3] or 0) > 1 for row in left):
            with pytest.raises(UserError, match="a subquery that is used as a value has 2 rows") as failed:
                run()
            assert failed.value.code == "SS5102"
        else:
            assert folded(run()) == Counter(repr(list(row)) for row in left)


@pytest.mark.parametrize("size", [1, 2, 6])
def test_an_update_to_several_rows_deletes_and_one_back_to_one_inserts(size: int) -> None:
    changes = [
        ("+I", 1, None, 10, 1),
        ("-U", 1, None, 10, 1),
        ("+U", 1, None, 10, 2),
        ("-U", 1, None, 10, 2),
        ("+U", 1, None, 20, 1),
        ("-U", 1, None, 20, 1),
        ("+U", 1, None, 30, 1),
    ]
    # The halves of an update come in one batch.
    batches = [changes[:1], *(changes[i : i + 2] for i in (1, 3, 5))] if size < 6 else [changes]
    assert run_operator(BOUNDED, context(), batches).rows == [
        ("+I", 1, None, 10, 1),
        ("-D", 1, None, 10, 1),
        ("+I", 1, None, 20, 1),
        ("-U", 1, None, 20, 1),
        ("+U", 1, None, 30, 1),
    ]


def test_a_retraction_that_comes_before_its_row_waits_for_it() -> None:
    changes = [[("-D", 1, None, 10, 2)], [("+I", 1, None, 10, 2)], [("+I", 1, None, 20, 1)]]
    assert run_operator(BOUNDED, context(), changes).rows == [("+I", 1, None, 20, 1)]


def looked_at(spec: SingleRowCheckSpec, changes: list[Any]) -> list[int]:
    """The times at which the operator is due, up to one at which it fails, with `changes` at these times."""
    clock, output, times = ManualClock(0), Collected(), []
    operator = make_operator(spec, context(now_ms=clock))
    for batch in changes:
        feed(operator, [[batch]] if isinstance(batch, tuple) else [], output)
        due_ms = operator.next_processing_time_ms()
        if due_ms is None:
            break
        times.append(due_ms)
        feed(operator, [Clock(due_ms)], output)
    return times


def test_in_an_endless_input_rows_fail_when_they_have_stayed() -> None:
    several = ("+I", 1, None, 10, 2)
    assert looked_at(BOUNDED, [several]) == []
    gone = [several, *[None] * (LOOKS - 1), ("-D", *several[1:]), None]
    assert looked_at(ENDLESS, gone) == [LOOK_MS * (i + 1) for i in range(LOOKS)]
    with pytest.raises(UserError, match="has 2 rows"):
        looked_at(ENDLESS, [several, *[None] * LOOKS])
    # Another row, later: the first one is gone before it has been looked at as often.
    later = [several, *[None] * 5, ("+I", 2, None, 10, 2), ("-D", *several[1:]), *[None] * (LOOKS - 3)]
    assert len(looked_at(ENDLESS, later)) == len(later)
    with pytest.raises(UserError, match="has 2 rows"):
        looked_at(ENDLESS, [*later, *[None] * 4])


def test_a_long_pause_and_a_task_that_takes_no_input_prove_nothing() -> None:
    clock, output = ManualClock(0), Collected()
    operator = make_operator(ENDLESS, context(now_ms=clock))
    feed(operator, [[("+I", 1, None, 10, 2)]], output)
    assert operator.next_processing_time_ms() == LOOK_MS
    # The machine has slept: that is one look, however many were due.
    clock.now_ms = 10_000_000
    operator.on_processing_time(clock.now_ms, output)
    assert operator.next_processing_time_ms() == 10_000_000 + LOOK_MS
    operator.on_held_back(20_000_000)
    assert operator.next_processing_time_ms() == 20_000_000 + LOOK_MS
    feed(operator, [[("-D", 1, None, 10, 2)]], output)
    assert operator.next_processing_time_ms() is None
    assert output.rows == []
