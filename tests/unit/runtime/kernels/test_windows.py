"""Sessions found in the order of rows are those that sorted rows have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.kernels.windows import follow_sessions_into, merge_sessions_into

Interval = tuple[int, int, int]
Session = tuple[int, int, int, tuple[int, ...]]


def sessions_of(intervals: list[Interval], *, in_order: bool) -> set[Session] | None:
    """Group, start, end and rows of each session; None when the rows have to be sorted first."""
    groups, starts, ends = (np.array(column, np.int64) for column in zip(*intervals, strict=True))
    rows = len(intervals)
    sessions, first_rows, least, greatest, before = (np.empty(rows, np.int64) for _ in range(5))
    found = (sessions, first_rows, least, greatest)
    if in_order:
        current = np.full(groups.max() + 1, -1)
        count = follow_sessions_into(groups, starts, ends, current, before, *found)
    else:
        count = merge_sessions_into(groups, starts, ends, np.lexsort((starts, groups)), *found)
    if count < 0:
        return None
    members = [tuple(np.flatnonzero(sessions == s).tolist()) for s in range(count)]
    assert [first in rows for first, rows in zip(first_rows[:count], members, strict=True)] == [True] * count
    return {(int(groups[first_rows[s]]), int(least[s]), int(greatest[s]), members[s]) for s in range(count)}


def reference(intervals: list[Interval]) -> set[Session]:
    """Intervals are put together until no two of a group overlap or touch."""
    found: list[tuple[int, int, int, tuple[int, ...]]] = []
    for row, (group, start, end) in enumerate(intervals):
        touching = [s for s in found if s[0] == group and s[1] <= end and start <= s[2]]
        found = [s for s in found if s not in touching]
        rows = tuple(sorted([row, *(r for s in touching for r in s[3])]))
        bounds = [(start, end), *((s[1], s[2]) for s in touching)]
        found.append((group, min(b[0] for b in bounds), max(b[1] for b in bounds), rows))
    return set(found)


interval = st.tuples(st.integers(0, 2), st.integers(-10, 30), st.integers(1, 8)).map(
    lambda t: (t[0], t[1], t[1] + t[2])
)


@given(st.lists(interval, min_size=1, max_size=14))
@settings(max_examples=300, deadline=None)
def test_sessions_are_the_intervals_that_overlap_or_touch(intervals: list[Interval]) -> None:
    expected = reference(intervals)
    assert sessions_of(intervals, in_order=False) == expected
    assert sessions_of(intervals, in_order=True) in (None, expected)


@given(st.lists(interval, min_size=1, max_size=14))
@settings(max_examples=100, deadline=None)
def test_rows_in_order_are_never_sorted(intervals: list[Interval]) -> None:
    assert sessions_of(sorted(intervals, key=lambda i: i[1]), in_order=True) is not None


@pytest.mark.parametrize(
    ("intervals", "is_followed"),
    [
        ([(0, 5, 15), (0, 3, 13), (0, 20, 30)], True),
        ([(0, 5, 15), (0, -20, -5)], False),
        ([(0, 0, 10), (0, 15, 25), (0, 12, 22)], True),
        ([(0, 0, 10), (0, 15, 25), (0, 10, 20)], False),
    ],
    ids=["extends it to the left", "before it", "between two", "joins two"],
)
def test_a_row_out_of_order_is_followed_while_it_belongs_to_the_last_session_alone(
    intervals: list[Interval], is_followed: bool
) -> None:
    expected = reference(intervals)
    assert sessions_of(intervals, in_order=True) == (expected if is_followed else None)
