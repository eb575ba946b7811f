"""Splitting batches by target and by key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.kernels.hashing import hash_columns, key_groups
from runtime.kernels.ordering import argsort_stable_by
from runtime.kernels.partition import partition, split_by_key


def batch(count: int) -> pa.RecordBatch:
    return pa.record_batch(
        {"n": list(range(count)), "s": [None if n % 3 == 0 else f"row {n}" for n in range(count)]},
        schema=pa.schema([("n", pa.int64()), ("s", pa.string())]),
    )


@given(st.lists(st.integers(0, 4), max_size=40))
@settings(max_examples=60, deadline=None)
def test_each_target_gets_its_rows_in_their_order(targets: list[int]) -> None:
    parts = partition(batch(len(targets)), np.array(targets, dtype=np.int64), 5)
    rows = batch(len(targets)).to_pylist()
    expected = [[row for row, target in zip(rows, targets, strict=True) if target == t] for t in range(5)]
    assert [[] if part is None else part.to_pylist() for part in parts] == expected
    assert [part is None for part in parts] == [not rows for rows in expected]


def test_one_target_alone_gets_the_batch_without_a_copy() -> None:
    whole = batch(4)
    assert partition(whole, np.zeros(4, dtype=np.int32), 1)[0] is whole
    assert partition(whole, np.full(4, 2, dtype=np.int32), 3)[2] is whole


@pytest.mark.parametrize("n", [1, 2, 3])
def test_rows_go_to_the_subtask_of_their_key_group(n: int) -> None:
    whole = batch(500)
    parts = split_by_key(whole, ["s"], n, 128)
    for subtask, part in enumerate(parts):
        assert part is not None
        groups = key_groups(hash_columns([part.column("s")]), 128)
        assert {int(g) * n // 128 for g in groups} == {subtask}
    assert sum(part.num_rows for part in parts if part is not None) == 500


def test_without_key_all_rows_go_to_the_first_subtask() -> None:
    parts = split_by_key(batch(3), [], 2, 128)
    assert parts[0] is not None
    assert parts[0].num_rows == 3
    assert parts[1] is None


@given(st.lists(st.integers(0, 6), max_size=50))
def test_argsort_is_stable_and_says_where_groups_start(ids: list[int]) -> None:
    order, starts = argsort_stable_by(np.array(ids, dtype=np.int64), 7)
    assert order.tolist() == sorted(range(len(ids)), key=ids.__getitem__)
    assert starts.tolist() == [sum(i < group for i in ids) for group in range(8)]
