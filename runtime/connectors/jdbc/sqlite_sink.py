"""Writes rows to a table of a SQLite file: staged in hidden files beside it, applied in one transaction at the commit."""

from __future__ import annotations

import contextlib
import sqlite3
import urllib.parse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.connectors.commit_notes import JOURNAL, JOURNAL_DAYS, CommitJournal
from sqlstream.runtime.connectors.declared_rows import value_error
from sqlstream.runtime.connectors.jdbc.driver import Connection, connect, transaction
from sqlstream.runtime.connectors.jdbc.options import JdbcOptions
from sqlstream.runtime.connectors.jdbc.publication import (
    NUMBER_COLUMN,
    check_key,
    publish,
)
from sqlstream.runtime.connectors.jdbc.sqlite import Sqlite
from sqlstream.runtime.connectors.jdbc.stored_table import StoredColumn, check_columns, check_range
from sqlstream.runtime.connectors.sql_filters import quote
from sqlstream.runtime.connectors.staged_rows import (
    KIND_COLUMN,
    StagedRowsWriter,
    remove_committed,
    staged_rows,
)
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import Committable, in_order
from sqlstream.spi.connector import ConnectorContext, SinkWriter
from sqlstream.spi.files import Files
from sqlstream.types import LogicalType, TypeRoot

COMMIT_TIMEOUT_MS = 10_000
"""How long a commit waits for another process that has the database locked."""

_JOURNAL = CommitJournal(
    *(f"main.{JOURNAL}", "TEXT", "TEXT", "datetime('now')", f"datetime('now', '-{JOURNAL_DAYS} days')")
)
_STAGED = "temp.sqlstream_staged"
_EXACT_DIGITS = 15
"""A column of NUMERIC affinity keeps a decimal as REAL, which is exact up to this many digits."""

_WHOLE = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT, TypeRoot.BOOLEAN)
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
