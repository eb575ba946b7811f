"""numpy views of Arrow buffers and Arrow arrays over numpy memory, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

EMPTY_BITMAP: np.ndarray = np.empty(0, dtype=np.uint8)


def view_buffer(buffer: pa.Buffer | None, dtype: Any, offset: int, length: int) -> np.ndarray:
    """`length` items of a buffer from item `offset` on; empty when there is no buffer or `length` is 0.

    numpy marks it read-only where Arrow's buffer is: kernels take it all the same, and never write to a view of an Arrow buffer.
    """
    dtype = np.dtype(dtype)
    if buffer is None or length == 0:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(buffer, dtype, length, offset * dtype.itemsize)


def address_of(array: np.ndarray) -> int:
    """Where the memory of a contiguous array begins. `array.ctypes.data` says the same and costs ten times as much."""
    return pa.py_buffer(array).address


def view_values(array: pa.Array, dtype: Any) -> np.ndarray:
    """The values of a fixed-width array (items under NULLs are whatever the buffer holds)."""
    return view_buffer(array.buffers()[1], dtype, array.offset, len(array))


def view_bitmap(array: pa.Array) -> tuple[np.ndarray, int]:
    """The validity bitmap and the bit at which the array starts; an empty bitmap means that no row is
    NULL.
    """
    if array.null_count == 0:
        return EMPTY_BITMAP, 0
    buffer = array.buffers()[0]
    if buffer is None:
        # An array of type NULL has no buffer at all.
        return np.zeros((len(array) + 7) >> 3, dtype=np.uint8), 0
    start = array.offset >> 3
    bit = array.offset & 7
    return view_buffer(buffer, np.uint8, start, (bit + len(array) + 7) >> 3), bit


def view_offsets(array: pa.Array) -> tuple[np.ndarray, int]:
    """The n + 1 offsets of a variable-width array and the address of its bytes."""
    _, offsets, data = array.buffers()
    dtype = np.dtype(
        np.int64 if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type) else np.int32
    )
    if offsets is None or len(array) == 0:
        return np.zeros(1, dtype=dtype), 0
    return view_buffer(offsets, dtype, array.offset, len(array) + 1), 0 if data is None else data.address


def view_texts(array: pa.Array) -> tuple[np.ndarray | None, np.ndarray, np.ndarray, np.ndarray]:
    """The texts of an array as kernels that read them take them: `valid_mask`, the same as booleans for all rows, the bytes, and
    the n + 1 offsets."""
    valid, data = valid_mask(array), array.buffers()[2]
    is_valid = np.ones(len(array), dtype=bool) if valid is None else valid.view(bool)
    return (
        valid,
        is_valid,
        view_buffer(data, np.uint8, 0, 0 if data is None else data.size),
        view_offsets(array)[0],
    )


KEPT_BYTES_MAX = 32 << 20
"""No more memory is used again for what is smaller: what a very long text took is given back."""


def reused(kept: np.ndarray, size: int) -> np.ndarray:
    """Memory of so many bytes at least: that of the last time, where it does."""
    is_fit = size <= kept.nbytes <= max(KEPT_BYTES_MAX, size)
    return kept if is_fit else np.empty(size, dtype=np.uint8)


def unpack_bits(bitmap: np.ndarray, bit: int, length: int) -> np.ndarray:
    """Bits as one byte each, 0 or 1."""
    return np.unpackbits(bitmap, count=bit + length, bitorder="little")[bit:]


def valid_mask(array: pa.Array) -> np.ndarray | None:
    """One byte per row, 1 where the row is not NULL; None when no row is NULL."""
    bitmap, bit = view_bitmap(array)
    return unpack_bits(bitmap, bit, len(array)) if len(bitmap) else None


def validity_buffer(valid: np.ndarray | None) -> pa.Buffer | None:
    """Arrow's validity bitmap from one byte or bool per row; None for None."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def to_array(array_type: pa.DataType, values: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """A fixed-width Arrow array over numpy memory. Booleans are one byte per row and are packed."""
    if pa.types.is_boolean(array_type):
        data = pa.py_buffer(np.packbits(values, bitorder="little"))
    else:
        data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(array_type, len(values), [validity_buffer(valid), data])
