"""Arrow columns as the 64-bit or 128-bit numbers that kernels compute with, and back.

Integers, dates, times, timestamps, durations and booleans are int64; floats are float64; decimals are uint64[n, 2].
"""

from __future__ import annotations

import enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.kernels.buffers import to_array, valid_mask, view_buffer, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.types import APPROXIMATE_ROOTS, BINARY_ROOTS, STRING_ROOTS, LogicalType, TypeRoot


class NumberClass(enum.Enum):
    INT64 = "INT64"
    FLOAT64 = "FLOAT64"
    INT128 = "INT128"
    NONE = "NONE"


_NOT_NUMBERS = (
    *STRING_ROOTS,
    *BINARY_ROOTS,
    TypeRoot.ARRAY,
    TypeRoot.MAP,
    TypeRoot.MULTISET,
    TypeRoot.ROW,
    TypeRoot.VARIANT,
    TypeRoot.BITMAP,
)


def number_class(t: LogicalType) -> NumberClass:
    """The number class of a type; NONE for strings, bytes and nested types."""
    if t.root is TypeRoot.DECIMAL:
        return NumberClass.INT128
    if t.root in APPROXIMATE_ROOTS:
        return NumberClass.FLOAT64
    return NumberClass.NONE if t.root in _NOT_NUMBERS else NumberClass.INT64


def number_array(number: NumberClass) -> GrowingArray:
    """A growing array of the shape and dtype that hold such numbers."""
    if number is NumberClass.INT128:
        return GrowingArray(np.uint64, width=2)
    return GrowingArray(np.float64 if number is NumberClass.FLOAT64 else np.int64)


def as_numbers(array: pa.Array, number: NumberClass) -> Array:
    """The column's values as numpy, without a copy where the widths agree; items under NULLs are arbitrary."""
    if number is NumberClass.INT128:
        return view_buffer(array.buffers()[1], np.uint64, 2 * array.offset, 2 * len(array)).reshape(-1, 2)
    if number is NumberClass.FLOAT64:
        if pa.types.is_floating(array.type):
            native = view_values(array, np.float64 if array.type.bit_width == 64 else np.float32)
            return native if array.type.bit_width == 64 else native.astype(np.float64)
        if pa.types.is_decimal(array.type):
            array = pc.cast(array, pa.float64())
            return view_values(array, np.float64)
        return as_numbers(array, NumberClass.INT64).astype(np.float64)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.int64)
    if pa.types.is_boolean(array.type):
        return view_values(pc.cast(array, pa.int8()), np.int8).astype(np.int64)
    if array.type.bit_width == 64:
        return view_values(array, np.int64)
    return view_values(array, np.dtype(f"i{array.type.bit_width // 8}")).astype(np.int64)


def from_numbers(values: Array, array_type: pa.DataType, valid: Array | None = None) -> pa.Array:
    """The inverse; integers narrower than 64 bits wrap. `valid`: one byte or bool per row, None for no NULL."""
    if pa.types.is_null(array_type):
        return pa.nulls(len(values))
    if valid is not None and valid.all():
        valid = None
    if pa.types.is_decimal(array_type):
        return to_array_128(array_type, values, valid)
    if pa.types.is_boolean(array_type):
        return to_array(array_type, values.astype(np.uint8), valid)
    if pa.types.is_floating(array_type):
        return to_array(array_type, values.astype(f"f{array_type.bit_width // 8}", copy=False), valid)
    return to_array(array_type, values.astype(f"i{array_type.bit_width // 8}", copy=False), valid)


def to_array_128(array_type: pa.DataType, values: Array, valid: Array | None) -> pa.Array:
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(array_type, len(values), [validity, data])


def present_rows(array: pa.Array) -> Array:
    """bool[n]: where the column is not NULL."""
    valid = valid_mask(array)
    return np.ones(len(array), dtype=bool) if valid is None else valid.astype(bool)
