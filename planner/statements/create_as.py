"""CREATE TABLE … AS query: the table that has the columns of the query, and the INSERT that fills it."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from sqlstream.catalog import CatalogTable, PutObject
from sqlstream.errors import UserError
from sqlstream.planner.bind.binder import bind_query
from sqlstream.planner.bind.context import BindContext, created_path, suggest
from sqlstream.planner.bind.expressions.casts import can_cast_implicitly
from sqlstream.planner.bind.sink import insert_into
from sqlstream.planner.dialect.nodes import span_of
from sqlstream.planner.dialect.statements import (
    ColumnDef,
    ColumnKind,
    CreateModel,
    CreateTable,
    Identifier,
    Insert,
)
from sqlstream.planner.relational.nodes import Sink
from sqlstream.planner.statements.create_table import apply_create_table
from sqlstream.planner.statements.result import DdlResult
from sqlstream.schema import Field
from sqlstream.types import TypeRoot


@dataclasses.dataclass(frozen=True)
class Created:
    """What a CREATE … AS does: `result` is the change of the catalog, and `sink` the plan of the INSERT that fills the table, or
    of the training of the model, which is made before anything changes; None when there is nothing to do."""

    result: DdlResult
    sink: Sink | None = None


def created_by(statement: CreateTable | CreateModel, context: BindContext) -> Created:
    """What a CREATE TABLE or MODEL … AS does."""
    if isinstance(statement, CreateTable):
        return create_as(statement, context)
    from sqlstream.planner.statements.train_model import train_model

    return train_model(statement, context)


def create_as(statement: CreateTable, context: BindContext) -> Created:
    """UserError with a position where the query does not fit the columns, or the table exists already."""
    assert statement.query is not None
    path = created_path(statement.name.parts, context, statement.name.span)
    existing = context.catalog.get_kind(path, statement.is_temporary)
    if existing is not None and statement.if_not_exists:
        return Created(DdlResult.ok(done=f'table "{path.name}" exists already: nothing changed'))
    if existing is not None and not (statement.is_replacing and isinstance(existing, CatalogTable)):
        raise UserError(
            "SS2013",
            f'"{path.name}" exists already',
            span=statement.name.span,
            hint="drop it first, or write CREATE TABLE IF NOT EXISTS or CREATE OR REPLACE TABLE",
        )
    query = bind_query(statement.query, context)
    fields = [_typed(f, statement) for f in query.schema.fields]
    names = _query_columns(statement, fields)
    table = apply_create_table(_with_columns(statement, fields, names), context)
    done = f'table "{path.name}" {"replaced" if existing is not None else "created"}'
    insert = Insert(
        statement.text,
        statement.span,
        target=statement.name,
        columns=tuple(Identifier((f.name,), statement.name.span) for f in fields),
        query=statement.query,
    )
    return Created(
        DdlResult.ok(PutObject(table, existing), done=done), insert_into(table, insert, context, query)
    )


def _typed(field: Field, statement: CreateTable) -> Field:
    if field.type.root is TypeRoot.NULL:
        raise UserError(
            "SS2008",
            f'column "{field.name}" of the query has no type',
            span=span_of(statement.query) if statement.query is not None else None,
            hint="CAST(NULL AS …) has one",
        )
    return Field(field.name, field.type.without_time_attribute())


def _query_columns(statement: CreateTable, fields: list[Field]) -> tuple[str, ...]:
    """The names of the query's columns in the order of the table. UserError SS2003 and SS2012 where these are not all of them."""
    names = [f.name for f in fields]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UserError(
            "SS2012",
            f'the query has two columns "{repeated}"',
            span=span_of(statement.query) if statement.query is not None else None,
            hint="give one of them another name with AS",
        )
    if not statement.query_columns:
        return tuple(names)
    for column in statement.query_columns:
        if column.parts[0] not in names:
            raise UserError(
                "SS2003",
                f'the query has no column "{column.parts[0]}"',
                span=column.span,
                hint=suggest(column.parts[0], names, "columns"),
            )
    ordered = tuple(column.parts[0] for column in statement.query_columns)
    missing = set(names) - set(ordered)
    if missing or len(set(ordered)) < len(ordered):
        what = f'"{min(missing)}" is missing' if missing else "one is written twice"
        raise UserError(
            "SS2012",
            f"the columns of the table must be those of the query: {what}",
            span=statement.query_columns[0].span,
            hint="name every column of the query once, or leave the list out",
        )
    return ordered


def _with_columns(statement: CreateTable, fields: list[Field], names: tuple[str, ...]) -> CreateTable:
    """The CREATE TABLE with the query's columns behind those that are written; a written column keeps its own type."""
    by_name = {f.name: f for f in fields}
    for column in statement.columns:
        field = by_name.get(column.name)
        if field is None or column.type is None:
            continue
        if not can_cast_implicitly(field.type, column.type):
            raise UserError(
                "SS2008",
                f'column "{column.name}" of the query is {field.type}, and cannot become {column.type}',
                span=column.span,
                hint="CAST it in the query",
            )
    written = {c.name for c in statement.columns}
    added = tuple(
        ColumnDef(name, ColumnKind.PHYSICAL, statement.name.span, type=by_name[name].type)
        for name in names
        if name not in written
    )
    return replace(
        statement, columns=statement.columns + added, query=None, query_columns=(), is_replacing=False
    )
