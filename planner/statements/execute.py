"""Statements that run no job, each as a pure function of the catalog and the settings."""

from __future__ import annotations

from sqlstream import config
from sqlstream import types as sql
from sqlstream.catalog import CatalogView, RemoveDamaged, RemoveObject
from sqlstream.errors import InternalError, UserError
from sqlstream.planner.bind.context import BindContext, check_database, object_path, suggest
from sqlstream.planner.dialect import statements
from sqlstream.planner.guards import refuse_depth
from sqlstream.planner.statements import alter, catalogs, functions, models
from sqlstream.planner.statements.create_table import create_table
from sqlstream.planner.statements.create_view import create_view
from sqlstream.planner.statements.describe import describe, describe_extension
from sqlstream.planner.statements.functions import change_modules
from sqlstream.planner.statements.result import DdlResult, ResetConfig, SetConfig
from sqlstream.planner.statements.show import show
from sqlstream.schema import Schema
from sqlstream.secrets import masked


@refuse_depth()
def execute_ddl(statement: statements.Statement, context: BindContext) -> DdlResult:
    """Rows and changes of a CREATE, ALTER, DROP, USE, SET, RESET, SHOW or DESCRIBE. UserError with a position for a wrong one."""
    match statement:
        case statements.CreateTable():
            return create_table(statement, context)
        case statements.CreateView():
            return create_view(statement, context)
        case statements.DropObject():
            return drop(statement, context)
        case statements.RenameObject():
            return alter.rename(statement, context)
        case statements.AlterTableOptions():
            return alter.alter_table_options(statement, context)
        case statements.AlterTable():
            return alter.alter_table(statement, context)
        case statements.AlterView():
            return alter.alter_view(statement, context)
        case statements.CreateFunction():
            return functions.create_function(statement, context)
        case statements.AlterFunction():
            return functions.alter_function(statement, context)
        case statements.DropFunction():
            return functions.drop_function(statement, context)
        case statements.CreateModel():
            return models.create_model(statement, context)
        case statements.AlterModel():
            return models.alter_model(statement, context)
        case statements.DropModel():
            return models.drop_model(statement, context)
        case (
            statements.CreateDatabase()
            | statements.AlterDatabase()
            | statements.DropDatabase()
            | statements.Use()
        ):
            return _execute_database(statement, context)
        case statements.ChangeModules():
            return change_modules(statement)
        case statements.CreateCatalog():
            return catalogs.create_catalog(statement, context)
        case statements.AlterCatalog():
            return catalogs.alter_catalog(statement, context)
        case statements.DropCatalog():
            return catalogs.drop_catalog(statement, context)
        case statements.DescribeNamespace():
            is_catalog = statement.is_catalog
            describe_it = catalogs.describe_catalog if is_catalog else catalogs.describe_database
            return describe_it(statement, context)
        case statements.SetOption():
            return set_option(statement, context)
        case statements.ResetOption():
            return reset_option(statement)
        case statements.Show():
            return show(statement, context)
        case statements.Describe():
            return describe(statement, context)
        case statements.DescribeExtension():
            return describe_extension(statement, context)
    raise InternalError(f"{type(statement).__name__} is no DDL statement")


def _execute_database(
    statement: statements.CreateDatabase
    | statements.AlterDatabase
    | statements.DropDatabase
    | statements.Use,
    context: BindContext,
) -> DdlResult:
    match statement:
        case statements.CreateDatabase():
            return catalogs.create_database(statement, context)
        case statements.AlterDatabase():
            return catalogs.alter_database(statement, context)
        case statements.DropDatabase():
            return catalogs.drop_database(statement, context)
        case statements.Use():
            return catalogs.use(statement, context)


# DROP TABLE and DROP VIEW.


def drop(statement: statements.DropObject, context: BindContext) -> DdlResult:
    """Remove the object from the catalog; a missing one is an error unless IF EXISTS."""
    path = object_path(statement.name.parts, context, statement.name.span)
    kind = "VIEW" if statement.is_view else "TABLE"
    wanted = f"temporary {kind.lower()}" if statement.is_temporary else kind.lower()
    if not statement.is_temporary and context.catalog.is_damaged(path):
        # Which of the two it was cannot be told; both statements drop it.
        return DdlResult.ok(
            RemoveDamaged(path), done=f'"{path.name}", whose definition could not be read, dropped'
        )
    found = context.catalog.get_kind(path, statement.is_temporary)
    visible = context.catalog.get(path)
    if visible is not None and visible.is_temporary and not statement.is_temporary:
        raise UserError(
            "SS2002",
            f'"{path.name}" is a temporary {kind.lower()}',
            span=statement.name.span,
            hint=f"write DROP TEMPORARY {kind} {path.name}",
        )
    if found is None:
        if statement.if_exists:
            return DdlResult.ok(done=f'{wanted} "{path.name}" does not exist: nothing to drop')
        check_database(path.catalog, path.database, context, statement.name.span)
        names = [e.path.name for e in context.catalog.list(path.catalog, path.database)]
        hint = suggest(path.name, names)
        raise UserError(
            "SS2001", f'{wanted} "{path.name}" does not exist', span=statement.name.span, hint=hint
        )
    if isinstance(found, CatalogView) != statement.is_view:
        other = "VIEW" if isinstance(found, CatalogView) else "TABLE"
        raise UserError(
            "SS2002",
            f'"{path.name}" is a {other.lower()}, not a {kind.lower()}',
            span=statement.name.span,
            hint=f"write DROP {other} {path.name}",
        )
    return DdlResult.ok(RemoveObject(found), done=f'{wanted} "{path.name}" dropped')


# SET and RESET.


def set_option(statement: statements.SetOption, context: BindContext) -> DdlResult:
    """Check and set one option; without one, list those that are set."""
    written = statement.option
    if written is None:
        rows = tuple((key, masked(key, value)) for key, value in sorted(context.config.items()))
        return DdlResult(Schema.of(("key", sql.STRING), ("value", sql.STRING)), rows)
    key, value, note = config.settle(written.key, written.value, written.key_span, written.value_span)
    if value is None:
        return DdlResult.ok(note=note)
    return DdlResult.ok(SetConfig(key, value), done=f"'{key}' is '{masked(key, value)}'", note=note)


def reset_option(statement: statements.ResetOption) -> DdlResult:
    """Reset one option, or all, to the default."""
    if statement.key is None:
        return DdlResult.ok(ResetConfig(None), done="all settings have their defaults")
    config.option(statement.key, statement.span)
    key = config.current_key(statement.key)
    return DdlResult.ok(ResetConfig(key), done=f"'{key}' has its default")
