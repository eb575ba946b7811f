"""Arrow columns → Python values, column by column.

SQL type                              Python type
CHAR, VARCHAR, STRING                 str
BOOLEAN                               bool
BINARY, VARBINARY, BYTES              bytes
TINYINT, SMALLINT, INT, BIGINT        int
FLOAT, DOUBLE                         float
DECIMAL                               decimal.Decimal
DATE                                  datetime.date
TIME                                  datetime.time
TIMESTAMP                             datetime.datetime without tzinfo; digits beyond microseconds are cut
TIMESTAMP_LTZ                         datetime.datetime in UTC
INTERVAL DAY TO SECOND                datetime.timedelta
INTERVAL YEAR TO MONTH                int, in months
ARRAY                                 list
MAP                                   dict; a list of pairs where the keys are ARRAY, MAP or ROW
MULTISET                              dict of element to count, or a list of pairs as for MAP
ROW                                   tuple
NULL of any type                      None
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import without_row_kinds
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot

Row = tuple[Any, ...]

_UNHASHABLE = sql.CONSTRUCTED_ROOTS


def python_rows(batch: pa.RecordBatch, schema: Schema) -> list[Row]:
    """The rows of a batch, without its row-kind column."""
    if not len(schema):
        return [()] * batch.num_rows
    columns = without_row_kinds(batch).columns
    values = [python_values(column, f.type) for column, f in zip(columns, schema.fields, strict=True)]
    return list(zip(*values, strict=True))


def python_values(column: pa.Array, type_: LogicalType) -> Sequence[Any]:
    """The values of one column, by the table at the head of this file."""
    match type_.root:
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamps(column, type_)
        case TypeRoot.ARRAY:
            assert type_.element is not None
            items = python_values(column.values, type_.element)
            return _by_offsets(column, items, list)
        case TypeRoot.MAP | TypeRoot.MULTISET:
            key, value = (type_.key, type_.element) if type_.key else (type_.element, sql.INT)
            assert key is not None
            assert value is not None
            pairs = list(
                zip(python_values(column.keys, key), python_values(column.items, value), strict=True)
            )
            return _by_offsets(column, pairs, list if key.root in _UNHASHABLE else dict)
        case TypeRoot.ROW:
            fields = [python_values(c, f.type) for c, f in zip(column.flatten(), type_.fields, strict=True)]
            rows: Sequence[Any] = list(zip(*fields, strict=True))
            return [row if is_valid else None for row, is_valid in zip(rows, _valid(column), strict=True)]
    return column.to_pylist()


def _timestamps(column: pa.Array, type_: LogicalType) -> list[Any]:
    zone = "UTC" if type_.root is TypeRoot.TIMESTAMP_LTZ else None
    # Arrow would make nanoseconds into pandas' Timestamp, which need not be installed.
    values = pc.cast(column, pa.timestamp("us", tz=zone), safe=False).to_pylist()
    if zone is None:
        return values
    return [None if v is None else v.replace(tzinfo=datetime.UTC) for v in values]


def _valid(column: pa.Array) -> list[bool]:
    return column.is_valid().to_pylist()


def _by_offsets(column: pa.Array, items: Sequence[Any], collect: Any) -> list[Any]:
    """For each value of a nested column, its part of `items`, which are those of the whole child."""
    offsets = column.offsets.to_pylist()
    ranges = zip(offsets[:-1], offsets[1:], _valid(column), strict=True)
    return [collect(items[a:b]) if is_valid else None for a, b, is_valid in ranges]


# PEP 249's type objects and constructors; `Cursor.description` names a column's type as SQL does, without its
# parameters.


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
