"""CREATE, ALTER, DROP and DESCRIBE of databases, and USE of a database or catalog."""

from __future__ import annotations

from sqlstream.catalog import CatalogDatabase, PutDatabase, RemoveDatabase, UseDatabase
from sqlstream.errors import UserError
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.names import check_catalog, database_path, suggest
from sqlstream.planner.bind.table_options import written_options
from sqlstream.planner.dialect.statements import (
    AlterDatabase,
    CreateDatabase,
    DescribeNamespace,
    DropDatabase,
    Identifier,
    Use,
)
from sqlstream.planner.statements.result import DdlResult
from sqlstream.secrets import masked


def create_database(statement: CreateDatabase, context: BindContext) -> DdlResult:
    """The change that adds the database; none for IF NOT EXISTS when it exists."""
    name = statement.name
    catalog, database = database_path(name.parts, context, name.span, exists=False)
    if database in context.catalog.databases(catalog):
        if statement.if_not_exists:
            return DdlResult.ok(done=f'database "{database}" exists already: nothing changed')
        raise UserError(
            "SS2013",
            f'database "{catalog}.{database}" exists already',
            span=name.span,
            hint="drop it first, or write CREATE DATABASE IF NOT EXISTS",
        )
    made = CatalogDatabase(statement.comment, written_options(statement.options))
    return DdlResult.ok(PutDatabase(catalog, database, made), done=f'database "{database}" created')


def alter_database(statement: AlterDatabase, context: BindContext) -> DdlResult:
    """Set properties of the database; the others stay."""
    catalog, database, before = _find(statement.name, context)
    properties = before.properties | written_options(statement.options)
    change = PutDatabase(catalog, database, CatalogDatabase(before.comment, properties), before)
    return DdlResult.ok(change, done=f'database "{database}" altered')


def drop_database(statement: DropDatabase, context: BindContext) -> DdlResult:
    """Remove the database, which is empty unless CASCADE is written, and not the current one."""
    name = statement.name
    catalog, database = database_path(name.parts, context, name.span, exists=False)
    known = context.catalog.databases(catalog)
    if database not in known:
        if statement.if_exists:
            return DdlResult.ok(done=f'database "{database}" does not exist: nothing to drop')
        message = f'database "{catalog}.{database}" does not exist'
        raise UserError("SS2014", message, span=name.span, hint=suggest(database, list(known), "databases"))
    if (catalog, database) == (context.current_catalog, context.current_database):
        raise UserError(
            "SS2015",
            f'database "{database}" is the current one and cannot be dropped',
            span=name.span,
            hint="make another one current with USE",
        )
    is_empty = context.catalog.is_empty(catalog, database)
    if not statement.is_cascade and not is_empty:
        names = context.catalog.names(catalog, database)
        raise UserError(
            "SS2015",
            f'database "{catalog}.{database}" is not empty',
            span=name.span,
            detail=f"it holds {', '.join(names[:10])}{', …' if len(names) > 10 else ''}",
            hint="drop its tables and views first, or write CASCADE to drop them with it",
        )
    change = RemoveDatabase(catalog, database, statement.is_cascade)
    return DdlResult.ok(change, done=f'database "{database}" dropped')


def use(statement: Use, context: BindContext) -> DdlResult:
    """Make a database, or a catalog with its default database, the current one."""
    name = statement.name
    if statement.is_catalog:
        catalog = name.parts[-1]
        check_catalog(catalog, context, name.span)
        definition = context.catalog.definition(catalog)
        assert definition is not None
        database = definition.default_database
    else:
        catalog, database = database_path(name.parts, context, name.span)
    done = f'the current database is "{catalog}.{database}"'
    return DdlResult.ok(UseDatabase(catalog, database), done=done)


def describe_database(statement: DescribeNamespace, context: BindContext) -> DdlResult:
    """Name, catalog and comment, with EXTENDED its properties too."""
    catalog, database, found = _find(statement.name, context)
    rows: list[tuple[str, str | None]] = [("name", database), ("catalog", catalog)]
    rows.append(("comment", found.comment or None))
    if statement.is_extended:
        rows += [(f"property:{k}", masked(k, v)) for k, v in sorted(found.properties.items())]
    return DdlResult.info(rows)


def _find(name: Identifier, context: BindContext) -> tuple[str, str, CatalogDatabase]:
    catalog, database = database_path(name.parts, context, name.span)
    found = context.catalog.database(catalog, database)
    assert found is not None
    return catalog, database, found
