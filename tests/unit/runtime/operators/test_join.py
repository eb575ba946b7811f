"""A regular join equals nested loops over what both changelogs leave, cut, interleaved and moved anyhow."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from changelog_harness import changelogs, cut, cuts_strategy, final_rows, interleaved, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from join_reference import nested_loops, output_schema
from operator_harness import Clock, Collected, ManualClock, Row, feed, operator_context, restore, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import EndOfInput
from sqlstream.expressions import Call, Expression, InputRef
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.taskmanager.mailbox import next_due_ms
from sqlstream.schema import Schema
from sqlstream.specs import JoinKind, JoinSpec

LEFT_ROWS = Schema.of(("key", sql.STRING), ("a", sql.BIGINT))
RIGHT_ROWS = Schema.of(("b", sql.BIGINT), ("key", sql.STRING), ("name", sql.STRING))
INNER = JoinKind.INNER
APPENDING = (INNER, JoinKind.SEMI)
RETRACT, APPEND = ChangelogMode.RETRACT, ChangelogMode.INSERT_ONLY
A_BELOW_B: Expression = Call("<", (InputRef(1, sql.BIGINT), InputRef(2, sql.BIGINT)), sql.BOOLEAN)
kinds = st.sampled_from(list(JoinKind))
conditions = st.sampled_from([None, A_BELOW_B])
keys = st.sampled_from(["a", "b", "c", None])
numbers = st.sampled_from([0, 1, 2, None])
left_rows = st.tuples(keys, numbers)
right_rows = st.tuples(numbers, keys, st.sampled_from(["x", None]))
turns_strategy = st.lists(st.booleans(), max_size=14)


def reference(spec: JoinSpec, left: list[Row], right: list[Row]) -> Counter[Row]:
    def is_match(mine: Row, other: Row) -> bool:
        equal = all(
            mine[i] is not None and mine[i] == other[j]
            for i, j in zip(spec.left_keys, spec.right_keys, strict=True)
        )
        below = mine[1] is not None and other[0] is not None and mine[1] < other[0]
        return equal and (spec.condition is None or below)

    return nested_loops(spec.kind, left, right, is_match, (2, 3))


def join_context(
    left: ChangelogMode, right: ChangelogMode, output: ChangelogMode, kind: JoinKind = INNER, **others: Any
) -> Any:
    joined = output_schema(kind, LEFT_ROWS, RIGHT_ROWS)
    return operator_context(
        [LEFT_ROWS, RIGHT_ROWS], joined, input_modes=[left, right], output_mode=output, **others
    )


def with_ends(items: list[Any]) -> list[Any]:
    """Each side ends right behind its last item."""
    last = {side: number for number, (side, _) in enumerate(items)}
    result: list[Any] = [(side, EndOfInput()) for side in (0, 1) if side not in last]
    for number, (side, item) in enumerate(items):
        result += [(side, item)] + ([(side, EndOfInput())] if last[side] == number else [])
    return result


@given(
    st.lists(left_rows, max_size=25), st.lists(right_rows, max_size=25), cuts_strategy, cuts_strategy, turns_strategy,
    kinds, conditions, st.booleans(),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_rows_that_only_come_give_the_batch_answer(
    left: list[Row],
    right: list[Row],
    left_cuts: list[int],
    right_cuts: list[int],
    turns: list[bool],
    kind: JoinKind,
    condition: Expression | None,
    ends: bool,
) -> None:
    spec = JoinSpec(kind, (0,), (1,), condition)
    context = join_context(APPEND, APPEND, APPEND if kind in APPENDING else RETRACT, kind)
    items = interleaved(cut(left, left_cuts), cut(right, right_cuts), turns)
    output = run_operator(spec, context, with_ends(items) if ends else items)
    assert output.table() == reference(spec, left, right)


@given(
    changelogs(left_rows), changelogs(right_rows), cuts_strategy, cuts_strategy, turns_strategy, kinds, conditions,
    st.sampled_from([(), (0,)]), st.booleans(),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
def test_rows_that_are_taken_back_leave_no_trace(
    left: list[Row],
    right: list[Row],
    left_cuts: list[int],
    right_cuts: list[int],
    turns: list[bool],
    kind: JoinKind,
    condition: Expression | None,
    left_keys: tuple[int, ...],
    ends: bool,
) -> None:
    spec = JoinSpec(kind, left_keys, (1,) if left_keys else (), condition)
    items = interleaved(cut(left, left_cuts), cut(right, right_cuts), turns)
    items = with_ends(items) if ends else items
    output = run_operator(spec, join_context(RETRACT, RETRACT, RETRACT, kind), items)
    assert output.table() == reference(spec, final_rows(left), final_rows(right))


@given(
    changelogs(st.tuples(st.integers(0, 3), numbers)),
    changelogs(st.tuples(numbers, st.integers(1, 4), st.none())),
    turns_strategy, kinds, conditions, st.sampled_from([APPEND, RETRACT]),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_whole_numbers_that_repeat_within_a_batch_are_matched_as_other_keys_are(
    left: list[Row],
    right: list[Row],
    turns: list[bool],
    kind: JoinKind,
    condition: Expression | None,
    mode: ChangelogMode,
) -> None:
    remaining = final_rows(left), final_rows(right)
    if mode is APPEND:
        left, right = remaining
    schemas = [
        Schema.of(*((field.name, sql.BIGINT if field.name == "key" else field.type) for field in rows.fields))
        for rows in (LEFT_ROWS, RIGHT_ROWS)
    ]
    output_mode = mode if kind in APPENDING else RETRACT
    context = operator_context(
        schemas, output_schema(kind, *schemas), input_modes=[mode, mode], output_mode=output_mode
    )
    spec = JoinSpec(kind, (0,), (1,), condition)
    # Whole batches: keys repeat most there.
    output = run_operator(spec, context, interleaved([left], [right], turns))
    assert output.table() == reference(spec, *remaining)


@given(
    changelogs(left_rows), changelogs(right_rows), cuts_strategy, cuts_strategy, turns_strategy, kinds, conditions,
    st.sampled_from([(), (0,)]), st.integers(0, 12),
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(
    left: list[Row],
    right: list[Row],
    left_cuts: list[int],
    right_cuts: list[int],
    turns: list[bool],
    kind: JoinKind,
    condition: Expression | None,
    left_keys: tuple[int, ...],
    at: int,
) -> None:
    spec = JoinSpec(kind, left_keys, (1,) if left_keys else (), condition)
    items = interleaved(cut(left, left_cuts), cut(right, right_cuts), turns)
    context = join_context(RETRACT, RETRACT, RETRACT, kind)
    output = run_moved(spec, context, items, at, (spec.left_keys, spec.right_keys))
    assert output.table() == reference(spec, final_rows(left), final_rows(right))


@pytest.mark.parametrize("kind", list(JoinKind))
@pytest.mark.parametrize("mode", [APPEND, RETRACT])
def test_rows_are_kept_only_while_the_other_side_goes_on(kind: JoinKind, mode: ChangelogMode) -> None:
    spec = JoinSpec(kind, (0,), (1,))
    context = join_context(mode, mode, mode if kind in APPENDING else RETRACT, kind)
    operator, output = make_operator(spec, context), Collected()
    sign = ("+I",) if mode is RETRACT else ()
    left, right = [("b", 1), ("a", 1), ("c", 2)], [(2, "a", "x"), (3, "b", "y")]

    def kept() -> list[int]:
        tables = operator.context.state.snapshot().keyed
        return [tables[side].num_rows for side in ("left", "right")]

    feed(operator, [(0, [sign + left[0]]), (1, [sign + row for row in right]), (1, EndOfInput())], output)
    assert kept() == [1, 2]
    # The side that has ended is looked up as before.
    feed(operator, [(0, [sign + row for row in left[1:]])], output)
    assert kept() == [1, 2]
    assert output.table() == reference(spec, left, right)


def test_a_left_join_pads_with_null_and_takes_that_back_when_a_match_comes_and_goes() -> None:
    spec = JoinSpec(JoinKind.LEFT, (0,), (1,))
    items = [
        (0, [("+I", "a", 1)]),
        (1, [("+I", 5, "a", "x")]),
        (1, [("+I", 6, "a", "y")]),
        (1, [("-D", 5, "a", "x")]),
        (1, [("-U", 6, "a", "y"), ("+U", 7, "a", "y")]),
        (1, [("-D", 7, "a", "y")]),
        (0, [("-D", "a", 1)]),
    ]
    output = run_operator(spec, join_context(RETRACT, RETRACT, RETRACT), items)
    assert output.rows == [
        ("+I", "a", 1, None, None, None),
        ("-D", "a", 1, None, None, None),
        ("+I", "a", 1, 5, "a", "x"),
        ("+I", "a", 1, 6, "a", "y"),
        ("-D", "a", 1, 5, "a", "x"),
        ("-U", "a", 1, 6, "a", "y"),
        ("+U", "a", 1, 7, "a", "y"),
        ("-D", "a", 1, 7, "a", "y"),
        ("+I", "a", 1, None, None, None),
        ("-D", "a", 1, None, None, None),
    ]


def test_a_left_update_is_taken_back_before_it_is_replaced_whichever_of_the_two_has_a_match() -> None:
    spec = JoinSpec(JoinKind.LEFT, (0,), (1,))
    items = [(1, [("+I", 5, "b", "x")]), (0, [("+I", "a", 1)]), (0, [("-U", "a", 1), ("+U", "b", 1)])]
    output = run_operator(spec, join_context(RETRACT, RETRACT, RETRACT), items)
    assert output.rows[1:] == [("-D", "a", 1, None, None, None), ("+I", "b", 1, 5, "b", "x")]


def test_equal_rows_make_as_many_pairs() -> None:
    spec = JoinSpec(JoinKind.INNER, (0,), (1,))
    items = [(0, [("+I", "a", 1)] * 2), (1, [("+I", 5, "a", "x")] * 3)]
    output = run_operator(spec, join_context(RETRACT, RETRACT, RETRACT), items)
    assert output.rows == [("+I", "a", 1, 5, "a", "x")] * 6


def test_each_side_forgets_its_rows_after_its_own_ttl() -> None:
    spec = JoinSpec(JoinKind.INNER, (0,), (1,), left_ttl_ms=1_000, right_ttl_ms=100)
    operator = make_operator(spec, join_context(APPEND, APPEND, APPEND, now_ms=ManualClock(0)))
    output = Collected()
    feed(operator, [(0, [("a", 1)]), (1, [(5, "a", "x")]), (0, Clock(100)), (0, [("a", 2)])], output)
    feed(operator, [(0, Clock(500)), (1, [(6, "a", "x")]), (0, Clock(1_050)), (1, [(7, "a", "x")])], output)
    assert output.rows == [
        ("a", 1, 5, "a", "x"),
        ("a", 1, 6, "a", "x"),
        ("a", 2, 6, "a", "x"),
        ("a", 2, 7, "a", "x"),
    ]
    feed(operator, [(0, Clock(9_000))], output)
    assert [t.num_rows for t in operator.context.state.snapshot().keyed.values()] == [0, 0]


def test_rows_that_expire_are_counted_on_both_sides() -> None:
    counts: Counter[str] = Counter()
    spec = JoinSpec(JoinKind.INNER, (0,), (1,), left_ttl_ms=100, right_ttl_ms=50)
    context = join_context(
        APPEND, APPEND, APPEND, now_ms=ManualClock(0), count=lambda name, n: counts.update({name: n})
    )
    items = [(0, [("a", 1), ("b", 1)]), (1, [(5, "a", "x")]), (0, Clock(60)), (0, Clock(9_000))]
    feed(make_operator(spec, context), items, Collected())
    by_side = {"numRecordsExpired.left": 2, "numRecordsExpired.right": 1}
    assert counts == {"numStateEntriesExpired": 3, **by_side}


STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["+I", "+I", "-D"]), keys, st.sampled_from([1, 2]))
    | st.sampled_from([40, 110]),
    max_size=30,
)


@given(steps=STEPS, restored_after=st.integers(0, 30))
def test_what_came_to_each_side_is_held_expired_retracted_or_done(
    steps: list[Any], restored_after: int
) -> None:
    """Also of rows that are there several times, and of retractions of rows that have expired."""
    spec = JoinSpec(JoinKind.FULL, (0,), (1,), left_ttl_ms=100, right_ttl_ms=200)
    counts: Counter[str] = Counter()
    context = join_context(
        RETRACT, RETRACT, RETRACT, JoinKind.FULL, now_ms=ManualClock(0),
        count=lambda name, n: counts.update({name: n}),
    )  # fmt: skip
    operator, came, time_ms = make_operator(spec, context), [0, 0], 0
    for position, step in enumerate(steps):
        if position == restored_after:
            snapshot = operator.context.state.snapshot()
            operator = make_operator(spec, context)
            restore(operator, snapshot)
        if isinstance(step, int):
            time_ms += step
            feed(operator, [(0, Clock(time_ms))], Collected())
            continue
        side, kind, key, number = step
        came[side] += 1
        row = (kind, number, key, "x") if side else (kind, key, number)
        feed(operator, [(side, [row])], Collected())
    for side, name in enumerate(("left", "right")):
        became = (counts[f"numRecords{part}.{name}"] for part in ("Done", "Expired", "Retracted"))
        assert came[side] == sum(became) + operator.held_by_side()[side]


def test_taking_back_a_row_that_has_expired_leaves_no_debt() -> None:
    spec = JoinSpec(JoinKind.INNER, (0,), (1,), left_ttl_ms=100, right_ttl_ms=0)
    operator = make_operator(spec, join_context(RETRACT, RETRACT, RETRACT, now_ms=ManualClock(0)))
    output = Collected()
    items = [(0, [("+I", "a", 1)]), (0, Clock(200)), (0, [("-D", "a", 1)]), (0, [("+I", "a", 1)])]
    feed(operator, [*items, (1, [("+I", 5, "a", "x")])], output)
    assert output.rows == [("+I", "a", 1, 5, "a", "x")]


def test_ttl_goes_on_after_a_restore() -> None:
    spec = JoinSpec(JoinKind.INNER, (0,), (1,), left_ttl_ms=100, right_ttl_ms=100)
    clock = ManualClock(0)
    context = join_context(APPEND, APPEND, APPEND, now_ms=clock)
    first = make_operator(spec, context)
    feed(first, [(0, [("a", 1)]), (0, Clock(60)), (0, [("a", 2)])], Collected())
    second, output = make_operator(spec, context), Collected()
    restore(second, first.context.state.snapshot())
    feed(second, [(0, Clock(110)), (1, [(5, "a", "x")])], output)
    assert output.rows == [("a", 2, 5, "a", "x")]


def test_rows_with_nested_values_are_taken_back_also_after_a_restore() -> None:
    left = Schema.of(("k", sql.STRING), ("a", sql.array(sql.BIGINT)))
    right = Schema.of(("k", sql.STRING), ("m", sql.map_of(sql.STRING, sql.INT)))
    spec = JoinSpec(INNER, (0,), (0,))
    context = operator_context(
        [left, right], left.concat(right), input_modes=[RETRACT, RETRACT], output_mode=RETRACT
    )
    first, second = make_operator(spec, context), make_operator(spec, context)
    there = [("+I", "k", [1, None]), ("+I", "k", [1]), ("+I", "k", [1])]
    feed(first, [(0, there), (1, [("+I", "k", [("x", 1), ("y", 2)])])], Collected())
    output = Collected()
    restore(second, first.context.state.snapshot())
    feed(second, [(0, [("-D", "k", [1, None])]), (1, [("-D", "k", [("y", 2), ("x", 1)])])], output)
    assert [row[:3] for row in output.rows] == [("-D", "k", [1, None]), ("-D", "k", [1]), ("-D", "k", [1])]


@pytest.mark.parametrize("kind", list(JoinKind))
def test_keys_of_every_simple_type_match(kind: JoinKind) -> None:
    columns = (("i", sql.INT), ("d", sql.decimal(10, 2)), ("t", sql.timestamp(3)), ("f", sql.BOOLEAN))
    schema = Schema.of(*columns)
    row = (1, None, 5, True)
    full = (1, Decimal("1.50"), 5, False)
    mode = APPEND if kind in APPENDING else RETRACT
    context = operator_context([schema, schema], output_schema(kind, schema, schema), output_mode=mode)
    spec = JoinSpec(kind, (0, 1, 2, 3), (0, 1, 2, 3))
    table = run_operator(spec, context, [(0, [row, full]), (1, [row, full])]).table()
    assert table == nested_loops(kind, [row, full], [row, full], lambda a, b: a == b == full, (4, 4))


def test_many_pairs_are_put_together_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory and cancellation do not wait for the product of two batches."""
    from sqlstream.runtime.operators.join import joined

    monkeypatch.setattr(joined, "PAIRS_MAX", 4)
    append = ChangelogMode.INSERT_ONLY
    spec = JoinSpec(JoinKind.INNER, (), ())
    left = [(k, i) for i, k in enumerate("abcde")]
    right = [(i, "k", "n") for i in range(3)]
    output = run_operator(spec, join_context(append, append, append), [(1, right), (0, left)])
    assert Counter(output.rows) == Counter((*a, *b) for a in left for b in right)
    assert max(batch.num_rows for batch in output.batches) <= 6


