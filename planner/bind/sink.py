"""INSERT INTO and the sink of a SELECT: a query's columns matched with those of the target."""

from __future__ import annotations

import dataclasses

import msgspec
from sqlglot import exp

from sqlstream.catalog import CatalogTable, Column, ColumnKind, ObjectPath
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ErrorsAt, Span, UserError
from sqlstream.expressions import Expression, InputRef, Literal, LiteralValue
from sqlstream.planner.bind.binder import bind_query, root_namespace
from sqlstream.planner.bind.changing import bind_delete, bind_truncate, bind_update, check_can_change
from sqlstream.planner.bind.context import BindContext, find_table, object_path, suggest
from sqlstream.planner.bind.expressions.casts import (
    can_cast,
    can_cast_implicitly,
    cast_to,
    plain,
    stored_value,
)
from sqlstream.planner.bind.expressions.literals import bind_literal
from sqlstream.planner.bind.relations import table_options
from sqlstream.planner.bind.set_operations import output_spans
from sqlstream.planner.dialect import nodes, statements
from sqlstream.planner.dialect.nodes import span_of
from sqlstream.planner.guards import refuse_depth
from sqlstream.planner.relational.nodes import Project, RelationalNode, Sink
from sqlstream.planner.rules.constant_folding import fold
from sqlstream.schema import Field, Schema
from sqlstream.specs.sink import COLLECT, SinkAction
from sqlstream.spi.changelog_options import sink_mode_of
from sqlstream.spi.connector import ConnectorDescriptor
from sqlstream.types import LogicalType, TypeRoot


def bind_sinks(statement: statements.Statement, context: BindContext) -> tuple[Sink, ...]:
    """The plan of a query, INSERT or statement set: one sink for each."""
    match statement:
        case statements.Query():
            return (bind_select_sink(statement.query, context),)
        case statements.Insert():
            return (bind_insert(statement, context),)
        case statements.StatementSet():
            sinks = tuple(bind_insert(insert, context) for insert in statement.inserts)
            _check_overwritten_once(sinks)
            return sinks
        case statements.Update():
            return (bind_update(statement, context),)
        case statements.Delete():
            return (bind_delete(statement, context),)
        case statements.Truncate():
            return (bind_truncate(statement, context),)
    raise UserError(
        "SS3001",
        "only queries and INSERT statements have a plan",
        span=statement.span,
        hint="write SELECT …, INSERT INTO … or a statement set",
    )


def _check_overwritten_once(sinks: tuple[Sink, ...]) -> None:
    """UserError SS3492 for a table that one INSERT of a set overwrites and another writes: which rows stayed would depend on the
    order of their commits."""
    for sink in sinks:
        other = next((s for s in sinks if s is not sink and s.table.path == sink.table.path), None)
        if sink.action is not None and other is not None:
            raise UserError(
                "SS3492",
                f'table "{sink.table.path.name}" is overwritten, and written by another INSERT of the set',
                span=sink.span,
            )


@refuse_depth()
def bind_insert(statement: statements.Insert, context: BindContext) -> Sink:
    """The plan of INSERT INTO. UserError when query and table do not match by number and type of columns."""
    span = statement.target.span
    return insert_into(
        find_table(object_path(statement.target.parts, context, span), context, span), statement, context
    )


