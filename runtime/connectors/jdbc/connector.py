"""The connector `jdbc`: tables of databases, by Flink's options and ADBC's drivers."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.runtime.connectors.files.file_paths import absolute_path
from sqlstream.runtime.connectors.fixed_splits import FixedSplits, own_share
from sqlstream.runtime.connectors.jdbc.database import DatabaseKind
from sqlstream.runtime.connectors.jdbc.options import OPTIONS, read_options
from sqlstream.runtime.connectors.sql_tables import SqlTables, sql_descriptor
from sqlstream.schema import Field, Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi import connector
from sqlstream.spi.files import Files
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


class Jdbc(SqlTables):
    """Tables of PostgreSQL and SQLite: a bounded source, by key, and a sink."""

    descriptor = sql_descriptor("jdbc", OPTIONS)

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """Options that fit each other, types that the database has. UserError SS4002, SS4003, SS4005, SS4006."""
        kind = read_options(options).database.kind
        caseless = kind.title if kind is DatabaseKind.SQLITE else ""
        self._check_columns(schema, options, functools.partial(_refusal, kind), caseless)

    def source(
        self, spec: SourceSpec, context: connector.ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> connector.SourceReader:
        from sqlstream.runtime.connectors.jdbc.source import JdbcReader

        share = own_share(self, spec, context) if splits is None else splits
        return JdbcReader(spec, read_options(spec.options), context, share)

    def split_enumerator(
        self, spec: SourceSpec, context: connector.EnumeratorContext, state: dict[str, Any] | None
    ) -> connector.SplitEnumerator:
        partitions = read_options(spec.options).partitions
        count = len(partitions.ranges()) if partitions is not None else 1
        return FixedSplits([{"range": i, "rows": 0} for i in range(count)], state, is_on_demand=True)

    def lookup_source(
        self, spec: SourceSpec, keys: tuple[str, ...], context: connector.ConnectorContext
    ) -> connector.LookupSource:
        from sqlstream.runtime.connectors.jdbc.source import JdbcLookup

        return JdbcLookup(spec, read_options(spec.options), keys, context)

    def sink(
        self, spec: SinkSpec, mode: ChangelogMode, context: connector.ConnectorContext
    ) -> connector.SinkWriter:
        options = read_options(spec.options)
        if options.database.is_server:
            from sqlstream.runtime.connectors.jdbc.postgres_sink import PostgresSinkWriter

            return PostgresSinkWriter(spec, options, context)
        from sqlstream.runtime.connectors.jdbc.sqlite import sqlite_sink

        return sqlite_sink(spec, options, context)

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        options = read_options(spec.options)
        if options.database.is_server:
            from sqlstream.runtime.connectors.jdbc.postgres_commit import commit_postgres

            commit_postgres(spec, options, committables, files)
        else:
            from sqlstream.runtime.connectors.jdbc.sqlite import commit_sqlite

            commit_sqlite(spec, options, checkpoint_id, committables, files)

    def abort(self, spec: SinkSpec, job_id: str, committables: list[Committable], files: Files) -> None:
        options = read_options(spec.options)
        if not options.database.is_server:
            return super().abort(spec, job_id, committables, files)
        from sqlstream.runtime.connectors.jdbc.postgres_commit import abort_postgres

        return abort_postgres(options, job_id, files)

    def remove_staged(self, spec: SinkSpec, job_id: str, writer_names: Sequence[str], files: Files) -> None:
        options = read_options(spec.options)
        if not options.database.is_server:
            return super().remove_staged(spec, job_id, writer_names, files)
        from sqlstream.runtime.connectors.jdbc.postgres_commit import remove_staged_in_postgres

        return remove_staged_in_postgres(options, job_id, writer_names, files)

    def _written_file(self, spec: SinkSpec) -> str:
        database = read_options(spec.options).database
        if database.is_server:
            raise UserError(
                "SS5013",
                f'rows of table "{spec.table}" are staged in its database, and in no directory',
                hint="name a table of connector duckdb or sqlite",
            )
        return database.address

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        database = read_options(options).database
        return () if database.is_server else (database.address,)

    def empty_copy(self, options: Mapping[str, str], place: str) -> dict[str, str] | None:
        given = read_options(options)
        if given.database.is_server:
            return None
        from sqlstream.runtime.connectors.jdbc.sqlite import copy_definition

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


def _refusal(kind: DatabaseKind, field: Field) -> UserError | None:
    if _is_carried(kind, field.type):
        return None
    return UserError(
        "SS4006",
        f'connector "jdbc" carries no {field.type.with_nullable(True)} of {kind.title}, the type of column "{field.name}"',
        column=field.name,
        hint="declare a type that the database has",
    )


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
