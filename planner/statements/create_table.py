"""CREATE TABLE: columns, keys, watermark and options, resolved against the connector."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from msgspec.structs import replace
from sqlglot import exp

from sqlstream import types as sql
from sqlstream.catalog import CatalogTable, Column, ColumnKind, PutObject, WatermarkDefinition
from sqlstream.errors import InternalError, Span, UserError
from sqlstream.expressions import Expression
from sqlstream.planner.bind.binder import root_namespace
from sqlstream.planner.bind.context import BindContext, created_path, object_path, suggest
from sqlstream.planner.bind.expressions.casts import can_cast, plain
from sqlstream.planner.bind.expressions.scalar import ScalarBinder
from sqlstream.planner.bind.relations import table_options
from sqlstream.planner.bind.relations.tables import define_files
from sqlstream.planner.bind.scope import Scope
from sqlstream.planner.dialect import statements
from sqlstream.planner.dialect.habits import column_hint
from sqlstream.planner.dialect.nodes import span_of
from sqlstream.planner.dialect.statements import ColumnDef, CreateTable, Identifier, LikeFiles, LikeTable
from sqlstream.planner.statements.result import DdlResult
from sqlstream.planner.statements.show_create import constraint_name
from sqlstream.planner.statements.table_like import like_table
from sqlstream.schema import Schema
from sqlstream.spi.connector import ConnectorDescriptor
from sqlstream.spi.format import VALUE_PREFIX
from sqlstream.types import ROWTIME_PRECISION_MAX, as_rowtime


def create_table(statement: CreateTable, context: BindContext) -> DdlResult:
    """The change that adds the table to the catalog; none for IF NOT EXISTS when it exists."""
    path = created_path(statement.name.parts, context, statement.name.span)
    existing = context.catalog.get_kind(path, statement.is_temporary)
    if existing is not None and not (statement.is_replacing and isinstance(existing, CatalogTable)):
        if statement.if_not_exists:
            return DdlResult.ok(done=f'table "{path.name}" exists already: nothing changed')
        keep = "write CREATE TABLE IF NOT EXISTS to keep it, or"
        is_table = isinstance(existing, CatalogTable)
        hint = f"{keep} {'CREATE OR ALTER TABLE to give it this definition' if is_table else 'drop it first'}"
        raise UserError("SS2013", f'table "{path.name}" exists already', span=statement.name.span, hint=hint)
    table = apply_create_table(statement, context)
    if table == existing:
        return DdlResult.ok(done=f'table "{path.name}" has this definition already: nothing changed')
    done = f'table "{path.name}" {"replaced" if existing is not None else "created"}'
    return DdlResult.ok(PutObject(table, existing), done=done)


def apply_create_table(statement: CreateTable, context: BindContext) -> CatalogTable:
    """The table that the statement declares. UserError with a position for a part that contradicts another."""
    _check_distinct(statement)
    if isinstance(statement.like, LikeTable):
        statement = like_table(statement, statement.like, context)
    if isinstance(statement.like, LikeFiles):
        return _table_of_files(statement, statement.like, context)
    written_physical = tuple(c.name for c in statement.columns if c.kind is statements.ColumnKind.PHYSICAL)
    span = statement.name.span
    computed = tuple(c.name for c in statement.columns if c.kind is statements.ColumnKind.COMPUTED)
    descriptor = table_options.check_table_options(
        statement.options, written_physical, context, span, computed
    )
    options = table_options.written_options(statement.options)
    fixed = _fixed_schema(descriptor, options)
    _check_partitions(statement, descriptor)
    physical = _physical_columns(statement, fixed, descriptor)
    _refuse_values_alone(statement)
    metadata = _metadata_columns(
        statement, descriptor, table_options.metadata_of(descriptor, options, context)
    )
    columns = _all_columns(statement, physical + metadata, context)
    table = _table(statement, columns, options, context)
    keys = tuple(_physical(k, table.columns).name for k in statement.partition_keys)
    table = replace(table, partition_keys=keys)
    with statements.option_places(statement).errors():
        table_options.check_table_changes(table, options, context)
    return table


_STORED_AS = {
    "VARIANT": "store a STRING, and add a column {} AS PARSE_JSON(text)",
    "BITMAP": "store BYTES, and add a column {} AS BITMAP_FROM_BYTES(bytes)",
}
"""Types that no format carries, and what to write instead."""


def _refuse_values_alone(statement: CreateTable) -> None:
    """UserError SS3453 for a column that is stored as a VARIANT or BITMAP."""
    for column in statement.columns:
        t = column.type
        if t is None or column.kind is statements.ColumnKind.COMPUTED:
            continue
        kind = next((kind for kind in _STORED_AS if kind in str(t)), None)
        if kind is not None:
            raise UserError(
                "SS3453",
                f'no connector stores the {kind} of column "{column.name}"',
                span=column.span,
                hint=_STORED_AS[kind].format(column.name),
            )


def _table_of_files(statement: CreateTable, like: LikeFiles, context: BindContext) -> CatalogTable:
    """The table that LIKE 'path' makes: a column that is written takes the place of the inferred one of its name."""
    if statement.partition_keys:
        raise UserError(
            "SS2011",
            "PARTITIONED BY does not go with LIKE 'path'",
            span=statement.partition_keys[0].span,
            hint="leave it out: the partitions are those that the names of the directories tell",
        )
    inferred = define_files(like.path, statement.options, context, like.span)
    names = [c.name for c in inferred.columns]
    written = {c.name: c for c in statement.columns if c.kind is statements.ColumnKind.PHYSICAL}
    absent = next((c for name, c in written.items() if name not in names), None)
    if absent is not None:
        raise UserError(
            "SS2003",
            f'"{like.path}" has no column "{absent.name}"',
            span=absent.span,
            hint=suggest(absent.name, names, "columns"),
        )
    physical = tuple(
        Column(c.name, _declared_type(written[c.name]), comment=written[c.name].comment)
        if c.name in written
        else _as_rowtime(c)
        if statement.watermark is not None and (c.name,) == statement.watermark.column.parts
        else c
        for c in inferred.columns
    )
    descriptor = table_options.find_connector(inferred.options, context, like.span)
    keys = table_options.metadata_of(descriptor, inferred.options, context)
    stored = physical + _metadata_columns(statement, descriptor, keys)
    # Inferred columns stay in the order of the files, whichever of them are written.
    added = [c for c in statement.columns if c.kind is not statements.ColumnKind.PHYSICAL]
    columns = physical + _written_columns(added, statement, stored, context)
    table = _table(statement, columns, inferred.options, context)
    return replace(table, partition_keys=inferred.partition_keys)


def _as_rowtime(column: Column) -> Column:
    """An inferred column as event time, whose precision it takes: TIMESTAMP(6), as DuckDB has it, would be too fine."""
    is_finer = sql.is_timestamp(column.type) and column.type.precision > ROWTIME_PRECISION_MAX
    return (
        _replace_type(column, replace(column.type, precision=ROWTIME_PRECISION_MAX)) if is_finer else column
    )


def _table(
    statement: CreateTable, columns: tuple[Column, ...], options: dict[str, str], context: BindContext
) -> CatalogTable:
    """The table with these columns, and the key and watermark that the statement declares."""
    columns = _with_primary_key(statement, columns)
    watermark, columns = _with_watermark(statement, columns, context)
    key = _primary_key(statement)
    return CatalogTable(
        path=object_path(statement.name.parts, context, statement.name.span),
        columns=columns,
        options=options,
        watermark=watermark,
        primary_key=key,
        key_name="" if statement.key_name == constraint_name("", key) else statement.key_name,
        comment=statement.comment,
        is_temporary=statement.is_temporary,
    )


def source_text(statement: statements.Statement, node: exp.Expr) -> str:
    """The text of `node` as the user wrote it."""
    span = span_of(node)
    if span is None:
        raise InternalError("an expression of a CREATE statement has no position")
    start = statement.span.start
    return statement.text[span.start - start : span.end - start]


def _check_distinct(statement: CreateTable) -> None:
    seen: set[str] = set()
    for column in statement.columns:
        if column.name in seen:
            raise UserError("SS2012", f'column "{column.name}" is defined twice', span=column.span)
        seen.add(column.name)


def _check_partitions(statement: CreateTable, descriptor: ConnectorDescriptor) -> None:
    if statement.partition_keys and not descriptor.place.partitions:
        raise UserError(
            "SS4003",
            f'connector "{descriptor.identifier}" has no partitions',
            span=statement.partition_keys[0].span,
            hint="leave out PARTITIONED BY",
        )


def _fixed_schema(descriptor: ConnectorDescriptor, options: dict[str, str]) -> Schema | None:
    """The columns that the connector prescribes; None when the user chooses them."""
    if not descriptor.reading.schema_option:
        return None
    default = next((o.default for o in descriptor.options if o.key == descriptor.reading.schema_option), None)
    chosen = options.get(descriptor.reading.schema_option, default or "").lower()
    return next((schema for key, schema in descriptor.reading.schemas.items() if key.lower() == chosen), None)


def _physical_columns(
    statement: CreateTable, fixed: Schema | None, descriptor: ConnectorDescriptor
) -> tuple[Column, ...]:
    written = [c for c in statement.columns if c.kind is statements.ColumnKind.PHYSICAL]
    if not written:
        if fixed is not None:
            return tuple(Column(f.name, f.type) for f in fixed.fields)
        raise UserError(
            "SS2011",
            f'table "{statement.name.parts[-1]}" has no physical column',
            span=statement.name.span,
            hint="declare a column with a type, as in id INT",
        )
    for column in written:
        if fixed is not None:
            _check_fixed(column, fixed, descriptor)
    return tuple(Column(c.name, _declared_type(c), comment=c.comment) for c in written)


def _check_fixed(column: ColumnDef, fixed: Schema, descriptor: ConnectorDescriptor) -> None:
    if column.name not in fixed.names:
        raise UserError(
            "SS2003",
            f'connector "{descriptor.identifier}" has no column "{column.name}"',
            span=column.span,
            hint=suggest(column.name, list(fixed.names), "columns"),
        )
    wanted = fixed.types[fixed.index_of(column.name)]
    declared = _declared_type(column)
    if not declared.same_as(wanted):
        raise UserError(
            "SS2008",
            f'column "{column.name}" of connector "{descriptor.identifier}" is {plain(wanted)},'
            f" not {plain(declared)}",
            span=column.span,
            hint=f"declare it as {plain(wanted)}",
        )


def _declared_type(column: ColumnDef) -> sql.LogicalType:
    if column.type is None:
        raise UserError(
            "SS2008",
            f'column "{column.name}" needs a type',
            span=column.span,
            hint=f"write a type behind the name, as in {column.name} STRING",
        )
    return column.type


def _metadata_columns(
    statement: CreateTable, descriptor: ConnectorDescriptor, keys: dict[str, sql.LogicalType]
) -> tuple[Column, ...]:
    columns = []
    for column in statement.columns:
        if column.kind is not statements.ColumnKind.METADATA:
            continue
        key = column.metadata_key or column.name
        declared = _declared_type(column)
        provided = keys.get(key)
        if provided is None:
            hint = suggest(
                key, sorted(key for key in keys if not key.startswith(VALUE_PREFIX)), "metadata keys"
            )
            message = f'connector "{descriptor.identifier}" has no metadata "{key}"'
            raise UserError("SS2003", message, span=column.span, hint=hint)
        if not can_cast(provided, declared):
            raise UserError(
                "SS2008",
                f'metadata "{key}" is {plain(provided)} and cannot become {plain(declared)}',
                span=column.span,
                hint=f"declare the column as {plain(provided)}",
            )
        columns.append(
            Column(
                column.name,
                declared,
                ColumnKind.METADATA,
                metadata_key=key,
                is_virtual=column.is_virtual,
                comment=column.comment,
            )
        )
    return tuple(columns)


def _all_columns(
    statement: CreateTable, stored: tuple[Column, ...], context: BindContext
) -> tuple[Column, ...]:
    """Columns in the written order, after those that the connector provides."""
    written = {c.name for c in statement.columns}
    provided = tuple(c for c in stored if c.name not in written)
    return provided + _written_columns(statement.columns, statement, stored, context)


def _written_columns(
    written: Iterable[ColumnDef], statement: CreateTable, stored: tuple[Column, ...], context: BindContext
) -> tuple[Column, ...]:
    by_name = {c.name: c for c in stored}
    return tuple(
        _computed_column(statement, column, stored, context)
        if column.kind is statements.ColumnKind.COMPUTED
        else by_name[column.name]
        for column in written
    )


def _computed_column(
    statement: CreateTable, column: ColumnDef, stored: tuple[Column, ...], context: BindContext
) -> Column:
    assert column.expression is not None
    scope = _scope(statement, stored)
    binder = ScalarBinder(root_namespace(context), scope, f'computed column "{column.name}"')
    with _blamed(column.stored_text, column.span):
        bound = _bind_over_stored(binder, column.expression, statement)
    text = column.stored_text or source_text(statement, column.expression)
    return Column(column.name, bound.type, ColumnKind.COMPUTED, expression=text, comment=column.comment)


@contextlib.contextmanager
def _blamed(stored_text: str, place: Span) -> Iterator[None]:
    """Errors in text that another table has stored point at `place`, and show the text."""
    try:
        yield
    except UserError as error:
        if not stored_text:
            raise
        detail = f"{error.detail}; in {stored_text}" if error.detail else f"in {stored_text}"
        raise UserError(error.code, error.message, span=place, detail=detail, hint=error.hint) from error


def _bind_over_stored(binder: ScalarBinder, node: exp.Expr, statement: CreateTable) -> Expression:
    computed = {c.name for c in statement.columns if c.kind is statements.ColumnKind.COMPUTED}
    try:
        return binder.bind(node)
    except UserError as error:
        used = [str(n.name) for n in node.walk() if isinstance(n, exp.Column) and n.name in computed]
        if error.code == "SS2003" and used:
            error.hint = f'a computed column cannot use another one: repeat the expression of "{used[0]}"'
        raise


def _scope(statement: CreateTable, columns: tuple[Column, ...]) -> Scope:
    return Scope.of(Schema.of(*[(c.name, c.type) for c in columns]), statement.name.parts[-1:])


def _primary_key(statement: CreateTable) -> tuple[str, ...]:
    marked = tuple(c.name for c in statement.columns if c.is_primary_key)
    return tuple(k.parts[-1] for k in statement.primary_key) or marked


def _with_primary_key(statement: CreateTable, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns, with those of the primary key NOT NULL."""
    for key in statement.primary_key:
        _physical(key, columns)
    keys = _primary_key(statement)
    if len(set(keys)) < len(keys):
        raise UserError("SS2012", "a column is repeated in PRIMARY KEY", span=statement.primary_key[0].span)
    return tuple(_replace_type(c, c.type.not_null()) if c.name in keys else c for c in columns)