def insert_into(
    table: CatalogTable,
    statement: statements.Insert,
    context: BindContext,
    query: RelationalNode | None = None,
) -> Sink:
    """The same into a table that the catalog may not have, or have otherwise; `query`: that of the statement, if it is bound."""
    span = statement.target.span
    options = {**table.options, **table_options.check_hints(table, statement.hints, context)}
    descriptor = table_options.find_connector(options, context, span)
    if not descriptor.is_sink:
        raise UserError(
            "SS3003",
            f'table "{table.path.name}" cannot be written:'
            f' connector "{descriptor.identifier}" is only a source',
            span=span,
            hint="INSERT INTO a table whose connector is a sink, such as print or filesystem",
        )
    with ErrorsAt(span):
        table_options.check_table_changes(table, options, context)
    if statement.is_overwriting:
        check_can_change(table, descriptor, SinkAction.OVERWRITE, span)
    _check_on_conflict(statement, table, descriptor, options)
    columns = _writable_columns(table, descriptor, options, span)
    fixed = _static_partition(statement, table, columns)
    targets = _targets(statement, table, columns, fixed)
    query = query or _bound(statement, context)
    spans = output_spans(statement.query, len(query.schema))
    if statement.is_by_name:
        place = span_of(statement.query)
        named = tuple(
            statements.Identifier((n,), s or place or span)
            for n, s in zip(query.schema.names, spans, strict=True)
        )
        targets = _targets(msgspec.structs.replace(statement, columns=named), table, columns, fixed)
    _check_assignment(query, targets, table, span_of(statement.query), spans, context)
    assigned = _assignments(query, targets, fixed, spans, context)
    writable = descriptor.writing.metadata_of(options)
    sink = _sink(query, table, options, columns, writable, assigned, statement)
    if statement.is_overwriting:
        sink = dataclasses.replace(sink, action=SinkAction.OVERWRITE, partition=_literals(fixed))
    written = table_options.written_format(descriptor, options, context)
    return sink if written is None else dataclasses.replace(sink, format_mode=written.sink_mode)


def _bound(statement: statements.Insert, context: BindContext) -> RelationalNode:
    """The query of the statement, whose tables may have histories."""
    if not statement.backfills:
        return bind_query(statement.query, context)
    from sqlstream.planner.bind.backfill import Backfills

    backfills = Backfills(statement, root_namespace(context))
    query = bind_query(statement.query, dataclasses.replace(context, backfills=backfills))
    return backfills.in_turns(query)


def _literals(fixed: dict[str, Expression]) -> tuple[tuple[str, LiteralValue], ...]:
    """The values of a static partition."""
    folded = {name: fold(expression) for name, expression in fixed.items()}
    return tuple((name, value.value) for name, value in folded.items() if isinstance(value, Literal))


def _sink(
    query: RelationalNode,
    table: CatalogTable,
    options: dict[str, str],
    columns: tuple[Column, ...],
    writable: dict[str, LogicalType],
    assigned: dict[str, Expression],
    statement: statements.Insert,
) -> Sink:
    expressions = []
    # Metadata stands behind the columns of the table.
    columns = tuple(sorted(columns, key=lambda c: c.kind is ColumnKind.METADATA))
    metadata = []
    for column in columns:
        expression = assigned.get(column.name)
        if expression is None:
            _check_nullable(column, table, statement.target.span)
            expression = Literal(None, column.type.without_time_attribute().with_nullable(True))
        if column.kind is ColumnKind.METADATA:
            key = column.metadata_key or column.name
            t = writable[key].with_nullable(column.type.nullable)
            metadata.append(Field(key, t))
            expression = cast_to(expression, t, statement.target.span)
        expressions.append(expression)
    stored = tuple(c.type.without_time_attribute() for c in columns if c.kind is not ColumnKind.METADATA)
    types = (*stored, *(f.type for f in metadata))
    schema = Schema(tuple(Field(c.name, t) for c, t in zip(columns, types, strict=True)))
    projected = Schema(tuple(Field(c.name, e.type) for c, e in zip(columns, expressions, strict=True)))
    node = Project(
        input=query, expressions=tuple(expressions), schema=projected, span=span_of(statement.query)
    )
    return Sink(
        input=node,
        table=table,
        options=tuple(sorted(options.items())),
        schema=schema,
        span=statement.target.span,
        on_conflict=statement.on_conflict,
        metadata=tuple(metadata),
    )


def _check_on_conflict(
    statement: statements.Insert,
    table: CatalogTable,
    descriptor: ConnectorDescriptor,
    options: dict[str, str],
) -> None:
    if statement.on_conflict is None:
        return
    if not table.primary_key:
        raise UserError(
            "SS3480",
            f'ON CONFLICT goes by the primary key, and table "{table.path.name}" has none',
            span=statement.on_conflict_span,
            hint="declare PRIMARY KEY (…) NOT ENFORCED in the table, or leave ON CONFLICT out",
        )
    if sink_mode_of(descriptor, options) is not ChangelogMode.UPSERT:
        raise UserError(
            "SS3480",
            f'connector "{descriptor.identifier}" of table "{table.path.name}" does not replace rows by their key',
            span=statement.on_conflict_span,
            hint="leave ON CONFLICT out",
        )


