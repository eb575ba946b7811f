"""The connector `duckdb`: tables of DuckDB files, files that DuckDB reads, and databases that it attaches."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.runtime.connectors.duckdb.database import INSTANCES, WAL_ENDINGS, SharedConnection, table_of
from sqlstream.runtime.connectors.duckdb.options import OPTIONS, Place, PlaceKind, read_place
from sqlstream.runtime.connectors.duckdb.relation import check_columns, check_table, described, is_table
from sqlstream.runtime.connectors.duckdb.types import can_read, duckdb_type, is_carried
from sqlstream.runtime.connectors.files.file_paths import absolute_path, is_pattern, root_of
from sqlstream.runtime.connectors.fixed_splits import FixedSplits, own_share
from sqlstream.runtime.connectors.sql_filters import quote, text
from sqlstream.runtime.connectors.sql_tables import SqlTables, sql_descriptor
from sqlstream.schema import Field, Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi import connector
from sqlstream.spi.batch_relation import BatchRelation, DuckDbRelation, ThroughReader
from sqlstream.spi.files import Files
from sqlstream.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    from sqlstream.specs import SinkSpec
    from sqlstream.spi.committable import Committable


_PACKED_FACTOR = 10
"""How much larger rows are than a DuckDB or Parquet file with them, at most in most cases."""


class DuckDb(SqlTables):
    """Tables that DuckDB reads: all of them as a bounded source and by key, and those of a DuckDB file as a sink too."""

    descriptor = sql_descriptor("duckdb", OPTIONS)

    def validate(
        self, table: str, schema: Schema, options: dict[str, str], partition_keys: tuple[str, ...] = ()
    ) -> None:
        """Options that fit each other, types that DuckDB carries. UserError SS4002, SS4003, SS4005, SS4006."""
        kind = read_place(table, options).kind
        self._check_columns(schema, options, lambda field: _refusal(kind, field), "DuckDB")

    def source(
        self, spec: SourceSpec, context: connector.ConnectorContext, splits: list[dict[str, Any]] | None
    ) -> connector.SourceReader:
        from sqlstream.runtime.connectors.duckdb.source import DuckDbReader

        share = own_share(self, spec, context) if splits is None else splits
        return DuckDbReader(spec, read_place(spec.table, spec.options), context, share)

    def split_enumerator(
        self, spec: SourceSpec, context: connector.EnumeratorContext, state: dict[str, Any] | None
    ) -> connector.SplitEnumerator:
        return FixedSplits([{"block": 0, "rows": 0}], state)

    def lookup_source(
        self, spec: SourceSpec, keys: tuple[str, ...], context: connector.ConnectorContext
    ) -> connector.LookupSource:
        from sqlstream.runtime.connectors.duckdb.source import DuckDbLookup

        return DuckDbLookup(spec, read_place(spec.table, spec.options), keys, context)

    def sink(
        self, spec: SinkSpec, mode: ChangelogMode, context: connector.ConnectorContext
    ) -> connector.SinkWriter:
        from sqlstream.runtime.connectors.duckdb.commit import check_target
        from sqlstream.runtime.connectors.staged_rows import StagedRowsWriter

        place = _written(spec)
        check_target(place, spec, context.files)
        return StagedRowsWriter(spec, place.path, context)

    def commit(
        self, spec: SinkSpec, checkpoint_id: int, committables: list[Committable], files: Files
    ) -> None:
        from sqlstream.runtime.connectors.duckdb.commit import apply

        apply(_written(spec), spec, checkpoint_id, committables, files)

    def abort(self, spec: SinkSpec, job_id: str, committables: list[Committable], files: Files) -> None:
        # Of a table that is not written no writer has begun.
        if read_place(spec.table, spec.options).kind is PlaceKind.DUCKDB:
            super().abort(spec, job_id, committables, files)

    def _written_file(self, spec: SinkSpec) -> str:
        return _written(spec).path

    def batch_relation(
        self, source: SourceSpec, engine: str, files: Files, check_cancelled: Callable[[], None]
    ) -> BatchRelation:
        place = read_place(source.table, source.options)
        if engine != "duckdb" or place.kind is not PlaceKind.DUCKDB:
            return ThroughReader()
        return attached_relation(place, source, files)

    def paths(self, options: Mapping[str, str]) -> tuple[str, ...]:
        place = read_place("", options)
        return () if place.kind.is_server else (root_of(place.path),)

    def empty_copy(self, options: Mapping[str, str], place: str) -> dict[str, str] | None:
        # The sink makes the table in the file, in the database's default schema.
        copied = {key: value for key, value in options.items() if key != "table-name"}
        return {**copied, "type": PlaceKind.DUCKDB.value, "path": f"{place}.duckdb"}

    def with_absolute_paths(self, options: Mapping[str, str], directory: str) -> Mapping[str, str]:
        # The path of a server is an address.
        is_local = bool(self.paths(options))
        return {**options, "path": absolute_path("path", options["path"], directory)} if is_local else options

    def input_bytes(self, spec: SourceSpec, files: Files) -> int:
        try:
            place = read_place(spec.table, spec.options)
            if place.kind.is_server:
                return 1 << 62
            found = files.match_glob(place.path) if is_pattern(place.path) else [place.path]
            sizes = [status.size for path in found if (status := files.status(path)) is not None]
        except (SqlStreamError, OSError):
            # The reader says what is wrong.
            return 0
        is_text = place.kind in (PlaceKind.CSV, PlaceKind.JSON) and os.path.splitext(place.path)[1] != ".gz"
        return sum(sizes) * (1 if is_text else _PACKED_FACTOR)


_WITH_ARRAYS = (PlaceKind.DUCKDB, PlaceKind.PARQUET, PlaceKind.JSON)


def _refusal(kind: PlaceKind, field: Field) -> UserError | None:
    if field.type.root is TypeRoot.ARRAY and kind not in _WITH_ARRAYS:
        return UserError(
            "SS4006",
            f'connector "duckdb" carries no {field.type.with_nullable(True)} at type {kind.value}:'
            f' that of column "{field.name}"',
            column=field.name,
            hint="read ARRAYs of DuckDB files, Parquet and JSON; those of Postgres by connector 'jdbc'",
        )
    if is_carried(field.type):
        return None
    return UserError(
        "SS4006",
        f'connector "duckdb" carries no {field.type.with_nullable(True)}, the type of column "{field.name}"',
        column=field.name,
        hint="declare columns of plain types, or ARRAYs of numbers, texts, dates or BOOLEAN",
    )


def _written(spec: SinkSpec) -> Place:
    """UserError SS5013 for a place that cannot be written."""
    place = read_place(spec.table, spec.options)
    if place.kind is not PlaceKind.DUCKDB:
        raise UserError(
            "SS5013",
            f'table "{spec.table}" cannot be written: it is of type {place.kind.value}, and only DuckDB files are written',
            hint="declare another table with connector 'filesystem', or one in a DuckDB file",
        )
    return place


# A table of a DuckDB file as a relation of another DuckDB, to which the file is attached.


_ZONED = "TIMESTAMP WITH TIME ZONE"


def attached_relation(place: Place, spec: SourceSpec, files: Files) -> DuckDbRelation | ThroughReader:
    """The table as DuckDB itself reads it. Views are read through our reader: they are SQL that could name what else the
    statement reads. Errors as those of the reader."""
    types = dict(zip(spec.schema.names, spec.schema.types, strict=True))
    with INSTANCES.reading(place, files) as (connection, alias, paths):
        check_table(place, connection, alias)
        if not is_table(place, connection, alias):
            return ThroughReader(f"{place.name} is a view")
        item = table_of(place, alias)
        stored = described(connection, item)
        check_columns(place, spec.table, [(name, types[name]) for name in spec.columns], stored)
        ((row_count,),) = connection.execute(f"SELECT count(*) FROM {item}").fetchall()
    path = paths[0]
    expressions = {name: _expression(name, stored[name], types[name], path) for name in spec.columns}
    misfit = next((name for name, expression in expressions.items() if expression is None), None)
    if misfit is not None:
        declared = types[misfit].with_nullable(True)
        return ThroughReader(f'column "{misfit}" is {stored[misfit]}, and declared {declared}')
    # Two tables of a file share its database: DuckDB attaches no file twice.
    name = f"file_{hashlib.sha256(path.encode()).hexdigest()[:16]}"
    columns = ", ".join(f"{e} AS c{i}" for i, e in enumerate(expressions.values())) or "1 AS c"

    def attach(shared: SharedConnection) -> contextlib.AbstractContextManager[None]:
        return INSTANCES.lent(place, files, shared, name)

    return DuckDbRelation(
        "native, attached read-only",
        f"SELECT {columns} FROM {table_of(place, name)}",
        tuple(path + ending for ending in WAL_ENDINGS),
        attach,
        row_count,
    )


def _expression(name: str, stored: str, declared: LogicalType, path: str) -> str | None:
    """The column in DuckDB's type for the Arrow type of the declared one; None where only our reader converts it."""
    column, target = quote(name), duckdb_type(to_arrow_type(declared))
    kept = "TIMESTAMPTZ" if stored == _ZONED else stored.replace(",", ", ").replace(",  ", ", ")
    if not can_read(stored, declared) or declared.root is TypeRoot.TIME:
        return None
    if declared.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return _timestamp(column, kept, target, to_arrow_type(declared), path)
    if kept == target:
        return column
    return f"CAST({column} AS {target})"


def _timestamp(column: str, stored: str, target: str, t: pa.TimestampType, path: str) -> str | None:
    if stored not in ("TIMESTAMP", "TIMESTAMPTZ") or t.unit not in ("ms", "us"):
        return column if stored == target and t.tz is None else None
    if t.unit == "us":
        return column
    # Our reader fails for a value that the declared type would cut; the path has the failure looked into.
    failure = f"error({text(f'a value of {path} does not fit')})"
    fits = f"{column} IS NULL OR epoch_us({column}) % 1000 = 0"
    return f"CASE WHEN {fits} THEN CAST({column} AS {target}) ELSE CAST({failure} AS {target}) END"
