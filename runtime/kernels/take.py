"""Takes rows of one array by position, as pyarrow's take does, without its checks of bounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array, view_bitmap, view_buffer
from sqlstream.runtime.kernels.intrinsics import (
    copy_32,
    copy_bytes,
    is_set,
    load_8,
    load_32,
    load_64,
    store_8,
    store_32,
    store_64,
)
from sqlstream.runtime.native.kernel import kernel

_INT32_MAX = 2**31 - 1


def take_rows(array: pa.Array, positions: np.ndarray) -> pa.Array:
    """Row `positions[i]` (int32, each a position of the array) for every i."""
    data_type = array.type
    if pa.types.is_dictionary(data_type):
        indices = take_rows(array.indices, positions)
        return pa.DictionaryArray.from_arrays(
            indices, array.dictionary, ordered=data_type.ordered, safe=False
        )
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return _take_bytes(array, positions)
    if pa.types.is_decimal128(data_type) or (
        pa.types.is_primitive(data_type) and not pa.types.is_boolean(data_type)
    ):
        return _take_fixed(array, positions)
    return array.take(to_array(pa.int32(), positions))


def take_batch(batch: pa.RecordBatch, positions: np.ndarray) -> pa.RecordBatch:
    """The rows of a batch at `positions` (int32). The batch has at least one column."""
    columns = [take_rows(column, positions) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def true_positions(mask: pa.Array) -> np.ndarray:
    """int32: where a boolean array is TRUE, ascending."""
    if mask.null_count:
        mask = mask.fill_null(False)
    positions = np.empty(mask.true_count, dtype=np.int32)
    bits = view_buffer(
        mask.buffers()[1], np.uint8, mask.offset >> 3, ((mask.offset & 7) + len(mask) + 7) >> 3
    )
    _find_bits(bits, mask.offset & 7, len(mask), positions)
    return positions


def ascending(positions: np.ndarray, rows: int) -> np.ndarray:
    """int32: distinct positions among `rows` rows, sorted by marking them, in a tenth of the time of comparing them.

    >>> ascending(np.array([5, 0, 3]), 7).tolist()
    [0, 3, 5]
    """
    marks = np.zeros(rows, dtype=np.bool_)
    marks[positions] = True
    return np.flatnonzero(marks).astype(np.int32)


def take_words(words: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """uint64[len(positions)]: `words[positions]`."""
    taken = np.empty(len(positions), dtype=np.uint64)
    _copy_fixed(words.ctypes.data, positions, 8, taken.view(np.uint8))
    return taken


def _take_fixed(array: pa.Array, positions: np.ndarray) -> pa.Array:
    width = array.type.bit_width // 8
    out = pa.allocate_buffer(len(positions) * width)
    source = array.buffers()[1].address + array.offset * width
    _copy_fixed(source, positions, width, _bytes(out))
    return pa.Array.from_buffers(array.type, len(positions), [_take_validity(array, positions), out])


def _take_bytes(array: pa.Array, positions: np.ndarray) -> pa.Array:
    _, starts, data = array.buffers()
    place = starts.address + array.offset * 4
    offsets = pa.allocate_buffer(4 * len(positions) + 4)
    ends = _bytes(offsets).view(np.int32)
    size = _measure_bytes(place, positions, ends)
    if size > _INT32_MAX:
        raise pa.ArrowCapacityError(f"{size} bytes do not fit one array of type {array.type}")
    out = pa.allocate_buffer(size)
    address, readable = (0, 0) if data is None else (data.address, data.address + data.size)
    _copy_values(place, address, readable, positions, ends, _bytes(out))
    return pa.Array.from_buffers(array.type, len(positions), [_take_validity(array, positions), offsets, out])


def _bytes(buffer: pa.Buffer) -> np.ndarray:
    """A view of memory of Arrow's allocator, which keeps what batches free for the next ones."""
    return view_buffer(buffer, np.uint8, 0, buffer.size)


def _take_validity(array: pa.Array, positions: np.ndarray) -> pa.Buffer | None:
    bitmap, bit = view_bitmap(array)
    if len(bitmap) == 0:
        return None
    out = np.zeros((len(positions) + 7) >> 3, dtype=np.uint8)
    _copy_bits(bitmap, bit, positions, out)
    return pa.py_buffer(out)


@kernel("void(int64, int32[::1], int64, uint8[::1])")
def _copy_fixed(address, positions, width, out):  # type: ignore[no-untyped-def]
    target = out.ctypes.data
    if width == 8:
        for i in range(len(positions)):
            store_64(target + i * 8, load_64(address + np.int64(positions[i]) * 8))
    elif width == 4:
        for i in range(len(positions)):
            store_32(target + i * 4, load_32(address + np.int64(positions[i]) * 4))
    elif width == 1:
        for i in range(len(positions)):
            store_8(target + i, load_8(address + np.int64(positions[i])))
    else:
        for i in range(len(positions)):
            copy_bytes(target + i * width, address + np.int64(positions[i]) * width, width)


@kernel("void(uint8[::1], int64, int32[::1], uint8[::1])")
def _copy_bits(bitmap, bit, positions, out):  # type: ignore[no-untyped-def]
    """`out` must be zeros."""
    for i in range(len(positions)):
        if is_set(bitmap, bit + positions[i]):
            out[i >> 3] |= np.uint8(1) << np.uint8(i & 7)


@kernel("int64(int64, int32[::1], int32[::1])")
def _measure_bytes(place, positions, ends):  # type: ignore[no-untyped-def]
    """Returns the number of all bytes; `ends` overflows when they are more than 31 bits can count."""
    end = np.int64(0)
    ends[0] = 0
    for i in range(len(positions)):
        at = place + np.int64(positions[i]) * 4
        end += np.int64(load_32(at + 4)) - np.int64(load_32(at))
        ends[i + 1] = np.int32(end)
    return end


@kernel("void(int64, int64, int64, int32[::1], int32[::1], uint8[::1])")
def _copy_values(place, data, readable, positions, ends, out):  # type: ignore[no-untyped-def]
    """Memory may be read up to `readable`."""
    first = out.ctypes.data
    writable = first + len(out)
    for i in range(len(positions)):
        source = data + np.int64(load_32(place + np.int64(positions[i]) * 4))
        target, end = first + np.int64(ends[i]), first + np.int64(ends[i + 1])
        if end + 32 <= writable and source + (end - target) + 32 <= readable:
            # Whole vectors: what they write behind the value, the next one overwrites. Few values differ in their number of
            # vectors, so that the loop is predicted.
            copy_32(target, source)
            while target + 32 < end:
                target += 32
                source += 32
                copy_32(target, source)
        else:
            copy_bytes(target, source, end - target)


@kernel("void(uint8[::1], int64, int64, int32[::1])")
def _find_bits(bits, bit, length, positions):  # type: ignore[no-untyped-def]
    """The positions of the bits that are 1; there are as many as `positions` has entries."""
    found, row = 0, 0
    while found < len(positions):
        at = bit + row
        # Where a byte of the bitmap begins, eight rows at once if they are alike.
        if at & 7 == 0 and row + 8 <= length and (bits[at >> 3] == 0 or bits[at >> 3] == 255):
            if bits[at >> 3] != 0:
                for i in range(8):
                    positions[found + i] = row + i
                found += 8
            row += 8
        else:
            positions[found] = row
            found += 1 if is_set(bits, at) else 0
            row += 1
