"""Chunks of nested values against the number of values that are live."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.state.storage.nested_column import NestedColumn

LISTS = pa.list_(pa.int64())


def test_many_small_puts_end_up_in_few_chunks() -> None:
    column = NestedColumn(LISTS)
    for n in range(0, 14_000, 7):
        column.put(np.arange(n, n + 7), pa.array([[m] for m in range(n, n + 7)], LISTS))
    assert len(column._chunks) <= 32
    assert column.gather(np.arange(14_001)).to_pylist() == [*([m] for m in range(14_000)), None]


def test_one_value_that_stays_of_each_batch_keeps_no_batch() -> None:
    column = NestedColumn(LISTS)
    for batch in range(100):
        ids = np.arange(batch * 1_000, (batch + 1) * 1_000)
        column.put(ids, pa.array([[n] * 20 for n in range(1_000)], LISTS))
        column.delete(ids[1:])
    assert column.gather(np.arange(0, 100_000, 1_000)).to_pylist() == [[0] * 20] * 100
    places = 8 * 150_000
    assert column.nbytes - places < 2 * 100 * (20 * 8 + 16) + 20_000


def test_a_slice_of_a_large_array_is_copied() -> None:
    column = NestedColumn(LISTS)
    column.put(np.array([3]), pa.array([[n] for n in range(100_000)], LISTS).slice(50, 1))
    assert column.nbytes < 1_000
    assert column.gather(np.array([3])).to_pylist() == [[50]]
