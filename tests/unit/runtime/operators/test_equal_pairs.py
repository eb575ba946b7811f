"""Pairs of rows with equal keys are those of nested loops."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.operators.equal_pairs import equal_pairs

rows = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, None]), st.sampled_from(["a", "a longer text", None])), max_size=20
)
Rows = list[tuple[int | None, str | None]]


def columns(side: Rows, width: int) -> list[pa.Array]:
    return [pa.array([r[i] for r in side], (pa.int64(), pa.string())[i]) for i in range(width)]


@given(rows, rows, st.integers(0, 2))
@settings(max_examples=200, deadline=None)
def test_pairs_are_those_of_nested_loops_in_order(left: Rows, right: Rows, width: int) -> None:
    found = equal_pairs(columns(left, width), columns(right, width), (len(left), len(right)))
    expected = [
        (i, j)
        for i, mine in enumerate(left)
        for j, other in enumerate(right)
        if mine[:width] == other[:width] and None not in mine[:width]
    ]
    assert list(zip(*(rows.tolist() for rows in found), strict=True)) == expected


def test_unique_keys_pair_row_by_row() -> None:
    left, right = equal_pairs([pa.array([3, 1, 2])], [pa.array([1, 2, 3, 4])], (3, 4))
    assert (left.tolist(), right.tolist()) == ([0, 1, 2], [2, 0, 1])


def test_sides_of_different_width_compare_by_value() -> None:
    left, right = equal_pairs([pa.array([3, 1], pa.int32())], [pa.array([1, 1, 3], pa.int64())], (2, 3))
    assert (left.tolist(), right.tolist()) == ([0, 1, 1], [2, 0, 1])