def _writable_columns(
    table: CatalogTable, descriptor: ConnectorDescriptor, options: dict[str, str], span: Span | None
) -> tuple[Column, ...]:
    """The columns that an INSERT gives values, in their order. UserError SS3003 for metadata that the connector does not write,
    and where nothing says to which place a row goes; SS2008 for metadata of a type that cannot be written."""
    writable = descriptor.writing.metadata_of(options)
    columns = tuple(
        c
        for c in table.columns
        if c.kind is ColumnKind.PHYSICAL or (c.kind is ColumnKind.METADATA and not c.is_virtual)
    )
    given = {c.metadata_key or c.name: c for c in columns if c.kind is ColumnKind.METADATA}
    for key, column in given.items():
        if key not in writable:
            raise UserError(
                "SS3003",
                f'metadata column "{column.name}" of table "{table.path.name}" cannot be written',
                span=span,
                hint="declare it VIRTUAL to leave it out of INSERT",
            )
        if not can_cast(column.type, writable[key]):
            raise UserError(
                "SS2008",
                f'metadata column "{column.name}" of table "{table.path.name}" is {plain(column.type)}, which cannot become'
                f" {plain(writable[key])}",
                span=span,
                hint=f"declare the column as {plain(writable[key])}",
            )
    destination = descriptor.writing.destination
    if destination is not None and destination.key in writable and destination.key not in given:
        raise UserError(
            "SS3003",
            f'table "{table.path.name}" cannot be written: nothing says which {destination.key} a row goes to',
            span=span,
            hint=f"declare a column {destination.key} {plain(writable[destination.key])} METADATA, or name one"
            f" {destination.key} in the option '{destination.places}'",
        )
    return columns


def _static_partition(
    statement: statements.Insert, table: CatalogTable, columns: tuple[Column, ...]
) -> dict[str, Expression]:
    fixed: dict[str, Expression] = {}
    for name, value in statement.partition:
        column = _find_column(name, table, columns)
        if column.name not in table.partition_keys:
            raise UserError(
                "SS2011",
                f'"{column.name}" is no partition column of table "{table.path.name}"',
                span=name.span,
                hint=f"the partition columns are {', '.join(table.partition_keys)}"
                if table.partition_keys
                else "the table is not partitioned",
            )
        written = value
        if value.is_string and column.type.root in _TIMES:
            # Days and times may be texts, as they are in the names of directories.
            written = nodes.DateTimeLiteral(this=value.this, kind=column.type.root.name)
        with ErrorsAt(span_of(value)):
            literal = bind_literal(written, span_of(value))
        if literal is None:
            raise UserError(
                "SS2008",
                "a PARTITION takes a literal value",
                span=span_of(value),
                hint="write a literal, as in PARTITION (day = '2026-01-31')",
            )
        if not can_cast_implicitly(literal.type, column.type):
            raise UserError(
                "SS2008",
                f'partition column "{column.name}" is {plain(column.type)}, not {plain(literal.type)}',
                span=span_of(value),
                hint=f"write a literal of type {plain(column.type)}",
            )
        fixed[column.name] = cast_to(literal, column.type, span_of(value))
    return fixed


_TIMES = (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP)


def _targets(
    statement: statements.Insert,
    table: CatalogTable,
    columns: tuple[Column, ...],
    fixed: dict[str, Expression],
) -> tuple[Column, ...]:
    """The target columns of the query's columns, in order."""
    if not statement.columns:
        return tuple(c for c in columns if c.name not in fixed)
    targets: list[Column] = []
    for name in statement.columns:
        column = _find_column(name, table, columns)
        if column in targets or column.name in fixed:
            raise UserError(
                "SS2012", f'column "{column.name}" is assigned twice', span=name.span, hint="leave one out"
            )
        targets.append(column)
    return tuple(targets)


