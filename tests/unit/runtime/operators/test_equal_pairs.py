"""Pairs of rows with equal keys are those of nested loops."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.operators.join.joined import (
    PAIRS_MAX,
    complete_rows,
    equal_pairs,
    expand,
    portions,
)

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


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([], [(0, 0)]),
        ([1, 2, 3], [(0, 3)]),
        ([4, 4], [(0, 2)]),
        ([4, 5], [(0, 2)]),
        ([6, 7], [(0, 1), (1, 2)]),
        ([4, 4, 4, 4, 4], [(0, 1), (1, 3), (3, 5)]),
        ([9, 9], [(0, 1), (1, 2)]),
        ([0, 0, 8, 0, 8], [(0, 2), (2, 4), (4, 5)]),
        ([1, 20, 1], [(0, 1), (1, 3)]),
    ],
)
def test_runs_of_rows_have_about_as_many_pairs_as_are_allowed(
    monkeypatch: pytest.MonkeyPatch, counts: list[int], expected: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr("sqlstream.runtime.operators.join.joined.PAIRS_MAX", 8)
    assert list(portions(np.array(counts, dtype=np.int64))) == expected


def test_without_keys_each_portion_has_whole_rows_of_the_larger_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.operators.join.joined.PAIRS_MAX", 6)
    found = [(left.tolist(), right.tolist()) for left, right in equal_pairs([], [], (3, 2))]
    assert found == [([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])]
    sizes = [len(left) for left, _ in equal_pairs([], [], (7, 2))]
    assert sizes == [6, 6, 2]
    assert [len(left) for left, _ in equal_pairs([], [], (9, 8))] == [8] * 9


def test_a_side_without_rows_has_no_pairs() -> None:
    for counts in ((0, 3), (3, 0), (0, 0)):
        assert list(equal_pairs([], [], counts)) == []


def test_complete_rows_have_no_null_in_any_column() -> None:
    whole, holes = pa.array([1, 2, 3]), pa.array([None, 2, 3])
    assert complete_rows([whole, whole]) is None
    for columns_ in ([holes, pa.array(["a", "b", None])], [whole, holes, pa.array(["a", "b", None])]):
        found = complete_rows(columns_)
        assert found is not None
        assert found.tolist() == [1]


def test_members_of_groups_are_listed_by_probe() -> None:
    probes, positions = expand(np.array([0, 2, 2, 5]), np.array([2, 1, 0, 2]))
    assert probes.tolist() == [0, 0, 0, 2, 2, 3, 3, 3]
    assert positions.tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
