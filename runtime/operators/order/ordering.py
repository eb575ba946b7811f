"""Sorts rows by SQL's ORDER BY: several columns, each with its direction and its place for NULLs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.expressions import SortKey
from sqlstream.runtime.aggregates.numbers import NumberClass, as_numbers, number_class
from sqlstream.runtime.kernels.buffers import to_array, valid_mask, view_values
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.types import LogicalType

_SIGN_FLIP = np.int64(2**63 - 1)
_NAN_KEY = np.int64(0x7FF8 << 48)


def sort_indices(leading: list[Array], columns: list[pa.Array], order: tuple[SortKey, ...]) -> Array:
    """Row numbers in order of the `leading` integers (ascending), then of `columns` by `order` (aligned with them).

    Stable: equal rows keep their order.
    """
    arrays: list[pa.Array] = [pa.array(column) for column in leading]
    directions = ["ascending"] * len(arrays)
    for column, key in zip(columns, order, strict=True):
        if column.null_count:
            # A flag column sorts before the value column, so that each column has its own place for NULLs.
            arrays.append(pc.is_null(column).cast(pa.int8()))
            directions.append("descending" if key.is_nulls_first else "ascending")
        arrays.append(_comparable(column))
        directions.append("descending" if key.is_descending else "ascending")
    # Arrow's sort is not stable, so the row number is the last sort key.
    arrays.append(pa.array(np.arange(len(arrays[0]) if arrays else 0)))
    directions.append("ascending")
    names = [str(i) for i in range(len(arrays))]
    table = pa.table(arrays, names=names)
    keys = list(zip(names, directions, strict=True))
    return view_values(pc.sort_indices(table, sort_keys=keys), np.uint64).astype(np.int64)


def _comparable(column: pa.Array) -> pa.Array:
    """A column that Arrow orders as SQL does: FALSE before TRUE, and NaN above every number in both directions."""
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    if pa.types.is_floating(column.type):
        return to_array(pa.int64(), float_keys(as_numbers(column, NumberClass.FLOAT64)), valid_mask(column))
    return column


def float_keys(values: Array) -> Array:
    """int64[n] in the order of the float64 values, -0.0 being 0.0 and NaN above all."""
    bits = (values + 0.0).view(np.int64)
    # IEEE 754 bits sort as sign and magnitude; flipping the magnitude of negatives makes that two's complement.
    keys = np.where(bits < 0, bits ^ _SIGN_FLIP, bits)
    is_nan = np.isnan(values)
    # NaN may carry a sign.
    return np.where(is_nan, _NAN_KEY, keys) if is_nan.any() else keys


def are_numbers(order: tuple[SortKey, ...], types: tuple[LogicalType, ...]) -> bool:
    """Whether the values of all columns of the order fit int64 sort keys."""
    fitting = (NumberClass.INT64, NumberClass.FLOAT64)
    return all(number_class(types[key.column]) in fitting for key in order)


def sort_keys(
    columns: list[pa.Array], order: tuple[SortKey, ...], types: tuple[LogicalType, ...]
) -> Array | None:
    """int64[n, columns of the order]: compared one column after the other, they give the order; smaller is better. None when a
    value of a column has the key of NULL."""
    rows = len(columns[0])
    keys = np.empty((rows, len(order)), dtype=np.int64)
    for number, (column, key) in enumerate(zip(columns, order, strict=True)):
        found = _sort_keys_of(column, key, number_class(types[key.column]))
        if found is None:
            return None
        keys[:, number] = found
    return keys


def _sort_keys_of(column: pa.Array, key: SortKey, number: NumberClass) -> Array | None:
    """int64[n] whose ascending order is the column's order: smaller is better.

    NULL has the least int64 (NULLS FIRST) or the greatest. None when a value of the column has the key of NULL.
    """
    values = as_numbers(column, number)
    if number is NumberClass.FLOAT64:
        values = float_keys(values)
    keys = ~values if key.is_descending else values
    null_key = np.iinfo(np.int64).min if key.is_nulls_first else np.iinfo(np.int64).max
    is_taken = keys == null_key
    if not column.null_count:
        return None if is_taken.any() else keys
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    return None if (is_taken & ~nulls).any() else np.where(nulls, null_key, keys)
