"""CREATE VIEW: the query is bound once to be checked, and stored as text."""

from __future__ import annotations

from planner.bind.binder import bind_query
from planner.bind.context import BindContext
from planner.bind.names import created_path, object_path
from planner.dialect.statements import CreateView
from planner.statements.result import DdlResult, PutObject
from sqlstream.catalog import CatalogView
from sqlstream.errors import UserError
from sqlstream.schema import Schema


def create_view(statement: CreateView, context: BindContext) -> DdlResult:
    """The change that adds the view to the catalog; none for IF NOT EXISTS when it exists."""
    path = created_path(statement.name.parts, context, statement.name.span)
    if context.catalog.get_kind(path, statement.is_temporary) is not None:
        if statement.if_not_exists:
            return DdlResult.ok(done=f'view "{path.name}" exists already: nothing changed')
        raise UserError(
            "SS2013",
            f'"{path.name}" exists already',
            span=statement.name.span,
            hint="drop it first, or write CREATE VIEW IF NOT EXISTS",
        )
    view = apply_create_view(statement, context)
    return DdlResult.ok(PutObject(view), done=f'view "{path.name}" created')


def apply_create_view(statement: CreateView, context: BindContext) -> CatalogView:
    """The view with the schema of its query."""
    schema = bind_query(statement.query, context).schema
    names = tuple(n.parts[-1] for n in statement.column_names)
    if names and len(names) != len(schema):
        raise UserError(
            "SS2011",
            f"number of columns: the view names {len(names)}, its query has {len(schema)}",
            span=statement.column_names[0].span,
            hint=f"the query's columns are {', '.join(schema.names)}",
        )
    shown = names or schema.names
    repeated = next((n for n in shown if shown.count(n) > 1), None)
    if repeated is not None:
        raise UserError(
            "SS2012",
            f'the view would have two columns "{repeated}"',
            span=statement.name.span,
            hint="rename one with AS, or list the column names after the view's name",
        )
    return CatalogView(
        path=object_path(statement.name.parts, context, statement.name.span),
        query=statement.query_text,
        schema=Schema.of(*zip(shown, schema.types, strict=True)),
        column_names=names,
        comment=statement.comment,
        is_temporary=statement.is_temporary,
    )
