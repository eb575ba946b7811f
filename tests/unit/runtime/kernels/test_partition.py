"""Splitting batches by key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.kernels.keys.hashing import hash_columns, key_groups
from sqlstream.runtime.kernels.keys.partition import KeySplitter
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by


def batch(keys: list[str | None]) -> pa.RecordBatch:
    columns = [
        pa.array(keys, pa.string()),
        pa.array(range(len(keys)), pa.int64()),
        ["2026-11-29"] * len(keys),
    ]
    return pa.record_batch([*columns[:2], pa.array(columns[2], pa.string())], names=["k", "n", "day"])


@given(
    st.lists(st.none() | st.sampled_from([f"key {n}" for n in range(9)]), max_size=60),
    st.integers(2, 5),
    st.sampled_from([7, 128]),
)
@settings(max_examples=60, deadline=None)
def test_each_subtask_gets_the_rows_of_its_key_groups_in_their_order(
    keys: list[str | None], parallelism: int, max_parallelism: int
) -> None:
    whole = batch(keys)
    parts = KeySplitter((0,), parallelism, max_parallelism).split(whole)
    groups = key_groups(hash_columns([whole.column(0)]), max_parallelism).tolist()
    expected = [
        [
            row
            for row, g in zip(whole.to_pylist(), groups, strict=True)
            if g * parallelism // max_parallelism == s
        ]
        for s in range(parallelism)
    ]
    assert [(s, part.to_pylist()) for s, part, _, _ in parts] == [
        (s, rows) for s, rows in enumerate(expected) if rows
    ]


def test_one_subtask_alone_gets_the_batch_without_a_copy() -> None:
    whole = batch(["a"] * 4)
    ((_, part, size, _),) = KeySplitter((0,), 3, 128).split(whole)
    assert part is whole
    assert size == whole.nbytes


@pytest.mark.parametrize("n", [2, 3])
def test_keys_of_several_columns_go_together(n: int) -> None:
    whole = pa.record_batch({"a": pa.array(range(500)), "b": [f"{i % 7}" for i in range(500)]})
    parts = KeySplitter((1, 0), n, 128).split(whole)
    assert sum(part.num_rows for _, part, _, _ in parts) == 500
    assert abs(sum(size for _, _, size, _ in parts) - whole.nbytes) < 100
    for subtask, part, _, hashes in parts:
        groups = key_groups(hash_columns([part.column(1), part.column(0)]), 128)
        assert {int(g) * n // 128 for g in groups} == {subtask}
        assert hashes is not None
        assert hashes.are_of([part.column(1), part.column(0)])
        assert hashes.values.tolist() == hash_columns([part.column(1), part.column(0)]).tolist()


@given(st.lists(st.integers(0, 6), max_size=50))
def test_argsort_is_stable_and_says_where_groups_start(ids: list[int]) -> None:
    order, starts = argsort_stable_by(np.array(ids, dtype=np.int64), 7)
    assert order.tolist() == sorted(range(len(ids)), key=ids.__getitem__)
    assert starts.tolist() == [sum(i < group for i in ids) for group in range(8)]


def test_a_selection_is_split_as_the_selected_rows_are() -> None:
    whole = batch([None if i % 5 == 0 else f"key {i % 40}" for i in range(300)])
    rows = np.array([i for i in range(300) if i % 3], dtype=np.int32)
    splitter = KeySplitter((0,), 3, 128)
    selected = splitter.split(whole.take(pa.array(rows)))
    assert [(s, p.to_pylist()) for s, p, _, _ in splitter.split(whole, rows)] == [
        (s, p.to_pylist()) for s, p, _, _ in selected
    ]
    assert splitter.split(whole, rows[:0]) == []
    ((_, one, _, _),) = splitter.split(whole, rows[:1])
    assert one.to_pylist() == whole.slice(1, 1).to_pylist()
