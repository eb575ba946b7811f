"""The rows of sessions, against a row-at-a-time reference."""

from __future__ import annotations

from typing import Any

from changelog_harness import changelogs, cut, cuts_strategy, final_rows, run_moved
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import operator_context, rows_of, run_operator

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.elements import Watermark
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.schema import Schema
from sqlstream.specs.window import WindowKind, WindowSpec, WindowTvfSpec

GAP = 5
ROWS = Schema.of(("k", sql.STRING), ("v", sql.array(sql.INT)), ("ts", sql.timestamp(3)))
BOUNDS = (
    ("window_start", sql.timestamp(3)),
    ("window_end", sql.timestamp(3)),
    ("window_time", sql.timestamp(3)),
)
RESULT = Schema((*ROWS.fields, *Schema.of(*BOUNDS).fields))
SPEC = WindowTvfSpec(WindowSpec(WindowKind.SESSION, GAP), 2, keys=(0,))
BATCHES = st.lists(
    st.lists(
        st.tuples(st.sampled_from("ab") | st.none(), st.just([1]) | st.none(), st.integers(0, 60)), max_size=5
    ),
    max_size=4,
)


def reference(rows: list[Any]) -> list[Any]:
    found = []
    for key in {r[0] for r in rows}:
        session: list[Any] = []
        for row in [*sorted((r for r in rows if r[0] == key), key=lambda r: r[2]), None]:
            if session and (row is None or row[2] > session[-1][2] + GAP):
                start, end = session[0][2], session[-1][2] + GAP
                found += [(*r, start, end, end - 1) for r in session]
                session = []
            session.append(row)
    return found


@given(BATCHES)
@settings(deadline=None)
def test_each_row_has_the_bounds_of_its_session_however_rows_are_cut_into_batches(batches: list[Any]) -> None:
    output = run_operator(SPEC, operator_context([ROWS], RESULT), [*batches, Watermark(1_000)])
    rows = [row for batch in batches for row in batch]
    assert sorted(output.rows, key=repr) == sorted(reference(rows), key=repr)
    ends = [row[4] for row in output.rows]
    assert ends == sorted(ends)


def test_a_session_is_emitted_when_the_watermark_passes_its_end_and_late_rows_are_dropped() -> None:
    late: list[int] = []
    context = operator_context([ROWS], RESULT, count=lambda name, n: late.append(n))
    first, second = [("a", [1], 1), ("b", None, 2), ("a", None, 4)], [("a", [2], 3), ("b", [3], 5)]
    output = run_operator(SPEC, context, [first, Watermark(7), second, Watermark(8), Watermark(20)])
    assert output.rows == [
        ("b", None, 2, 2, 7, 6), ("a", [1], 1, 1, 9, 8), ("a", None, 4, 1, 9, 8), ("a", [2], 3, 1, 9, 8),
        ("b", [3], 5, 5, 10, 9),
    ]  # fmt: skip
    assert sum(late) == 0
    late.clear()
    context = operator_context([ROWS], RESULT, count=lambda name, n: late.append(n))
    output = run_operator(SPEC, context, [first, Watermark(8), [("a", [2], 3)], Watermark(20)])
    assert len(output.rows) == 3
    assert late == [1]


def changing_context(late: list[int]) -> OperatorContext:
    return operator_context(
        [ROWS], RESULT, input_modes=[ChangelogMode.RETRACT], count=lambda name, n: late.append(n)
    )


CHANGES = changelogs(
    st.tuples(st.sampled_from("ab") | st.none(), st.just([1]) | st.none(), st.integers(0, 40))
)


@given(CHANGES, cuts_strategy, st.integers(0, 40))
@settings(deadline=None)
def test_sessions_are_those_of_the_rows_that_are_left_however_their_changes_are_cut_and_moved(
    log: list[Any], cuts: list[int], at: int
) -> None:
    late: list[int] = []
    batches = cut(log, cuts)
    output = run_moved(
        SPEC, changing_context(late), [*batches, Watermark(1_000)], min(at, len(batches)), [(0,)]
    )
    assert sorted(output.rows, key=repr) == sorted(reference(final_rows(log)), key=repr)
    assert sum(late) == 0


def test_a_part_of_a_session_that_a_retraction_cuts_off_is_emitted_before_the_watermark_that_passes_its_end() -> (
    None
):
    late: list[int] = []
    rows = [("+I", "a", None, 1), ("+I", "a", None, 5), ("+I", "a", None, 9), ("+I", "a", None, 9)]
    steps = [rows, Watermark(10), [("-D", "a", None, 5)], Watermark(11), Watermark(12), Watermark(100)]
    output = run_operator(SPEC, changing_context(late), steps)
    assert output.elements[0] == Watermark(4)
    assert rows_of(output.elements[1]) == [("a", None, 1, 1, 6, 5)]
    assert output.elements[2:4] == [Watermark(11), Watermark(12)]
    assert rows_of(output.elements[4]) == [("a", None, 9, 9, 14, 13)] * 2
    assert sum(late) == 0


def test_changes_of_a_session_that_has_closed_are_late_and_a_retraction_may_come_before_its_row() -> None:
    late: list[int] = []
    rows = [("+I", "a", None, 1), ("-U", "b", None, 4)]
    steps = [
        rows,
        Watermark(6),
        [("-U", "a", None, 1), ("+U", "a", [1], 1), ("+U", "b", None, 4)],
        [("+I", "b", [2], 4)],
    ]
    output = run_operator(
        SPEC, changing_context(late), [*steps, Watermark(7), [("-D", "b", [2], 4)], Watermark(100)]
    )
    assert output.rows == [("a", None, 1, 1, 6, 5)]
    assert sum(late) == 2