def _physical(name: Identifier, columns: tuple[Column, ...]) -> Column:
    column = _find(name, columns)
    if column.kind is not ColumnKind.PHYSICAL:
        raise UserError(
            "SS2011",
            f'a key takes physical columns, but "{column.name}" is none',
            span=name.span,
            hint="name columns that are declared with a type",
        )
    return column


def _find(name: Identifier, columns: tuple[Column, ...]) -> Column:
    for column in columns:
        if column.name == name.parts[-1]:
            return column
    hint = column_hint(name.parts[-1]) or suggest(name.parts[-1], [c.name for c in columns], "columns")
    raise UserError("SS2003", f'column "{name.parts[-1]}" does not exist', span=name.span, hint=hint)


def _replace_type(column: Column, t: sql.LogicalType) -> Column:
    return Column(
        column.name,
        t,
        column.kind,
        column.expression,
        column.metadata_key,
        column.is_virtual,
        column.comment,
    )


def _with_watermark(
    statement: CreateTable, columns: tuple[Column, ...], context: BindContext
) -> tuple[WatermarkDefinition | None, tuple[Column, ...]]:
    """The watermark, and the columns, of which its own is marked as ROWTIME."""
    written = statement.watermark
    if written is None:
        return None, columns
    if len(written.column.parts) > 1:
        raise UserError(
            "SS2011",
            "WATERMARK FOR takes a column of the table, not a nested field",
            span=written.column.span,
            hint="add a computed column for the field",
        )
    column = _find(written.column, columns)
    _check_rowtime(column, written.column.span)
    binder = ScalarBinder(root_namespace(context), _scope(statement, columns), "WATERMARK")
    with _blamed(written.stored_text, written.span):
        bound = binder.bind(written.expression)
    if bound.type.root is not column.type.root:
        raise UserError(
            "SS2008",
            f'the watermark of "{column.name}" must be {plain(column.type)}, not {plain(bound.type)}',
            span=span_of(written.expression),
            hint=f"write WATERMARK FOR {column.name} AS {column.name} - INTERVAL '5' SECOND",
        )
    text = written.stored_text or source_text(statement, written.expression)
    marked = tuple(_replace_type(c, as_rowtime(c.type)) if c is column else c for c in columns)
    return WatermarkDefinition(column.name, text), marked


def _check_rowtime(column: Column, span: Span) -> None:
    if sql.is_proctime(column.type):
        raise UserError(
            "SS2008",
            f'"{column.name}" is a processing time and takes no watermark',
            span=span,
            hint="leave WATERMARK out: a processing time needs none",
        )
    if not sql.is_timestamp(column.type):
        raise UserError(
            "SS2008",
            f'the watermark column "{column.name}" must be a TIMESTAMP or TIMESTAMP_LTZ,'
            f" not {plain(column.type)}",
            span=span,
            hint="add a computed column, e.g. AS TO_TIMESTAMP(text) or AS TO_TIMESTAMP_LTZ(millis, 3)",
        )
    if column.type.precision > ROWTIME_PRECISION_MAX:
        hint = f"declare it as {column.type.root.name}({ROWTIME_PRECISION_MAX})"
        raise UserError(
            "SS2008",
            f'the watermark column "{column.name}" is {plain(column.type)};'
            f" event time has a precision of {ROWTIME_PRECISION_MAX} at most",
            span=span,
            hint=hint,
        )
