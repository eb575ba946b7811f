"""The SQL types of a Parquet file's columns, and the types that a table may declare for each."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.types import (
    BINARY_ROOTS,
    NESTED_ROOTS,
    STRING_ROOTS,
    LogicalType,
    TypeRoot,
    is_integer,
)

_NUMBER, _TEXT, _MOMENT = "number", "text", "moment"
_FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_NAMES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.uint8(): "SMALLINT",
    pa.uint16(): "INT",
    pa.uint32(): "BIGINT",
    pa.uint64(): "DECIMAL(20, 0)",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.null(): "NULL",
}


def sql_name(t: pa.DataType) -> str:
    """The SQL type that a column of a file would be declared with."""
    if t in _NAMES:
        return _NAMES[t]
    if pa.types.is_dictionary(t):
        return sql_name(t.value_type)
    if _is_text(t):
        return "STRING" if pa.types.is_string(t) or pa.types.is_large_string(t) else "BYTES"
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    if pa.types.is_date(t):
        return "DATE"
    if pa.types.is_time(t):
        return f"TIME({_FRACTION_DIGITS[t.unit]})"
    if pa.types.is_timestamp(t):
        return f"TIMESTAMP{'' if t.tz is None else '_LTZ'}({_FRACTION_DIGITS[t.unit]})"
    if pa.types.is_struct(t):
        return f"ROW<{', '.join(f'`{f.name}` {sql_name(f.type)}' for f in t)}>"
    if pa.types.is_map(t):
        return f"MAP<{sql_name(t.key_type)}, {sql_name(t.item_type)}>"
    if _is_list(t):
        return f"ARRAY<{sql_name(t.value_type)}>"
    return str(t)


def may_be_declared(stored: pa.DataType, t: LogicalType) -> bool:
    """Whether values of a file's type are values of a table's: numbers as other numbers, moments as other moments, text as
    text, at every depth. A single value may still be too large."""
    if pa.types.is_null(stored):
        return True
    if pa.types.is_dictionary(stored):
        return may_be_declared(stored.value_type, t)
    if t.root not in (*NESTED_ROOTS, TypeRoot.MULTISET):
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
