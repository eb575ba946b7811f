"""Which of DuckDB's types can be read as which of ours, and the types that our columns have in DuckDB."""

from __future__ import annotations

import re

import pyarrow as pa

from sqlstream.types import LogicalType, TypeRoot

_WIDTHS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
_INTEGERS = {
    "TINYINT": (8, True),
    "SMALLINT": (16, True),
    "INTEGER": (32, True),
    "BIGINT": (64, True),
    "UTINYINT": (8, False),
    "USMALLINT": (16, False),
    "UINTEGER": (32, False),
    "UBIGINT": (64, False),
}
"""Bits, and whether it has a sign."""

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_LIST = re.compile(r"(.+[^\[\]])\[\d*\]", re.DOTALL)
"""A list, or an array of some length, of what has no elements itself."""

_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
_PLAIN = {
    TypeRoot.BOOLEAN: ("BOOLEAN",),
    TypeRoot.FLOAT: ("FLOAT",),
    TypeRoot.DOUBLE: ("DOUBLE", "FLOAT"),
    TypeRoot.DATE: ("DATE",),
    TypeRoot.TIME: ("TIME",),
    TypeRoot.TIMESTAMP: _TIMESTAMPS,
    TypeRoot.TIMESTAMP_LTZ: ("TIMESTAMP WITH TIME ZONE",),
    TypeRoot.BINARY: ("BLOB",),
    TypeRoot.VARBINARY: ("BLOB",),
}

_NAMES = {
    TypeRoot.CHAR: "VARCHAR",
    TypeRoot.VARCHAR: "VARCHAR",
    TypeRoot.BOOLEAN: "BOOLEAN",
    TypeRoot.BINARY: "BLOB",
    TypeRoot.VARBINARY: "BLOB",
    TypeRoot.TINYINT: "TINYINT",
    TypeRoot.SMALLINT: "SMALLINT",
    TypeRoot.INTEGER: "INTEGER",
    TypeRoot.BIGINT: "BIGINT",
    TypeRoot.FLOAT: "FLOAT",
    TypeRoot.DOUBLE: "DOUBLE",
    TypeRoot.DATE: "DATE",
    TypeRoot.TIME: "TIME",
    TypeRoot.TIMESTAMP_LTZ: "TIMESTAMPTZ",
}


_ELEMENTS = frozenset(
    {
        *_WIDTHS,
        TypeRoot.BOOLEAN,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
        TypeRoot.CHAR,
        TypeRoot.VARCHAR,
        TypeRoot.DATE,
    }
)
"""What an ARRAY has as elements."""


def is_carried(t: LogicalType) -> bool:
    """Whether a column of this type can be declared. DuckDB's moments with a time zone have six digits."""
    if t.root is TypeRoot.ARRAY:
        return t.element is not None and t.element.root in _ELEMENTS
    if t.root is TypeRoot.TIMESTAMP_LTZ and t.precision > 6:
        return False
    return t.root in _NAMES or t.root in (TypeRoot.DECIMAL, TypeRoot.TIMESTAMP)


def type_name(t: LogicalType) -> str:
    """The type of a column that DuckDB stores for ours.

    >>> from sqlstream import types as sql
    >>> type_name(sql.decimal(10, 2)), type_name(sql.timestamp(3))
    ('DECIMAL(10, 2)', 'TIMESTAMP')
    >>> type_name(sql.array(sql.FLOAT))
    'FLOAT[]'
    """
    if t.element is not None:
        return f"{type_name(t.element)}[]"
    if t.root is TypeRoot.DECIMAL:
        return f"DECIMAL({t.precision}, {t.scale})"
    if t.root is TypeRoot.TIMESTAMP:
        return "TIMESTAMP_NS" if t.precision > 6 else "TIMESTAMP"
    return _NAMES[t.root]


def can_read(stored: str, declared: LogicalType) -> bool:
    """Whether every value of the stored type is one of the declared type, or (timestamps) is checked to be when it is read.

    >>> from sqlstream import types as sql
    >>> can_read("INTEGER", sql.BIGINT), can_read("BIGINT", sql.INT), can_read("ENUM('a', 'b')", sql.STRING)
    (True, False, True)
    >>> can_read("FLOAT[]", sql.array(sql.DOUBLE)), can_read("FLOAT[3]", sql.array(sql.FLOAT))
    (True, True)
    """
    if declared.root is TypeRoot.ARRAY:
        elements = _LIST.fullmatch(stored)
        return elements is not None and is_carried(declared) and can_read(elements[1], _element(declared))
    stored = stored.upper()
    if declared.root in _WIDTHS:
        bits, is_signed = _INTEGERS.get(stored, (999, True))
        return bits + (not is_signed) <= _WIDTHS[declared.root]
    if declared.root is TypeRoot.DECIMAL:
        return _is_decimal(stored, declared)
    if declared.root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        is_enum = stored.startswith("ENUM(") and _LIST.fullmatch(stored) is None
        return is_enum or stored in ("VARCHAR", "UUID")
    return stored in _PLAIN.get(declared.root, ())


def without_length(stored: str) -> str:
    """A type that is stored, in which an array of some length is a list of any.

    >>> without_length("FLOAT[3]"), without_length("DECIMAL(3,1)[]"), without_length("FLOAT")
    ('FLOAT[]', 'DECIMAL(3,1)[]', 'FLOAT')
    """
    found = _LIST.fullmatch(stored)
    return f"{found[1]}[]" if found is not None else stored


def _element(t: LogicalType) -> LogicalType:
    assert t.element is not None
    return t.element


def _is_decimal(stored: str, declared: LogicalType) -> bool:
    if stored in _INTEGERS:
        bits, is_signed = _INTEGERS[stored]
        return _DIGITS[bits] + (bits == 64 and not is_signed) <= declared.precision - declared.scale
    match = _DECIMAL.fullmatch(stored)
    if match is None:
        return False
    precision, scale = int(match.group(1)), int(match.group(2))
    return scale <= declared.scale and precision - scale <= declared.precision - declared.scale


# DuckDB's types for the Arrow types of our columns.


_TIMESTAMPS_OF_UNITS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


def duckdb_type(t: pa.DataType) -> str:
    """DuckDB's type for an Arrow type of a column."""
    if pa.types.is_list(t):
        return f"{duckdb_type(t.value_type)}[]"
    if pa.types.is_decimal(t):
        return f"DECIMAL({t.precision}, {t.scale})"
    if pa.types.is_timestamp(t):
        if t.tz is not None:
            return "TIMESTAMPTZ"
        return _TIMESTAMPS_OF_UNITS[t.unit]
    if pa.types.is_time(t):
        return "TIME"
    return _OF_ARROW[t]


_OF_ARROW: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
}
