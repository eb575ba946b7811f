"""SQLite's catalog, types and SQL. Its columns hold values of any type, so that each value is checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from sqlstream.runtime.connectors.jdbc.database import TableName
from sqlstream.runtime.connectors.jdbc.dialect import Columns
from sqlstream.runtime.connectors.jdbc.driver import Connection, transaction
from sqlstream.runtime.connectors.jdbc.stored_table import (
    Check,
    Selection,
    StoredColumn,
    StoredTable,
    no_table,
)
from sqlstream.runtime.connectors.sql_filters import date_text, quote, text
from sqlstream.types import LogicalType, TypeRoot

_KEYS = "lookup_keys"
_EXACT_MAX = 1 << 53
"""Whole numbers up to this one are DOUBLEs without a loss."""

_RANGES = {
    TypeRoot.TINYINT: 1 << 7,
    TypeRoot.SMALLINT: 1 << 15,
    TypeRoot.INTEGER: 1 << 31,
    TypeRoot.BIGINT: 1 << 63,
}


class _Reading(NamedTuple):
    """`value` gives the column in SQL as the driver should see it, `is_right` the condition that a value which is not NULL must
    meet; `typed` is a value of the type that the driver gives the column."""

    value: Callable[[str], str]
    is_right: Callable[[str], str]
    typed: str


def _typed_as(*types: str) -> Callable[[str], str]:
    listed = ", ".join(f"'{t}'" for t in types)
    return lambda c: f"typeof({c}) IN ({listed})"


def _integer(root: TypeRoot) -> _Reading:
    high = _RANGES[root]
    if root is TypeRoot.BIGINT:
        return _Reading(str, _typed_as("integer"), "0")
    return _Reading(str, lambda c: f"typeof({c}) = 'integer' AND {c} BETWEEN {-high} AND {high - 1}", "0")


_REAL = _Reading(
    lambda c: f"CAST({c} AS REAL)",
    lambda c: (
        f"typeof({c}) = 'real' OR typeof({c}) = 'integer' AND {c} BETWEEN {-_EXACT_MAX} AND {_EXACT_MAX}"
    ),
    "0.0",
)
_TEXT = _Reading(str, _typed_as("text"), "''")
_BYTES = _Reading(str, _typed_as("blob"), "x''")
_READINGS = {
    TypeRoot.BOOLEAN: _Reading(str, lambda c: f"typeof({c}) = 'integer' AND {c} IN (0, 1)", "0"),
    **{root: _integer(root) for root in _RANGES},
    TypeRoot.FLOAT: _REAL,
    TypeRoot.DOUBLE: _REAL,
    # A column of NUMERIC affinity keeps decimals of up to 15 digits as REAL.
    TypeRoot.DECIMAL: _Reading(
        lambda c: f"CASE typeof({c}) WHEN 'real' THEN printf('%.15g', {c}) ELSE CAST({c} AS TEXT) END",
        lambda c: (
            f"typeof({c}) IN ('integer', 'text') OR typeof({c}) = 'real' AND CAST(printf('%.15g', {c}) AS REAL) = {c}"
        ),
        "''",
    ),
    TypeRoot.CHAR: _TEXT,
    TypeRoot.VARCHAR: _TEXT,
    TypeRoot.BINARY: _BYTES,
    TypeRoot.VARBINARY: _BYTES,
    TypeRoot.DATE: _TEXT,
    TypeRoot.TIME: _TEXT,
    TypeRoot.TIMESTAMP: _TEXT,
    TypeRoot.TIMESTAMP_LTZ: _TEXT,
}
_LOOKED_UP = (
    *_RANGES,
    TypeRoot.BOOLEAN,
    TypeRoot.CHAR,
    TypeRoot.VARCHAR,
    TypeRoot.DATE,
    TypeRoot.BINARY,
    TypeRoot.VARBINARY,
)
"""A decimal or a time has several texts, and equality of texts does not tell that they are equal."""

_FILTERED = (*_RANGES, TypeRoot.BOOLEAN, TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.DATE)


class Sqlite:
    """Dates and times are texts in ISO's form, as SQLite's functions write them, booleans 0 and 1. No state."""

    def find_table(self, connection: Connection, name: TableName) -> StoredTable:
        found = connection.rows(
            "SELECT 'x' AS a, 'x' AS b UNION ALL SELECT type, name FROM main.sqlite_schema WHERE type IN ('table', 'view')"
        ).to_pylist()[1:]
        kinds = {row["b"]: row["a"] for row in found}
        actual = next((n for n in kinds if n.lower() == name.table.lower()), None)
        if actual is None or name.schema.lower() not in ("", "main"):
            raise no_table(name, connection.database.url, sorted(kinds))
        rows = connection.rows(
            f"SELECT '' AS name, '' AS type UNION ALL SELECT name, type FROM pragma_table_xinfo({text(actual)}) WHERE hidden <> 1"
        ).to_pylist()[1:]
        columns = {r["name"]: StoredColumn(r["name"], r["type"], affinity(r["type"])) for r in rows}
        return StoredTable(
            name=name,
            schema="main",
            item=f"main.{quote(actual)}",
            columns=columns,
            is_view=kinds[actual] == "view",
            unique_keys=_unique_keys(connection, actual),
        )

    def can_read(self, stored: StoredColumn, declared: LogicalType) -> bool:
        return declared.root in _READINGS

    def selection(self, stored: StoredTable, columns: Columns, table: str) -> Selection:
        expressions, checks, typed = [], [], []
        for place, (name, declared) in enumerate(columns):
            column, reading = quote(name), _READINGS[declared.root]
            expressions.append(reading.value(column))
            is_wrong = f"{column} IS NOT NULL AND NOT ({reading.is_right(column)})"
            checks.append(Check(place, is_wrong, f"substr(quote({column}), 1, 100)"))
            typed.append(reading.typed)
        return Selection(table, tuple(columns), tuple(expressions), tuple(checks), tuple(typed) or ("1",))

    def filtered(self, stored: StoredTable, columns: Columns) -> list[str | None]:
        return [_comparable(name, declared) for name, declared in columns]

    def day(self, days: int) -> str | None:
        return date_text(days)

    def is_number(self, stored: StoredColumn) -> bool:
        return stored.base != "TEXT"

    def can_look_up(self, stored: StoredColumn, declared: LogicalType) -> bool:
        return declared.root in _LOOKED_UP

    def matching(self, connection: Connection, stored: StoredTable, keys: pa.RecordBatch) -> str:
        names = keys.schema.names
        aliases = [f'"$k{i}"' for i in range(len(names))]
        connection.run(f"CREATE TEMP TABLE {_KEYS} ({', '.join(aliases)})")
        values = [column.cast(pa.string()) if pa.types.is_date(column.type) else column for column in keys]
        with transaction(connection):
            connection.run_many(
                f"INSERT INTO temp.{_KEYS} VALUES ({', '.join('?' * len(names))})",
                pa.RecordBatch.from_arrays(values, names=names),
            )
        on = " AND ".join(f"t.{quote(name)} = {alias}" for name, alias in zip(names, aliases, strict=True))
        return f"temp.{_KEYS} JOIN {stored.item} AS t ON {on} WHERE TRUE"


def affinity(declared: str) -> str:
    """The affinity of a column that is declared with this type (sqlite.org/datatype3.html).

    >>> affinity("varchar(10)"), affinity("BIGINT"), affinity(""), affinity("timestamp"), affinity("DOUBLE")
    ('TEXT', 'INTEGER', 'BLOB', 'NUMERIC', 'REAL')
    """
    folded = declared.upper()
    if "INT" in folded:
        return "INTEGER"
    if any(word in folded for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in folded or not folded:
        return "BLOB"
    if any(word in folded for word in ("REAL", "FLOA", "DOUB")):
        return "REAL"
    return "NUMERIC"


def _comparable(name: str, declared: LogicalType) -> str | None:
    if declared.root not in _FILTERED:
        return None
    # A column's own collation, such as NOCASE, makes texts equal that are not.
    is_text = declared.root not in _RANGES and declared.root is not TypeRoot.BOOLEAN
    return f"({quote(name)} COLLATE BINARY)" if is_text else quote(name)


def _unique_keys(connection: Connection, table: str) -> tuple[frozenset[str], ...]:
    """The primary key and the unique indexes over whole columns."""
    primary = connection.rows(
        f"SELECT '' AS name UNION ALL SELECT name FROM pragma_table_info({text(table)}) WHERE pk > 0"
    )
    keys = {"": primary.column(0).to_pylist()[1:]}
    indexed = connection.rows(
        f"SELECT '' AS i, '' AS name UNION ALL SELECT l.name, coalesce(x.name, '') FROM pragma_index_list({text(table)}) AS l,"
        ' pragma_index_info(l.name) AS x WHERE l."unique" = 1 AND l.partial = 0'
    )
    for row in indexed.to_pylist()[1:]:
        keys.setdefault(row["i"], []).append(row["name"])
    return tuple(frozenset(names) for names in keys.values() if names and "" not in names)
