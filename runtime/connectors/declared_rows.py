"""Rows that a database gave as Arrow, with the types of the columns that a table declares."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.types import LogicalType, TypeRoot


def as_declared(columns: Sequence[tuple[str, LogicalType]], rows: pa.Table, table: str) -> pa.RecordBatch:
    """The rows as one batch of the columns, which are those of `rows` by position. UserError SS5065 for a value that does not fit
    its type; it names the column and the first such value."""
    arrays = []
    for (name, declared), column in zip(columns, rows.columns, strict=True):
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        arrays.append(_cast(array, declared, name, table))
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in columns])


def value_error(name: str, table: str, declared: LogicalType, value: str) -> UserError:
    """A value of this column, as a database shows it, is none of its type."""
    return UserError(
        "SS5065",
        f'a value of column "{name}" of table "{table}" does not fit {declared.with_nullable(True)}',
        detail=f"the value is {value}",
        hint="declare the column with a type and a precision that all its values have",
    )


def _cast(array: pa.Array, declared: LogicalType, name: str, table: str) -> pa.Array:
    wanted = to_arrow_type(declared)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == wanted:
        return array
    try:
        return _exact(array, wanted, declared)
    except pa.ArrowInvalid:
        raise value_error(name, table, declared, _shown(first_misfit(array, wanted, declared))) from None
    except pa.ArrowNotImplementedError:
        # No value of one type is one of the other: a number is no BYTES.
        if array.null_count == len(array):
            return pa.nulls(len(array), wanted)
        raise value_error(name, table, declared, _shown(array.drop_null()[0])) from None


def _exact(array: pa.Array, wanted: pa.DataType, declared: LogicalType) -> pa.Array:
    """pa.ArrowInvalid for a value that would change; a FLOAT of a DOUBLE too, which Arrow rounds."""
    cast = pc.cast(array, wanted)
    if declared.element is not None:
        # Its elements as values of their own; `flatten` leaves out those of NULL.
        _exact(pc.list_flatten(array), wanted.value_type, declared.element)
    elif declared.root is TypeRoot.FLOAT:
        back = pc.cast(cast, array.type)
        if not pc.all(pc.or_(pc.equal(back, array), pc.is_nan(array)), min_count=0).as_py():
            raise pa.ArrowInvalid("a FLOAT has fewer digits")
    return cast


def first_misfit(array: pa.Array, wanted: pa.DataType, declared: LogicalType) -> pa.Scalar:
    """The first value that cannot be cast alone, found by halving; `array` holds one."""
    while len(array) > 1:
        half = len(array) // 2
        first = array.slice(0, half)
        try:
            _exact(first, wanted, declared)
        except pa.ArrowInvalid:
            array = first
        else:
            array = array.slice(half)
    return array[0]


def _shown(value: pa.Scalar) -> str:
    try:
        shown = str(value.as_py())
    except (ValueError, OverflowError):
        # Python has no such date.
        shown = str(value)
    return shown if len(shown) <= 100 else f"{shown[:100]}…"
