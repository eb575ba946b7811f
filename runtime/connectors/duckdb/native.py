"""A table of a DuckDB file as a relation of another DuckDB, to which the file is attached."""

from __future__ import annotations

import contextlib
import hashlib

import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.connectors.duckdb.arrow_types import duckdb_type
from sqlstream.runtime.connectors.duckdb.database import INSTANCES, WAL_ENDINGS, table_of
from sqlstream.runtime.connectors.duckdb.options import Place
from sqlstream.runtime.connectors.duckdb.relation import check_columns, check_table, described, is_table
from sqlstream.runtime.connectors.duckdb.shared_connection import SharedConnection
from sqlstream.runtime.connectors.duckdb.types import can_read
from sqlstream.runtime.connectors.sql_filters import quote, text
from sqlstream.specs import SourceSpec
from sqlstream.spi.batch_relation import DuckDbRelation, ThroughReader
from sqlstream.spi.files import Files
from sqlstream.types import LogicalType, TypeRoot

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
