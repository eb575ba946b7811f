"""Applies the rows that a job has staged for a checkpoint to its DuckDB table, in one transaction and once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from sqlstream.changelog import RowKind
from sqlstream.errors import ExternalError, Retry, UserError
from sqlstream.runtime.connectors.duckdb.database import INSTANCES, attach, connect, lock_down, table_of
from sqlstream.runtime.connectors.duckdb.errors import translated
from sqlstream.runtime.connectors.duckdb.options import Place
from sqlstream.runtime.connectors.duckdb.relation import check_columns, described
from sqlstream.runtime.connectors.duckdb.types import type_name, without_length
from sqlstream.runtime.connectors.sql_filters import quote
from sqlstream.runtime.connectors.staged_rows import (
    JOURNAL,
    JOURNAL_DAYS,
    KIND_COLUMN,
    CommitJournal,
    remove_committed,
    staged_rows,
)
from sqlstream.runtime.host.clock import wait_s
from sqlstream.specs import ChangingSinkSpec, SinkSpec
from sqlstream.specs.sink import SinkAction
from sqlstream.spi.committable import Committable, in_order
from sqlstream.spi.files import Files

_TRIES = 40
_PAUSE_S = 0.25
_ALIAS = "target"
_JOURNAL = CommitJournal(
    f"{_ALIAS}.main.{JOURNAL}", "VARCHAR", "TIMESTAMPTZ", "now()", f"now() - INTERVAL {JOURNAL_DAYS} DAY"
)
_ADDED = f"({int(RowKind.INSERT)}, {int(RowKind.UPDATE_AFTER)})"


def check_target(place: Place, spec: SinkSpec, files: Files) -> None:
    """Look, before a job runs, whether its rows will fit. UserError SS5062 where they will not, SS4006 for an ARRAY as a key. A
    file that is absent will be made, and one that is locked now may be free when the job has finished."""
    key = next((f for f in map(spec.schema.fields.__getitem__, spec.primary_key) if f.type.element), None)
    if key is not None:
        raise UserError(
            "SS4006",
            f'connector "duckdb" has no primary key of {key.type.with_nullable(True)}, the type of column "{key.name}"',
            column=key.name,
            hint="declare a primary key of other columns",
        )
    if files.status(place.path) is None:
        return
    try:
        with INSTANCES.reading(place, files) as (connection, alias, _):
            _check_table(connection, place, spec, alias)
    except ExternalError as error:
        if error.retry is Retry.NEVER:
            raise


def apply(
    place: Place, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
) -> None:
    """Make the rows of all writers visible, unless they are already; the table and the file are made where they are absent.

    A table with a primary key keeps the last row of each key, and loses the keys whose last change retracts. ExternalError
    SS5061 when another process keeps the database locked for ten seconds."""
    writers = in_order(committables)
    if not writers:
        return
    files.make_directories(os.path.dirname(place.path) or ".")
    real = os.path.realpath(place.path)
    for path in (place.path, real):
        files.status(path)
    with translated(place), _writing(place, real) as connection:
        connection.execute("BEGIN")
        _JOURNAL.write_once(
            writers,
            connection.execute,
            lambda query: [key for (key,) in connection.execute(query).fetchall()],
            lambda missing: _apply(connection, place, spec, missing, files),
        )
        connection.execute("COMMIT")
    remove_committed(checkpoint_id, writers, files)


@contextmanager
def _writing(place: Place, path: str) -> Iterator[Any]:
    """A DuckDB of its own that may write the file at this real path, and open nothing else: nobody else has it open meanwhile."""
    import duckdb

    with connect() as connection:
        for attempt in range(_TRIES):
            try:
                attach(connection, place, path, _ALIAS, is_read_only=False)
                break
            except duckdb.Error as error:
                folded = str(error).lower()
                is_locked = "lock" in folded or "unique file handle conflict" in folded
                if not is_locked or attempt == _TRIES - 1:
                    raise
            wait_s(_PAUSE_S)
        # DuckDB adds what is attached to the allowed paths.
        lock_down(connection, (path,))
        yield connection


def _apply(
    connection: Any, place: Place, spec: SinkSpec, writers: Sequence[Committable], files: Files
) -> None:
    _check_table(connection, place, spec, _ALIAS, makes=True)
    _write(connection, place, spec, pa.concat_tables([staged_rows(c, files) for c in writers]))


def _check_table(connection: Any, place: Place, spec: SinkSpec, alias: str, *, makes: bool = False) -> None:
    item = table_of(place, alias)
    exists = connection.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND lower(table_name) = lower(?)",
        [alias, place.schema or "main", place.table],
    ).fetchall()[0][0]
    if not exists:
        if makes:
            if place.schema:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(alias)}.{quote(place.schema)}")
            connection.execute(f"CREATE TABLE {item} ({_definition(spec)})")
        return
    stored = described(connection, item)
    for field in spec.schema.fields:
        if field.name in stored and type_name(field.type).replace(", ", ",") != _comparable(
            stored[field.name]
        ):
            raise UserError(
                "SS5062",
                f'column "{field.name}" of table {place.name} has DuckDB\'s type {stored[field.name]}, and rows with'
                f" {field.type.with_nullable(True)} are to be written",
                hint=f'declare column "{field.name}" of table "{spec.table}" with a type that fits',
            )
    present = [(f.name, f.type) for f in spec.schema.fields if f.name not in stored]
    check_columns(place, spec.table, present, stored)


def _comparable(stored: str) -> str:
    stored = stored.upper().replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
    return "VARCHAR" if stored.startswith("ENUM(") else without_length(stored.replace(", ", ","))


def _definition(spec: SinkSpec) -> str:
    columns = [f"{quote(f.name)} {type_name(f.type)}" for f in spec.schema.fields]
    if spec.primary_key:
        columns.append(f"PRIMARY KEY ({', '.join(quote(spec.schema.names[k]) for k in spec.primary_key)})")
    return ", ".join(columns)


def _write(connection: Any, place: Place, spec: SinkSpec, staged: pa.Table) -> None:
    item = table_of(place, _ALIAS)
    names = [quote(name) for name in spec.schema.names]
    columns = ", ".join(names)
    numbered = staged.append_column("$number", pa.arange(0, len(staged)))
    connection.register("staged", numbered)
    action = spec.action if isinstance(spec, ChangingSinkSpec) else None
    if action in (SinkAction.OVERWRITE, SinkAction.TRUNCATE):
        connection.execute(f"DELETE FROM {item}")
    if not spec.primary_key:
        connection.execute(f'INSERT INTO {item} ({columns}) SELECT {columns} FROM staged ORDER BY "$number"')
        return
    keys = [names[k] for k in spec.primary_key]
    others = [name for i, name in enumerate(names) if i not in spec.primary_key]
    last = f'SELECT * FROM staged QUALIFY row_number() OVER (PARTITION BY {", ".join(keys)} ORDER BY "$number" DESC) = 1'
    update = f"THEN UPDATE SET {', '.join(f'{n} = s.{n}' for n in others)}" if others else "THEN DO NOTHING"
    connection.execute(
        f"MERGE INTO {item} AS t USING ({last}) AS s ON {' AND '.join(f't.{k} = s.{k}' for k in keys)}"
        f" WHEN MATCHED AND s.{quote(KIND_COLUMN)} NOT IN {_ADDED} THEN DELETE"
        f" WHEN MATCHED {update}"
        # A row that is gone since UPDATE has read it stays so.
        + (
            ""
            if action is SinkAction.UPDATE
            else f" WHEN NOT MATCHED AND s.{quote(KIND_COLUMN)} IN {_ADDED}"
            f" THEN INSERT ({columns}) VALUES ({', '.join(f's.{n}' for n in names)})"
        )
    )
