"""The SQL types of the columns of a file that brings its types, and the types that a table may declare for each."""

from __future__ import annotations

import pyarrow as pa

from sqlstream import types as sql
from sqlstream.types import (
    BINARY_ROOTS,
    CONSTRUCTED_ROOTS,
    STRING_ROOTS,
    LogicalType,
    TypeRoot,
    is_integer,
)

_NUMBER, _TEXT, _MOMENT = "number", "text", "moment"
_FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_TYPES = {
    pa.bool_(): sql.BOOLEAN,
    pa.int8(): sql.TINYINT,
    pa.int16(): sql.SMALLINT,
    pa.int32(): sql.INT,
    pa.int64(): sql.BIGINT,
    pa.uint8(): sql.SMALLINT,
    pa.uint16(): sql.INT,
    pa.uint32(): sql.BIGINT,
    pa.uint64(): sql.decimal(20, 0),
    pa.float16(): sql.FLOAT,
    pa.float32(): sql.FLOAT,
    pa.float64(): sql.DOUBLE,
    pa.null(): sql.NULL,
}


def sql_name(t: pa.DataType) -> str:
    """The SQL type that a column of a file would be declared with, or Arrow's name of a type that SQL does not have."""
    found = sql_type(t)
    return str(t) if found is None else str(found)


def sql_type(t: pa.DataType) -> LogicalType | None:
    """The SQL type of a file's column; None when it, or a part of it, has none."""
    if t in _TYPES:
        return _TYPES[t]
    if pa.types.is_dictionary(t):
        return sql_type(t.value_type)
    if _is_text(t):
        return sql.STRING if pa.types.is_string(t) or pa.types.is_large_string(t) else sql.BYTES
    if pa.types.is_decimal(t):
        return sql.decimal(t.precision, t.scale) if t.precision <= sql.DECIMAL_PRECISION_MAX else None
    if pa.types.is_date(t):
        return sql.DATE
    if pa.types.is_time(t):
        return sql.time(_FRACTION_DIGITS[t.unit])
    if pa.types.is_timestamp(t):
        precision = _FRACTION_DIGITS[t.unit]
        return sql.timestamp(precision) if t.tz is None else sql.timestamp_ltz(precision)
    return _nested_type(t)


def _nested_type(t: pa.DataType) -> LogicalType | None:
    if pa.types.is_struct(t):
        fields = [(f.name, part) for f in t if (part := sql_type(f.type)) is not None]
        return sql.row(*fields) if len(fields) == t.num_fields else None
    if pa.types.is_map(t):
        key, value = sql_type(t.key_type), sql_type(t.item_type)
        return sql.map_of(key, value) if key is not None and value is not None else None
    element = sql_type(t.value_type) if _is_list(t) else None
    return None if element is None else sql.array(element)


def may_be_declared(stored: pa.DataType, t: LogicalType) -> bool:
    """Whether values of a file's type are values of a table's: numbers as other numbers, moments as other moments, text as
    text, at every depth. A single value may still be too large."""
    if pa.types.is_null(stored):
        return True
    if pa.types.is_dictionary(stored):
        return may_be_declared(stored.value_type, t)
    if t.root not in CONSTRUCTED_ROOTS:
        return _kind_of_stored(stored) == _kind_of(t)
    if t.root is TypeRoot.ROW:
        if not pa.types.is_struct(stored):
            return False
        types = {f.name: f.type for f in stored}
        return len(types) == stored.num_fields and all(
            f.name in types and may_be_declared(types[f.name], f.type) for f in t.fields
        )
    assert t.element is not None
    if t.root is TypeRoot.MAP:
        assert t.key is not None
        return (
            pa.types.is_map(stored)
            and may_be_declared(stored.key_type, t.key)
            and may_be_declared(stored.item_type, t.element)
        )
    if t.root is TypeRoot.ARRAY:
        return _is_list(stored) and may_be_declared(stored.value_type, t.element)
    return pa.types.is_map(stored) and may_be_declared(stored.key_type, t.element)


def _kind_of_stored(t: pa.DataType) -> str:
    if pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t):
        return _NUMBER
    if _is_text(t):
        return _TEXT
    if pa.types.is_date(t) or pa.types.is_timestamp(t):
        return _MOMENT
    if pa.types.is_time(t):
        return TypeRoot.TIME.value
    return TypeRoot.BOOLEAN.value if pa.types.is_boolean(t) else str(t)


def _kind_of(t: LogicalType) -> str:
    if is_integer(t) or t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL):
        return _NUMBER
    if t.root in STRING_ROOTS + BINARY_ROOTS:
        return _TEXT
    if t.root in (TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return _MOMENT
    return t.root.value


def _is_text(t: pa.DataType) -> bool:
    return (
        pa.types.is_string(t)
        or pa.types.is_large_string(t)
        or pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
        or pa.types.is_fixed_size_binary(t)
    )


def _is_list(t: pa.DataType) -> bool:
    return pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t)
