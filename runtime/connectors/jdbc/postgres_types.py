"""Which columns of Postgres can be written with which of our types, and in which types the rows are sent."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.runtime.connectors.jdbc.stored_table import StoredColumn
from sqlstream.types import LogicalType, TypeRoot

INTEGERS = {"int2": 16, "int4": 32, "int8": 64}
"""Bits."""

AS_TEXTS = ("uuid", "json", "jsonb", "xml", "citext")
"""Types that the driver knows as bytes alone: they are read, and staged, as text."""

_WIDTHS = {TypeRoot.TINYINT: 16, TypeRoot.SMALLINT: 16, TypeRoot.INTEGER: 32, TypeRoot.BIGINT: 64}
_TEXTS = ("text", "varchar", "bpchar")
_EQUAL = {
    TypeRoot.BOOLEAN: ("bool",),
    TypeRoot.FLOAT: ("float4", "float8"),
    TypeRoot.DOUBLE: ("float8",),
    TypeRoot.DATE: ("date",),
    TypeRoot.BINARY: ("bytea",),
    TypeRoot.VARBINARY: ("bytea",),
}
_CLOCKS = {
    TypeRoot.TIME: "time",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamptz",
}
_ARROW = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float8": pa.float64(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}


def is_as_text(stored: StoredColumn) -> bool:
    return stored.base in AS_TEXTS or stored.kind == "e"


def numeric_size(modifier: int) -> tuple[int, int] | None:
    """(precision, scale) of a numeric; None without them.

    >>> numeric_size((10 << 16 | 2) + 4), numeric_size(-1)
    ((10, 2), None)
    """
    if modifier < 0:
        return None
    scale = (modifier - 4) & 0x7FF
    return ((modifier - 4) >> 16) & 0xFFFF, scale - 0x800 if scale >= 0x400 else scale


def can_write(stored: StoredColumn, declared: LogicalType) -> bool:
    """Whether the column takes all values of the declared type as they are; texts may be too long for it, or of no such form,
    which the database tells."""
    if declared.root is TypeRoot.ARRAY:
        assert declared.element is not None
        element = StoredColumn(stored.name, stored.type, stored.element)
        return (
            bool(stored.element) and stored.element not in AS_TEXTS and can_write(element, declared.element)
        )
    if stored.element:
        return False
    if declared.root in _WIDTHS:
        return INTEGERS.get(stored.base, 0) >= _WIDTHS[declared.root]
    if declared.root is TypeRoot.DECIMAL:
        return stored.base == "numeric" and _takes_decimals(stored.modifier, declared)
    if declared.root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return stored.base in _TEXTS or is_as_text(stored)
    if declared.root in _CLOCKS:
        # Postgres would round to the digits of the column.
        digits = declared.precision if stored.modifier >= 0 else 0
        return stored.base == _CLOCKS[declared.root] and digits <= max(stored.modifier, 0)
    return stored.base in _EQUAL.get(declared.root, ())


def _takes_decimals(modifier: int, declared: LogicalType) -> bool:
    size = numeric_size(modifier)
    if size is None:
        return True
    precision, scale = size
    return declared.scale <= scale and declared.precision - declared.scale <= precision - scale


def staging_type(stored: StoredColumn) -> str:
    """The type of the column in the staging table: the one that it has, unless rows are staged as text."""
    return "text" if is_as_text(stored) else stored.type


def sent_type(stored: StoredColumn, arrow: pa.DataType) -> pa.DataType:
    """The type that the driver sends in the form which a column of that type takes."""
    if pa.types.is_list(arrow):
        return pa.list_(_ARROW.get(stored.element, arrow.value_type))
    return _ARROW.get(stored.base, arrow)
