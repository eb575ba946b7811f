"""The connector `jdbc`: tables of databases, by Flink's options and ADBC's drivers."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.runtime.connectors.files.file_paths import absolute_path
from sqlstream.runtime.connectors.fixed_splits import FixedSplits, own_share
from sqlstream.runtime.connectors.jdbc.connecting import Connecting
from sqlstream.runtime.connectors.jdbc.database import DatabaseKind
from sqlstream.runtime.connectors.jdbc.dialect import dialect
from sqlstream.runtime.connectors.jdbc.driver import Connection
from sqlstream.runtime.connectors.jdbc.options import OPTIONS, JdbcOptions, read_options
from sqlstream.runtime.connectors.jdbc.stored_table import Selection, StoredTable, check_columns
from sqlstream.runtime.connectors.sql_filters import where
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import (
    ConnectorContext,
    ConnectorDescriptor,
    EnumeratorContext,
    LookupSource,
    Reading,
    SinkWriter,
    SourceReader,
    SplitEnumerator,
    Writing,
)
from sqlstream.spi.files import Files
from sqlstream.spi.lookup import LookupOptions, too_many_rows
from sqlstream.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    from sqlstream.specs import SinkSpec
    from sqlstream.spi.committable import Committable


_FACTOR = 4
"""How much larger rows are than the table or file that they are in, at most in most cases."""

_DIGITS_MAX = 6
_CLOCKS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_NEVER = (
    *(TypeRoot.MAP, TypeRoot.ROW, TypeRoot.MULTISET, TypeRoot.NULL),
    *(TypeRoot.INTERVAL_DAY_TIME, TypeRoot.INTERVAL_YEAR_MONTH),
)


class Jdbc:
    """Tables of PostgreSQL and SQLite: a bounded source, by key, and a sink whose rows are visible when their checkpoint is
    committed, in one transaction; without checkpoints, when the job has finished."""

    descriptor = ConnectorDescriptor(
        identifier="jdbc",
        options=OPTIONS,
        reading=Reading(filters=True, limits=True, lookups=True, counts_rows=True),
        writing=Writing(mode=ChangelogMode.UPSERT, changes_rows=True),
    )

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """Options that fit each other, types that the database has. UserError SS4002, SS4003, SS4005, SS4006."""
        kind = read_options(options).database.kind
        LookupOptions.of(options)
        folded: dict[str, str] = {}
        for field in schema.fields:
            if not _is_carried(kind, field.type):
                raise UserError(
                    "SS4006",
                    f'connector "jdbc" carries no {field.type.with_nullable(True)} of {kind.title},'
                    f' the type of column "{field.name}"',
                    hint="declare a type that the database has",
                )
            other = folded.setdefault(field.name.lower(), field.name)
            if other != field.name and kind is DatabaseKind.SQLITE:
                raise UserError(
                    "SS4006",
                    f'columns "{other}" and "{field.name}" have one name in SQLite, which knows no case',
                    hint="rename one of them",
                )

    def source(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> SourceReader:
        from sqlstream.runtime.connectors.jdbc.source import JdbcReader

        share = own_share(self, spec, context) if splits is None else splits
        return JdbcReader(spec, read_options(spec.options), context, share)

    def split_enumerator(
        self, spec: SourceSpec, context: EnumeratorContext, state: dict[str, Any] | None
    ) -> SplitEnumerator:
        partitions = read_options(spec.options).partitions
        count = len(partitions.ranges()) if partitions is not None else 1
        return FixedSplits([{"range": i, "rows": 0} for i in range(count)], state, is_on_demand=True)

    def lookup_source(
        self, spec: SourceSpec, keys: tuple[str, ...], context: ConnectorContext
    ) -> LookupSource:
        return JdbcLookup(spec, read_options(spec.options), keys, context)

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        options = read_options(spec.options)
        if options.database.is_server:
            from sqlstream.runtime.connectors.jdbc.postgres_sink import PostgresSinkWriter

            return PostgresSinkWriter(spec, options, context)
        from sqlstream.runtime.connectors.jdbc.sqlite_sink import sqlite_sink

        return sqlite_sink(spec, options, context)

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        options = read_options(spec.options)
        if options.database.is_server:
            from sqlstream.runtime.connectors.jdbc.postgres_commit import commit_postgres

            commit_postgres(spec, options, committables, files)
        else:
            from sqlstream.runtime.connectors.jdbc.sqlite_sink import commit_sqlite

            commit_sqlite(spec, options, checkpoint_id, committables, files)

    def abort(self, spec: SinkSpec, job_id: str, committables: list[Committable], files: Files) -> None:
        options = read_options(spec.options)
        if options.database.is_server:
            from sqlstream.runtime.connectors.jdbc.postgres_commit import abort_postgres

            abort_postgres(options, job_id, files)
        else:
            from sqlstream.runtime.connectors.staged_rows import remove_staging

            remove_staging(options.database.address, job_id, files)

    def remove_staged(self, spec: SinkSpec, job_id: str, writer_names: Sequence[str], files: Files) -> None:
        options = read_options(spec.options)
        if options.database.is_server:
            from sqlstream.runtime.connectors.jdbc.postgres_commit import remove_staged_in_postgres

            remove_staged_in_postgres(options, job_id, writer_names, files)
        else:
            from sqlstream.runtime.connectors.staged_rows import remove_staged_by

            remove_staged_by(options.database.address, job_id, writer_names, files)

    def staging_directory(self, spec: SinkSpec, job_id: str, writer_id: str) -> str:
        from sqlstream.runtime.connectors.staged_rows import staging_directory

        database = read_options(spec.options).database
        if database.is_server:
            raise UserError(
                "SS5013", f'rows of table "{spec.table}" are staged in its database, and in no directory'
            )
        return staging_directory(database.address, job_id, writer_id)

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        database = read_options(options).database
        return () if database.is_server else (database.address,)

    def empty_copy(self, options: Mapping[str, str], place: str) -> dict[str, str] | None:
        given = read_options(options)
        if given.database.is_server:
            return None
        from sqlstream.runtime.connectors.jdbc.sqlite_sink import copy_definition

        path = f"{place}.sqlite"
        copy_definition(given.database.address, given.table.table, path)
        return {**options, "url": f"jdbc:sqlite:{path}"}

    def with_absolute_paths(self, options: Mapping[str, str], directory: str) -> Mapping[str, str]:
        # The address of a server is no path.
        if not self.paths(options):
            return options
        path = read_options(options).database.address
        return {**options, "url": f"jdbc:sqlite:{absolute_path('url', path, directory)}"}

    def input_bytes(self, spec: SourceSpec, files: Files) -> int:
        try:
            options = read_options(spec.options)
            if options.database.is_server:
                from sqlstream.runtime.connectors.jdbc.postgres import stored_bytes

                return _FACTOR * stored_bytes(options.database, options.table, files)
            status = files.status(options.database.address)
        except (SqlStreamError, OSError):
            # The reader says what is wrong.
            return 0
        return _FACTOR * status.size if status is not None else 0


def _is_carried(kind: DatabaseKind, t: LogicalType) -> bool:
    if t.root is TypeRoot.ARRAY:
        assert t.element is not None
        return (
            kind is DatabaseKind.POSTGRES
            and t.element.root is not TypeRoot.ARRAY
            and _is_carried(kind, t.element)
        )
    if t.root in _CLOCKS and kind is DatabaseKind.POSTGRES:
        return t.precision <= _DIGITS_MAX
    return t.root not in _NEVER


# A table of a connection whose columns were checked, as a reader or a lookup selects them.


@dataclass(frozen=True)
class OpenedTable:
    """`condition` are the pushed filters in SQL, empty without one."""

    stored: StoredTable
    selection: Selection
    condition: str

    def where(self, added: str = "") -> str:
        """` WHERE …` of the filters and one more condition, which may be empty; empty without any."""
        parts = [part for part in (self.condition, added) if part]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def without_rows_ahead(self, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """The batches of the selection's query, without the rows that are none of the table."""
        ahead = self.selection.rows_ahead
        for batch in batches:
            dropped = min(ahead, batch.num_rows)
            ahead -= dropped
            if batch.num_rows > dropped:
                yield batch.slice(dropped)


