"""CREATE VIEW: the query is bound once to be checked, and stored as text."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace
from sqlglot import exp

from sqlstream.catalog import CatalogView, ObjectPath, PutObject
from sqlstream.errors import Span, UserError
from sqlstream.planner.bind.binder import bind_subquery, root_namespace
from sqlstream.planner.bind.context import BindContext, created_path, object_path
from sqlstream.planner.dialect.statements import CreateView, Identifier
from sqlstream.planner.statements.result import DdlResult
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
    path = object_path(statement.name.parts, context, statement.name.span)
    view = bind_view(
        path, statement.query, statement.query_text, statement.column_names, statement.name.span, context
    )
    return replace(view, comment=statement.comment, is_temporary=statement.is_temporary)


def bind_view(
    path: ObjectPath,
    query: exp.Expr,
    query_text: str,
    column_names: tuple[Identifier, ...],
    span: Span,
    context: BindContext,
) -> CatalogView:
    """The view of a query, whose names are those of the current catalog and database; errors about the view point at
    `span`."""
    # The view itself counts as being expanded: its query may read an object of the same name that it is to replace or hide.
    namespace = dataclasses.replace(root_namespace(context), views=(path,))
    schema = bind_subquery(query, namespace).schema
    names = tuple(n.parts[-1] for n in column_names)
    if names and len(names) != len(schema):
        raise UserError(
            "SS2011",
            f"number of columns: the view names {len(names)}, its query has {len(schema)}",
            span=column_names[0].span,
            hint=f"the query's columns are {', '.join(schema.names)}",
        )
    shown = names or schema.names
    repeated = next((n for n in shown if shown.count(n) > 1), None)
    if repeated is not None:
        raise UserError(
            "SS2012",
            f'the view would have two columns "{repeated}"',
            span=span,
            hint="rename one with AS, or list the column names after the view's name",
        )
    is_own = (context.current_catalog, context.current_database) == (path.catalog, path.database)
    return CatalogView(
        path=path,
        query=query_text,
        schema=Schema.of(*zip(shown, schema.types, strict=True)),
        column_names=names,
        query_catalog="" if context.current_catalog == path.catalog else context.current_catalog,
        query_database="" if is_own else context.current_database,
        files=context.files.known,
    )
