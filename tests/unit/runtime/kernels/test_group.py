"""Grouping the rows of a batch against a Python dict."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.kernels.keys.group import group, group_repeated

COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-3, 3)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int16(), st.integers(-3, 3)),
    (pa.string(), st.sampled_from(["", "a", "b", "123456789", "123456780"])),
    (pa.bool_(), st.booleans()),
]


def reference(columns: list[pa.Array]) -> tuple[list[int], list[int]]:
    seen: dict[tuple[Any, ...], int] = {}
    first, ids = [], []
    for number, key in enumerate(zip(*[c.to_pylist() for c in columns], strict=True)):
        if key not in seen:
            seen[key] = len(seen)
            first.append(number)
        ids.append(seen[key])
    return ids, first


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_groups_are_numbered_by_first_occurrence(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 40))
    columns = []
    for data_type, values in data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3)):
        cell = data.draw(st.sampled_from([values, st.none() | values]))
        drawn = data.draw(st.lists(cell, min_size=count + 1, max_size=count + 1))
        columns.append(pa.array(drawn, data_type).slice(1))
    ids, first = group(columns)
    assert (ids.tolist(), first.tolist()) == reference(columns)


@given(st.lists(st.integers(-2, 2) | st.just(9), max_size=40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_only_whole_numbers_that_must_repeat_are_grouped_as_such(values: list[int], has_null: bool) -> None:
    column = pa.array([*values, None] if has_null else values, pa.int64())
    found = group_repeated([column])
    must_repeat = bool(values) and not has_null and 2 * (max(values) - min(values) + 1) <= len(values)
    assert (found is not None) == must_repeat
    if found is not None:
        assert [part.tolist() for part in found] == [part.tolist() for part in group([column])]
    assert group_repeated([column, column]) is None
    assert group_repeated([pa.array(["a"] * 9)]) is None


def test_many_groups_outgrow_the_first_table() -> None:
    numbers = [(n % 5000) * 1_000_003 for n in range(20_000)]
    for columns in (
        [pa.array(numbers)],
        [pa.array([*numbers[:-1], None])],
        [pa.array(numbers), pa.array([n % 7 for n in range(20_000)])],
        [pa.array([f"group number {n}" for n in numbers])],
        [pa.array(["2026-11-29"] * 20_000), pa.array(numbers), pa.array([True] * 20_000)],
        [pa.array(["2026-11-29"] * 19_999 + ["2026-11-30"]), pa.array([7] * 19_999 + [8])],
        [pa.array([""] * 20_000), pa.array([0.0, -0.0] * 10_000)],
    ):
        ids, first = group(columns)
        assert (ids.tolist(), first.tolist()) == reference(columns)
