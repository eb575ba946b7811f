"""DESCRIBE and SHOW COLUMNS: the columns of a table or view."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.catalog import CatalogTable, Column, ColumnKind
from sqlstream.errors import UserError, choose_one_of
from sqlstream.expressions import LiteralValue
from sqlstream.functions import CALLABLE, REWRITTEN_SCALARS, SCALAR_FUNCTIONS
from sqlstream.functions.placed import PLACED
from sqlstream.functions.signature import AGGREGATED, DescribedFunction
from sqlstream.planner.bind.binder import bind_query
from sqlstream.planner.bind.context import BindContext, find_object, object_path
from sqlstream.planner.bind.expressions.calls import unknown_function
from sqlstream.planner.bind.relations.table_options import own_options
from sqlstream.planner.bind.relations.tables import find_side_table
from sqlstream.planner.dialect.statements import Describe, DescribedKind, DescribeExtension, Identifier
from sqlstream.planner.statements.functions import describe_user_function
from sqlstream.planner.statements.models import describe_model
from sqlstream.planner.statements.result import DdlResult
from sqlstream.schema import Schema
from sqlstream.spi.connector import ConnectorDescriptor, OptionDescriptor, OptionType

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
    try:
        found = find_side_table(path, context, name.span) or find_object(path, context, name.span)
    except UserError as error:
        kind = name.parts[-1].upper()
        if len(name.parts) > 1 or kind not in (*DescribedKind.__members__, "CATALOG", "DATABASE", "JOB"):
            raise
        hint = f"name one, as in: DESCRIBE {kind} name; SHOW {kind}S lists them"
        raise UserError(error.code, error.message, span=error.span, hint=hint) from error
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


# SHOW CONNECTORS, SHOW FORMATS and DESCRIBE CONNECTOR, FORMAT, FUNCTION.


_Rows = list[tuple[LiteralValue, ...]]

_OPTION_COLUMNS = (
    *(("option", sql.STRING), ("type", sql.STRING), ("default", sql.STRING)),
    *(("required", sql.BOOLEAN), ("meaning", sql.STRING)),
)


def connector_rows(context: BindContext) -> DdlResult:
    """One row per connector: whether it can be read and written, and whether its tables need a format."""
    named = sorted((i, d) for i, d in context.connectors.items() if not d.is_internal)
    columns = (("reads", sql.BOOLEAN), ("writes", sql.BOOLEAN), ("needs format", sql.BOOLEAN))
    rows = tuple((i, d.is_source, d.is_sink, d.place.has_format) for i, d in named)
    return DdlResult(Schema.of(("connector name", sql.STRING), *columns), rows)


def describe_extension(statement: DescribeExtension, context: BindContext) -> DdlResult:
    """The options of a connector or format, the arguments and result of a function, or the columns of a model."""
    match statement.kind:
        case DescribedKind.CONNECTOR:
            return _describe_connector(statement.name, context)
        case DescribedKind.FORMAT:
            return _describe_format(statement.name, context)
        case DescribedKind.MODEL:
            return describe_model(statement.name, context)
        case DescribedKind.FUNCTION:
            return describe_user_function(
                statement.name, statement.is_extended, context
            ) or _describe_function(statement)


def _describe_connector(name: Identifier, context: BindContext) -> DdlResult:
    named = {i: d for i, d in context.connectors.items() if not d.is_internal}
    found = named.get(name.parts[0])
    if found is None:
        raise _unknown("connector", "SS4004", name, sorted(named))
    return _option_rows(_connector_options(found))


def _connector_options(descriptor: ConnectorDescriptor) -> list[OptionDescriptor]:
    options = own_options(descriptor)
    if descriptor.place.has_format:
        meaning = "How rows are written; SHOW FORMATS lists the formats, DESCRIBE FORMAT their options."
        options.insert(0, OptionDescriptor("format", OptionType.STRING, meaning, is_required=True))
    return options


def _describe_format(name: Identifier, context: BindContext) -> DdlResult:
    found = context.formats.get(name.parts[0])
    if found is None:
        raise _unknown("format", "SS4004", name, sorted(context.formats))
    return _option_rows(list(found.options), f"{found.identifier}.")


def _option_rows(options: list[OptionDescriptor], prefix: str = "") -> DdlResult:
    rows: _Rows = []
    for o in options:
        meaning = f"{o.description} One of {', '.join(o.choices)}." if o.choices else o.description
        rows.append((prefix + o.key, o.type.value, o.default, o.is_required, meaning))
    return DdlResult(Schema.of(*_OPTION_COLUMNS), tuple(rows))


def _describe_function(statement: DescribeExtension) -> DdlResult:
    name = statement.name.parts[-1].upper()
    function: DescribedFunction | None = CALLABLE.get(name)
    if function is None and (placed := PLACED.get(name)) is not None:
        return _described(
            ("signature", placed.form), ("description", placed.description), ("documentation", placed.page)
        )
    if function is None:
        raise unknown_function(name, statement.name.span)
    scalar = SCALAR_FUNCTIONS.get(name)
    is_scalar = scalar is not None or name in REWRITTEN_SCALARS
    rows = [("signature", function.usage), ("description", function.description)]
    if function.example:
        over = "" if is_scalar else f" FROM {AGGREGATED}"
        rows.append(("example", f"{function.example}{over} gives {function.value}"))
    if statement.is_extended:
        rows += [
            ("kind", "SCALAR" if is_scalar else "AGGREGATE"),
            ("is deterministic", "true" if scalar is None or scalar.is_deterministic else "false"),
        ]
        if not is_scalar:
            rows.append(("takes updating input", "true"))
    return _described(*rows)


def _described(*rows: tuple[str, str]) -> DdlResult:
    return DdlResult(Schema.of(("info name", sql.STRING), ("info value", sql.STRING)), rows)


def _unknown(what: str, code: str, name: Identifier, known: list[str]) -> UserError:
    hint = choose_one_of(name.parts[0], known)
    return UserError(code, f'unknown {what} "{name.parts[0]}"', span=name.span, hint=hint)
