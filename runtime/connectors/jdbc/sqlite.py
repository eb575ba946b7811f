"""SQLite's catalog, types and SQL. Its columns hold values of any type, so that each value is checked."""

from __future__ import annotations

import contextlib
import sqlite3
import urllib.parse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.connectors.declared_rows import value_error
from sqlstream.runtime.connectors.jdbc.database import TableName
from sqlstream.runtime.connectors.jdbc.driver import Connection, connect, transaction
from sqlstream.runtime.connectors.jdbc.options import JdbcOptions
from sqlstream.runtime.connectors.jdbc.publication import NUMBER_COLUMN, check_key, publish
from sqlstream.runtime.connectors.jdbc.stored_table import (
    Check,
    Columns,
    Selection,
    StoredColumn,
    StoredTable,
    check_columns,
    check_range,
    no_table,
)
from sqlstream.runtime.connectors.sql_filters import date_text, quote, text
from sqlstream.runtime.connectors.staged_rows import (
    JOURNAL,
    JOURNAL_DAYS,
    KIND_COLUMN,
    CommitJournal,
    StagedRowsWriter,
    remove_committed,
    staged_rows,
)
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import Committable, in_order
from sqlstream.spi.connector import ConnectorContext, SinkWriter
from sqlstream.spi.files import Files
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
_WHOLE = (*_RANGES, TypeRoot.BOOLEAN)


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
    *_WHOLE,
    TypeRoot.CHAR,
    TypeRoot.VARCHAR,
    TypeRoot.DATE,
    TypeRoot.BINARY,
    TypeRoot.VARBINARY,
)
"""A decimal or a time has several texts, and equality of texts does not tell that they are equal."""

_FILTERED = (*_WHOLE, TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.DATE)


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
    is_text = declared.root not in _WHOLE
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


# Writes rows to a table of a SQLite file: staged in hidden files beside it, applied in one transaction at the commit.


COMMIT_TIMEOUT_MS = 10_000
"""How long a commit waits for another process that has the database locked."""

_JOURNAL = CommitJournal(
    *(f"main.{JOURNAL}", "TEXT", "TEXT", "datetime('now')", f"datetime('now', '-{JOURNAL_DAYS} days')")
)
_STAGED = "temp.sqlstream_staged"
_EXACT_DIGITS = 15
"""A column of NUMERIC affinity keeps a decimal as REAL, which is exact up to this many digits."""

_NUMBERS = ("INTEGER", "NUMERIC", "REAL", "BLOB")


def sqlite_sink(spec: SinkSpec, options: JdbcOptions, context: ConnectorContext) -> SinkWriter:
    """UserError SS5062 and SS5069 for a table that cannot take the rows."""
    connection = connect(options.database, context.files)
    try:
        stored = Sqlite().find_table(connection, options.table)
        fields = spec.schema.fields
        check_columns(stored, spec.table, [(f.name, f.type) for f in fields], can_write)
        check_key(stored, spec)
    finally:
        connection.close()
    return StagedRowsWriter(spec, options.database.address, context)


def copy_definition(address: str, table: str, path: str) -> None:
    """Make a SQLite file with a table like that of the database at `address`, its indexes too, and without rows. Where there is
    no such table, the file has none."""
    address = f"file:{urllib.parse.quote(address)}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
        made = database.execute(
            "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND sql IS NOT NULL AND type IN ('table', 'index') "
            "ORDER BY type DESC",
            (table,),
        ).fetchall()
    with contextlib.closing(sqlite3.connect(path)) as copy:
        copy.executescript(";\n".join(statement for (statement,) in made))


def can_write(stored: StoredColumn, declared: LogicalType) -> bool:
    """Whether a column of this affinity keeps the values as they are."""
    match declared.root:
        case root if root in _WHOLE:
            return stored.base in ("INTEGER", "NUMERIC", "BLOB")
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return stored.base in _NUMBERS
        case TypeRoot.DECIMAL:
            return stored.base in ("TEXT", "BLOB") or declared.precision <= _EXACT_DIGITS
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return stored.base in ("TEXT", "BLOB")
        case TypeRoot.DATE | TypeRoot.TIME | TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return stored.base in ("TEXT", "BLOB", "NUMERIC")
    return True


def commit_sqlite(
    spec: SinkSpec, options: JdbcOptions, checkpoint_id: int, committables: list[Committable], files: Files
) -> None:
    """Make the rows of all writers visible, unless they are already. ExternalError SS5061 when another process keeps the database
    locked, SS5066 for rows that have vanished."""
    writers = in_order(committables)
    if not writers:
        return
    connection = connect(options.database, files, is_read_only=False)
    try:
        connection.rows(f"PRAGMA busy_timeout = {COMMIT_TIMEOUT_MS}")
        with transaction(connection, "BEGIN IMMEDIATE"):
            _JOURNAL.write_once(
                writers,
                connection.run,
                connection.texts,
                lambda missing: _write(connection, spec, options, [staged_rows(w, files) for w in missing]),
            )
    finally:
        connection.close()
    remove_committed(checkpoint_id, writers, files)


def _write(connection: Connection, spec: SinkSpec, options: JdbcOptions, parts: list[pa.Table]) -> None:
    stored = Sqlite().find_table(connection, options.table)
    names = [*spec.schema.names, KIND_COLUMN, NUMBER_COLUMN]
    connection.run(f"CREATE TABLE {_STAGED} ({', '.join(quote(name) for name in names)})")
    insert = f"INSERT INTO {_STAGED} VALUES ({', '.join('?' * len(names))})"
    rows = 0
    for part in parts:
        for batch in part.to_batches():
            connection.run_many(insert, _storable(batch, spec, rows))
            rows += batch.num_rows
    for statement in publish(stored.item, spec, [_STAGED]):
        connection.run(statement)


def _storable(batch: pa.RecordBatch, spec: SinkSpec, first_number: int) -> pa.RecordBatch:
    """The rows in SQLite's types, with their numbers."""
    columns = [_stored(batch.column(i), f.type, f.name, spec.table) for i, f in enumerate(spec.schema.fields)]
    kinds = batch.column(batch.num_columns - 1).cast(pa.int64())
    numbers = pa.array(np.arange(first_number, first_number + batch.num_rows))
    names = [*spec.schema.names, KIND_COLUMN, NUMBER_COLUMN]
    return pa.RecordBatch.from_arrays([*columns, kinds, numbers], names=names)


def _stored(column: pa.Array, declared: LogicalType, name: str, table: str) -> pa.Array:
    """UserError SS5065 for values that SQLite would not give back: NaN, which it takes for NULL, and dates that have no text of
    four digits for the year."""
    if declared.root in _WHOLE:
        return column.cast(pa.int64())
    if declared.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        if pc.any(pc.is_nan(column)).as_py():
            raise value_error(name, table, declared, "NaN, which SQLite cannot store")
        return column.cast(pa.float64())
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return column
    check_range(pa.chunked_array([column]), name, table, declared)
    return column.cast(pa.string())
