"""Pairs of rows with equal keys are those of nested loops."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.operators.equal_pairs import PAIRS_MAX, equal_pairs

rows = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, None]), st.sampled_from(["a", "a longer text", None])), max_size=20
)
Rows = list[tuple[int | None, str | None]]


def columns(side: Rows, width: int) -> list[pa.Array]:
    return [pa.array([r[i] for r in side], (pa.int64(), pa.string())[i]) for i in range(width)]


def pairs(left: list[pa.Array], right: list[pa.Array], counts: tuple[int, int]) -> list[tuple[int, int]]:
    return [
        pair
        for portion in equal_pairs(left, right, counts)
        for pair in zip(*(r.tolist() for r in portion), strict=True)
    ]


@given(rows, rows, st.integers(0, 2))
@settings(max_examples=200, deadline=None)
def test_pairs_are_those_of_nested_loops_in_order(left: Rows, right: Rows, width: int) -> None:
    found = pairs(columns(left, width), columns(right, width), (len(left), len(right)))
    expected = [
        (i, j)
        for i, mine in enumerate(left)
        for j, other in enumerate(right)
        if mine[:width] == other[:width] and None not in mine[:width]
    ]
    assert found == expected


def test_unique_keys_pair_row_by_row() -> None:
    found = pairs([pa.array([3, 1, 2])], [pa.array([1, 2, 3, 4])], (3, 4))
    assert found == [(0, 2), (1, 0), (2, 1)]


def test_sides_of_different_width_compare_by_value() -> None:
    found = pairs([pa.array([3, 1], pa.int32())], [pa.array([1, 1, 3], pa.int64())], (2, 3))
    assert found == [(0, 2), (1, 0), (1, 1)]


@pytest.mark.parametrize("has_keys", [True, False])
def test_many_rows_that_meet_many_come_in_portions(has_keys: bool) -> None:
    mine, theirs = 700, 900
    keys = [[pa.array([7] * n)] if has_keys else [] for n in (mine, theirs)]
    portions = list(equal_pairs(keys[0], keys[1], (mine, theirs)))
    assert len(portions) > 1
    assert all(len(left) <= PAIRS_MAX + mine for left, _ in portions)
    found = np.concatenate([left * theirs + right for left, right in portions])
    assert np.array_equal(np.sort(found), np.arange(mine * theirs))
