"""PEP 249's type objects and constructors; `Cursor.description` names a column's type as SQL does, without its parameters."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from sqlstream import types as sql
from sqlstream.types import LogicalType, TypeRoot

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 (PEP 249's name)
    """The date, in the local time zone, of a Unix time in seconds."""
    return datetime.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """The time of day, in the local time zone, of a Unix time in seconds."""
    return datetime.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """The local time, without its zone, of a Unix time in seconds."""
    return datetime.datetime.fromtimestamp(ticks)


class TypeObject:
    """Equals every type code of its group, and no other."""

    def __init__(self, name: str, codes: Iterable[str]) -> None:
        self._name = name
        self._codes = frozenset(codes)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and other in self._codes)

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"sqlstream.{self._name}"


STRING = TypeObject("STRING", ("CHAR", "VARCHAR"))
BINARY = TypeObject("BINARY", ("BINARY", "VARBINARY"))
NUMBER = TypeObject(
    "NUMBER", ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")
)
DATETIME = TypeObject("DATETIME", ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"))
ROWID = TypeObject("ROWID", ())

Description = tuple[str, str, int | None, int | None, int | None, int | None, bool]
"""Name, type code, display size, internal size, precision, scale, null ok."""

_CODES = {
    TypeRoot.TIME: "TIME",
    TypeRoot.TIMESTAMP: "TIMESTAMP",
    TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP_LTZ",
}
_INTERNAL_BYTES = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INTEGER: 4,
    TypeRoot.BIGINT: 8,
    TypeRoot.FLOAT: 4,
    TypeRoot.DOUBLE: 8,
    TypeRoot.DATE: 4,
}


def description(name: str, type_: LogicalType) -> Description:
    """One entry of `Cursor.description`.

    >>> description("price", sql.decimal(10, 2))
    ('price', 'DECIMAL', None, None, 10, 2, True)
    """
    precision = scale = None
    if type_.root is TypeRoot.DECIMAL:
        precision, scale = type_.precision, type_.scale
    elif type_.root in (TypeRoot.TIME, *sql.TIMESTAMP_ROOTS):
        precision = type_.precision
    has_length = type_.root in (*sql.STRING_ROOTS, *sql.BINARY_ROOTS)
    length = type_.length if has_length and type_.length < sql.VARCHAR_LENGTH_MAX else None
    code = _CODES.get(type_.root, type_.root.value)
    return (name, code, length, _INTERNAL_BYTES.get(type_.root), precision, scale, type_.nullable)