def _find_column(name: statements.Identifier, table: CatalogTable, columns: tuple[Column, ...]) -> Column:
    wanted = name.parts[-1]
    for column in columns:
        if column.name == wanted:
            return column
    if any(c.name == wanted for c in table.columns):
        raise UserError(
            "SS2011",
            f'column "{wanted}" of table "{table.path.name}" cannot be written: it is computed',
            hint="leave it out of the list of columns",
            span=name.span,
        )
    raise UserError(
        "SS2003",
        f'column "{wanted}" does not exist in table "{table.path.name}"',
        span=name.span,
        hint=suggest(wanted, [c.name for c in columns], "columns"),
    )


def _check_assignment(
    query: RelationalNode,
    targets: tuple[Column, ...],
    table: CatalogTable,
    span: Span | None,
    spans: tuple[Span | None, ...],
    context: BindContext,
) -> None:
    detail = f"query: [{_shape(query.schema.fields)}]; sink: [{_shape(targets)}]"
    if len(query.schema) != len(targets):
        raise UserError(
            "SS2011",
            f"the query has {_columns(len(query.schema))},"
            f' but table "{table.path.name}" takes {len(targets)}',
            span=span,
            detail=detail,
            hint="select as many columns as the table has, or list the columns after its name",
        )
    for field, column, column_span in zip(query.schema.fields, targets, spans, strict=True):
        text = context.source(column_span)
        is_short = 0 < len(text) <= 40 and text != "*"
        written = (text if is_short else "…") if field.name.startswith("EXPR$") else field.name
        if not can_cast_implicitly(field.type, column.type):
            raise UserError(
                "SS2008",
                f'column "{column.name}" of table "{table.path.name}" is {plain(column.type)},'
                f' but the query gives "{field.name}" as {plain(field.type)}',
                span=column_span,
                detail=detail,
                hint=f"write CAST({written} AS {plain(column.type)})",
            )


def _shape(fields: tuple[Field, ...] | tuple[Column, ...]) -> str:
    return ", ".join(f"{f.name} {f.type.without_time_attribute()}" for f in fields)


def _columns(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"


def _assignments(
    query: RelationalNode,
    targets: tuple[Column, ...],
    fixed: dict[str, Expression],
    spans: tuple[Span | None, ...],
    context: BindContext,
) -> dict[str, Expression]:
    assigned = dict(fixed)
    for index, (field, column) in enumerate(zip(query.schema.fields, targets, strict=True)):
        value = InputRef(index, field.type)
        assigned[column.name] = stored_value(value, column.type, spans[index], context.config)
    return assigned


def _check_nullable(column: Column, table: CatalogTable, span: Span | None) -> None:
    if not column.type.nullable:
        raise UserError(
            "SS2011",
            f'column "{column.name}" of table "{table.path.name}" is NOT NULL and gets no value',
            span=span,
            hint="add it to the columns of the INSERT",
        )


@refuse_depth()
def bind_select_sink(query: exp.Expr, context: BindContext) -> Sink:
    """The plan of a query whose rows go to the client: connector `collect`, unique column names (a, a0, a1)."""
    return collecting_sink(bind_query(query, context), context, root_namespace(context).span(query))


def collecting_sink(node: RelationalNode, context: BindContext, span: Span | None = None) -> Sink:
    """A sink that hands the rows of `node` to the client."""
    names = _unique(node.schema.names)
    schema = Schema(
        tuple(Field(n, t.without_time_attribute()) for n, t in zip(names, node.schema.types, strict=True))
    )
    table = CatalogTable(
        path=ObjectPath(context.current_catalog, context.current_database, COLLECT),
        columns=tuple(Column(f.name, f.type) for f in schema.fields),
        options={"connector": COLLECT},
        is_temporary=True,
    )
    return Sink(input=node, table=table, options=(("connector", COLLECT),), schema=schema, span=span)


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, suffix = name, 0
        while candidate in taken or (suffix and candidate in names):
            candidate, suffix = f"{name}{suffix}", suffix + 1
        taken.add(candidate)
        result.append(candidate)
    return tuple(result)
