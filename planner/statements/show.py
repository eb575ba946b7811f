"""SHOW TABLES, VIEWS, COLUMNS, FUNCTIONS, CONNECTORS, FORMATS, CATALOGS, DATABASES, CURRENT … and CREATE …."""

from __future__ import annotations

import re

from sqlstream.catalog import CatalogFunction, CatalogView
from sqlstream.errors import UserError
from sqlstream.functions.placed import PLACED
from sqlstream.planner.bind.context import (
    BindContext,
    check_catalog,
    check_database,
    database_path,
    find_object,
    object_path,
)
from sqlstream.planner.bind.expressions.calls import callable_names
from sqlstream.planner.dialect.statements import Show, ShowKind
from sqlstream.planner.statements.catalogs import show_create_catalog
from sqlstream.planner.statements.describe import connector_rows, describe_object
from sqlstream.planner.statements.functions import show_create_function, show_modules
from sqlstream.planner.statements.models import models_of, show_create_model
from sqlstream.planner.statements.result import DdlResult
from sqlstream.planner.statements.show_create import show_create_table, show_create_view


def show(statement: Show, context: BindContext) -> DdlResult:
    """The rows of SHOW, filtered by LIKE, with Flink's column names."""
    match statement.kind:
        case ShowKind.TABLES:
            return _names(
                statement, "table name", list(context.catalog.names(*_database(statement, context)))
            )
        case ShowKind.VIEWS:
            views = [
                e.path.name
                for e in context.catalog.list(*_database(statement, context))
                if isinstance(e, CatalogView)
            ]
            return _names(statement, "view name", views)
        case ShowKind.FUNCTIONS:
            own = [f.path.name for f in _functions(statement, context)]
            own += context.installed.names() if context.installed is not None else []
            return _names(
                statement, "function name", sorted({*(n.lower() for n in (*callable_names(), *PLACED)), *own})
            )
        case ShowKind.USER_FUNCTIONS:
            return _names(statement, "function name", [f.path.name for f in _functions(statement, context)])
        case ShowKind.CREATE_FUNCTION:
            assert statement.name is not None
            return DdlResult.column("result", [show_create_function(statement.name, context)])
        case ShowKind.MODELS:
            return _names(statement, "model name", models_of(*_database(statement, context), context))
        case ShowKind.CREATE_MODEL:
            assert statement.name is not None
            return DdlResult.column("result", [show_create_model(statement.name, context)])
        case ShowKind.CATALOGS:
            return _names(statement, "catalog name", list(context.catalog.catalogs()))
        case ShowKind.DATABASES:
            return _names(statement, "database name", _databases(statement, context))
        case ShowKind.CURRENT_CATALOG:
            return DdlResult.column("current catalog name", [context.current_catalog])
        case ShowKind.CURRENT_DATABASE:
            return DdlResult.column("current database name", [context.current_database])
        case ShowKind.CONNECTORS:
            return _filtered(statement, connector_rows(context))
        case ShowKind.FORMATS:
            return _names(statement, "format name", sorted(context.formats))
        case ShowKind.MODULES | ShowKind.FULL_MODULES:
            return show_modules(statement.kind is ShowKind.FULL_MODULES)
        case ShowKind.COLUMNS:
            return _columns(statement, context)
        case ShowKind.CREATE_TABLE | ShowKind.CREATE_VIEW:
            return _show_create(statement, context)
        case ShowKind.CREATE_CATALOG:
            assert statement.name is not None
            return DdlResult.column("result", [show_create_catalog(statement.name, context)])
    raise UserError(
        "SS3001",
        f"SHOW {statement.kind.value} is not supported yet",
        span=statement.span,
        hint="\\? in the shell lists the statements",
    )


def _database(statement: Show, context: BindContext) -> tuple[str, str]:
    """The catalog and database that FROM names, else the current ones."""
    if statement.name is None:
        check_database(context.current_catalog, context.current_database, context, statement.span)
        return context.current_catalog, context.current_database
    return database_path(statement.name.parts, context, statement.name.span)


def _functions(statement: Show, context: BindContext) -> list[CatalogFunction]:
    """The users' functions of the database, with the temporary system functions, by name."""
    database = _database(statement, context)
    found = {f.path.name: f for f in context.catalog.functions(*database)}
    found |= {f.path.name: f for f in context.catalog.functions("", "")}
    return [f for _, f in sorted(found.items())]


def _databases(statement: Show, context: BindContext) -> list[str]:
    name = statement.name
    catalog = context.current_catalog if name is None else name.parts[0]
    check_catalog(catalog, context, statement.span if name is None else name.span)
    return list(context.catalog.databases(catalog))


def filtered_names(statement: Show, column: str, names: list[str]) -> DdlResult:
    """The names that LIKE lets through."""
    return _names(statement, column, names)


def _names(statement: Show, column: str, names: list[str]) -> DdlResult:
    return DdlResult.column(column, [n for n in names if _is_wanted(statement, n)])


def _is_wanted(statement: Show, name: str) -> bool:
    if statement.like is None:
        return True
    flags = re.IGNORECASE | re.DOTALL if statement.is_ilike else re.DOTALL
    pattern = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in statement.like)
    return bool(re.fullmatch(pattern, name, flags)) != statement.is_negated


def _columns(statement: Show, context: BindContext) -> DdlResult:
    assert statement.name is not None
    return _filtered(statement, describe_object(statement.name, context))


def _filtered(statement: Show, result: DdlResult) -> DdlResult:
    """The rows whose first column matches LIKE."""
    return DdlResult(result.schema, tuple(r for r in result.rows if _is_wanted(statement, str(r[0]))))


def _show_create(statement: Show, context: BindContext) -> DdlResult:
    name = statement.name
    assert name is not None
    found = find_object(object_path(name.parts, context, name.span), context, name.span)
    is_view = isinstance(found, CatalogView)
    if is_view != (statement.kind is ShowKind.CREATE_VIEW):
        actual = "VIEW" if is_view else "TABLE"
        raise UserError(
            "SS2002",
            f'"{found.path.name}" is a {actual.lower()}',
            span=name.span,
            hint=f"write SHOW CREATE {actual} {found.path.name}",
        )
    text = show_create_view(found) if isinstance(found, CatalogView) else show_create_table(found)
    return DdlResult.column("result", [text])