def test_a_right_row_that_comes_and_goes_in_one_batch_touches_no_padded_row() -> None:
    spec = JoinSpec(JoinKind.LEFT, (0,), (1,))
    operator = make_operator(spec, join_context(APPEND, RETRACT, RETRACT))
    output = Collected()
    feed(operator, [(0, [("a", 1)])], output)
    feed(operator, [(1, [("+I", 2, "a", "x"), ("-D", 2, "a", "x")])], output)
    assert output.rows == [
        ("+I", "a", 1, None, None, None),
        ("+I", "a", 1, 2, "a", "x"),
        ("-D", "a", 1, 2, "a", "x"),
    ]
    feed(operator, [(1, [("+I", 3, "a", "y")]), (1, [("-D", 3, "a", "y")])], output)
    assert output.rows[3:] == [
        ("-D", "a", 1, None, None, None),
        ("+I", "a", 1, 3, "a", "y"),
        ("-D", "a", 1, 3, "a", "y"),
        ("+I", "a", 1, None, None, None),
    ]


@pytest.mark.parametrize("kind", list(JoinKind))
def test_rows_that_meet_many_are_joined_in_parts(kind: JoinKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.operators.join.joined.PAIRS_MAX", 4)
    spec = JoinSpec(kind, (0,), (1,))
    left = [(key, n) for n, key in enumerate("abacabbcad")]
    right = [(n, key, None) for n, key in enumerate("aabbbcaae")]
    operator = make_operator(spec, join_context(APPEND, APPEND, RETRACT, kind))
    output = Collected()
    feed(operator, [(0, left[:4]), (1, right[:5]), (0, left[4:]), (1, right[5:])], output)
    assert output.table() == reference(spec, left, right)
    assert len(output.batches) > 4 or kind.is_left_only


def test_the_side_whose_state_expires_first_sets_the_timer() -> None:
    spec = JoinSpec(JoinKind.INNER, (0,), (1,), left_ttl_ms=500, right_ttl_ms=100)
    clock = ManualClock(1_000)
    operator = make_operator(spec, join_context(APPEND, APPEND, APPEND, now_ms=clock))
    assert next_due_ms(operator) is None
    feed(operator, [(0, [("a", 1)])], Collected())
    first = next_due_ms(operator)
    assert first is not None
    assert 1_100 < first <= 1_500
    feed(operator, [(1, [(1, "b", None)])], Collected())
    assert 1_000 < (next_due_ms(operator) or 0) <= 1_100


def test_a_full_join_pads_rows_of_both_sides_and_takes_that_back() -> None:
    spec = JoinSpec(JoinKind.FULL, (0,), (1,))
    items = [
        (0, [("+I", "a", 1)]),
        (1, [("+I", 5, "b", "x"), ("+I", 6, "a", "y")]),
        (0, [("+I", "b", 2)]),
        (1, [("-D", 6, "a", "y")]),
        (0, [("-D", "b", 2)]),
        (0, [("+I", None, 3)]),
    ]
    output = run_operator(spec, join_context(RETRACT, RETRACT, RETRACT, JoinKind.FULL), items)
    assert output.rows == [
        ("+I", "a", 1, None, None, None),
        ("-D", "a", 1, None, None, None),
        ("+I", None, None, 5, "b", "x"),
        ("+I", "a", 1, 6, "a", "y"),
        ("-D", None, None, 5, "b", "x"),
        ("+I", "b", 2, 5, "b", "x"),
        ("-D", "a", 1, 6, "a", "y"),
        ("+I", "a", 1, None, None, None),
        ("-D", "b", 2, 5, "b", "x"),
        ("+I", None, None, 5, "b", "x"),
        ("+I", None, 3, None, None, None),
    ]


@pytest.mark.parametrize(("kind", "first", "then"), [("SEMI", "+I", "-D"), ("ANTI", "-D", "+I")])
def test_a_left_row_goes_in_and_out_with_its_first_and_last_match(kind: str, first: str, then: str) -> None:
    spec = JoinSpec(JoinKind(kind), (0,), (1,), A_BELOW_B)
    operator, output = make_operator(spec, join_context(RETRACT, RETRACT, RETRACT, spec.kind)), Collected()
    feed(operator, [(0, [("+I", "a", 1), ("+I", "a", 1)])], output)
    seen = len(output.rows)
    feed(
        operator,
        [(1, [("+I", 0, "a", "below")]), (1, [("+I", 5, "a", "x")]), (1, [("+I", 6, "a", "y")])],
        output,
    )
    assert output.rows[seen:] == [(first, "a", 1)] * 2
    feed(operator, [(1, [("-D", 5, "a", "x")]), (1, [("-U", 6, "a", "y"), ("+U", 7, "a", "y")])], output)
    assert len(output.rows) == seen + 2
    feed(operator, [(1, [("-D", 7, "a", "y")])], output)
    assert output.rows[seen + 2 :] == [(then, "a", 1)] * 2
