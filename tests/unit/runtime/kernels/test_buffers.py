"""Arrow's memory as numpy arrays, wherever in its buffers an array starts, and back."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.runtime.kernels.buffers import (
    to_array,
    unpack_bits,
    valid_mask,
    validity_buffer,
    view_bitmap,
    view_buffer,
    view_offsets,
    view_values,
)

VALUES = [None if n % 3 == 1 else n for n in range(40)]


@pytest.mark.parametrize("start", [0, 1, 7, 8, 9, 17])
@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 20])
def test_values_and_nulls_are_those_of_the_slice(start: int, length: int) -> None:
    array = pa.array(VALUES, pa.int32()).slice(start, length)
    expected = VALUES[start : start + length]
    values = view_values(array, np.int32)
    assert [v for v, e in zip(values.tolist(), expected, strict=True) if e is not None] == [
        e for e in expected if e is not None
    ]
    bitmap, bit = view_bitmap(array)
    mask = valid_mask(array)
    if None in expected:
        assert len(bitmap) == ((start & 7) + length + 7) // 8
        assert bit == start & 7
        assert mask is not None
        assert mask.tolist() == [e is not None for e in expected]
    else:
        assert (len(bitmap), bit, mask) == (0, 0, None)


def test_an_array_of_nulls_alone_has_a_bitmap_without_a_buffer() -> None:
    for length in (1, 8, 9):
        bitmap, bit = view_bitmap(pa.nulls(length))
        assert (bitmap.tolist(), bit) == ([0] * ((length + 7) // 8), 0)
        mask = valid_mask(pa.nulls(length))
        assert mask is not None
        assert mask.tolist() == [0] * length


@pytest.mark.parametrize(
    ("data_type", "dtype"),
    [
        (pa.string(), np.int32),
        (pa.binary(), np.int32),
        (pa.large_string(), np.int64),
        (pa.large_binary(), np.int64),
    ],
)
def test_offsets_are_those_of_the_slice(data_type: pa.DataType, dtype: Any) -> None:
    array = pa.array(["a", "bcd", None, "", "efg"], data_type)
    offsets, address = view_offsets(array.slice(1, 3))
    assert (offsets.tolist(), offsets.dtype, address) == ([1, 4, 4, 4], dtype, array.buffers()[2].address)
    empty, nowhere = view_offsets(array.slice(2, 0))
    assert (empty.tolist(), empty.dtype, nowhere) == ([0], dtype, 0)
    without = pa.array([None, None], data_type)
    assert view_offsets(without)[0].tolist() == [0, 0, 0]


def test_a_view_keeps_its_memory_and_an_absent_buffer_is_empty() -> None:
    view = view_buffer(pa.py_buffer(bytes(range(64))), np.uint16, 3, 4)
    gc.collect()
    assert view.tobytes() == bytes(range(6, 14))
    assert view_buffer(None, np.int64, 0, 5).shape == (0,)
    assert view_buffer(pa.py_buffer(b"12345678"), np.int64, 0, 0).dtype == np.int64


def test_bits_are_one_byte_each_from_a_bit_on() -> None:
    bitmap = np.array([0b10110010, 0b00000001], dtype=np.uint8)
    assert unpack_bits(bitmap, 0, 9).tolist() == [0, 1, 0, 0, 1, 1, 0, 1, 1]
    assert unpack_bits(bitmap, 3, 6).tolist() == [0, 1, 1, 0, 1, 1]
    assert unpack_bits(bitmap, 5, 0).tolist() == []


@pytest.mark.parametrize(
    ("data_type", "values", "expected"),
    [
        (pa.int64(), np.array([1, 2, 3]), [1, None, 3]),
        (pa.bool_(), np.array([1, 1, 0], dtype=np.uint8), [True, None, False]),
        (pa.date32(), np.arange(6, dtype=np.int32)[::2], None),
    ],
)
def test_numpy_memory_becomes_an_array(
    data_type: pa.DataType, values: np.ndarray[Any, Any], expected: list[Any] | None
) -> None:
    array = to_array(data_type, values, np.array([True, False, True]))
    array.validate(full=True)
    if expected is None:
        assert array.cast(pa.int32()).to_pylist() == [0, None, 4]
    else:
        assert array.to_pylist() == expected
    assert to_array(data_type, values).null_count == 0
    assert validity_buffer(None) is None
