"""Lists of values of any type as columns of bytes, which are put one behind the other to append lists.

Every value has a byte, 1 unless it is NULL. Then come values of fixed width; or lengths of 4 bytes with the bytes of texts, or
with the columns of the elements of arrays and maps; or the columns of each field of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import valid_mask, validity_buffer
from sqlstream.runtime.kernels.words import is_bytes_type
from sqlstream.runtime.state.storage.arrays import Array

Bytes = Array
_INT32_MAX = 2**31 - 1


def byte_columns(data_type: pa.DataType) -> int:
    """How many columns of bytes the values of a type have."""
    return 1 + sum(byte_columns(child) for child in _children(data_type)) + _own_columns(data_type)


def _own_columns(data_type: pa.DataType) -> int:
    """How many columns there are beside those of NULLs and of children."""
    if is_bytes_type(data_type):
        return 2
    return 0 if pa.types.is_null(data_type) or pa.types.is_struct(data_type) else 1


def _children(data_type: pa.DataType) -> list[pa.DataType]:
    """The types whose values are columns of their own."""
    if pa.types.is_map(data_type):
        return [_entry_type(data_type)]
    if pa.types.is_list(data_type):
        return [data_type.value_type]
    return [field.type for field in data_type] if pa.types.is_struct(data_type) else []


def _entry_type(data_type: pa.DataType) -> pa.DataType:
    return pa.struct([data_type.key_field, data_type.item_field])


def to_bytes(values: pa.Array, bounds: Array) -> list[pa.Array]:
    """The columns of the lists values[bounds[i] : bounds[i + 1]], each with one value of LARGE_BINARY per list."""
    return [
        pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(bounds) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)]
        )
        for data, ends in _columns(values, np.ascontiguousarray(bounds, dtype=np.int64))
    ]


def _columns(values: pa.Array, bounds: Array) -> list[tuple[Bytes, Array]]:
    """(bytes, where those of each list begin and end) by column."""
    data_type = values.type
    valid = valid_mask(values)
    own = np.ones(len(values), dtype=np.uint8) if valid is None else valid.astype(np.uint8)
    found = [(own, bounds)]
    if pa.types.is_null(data_type):
        return found
    if pa.types.is_struct(data_type):
        for number in range(data_type.num_fields):
            found += _columns(values.field(number), bounds)
    elif pa.types.is_boolean(data_type):
        rows = values.offset + len(values)
        bits = _bytes_of(values.buffers()[1], 0, (rows + 7) >> 3)
        found.append((np.unpackbits(bits, bitorder="little", count=rows)[values.offset :], bounds))
    elif is_bytes_type(data_type) or _children(data_type):
        ends = _offsets(values)
        found.append((np.diff(ends).astype(np.int32).view(np.uint8), bounds * 4))
        inner = ends[bounds] - ends[0]
        if is_bytes_type(data_type):
            found.append((_bytes_of(values.buffers()[2], int(ends[0]), int(ends[-1])), inner))
        else:
            elements = _elements(values).slice(int(ends[0]), int(ends[-1] - ends[0]))
            found += _columns(elements, inner)
    else:
        width = data_type.bit_width // 8
        first = values.offset * width
        found.append((_bytes_of(values.buffers()[1], first, first + len(values) * width), bounds * width))
    return found


def _offsets(values: pa.Array) -> Array:
    """int64[n + 1]: where the bytes or elements of each value begin and end."""
    if len(values) == 0:
        return np.zeros(1, dtype=np.int64)
    is_large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    item = np.dtype(np.int64 if is_large else np.int32)
    found = np.frombuffer(values.buffers()[1], item, len(values) + 1, values.offset * item.itemsize)
    return found.astype(np.int64)


def _elements(values: pa.Array) -> pa.Array:
    """All elements of a list array, whatever part of it `values` is; the entries of a map as structs."""
    if pa.types.is_map(values.type):
        return pa.StructArray.from_arrays([values.keys, values.items], fields=list(_entry_type(values.type)))
    return values.values


def _bytes_of(buffer: pa.Buffer | None, start: int, end: int) -> Bytes:
    if buffer is None or start == end:
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(buffer, np.uint8, end - start, start)


def from_bytes(data_type: pa.DataType, columns: list[Bytes]) -> pa.Array:
    """The values of lists, one list behind the other, of the columns that `to_bytes` made of them."""
    return _Reader(columns).values(data_type)


class _Reader:
    """Reads columns in the order in which they were written. State: those that are left."""

    def __init__(self, columns: list[Bytes]) -> None:
        self._left = iter(columns)

    def values(self, data_type: pa.DataType) -> pa.Array:
        own = next(self._left)
        count, has_null = len(own), not own.all()
        if pa.types.is_null(data_type):
            return pa.nulls(count)
        valid = validity_buffer(own) if has_null else None
        if pa.types.is_struct(data_type):
            fields = [self.values(field.type) for field in data_type]
            return pa.Array.from_buffers(data_type, count, [valid], children=fields)
        if pa.types.is_boolean(data_type):
            bits = np.packbits(next(self._left), bitorder="little")
            return pa.Array.from_buffers(data_type, count, [valid, pa.py_buffer(bits)])
        if is_bytes_type(data_type) or _children(data_type):
            ends = self._ends(data_type, count)
            if is_bytes_type(data_type):
                return pa.Array.from_buffers(data_type, count, [valid, ends, pa.py_buffer(next(self._left))])
            elements = self.values(_children(data_type)[0])
            return pa.Array.from_buffers(data_type, count, [valid, ends], children=[elements])
        return pa.Array.from_buffers(data_type, count, [valid, pa.py_buffer(next(self._left))])

    def _ends(self, data_type: pa.DataType, count: int) -> pa.Buffer:
        is_large = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
        ends: np.ndarray[Any, Any] = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(next(self._left).view(np.int32), out=ends[1:])
        if is_large:
            return pa.py_buffer(ends)
        if ends[-1] > _INT32_MAX:
            raise pa.ArrowCapacityError(f"{ends[-1]} elements or bytes do not fit one array of {data_type}")
        return pa.py_buffer(ends.astype(np.int32))
