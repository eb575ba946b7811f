"""A temporal join equals a search through all versions, whatever the order in which rows and versions come."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from changelog_harness import cut, cuts_strategy, interleaved, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import Collected, ManualClock, Row, feed, operator_context, restore, run_operator

from sqlstream import types as sql
from sqlstream.elements import Watermark
from sqlstream.expressions import Call, Expression, InputRef
from sqlstream.runtime.operators import make_operator
from sqlstream.schema import Schema
from sqlstream.specs import JoinKind, TemporalJoinSpec

LEFT_ROWS = Schema.of(("key", sql.STRING), ("a", sql.BIGINT), ("t", sql.timestamp(3)))
RIGHT_ROWS = Schema.of(("t", sql.timestamp(6)), ("b", sql.BIGINT), ("key", sql.STRING))
CONTEXT = operator_context([LEFT_ROWS, RIGHT_ROWS], LEFT_ROWS.concat(RIGHT_ROWS))
A_BELOW_B: Expression = Call("<", (InputRef(1, sql.BIGINT), InputRef(4, sql.BIGINT)), sql.BOOLEAN)
keys = st.sampled_from(["a", "b", None])
left_rows = st.tuples(keys, st.integers(0, 3), st.integers(0, 40))
right_rows = st.tuples(st.integers(0, 40_999), st.integers(0, 3), keys)
cases = st.tuples(
    st.tuples(
        st.lists(left_rows, max_size=25),
        st.lists(right_rows, max_size=25, unique_by=lambda row: (row[0], row[2])),
    ),
    cuts_strategy,
    cuts_strategy,
    st.lists(st.booleans(), max_size=14),
)
kinds = st.sampled_from([JoinKind.INNER, JoinKind.LEFT])
Case = tuple[tuple[list[Row], list[Row]], list[int], list[int], list[bool]]


def temporal(kind: JoinKind, condition: Expression | None = None, **others: Any) -> TemporalJoinSpec:
    return TemporalJoinSpec(kind, (0,), (2,), 2, 0, condition, **others)


def reference(spec: TemporalJoinSpec, left: list[Row], right: list[Row]) -> Counter[Row]:
    result: Counter[Row] = Counter()
    for mine in left:
        valid = [v for v in right if v[2] is not None and v[2] == mine[0] and v[0] <= mine[2] * 1_000]
        version = max(valid, key=lambda v: v[0], default=None)
        if version is not None and (spec.condition is None or mine[1] < version[1]):
            result[mine + version] += 1
        elif spec.kind is JoinKind.LEFT:
            result[(*mine, None, None, None)] += 1
    return result


def in_time(case: Case) -> list[Any]:
    """Batches of both sides, each behind the latest watermark that makes no later row late."""
    (left, right), left_cuts, right_cuts, turns = case
    items = interleaved(cut(left, left_cuts), cut(right, right_cuts), turns)
    result: list[Any] = []
    for place, (index, rows) in enumerate(items):
        times = [r[2] if i == 0 else r[0] // 1_000 for i, rest in items[place:] for r in rest]
        result += [(0, Watermark(min(times) - 1)), (index, rows)]
    return result


@given(cases, kinds, st.sampled_from([None, A_BELOW_B]))
@settings(max_examples=120, deadline=None)
def test_each_row_meets_the_version_of_its_time(case: Case, kind: JoinKind, condition: Any) -> None:
    spec = temporal(kind, condition)
    assert run_operator(spec, CONTEXT, in_time(case)).table() == reference(spec, *case[0])


@given(cases, kinds, st.integers(0, 20))
@settings(max_examples=50, deadline=None)
def test_state_moves_to_other_subtasks_without_a_trace(case: Case, kind: JoinKind, at: int) -> None:
    spec = temporal(kind)
    output = run_moved(spec, CONTEXT, in_time(case), at, (spec.left_keys, spec.right_keys))
    assert output.table() == reference(spec, *case[0])


@given(cases)
@settings(max_examples=50, deadline=None)
def test_no_row_comes_before_the_watermark_passed_it_nor_late(case: Case) -> None:
    output = run_operator(temporal(JoinKind.LEFT), CONTEXT, in_time(case), ends=False)
    emitted_since: list[Row] = []
    before = -(2**63)
    for element in output.elements:
        if isinstance(element, Watermark):
            assert all(before < row[2] <= element.timestamp_ms for row in emitted_since)
            before, emitted_since = element.timestamp_ms, []
        else:
            emitted_since += [(None, None, t.as_py()) for t in element.column(2).cast("int64")]
    assert not emitted_since


def test_versions_that_a_later_one_has_replaced_are_forgotten() -> None:
    operator, output = make_operator(temporal(JoinKind.INNER), CONTEXT), Collected()
    versions = [(t * 1_000, t, "a") for t in (5, 1, 9, 3)] + [(2_000, 2, "b")]
    feed(operator, [(1, versions), (0, Watermark(4))], output)
    assert sorted(operator.context.state.snapshot().keyed["right"].column("b").to_pylist()) == [2, 3, 5, 9]
    feed(operator, [(0, Watermark(10))], output)
    assert sorted(operator.context.state.snapshot().keyed["right"].column("b").to_pylist()) == [2, 9]
    feed(operator, [(0, [("a", 0, 50), ("b", 0, 50)]), (0, Watermark(60))], output)
    assert sorted(row[4] for row in output.rows) == [2, 9]


def test_of_versions_of_one_time_the_last_one_counts_also_after_a_restore() -> None:
    first = make_operator(temporal(JoinKind.INNER), CONTEXT)
    feed(first, [(1, [(5_000, 1, "a")]), (1, [(5_000, 2, "a"), (5_000, 3, "a")])], Collected())
    first.prepare_snapshot(Collected())
    second, output = make_operator(temporal(JoinKind.INNER), CONTEXT), Collected()
    restore(second, first.context.state.snapshot())
    feed(second, [(0, [("a", 0, 5)]), (0, Watermark(5))], output)
    assert [row[4] for row in output.rows] == [3]


ENDING_ROWS = Schema.of(
    ("key", sql.STRING), ("t", sql.timestamp(3)), ("b", sql.BIGINT), ("valid", sql.BOOLEAN)
)
ENDING_CONTEXT = operator_context([LEFT_ROWS, ENDING_ROWS], LEFT_ROWS.concat(ENDING_ROWS))
ending_rows = st.lists(
    st.tuples(keys, st.integers(0, 20), st.integers(0, 9), st.sampled_from([True, True, False, None])),
    max_size=25,
)
IS_VALID = InputRef(6, sql.BOOLEAN)


def ending(kind: JoinKind) -> TemporalJoinSpec:
    return TemporalJoinSpec(kind, (0,), (0,), 2, 1, IS_VALID, right_valid_column=3)


@given(st.lists(left_rows, max_size=25), ending_rows, cuts_strategy, kinds, st.integers(0, 20), st.booleans())
@settings(max_examples=80, deadline=None)
def test_a_version_that_is_not_valid_ends_the_one_before(
    left: list[Row], right: list[Row], cuts: list[int], kind: JoinKind, at: int, is_moved: bool
) -> None:
    # Versions come in the order of their times, of which many are equal: the later one counts.
    right = sorted(right, key=lambda row: row[1])
    expected: Counter[Row] = Counter()
    for mine in left:
        found: Row | None = None
        for version in right:
            if version[0] is not None and version[0] == mine[0] and version[1] <= mine[2]:
                found = version
        if found is not None and found[3]:
            expected[mine + found] += 1
        elif kind is JoinKind.LEFT:
            expected[(*mine, None, None, None, None)] += 1
    items: list[Any] = [(0, left)]
    for rows in cut(right, cuts):
        items += [(1, rows), *([(0, Watermark(rows[-1][1] - 1))] if rows else [])]
    spec = ending(kind)
    pairs = (spec.left_keys, spec.right_keys)
    output = (
        run_moved(spec, ENDING_CONTEXT, items, at, pairs)
        if is_moved
        else run_operator(spec, ENDING_CONTEXT, items)
    )
    assert output.table() == expected


def test_the_end_of_a_key_is_forgotten_when_the_watermark_has_passed_it() -> None:
    operator, output = make_operator(ending(JoinKind.LEFT), ENDING_CONTEXT), Collected()
    versions = [
        ("a", 1, 1, True),
        ("b", 1, 2, True),
        ("a", 5, None, False),
        ("b", 6, None, None),
        ("b", 9, 3, True),
    ]
    feed(operator, [(1, versions), (0, Watermark(5))], output)
    kept = operator.context.state.snapshot().keyed["right"].column("t").cast("int64").to_pylist()
    assert sorted(kept) == [1, 6, 9]
    feed(operator, [(0, Watermark(8))], output)
    kept = operator.context.state.snapshot().keyed["right"].column("t").cast("int64").to_pylist()
    assert sorted(kept) == [9]


def test_late_rows_are_dropped_and_counted_and_late_versions_count_from_then_on() -> None:
    counts: Counter[str] = Counter()
    context = operator_context(
        [LEFT_ROWS, RIGHT_ROWS], CONTEXT.output_schema, count=lambda name, n: counts.update({name: n})
    )
    operator, output = make_operator(temporal(JoinKind.LEFT), context), Collected()
    feed(operator, [(1, [(1_000, 1, "a")]), (0, Watermark(10)), (0, [("a", 0, 10), ("a", 1, 11)])], output)
    feed(operator, [(1, [(7_000, 7, "a")]), (0, Watermark(12))], output)
    assert output.rows == [("a", 1, 11, 7_000, 7, "a")]
    done = {"numRecordsDone": 2, "numRecordsDone.left": 1, "numRecordsDone.right": 1}
    assert counts == {"numLateRecordsDropped": 1, "numLateRecordsDropped.left": 1, **done}


def test_a_version_expires_after_its_time_to_live() -> None:
    context = operator_context([LEFT_ROWS, RIGHT_ROWS], CONTEXT.output_schema, now_ms=ManualClock(0))
    operator, output = make_operator(temporal(JoinKind.LEFT, right_ttl_ms=100), context), Collected()
    feed(operator, [(1, [(1_000, 1, "a"), (20_000, 2, "a")]), (0, Watermark(10))], output)
    context.now_ms.now_ms = 5_000  # type: ignore[attr-defined]
    feed(operator, [(1, [(21_000, 3, "b")]), (0, [("a", 0, 30), ("b", 0, 30)]), (0, Watermark(30))], output)
    assert sorted(output.rows, key=str) == [("a", 0, 30, None, None, None), ("b", 0, 30, 21_000, 3, "b")]


@pytest.mark.parametrize("portion", [1, 3])
def test_many_rows_are_joined_in_parts(portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.operators.join.temporal_join.PAIRS_MAX", portion)
    spec = temporal(JoinKind.LEFT)
    left = [("ab"[n % 2], n, n) for n in range(20)]
    right = [(n * 3_000, n, "abc"[n % 3]) for n in range(6)]
    output = run_operator(spec, CONTEXT, [(1, right), (0, left)])
    assert output.table() == reference(spec, left, right)