def open_table(connection: Connection, options: JdbcOptions, spec: SourceSpec) -> OpenedTable:
    """UserError SS5062 for a table or column that is not there, or has another type."""
    speaking = dialect(options.database.kind)
    stored = speaking.find_table(connection, options.table)
    types = dict(zip(spec.schema.names, spec.schema.types, strict=True))
    wanted = tuple((name, types[name]) for name in spec.columns)
    check_columns(stored, spec.table, wanted, speaking.can_read)
    filters = spec.filters if options.is_filtering else ()
    condition = where(filters, speaking.filtered(stored, wanted), speaking.day)
    selection = speaking.selection(stored, wanted, spec.table)
    return OpenedTable(stored, selection, condition.removeprefix(" WHERE "))


# Reads rows of a database's table by key: one query for all keys of a batch.


class JdbcLookup:
    """Asks the database for the wanted keys alone. A lookup that fails closes the connection, so that the next one connects
    again.

    State: the connection to a server with its table, whose columns are checked once for each; a file is opened for each query."""

    def __init__(
        self, spec: SourceSpec, options: JdbcOptions, keys: tuple[str, ...], context: ConnectorContext
    ) -> None:
        self._spec = spec
        self._options = options
        self._keys = keys
        self._context = context
        self._opened: OpenedTable | None = None
        self._connecting = Connecting(options.database, context.files)
        context.on_cancel(self._connecting.cancel)

    def lookup(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        try:
            connection, opened = self._open()
            self._check_keys(opened)
            source = dialect(self._options.database.kind).matching(connection, opened.stored, keys)
            condition = f" AND {opened.condition}" if opened.condition else ""
            return self._rows(f"{source}{condition}")
        except ExternalError:
            self.close()
            raise
        finally:
            self._close_file()

    def load(self, rows_max: int) -> pa.RecordBatch:
        try:
            _, opened = self._open()
            rows = self._rows(f"{opened.stored.item}{opened.where()} LIMIT {rows_max + 1}")
        except ExternalError:
            self.close()
            raise
        finally:
            self._close_file()
        if rows.num_rows > rows_max:
            raise too_many_rows(self._spec.table, rows_max)
        return rows

    def _rows(self, source: str) -> pa.RecordBatch:
        connection, opened = self._open()
        rows = connection.rows(opened.selection.query(source))
        return opened.selection.declared(rows.slice(opened.selection.rows_ahead))

    def _open(self) -> tuple[Connection, OpenedTable]:
        connection = self._connecting.connection or self._connecting.connect()
        if self._opened is None:
            self._opened = open_table(connection, self._options, self._spec)
        return connection, self._opened

    def _check_keys(self, opened: OpenedTable) -> None:
        speaking = dialect(self._options.database.kind)
        types = dict(opened.selection.columns)
        for key in self._keys:
            if not speaking.can_look_up(opened.stored.columns[key], types[key]):
                title = self._options.database.kind.title
                raise UserError(
                    "SS3030",
                    f'column "{key}" of table "{self._spec.table}" cannot be looked up by: {title} has no equality for'
                    f" {types[key].with_nullable(True)}",
                    hint="look up by a column of another type, or set 'lookup.cache' = 'FULL'",
                )

    def _close_file(self) -> None:
        if not self._options.database.is_server:
            self.close()

    def close(self) -> None:
        self._connecting.close()
        self._opened = None
