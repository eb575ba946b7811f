"""Statements that run no job, each as a pure function of the catalog and the settings."""

from __future__ import annotations

from sqlstream.errors import InternalError
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.depth import refuse_depth
from sqlstream.planner.dialect.statements import (
    AlterCatalog,
    AlterDatabase,
    AlterFunction,
    AlterTable,
    AlterTableOptions,
    AlterView,
    ChangeModules,
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    DescribeExtension,
    DescribeNamespace,
    DropCatalog,
    DropDatabase,
    DropFunction,
    DropObject,
    RenameObject,
    ResetOption,
    SetOption,
    Show,
    Statement,
    Use,
)
from sqlstream.planner.statements import alter, catalogs, databases, functions
from sqlstream.planner.statements.create_table import create_table
from sqlstream.planner.statements.create_view import create_view
from sqlstream.planner.statements.describe import describe
from sqlstream.planner.statements.describe_extension import describe_extension
from sqlstream.planner.statements.drop import drop
from sqlstream.planner.statements.modules import change_modules
from sqlstream.planner.statements.result import DdlResult
from sqlstream.planner.statements.set import reset_option, set_option
from sqlstream.planner.statements.show import show


@refuse_depth
def execute_ddl(statement: Statement, context: BindContext) -> DdlResult:
    """Rows and changes of a CREATE, ALTER, DROP, USE, SET, RESET, SHOW or DESCRIBE. UserError with a position for a wrong one."""
    match statement:
        case CreateTable():
            return create_table(statement, context)
        case CreateView():
            return create_view(statement, context)
        case DropObject():
            return drop(statement, context)
        case RenameObject():
            return alter.rename(statement, context)
        case AlterTableOptions():
            return alter.alter_table_options(statement, context)
        case AlterTable():
            return alter.alter_table(statement, context)
        case AlterView():
            return alter.alter_view(statement, context)
        case CreateFunction():
            return functions.create_function(statement, context)
        case AlterFunction():
            return functions.alter_function(statement, context)
        case DropFunction():
            return functions.drop_function(statement, context)
        case CreateDatabase() | AlterDatabase() | DropDatabase() | Use():
            return _execute_database(statement, context)
        case ChangeModules():
            return change_modules(statement)
        case CreateCatalog():
            return catalogs.create_catalog(statement, context)
        case AlterCatalog():
            return catalogs.alter_catalog(statement, context)
        case DropCatalog():
            return catalogs.drop_catalog(statement, context)
        case DescribeNamespace():
            is_catalog = statement.is_catalog
            describe_it = catalogs.describe_catalog if is_catalog else databases.describe_database
            return describe_it(statement, context)
        case SetOption():
            return set_option(statement, context)
        case ResetOption():
            return reset_option(statement)
        case Show():
            return show(statement, context)
        case Describe():
            return describe(statement, context)
        case DescribeExtension():
            return describe_extension(statement, context)
    raise InternalError(f"{type(statement).__name__} is no DDL statement")


def _execute_database(
    statement: CreateDatabase | AlterDatabase | DropDatabase | Use, context: BindContext
) -> DdlResult:
    match statement:
        case CreateDatabase():
            return databases.create_database(statement, context)
        case AlterDatabase():
            return databases.alter_database(statement, context)
        case DropDatabase():
            return databases.drop_database(statement, context)
        case Use():
            return databases.use(statement, context)
