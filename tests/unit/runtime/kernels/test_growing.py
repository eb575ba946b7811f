"""Arrays that grow in place."""

from __future__ import annotations

import numpy as np
import pytest

from sqlstream.runtime.kernels.growing import GrowingArray

LARGE = 3_000_000


@pytest.mark.parametrize(("dtype", "width"), [(np.int64, 0), (np.uint64, 3), (np.uint8, 0), (bool, 0)])
@pytest.mark.parametrize("fill", [0, 1])
@pytest.mark.parametrize("holds_views", [False, True])
def test_items_stay_and_fresh_ones_are_filled(dtype: type, width: int, fill: int, holds_views: bool) -> None:
    array, kept = GrowingArray(dtype, width, fill), []
    written = 0
    for count in (0, 1, 17, 17, 5, 1_000, 70_000, 1_000_000, LARGE):
        array.reserve(count)
        values = array.values
        assert (values[written:count] == fill).all()
        if count > written:
            values[count - 1] = 7
            written = count
        if holds_views:
            kept.append((values[: array.count], values[: array.count].copy()))
        del values
    assert array.count == LARGE
    assert array.values[LARGE - 1].any()
    for view, copy in kept:
        assert view.shape == copy.shape
    written_at = np.flatnonzero((array.values[:LARGE] != fill).reshape(LARGE, -1).all(axis=1))
    expected = [0, 16, 999, 69_999, 999_999, LARGE - 1]
    assert written_at.tolist() == (expected if fill == 0 or dtype is not bool else [])


def test_a_view_keeps_the_memory_it_was_taken_from() -> None:
    array = GrowingArray(np.int64)
    array.reserve(1_000_000)
    array.reserve(2_000_000)
    view = array.values[:10]
    view[:] = 5
    array.reserve(20_000_000)
    array.values[:10] = 6
    assert (view.tolist(), array.values[:11].tolist()) == ([5] * 10, [6] * 10 + [0])


def test_mapped_memory_counts_with_its_first_use() -> None:
    array = GrowingArray(np.int64)
    array.reserve(1_000)
    assert array.nbytes == array.values.nbytes
    array.reserve(1_500_000)
    array.reserve(1_600_000)
    assert array.nbytes == 8 * 1_600_000
    assert array.values.nbytes > array.nbytes
    assert array.nbytes_of(10) == 80


def test_without_memory_the_items_stay() -> None:
    array = GrowingArray(np.int64)
    array.reserve(1_000_000)
    array.reserve(2_000_000)
    array.values[:3] = [1, 2, 3]
    with pytest.raises((OSError, MemoryError, OverflowError)):
        array.reserve(1 << 58)
    assert (array.count, array.values[:4].tolist()) == (2_000_000, [1, 2, 3, 0])
    array.reserve(3_000_000)
    assert array.values[:4].tolist() == [1, 2, 3, 0]
