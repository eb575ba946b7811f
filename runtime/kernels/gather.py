"""Takes rows from many chunks of a column at once, as pyarrow's take does from one array, without sorting by chunk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.kernels.buffers import to_array, validity_buffer
from runtime.kernels.intrinsics import copy_bytes, load_8, load_32, load_64, store_8, store_32, store_64
from runtime.kernels.ordering import argsort_stable_by
from runtime.kernels.words import is_bytes_type
from runtime.native.kernel import inlined, kernel

_INT32_MAX = 2**31 - 1


def locate(starts: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(chunk int64[n], row int64[n]) of positions in a sequence of chunks; `starts` are their first
    positions, ascending.
    """
    chunks = np.empty(len(positions), dtype=np.int64)
    rows = np.empty(len(positions), dtype=np.int64)
    _locate(starts, positions, chunks, rows)
    return chunks, rows


def gather(arrays: Sequence[pa.Array], chunks: np.ndarray, rows: np.ndarray) -> pa.Array:
    """Row `rows[i]` of `arrays[chunks[i]]` for every i; the arrays, at least one, have one type."""
    data_type = arrays[0].type
    if len(arrays) == 1:
        return arrays[0].take(to_array(pa.int64(), rows))
    if pa.types.is_boolean(data_type):
        return to_array(data_type, _gather_bits(arrays, 1, chunks, rows), _gather_valid(arrays, chunks, rows))
    if is_bytes_type(data_type):
        return _gather_bytes(arrays, chunks, rows)
    if pa.types.is_primitive(data_type) or pa.types.is_decimal128(data_type):
        return _gather_fixed(arrays, chunks, rows)
    return _gather_any(arrays, chunks, rows)


def _addresses(arrays: Sequence[pa.Array], buffer: int, item_bytes: int) -> np.ndarray:
    """The address of item 0 of each array; 0 where it has no such buffer."""
    found = np.zeros(len(arrays), dtype=np.int64)
    for number, array in enumerate(arrays):
        memory = array.buffers()[buffer]
        if memory is not None:
            found[number] = memory.address + array.offset * item_bytes
    return found


def _gather_fixed(arrays: Sequence[pa.Array], chunks: np.ndarray, rows: np.ndarray) -> pa.Array:
    width = arrays[0].type.bit_width // 8
    out = np.empty(len(rows) * width, dtype=np.uint8)
    _copy_fixed(_addresses(arrays, 1, width), chunks, rows, width, out)
    buffers = [validity_buffer(_gather_valid(arrays, chunks, rows)), pa.py_buffer(out)]
    return pa.Array.from_buffers(arrays[0].type, len(rows), buffers)


def _gather_bits(arrays: Sequence[pa.Array], buffer: int, chunks: np.ndarray, rows: np.ndarray) -> np.ndarray:
    starts = np.array([array.offset for array in arrays], dtype=np.int64)
    out = np.empty(len(rows), dtype=np.uint8)
    _copy_bits(_addresses(arrays, buffer, 0), starts, chunks, rows, out)
    return out


def _gather_valid(arrays: Sequence[pa.Array], chunks: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    if all(array.null_count == 0 for array in arrays):
        return None
    return _gather_bits(arrays, 0, chunks, rows)


def _gather_bytes(arrays: Sequence[pa.Array], chunks: np.ndarray, rows: np.ndarray) -> pa.Array:
    data_type = arrays[0].type
    is_large = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
    item_bytes = 8 if is_large else 4
    places = _addresses(arrays, 1, item_bytes)
    data = np.array(
        [a.buffers()[2].address if a.buffers()[2] is not None else 0 for a in arrays], dtype=np.int64
    )
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    _measure_bytes(places, chunks, rows, item_bytes, offsets)
    if not is_large and offsets[-1] > _INT32_MAX:
        raise pa.ArrowCapacityError(f"{offsets[-1]} bytes do not fit one array of type {data_type}")
    out = np.empty(int(offsets[-1]), dtype=np.uint8)
    _copy_values(places, data, chunks, rows, item_bytes, offsets, out)
    stored = offsets if is_large else offsets.astype(np.int32)
    valid = validity_buffer(_gather_valid(arrays, chunks, rows))
    return pa.Array.from_buffers(data_type, len(rows), [valid, pa.py_buffer(stored), pa.py_buffer(out)])


def _gather_any(arrays: Sequence[pa.Array], chunks: np.ndarray, rows: np.ndarray) -> pa.Array:
    """Nested and other types: take from each chunk, then put the rows back in order."""
    order, starts = argsort_stable_by(chunks, len(arrays))
    parts = []
    for number, array in enumerate(arrays):
        wanted = rows[order[starts[number] : starts[number + 1]]]
        if len(wanted):
            parts.append(pc.take(array, to_array(pa.int64(), wanted)))
    if not parts:
        return arrays[0].slice(0, 0)
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(to_array(pa.int64(), back))


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1])")
def _locate(starts, positions, chunks, rows):  # type: ignore[no-untyped-def]
    for i in range(len(positions)):
        low = 0
        size = len(starts)
        # A binary search without branches that the processor could mispredict.
        while size > 1:
            half = size >> 1
            low = low + half if starts[low + half] <= positions[i] else low
            size -= half
        chunks[i] = low
        rows[i] = positions[i] - starts[low]


@kernel("void(int64[::1], int64[::1], int64[::1], int64, uint8[::1])")
def _copy_fixed(addresses, chunks, rows, width, out):  # type: ignore[no-untyped-def]
    target = out.ctypes.data
    if width == 8:
        for i in range(len(rows)):
            store_64(target + i * 8, load_64(addresses[chunks[i]] + rows[i] * 8))
    elif width == 4:
        for i in range(len(rows)):
            store_32(target + i * 4, load_32(addresses[chunks[i]] + rows[i] * 4))
    elif width == 1:
        for i in range(len(rows)):
            store_8(target + i, load_8(addresses[chunks[i]] + rows[i]))
    else:
        for i in range(len(rows)):
            copy_bytes(target + i * width, addresses[chunks[i]] + rows[i] * width, width)


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], uint8[::1])")
def _copy_bits(addresses, starts, chunks, rows, out):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        address = addresses[chunks[i]]
        bit = starts[chunks[i]] + rows[i]
        # A chunk without a bitmap has no NULL.
        out[i] = 1 if address == 0 else (load_8(address + (bit >> 3)) >> np.uint64(bit & 7)) & np.uint64(1)


@inlined
def _offset(address, row, item_bytes):  # type: ignore[no-untyped-def]
    if item_bytes == 4:
        return np.int64(load_32(address + row * 4))
    return np.int64(load_64(address + row * 8))


@kernel("void(int64[::1], int64[::1], int64[::1], int64, int64[::1])")
def _measure_bytes(places, chunks, rows, item_bytes, offsets):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        place = places[chunks[i]]
        length = _offset(place, rows[i] + 1, item_bytes) - _offset(place, rows[i], item_bytes)
        offsets[i + 1] = offsets[i] + length


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], int64, int64[::1], uint8[::1])")
def _copy_values(places, data, chunks, rows, item_bytes, offsets, out):  # type: ignore[no-untyped-def]
    target = out.ctypes.data
    for i in range(len(rows)):
        chunk = chunks[i]
        source = data[chunk] + _offset(places[chunk], rows[i], item_bytes)
        copy_bytes(target + offsets[i], source, offsets[i + 1] - offsets[i])
