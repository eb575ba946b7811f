"""DESCRIBE and SHOW COLUMNS: the columns of a table or view."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.catalog import CatalogTable, Column, ColumnKind
from sqlstream.expressions import LiteralValue
from sqlstream.planner.bind.binder import bind_query
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.names import find_object, object_path
from sqlstream.planner.bind.side_tables import find_side_table
from sqlstream.planner.dialect.statements import Describe, Identifier
from sqlstream.planner.statements.result import DdlResult
from sqlstream.schema import Schema

_COLUMNS = (
    ("name", sql.STRING),
    ("type", sql.STRING),
    ("null", sql.BOOLEAN),
    ("key", sql.STRING),
    ("extras", sql.STRING),
    ("watermark", sql.STRING),
)


def describe(statement: Describe, context: BindContext) -> DdlResult:
    """One row per column: name, type, null, key, extras, watermark, and comment when a column has one."""
    if statement.query is not None:
        fields = bind_query(statement.query, context).schema.fields
        rows = tuple(_row(Column(f.name, f.type.without_time_attribute()), None) for f in fields)
        return DdlResult(Schema.of(*_COLUMNS), rows)
    return describe_object(statement.name, context)


def describe_object(name: Identifier, context: BindContext) -> DdlResult:
    path = object_path(name.parts, context, name.span)
    found = find_side_table(path, context, name.span) or find_object(path, context, name.span)
    if isinstance(found, CatalogTable):
        columns, table = found.columns, found
    else:
        columns, table = tuple(Column(f.name, f.type) for f in found.schema.fields), None
    rows = [_row(c, table) for c in columns]
    if not any(c.comment for c in columns):
        return DdlResult(Schema.of(*_COLUMNS), tuple(rows))
    commented = tuple((*row, c.comment or None) for row, c in zip(rows, columns, strict=True))
    return DdlResult(Schema.of(*_COLUMNS, ("comment", sql.STRING)), commented)


def _row(column: Column, table: CatalogTable | None) -> tuple[LiteralValue, ...]:
    keys = table.primary_key if table is not None else ()
    watermark = table.watermark if table is not None else None
    return (
        column.name,
        str(column.type.with_nullable(True)),
        column.type.nullable,
        f"PRI({', '.join(keys)})" if column.name in keys else None,
        column_extras(column) or None,
        watermark.expression if watermark is not None and watermark.column == column.name else None,
    )


def column_extras(column: Column) -> str:
    """The SQL that declares a computed or metadata column."""
    if column.kind is ColumnKind.COMPUTED:
        return f"AS {column.expression}"
    if column.kind is ColumnKind.METADATA:
        source = f" FROM '{column.metadata_key}'" if column.metadata_key not in ("", column.name) else ""
        return f"METADATA{source}{' VIRTUAL' if column.is_virtual else ''}"
    return ""
