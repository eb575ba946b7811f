"""ALTER TABLE and ALTER VIEW: names, options of tables, queries of views."""

from __future__ import annotations

from msgspec.structs import replace

from sqlstream import catalog
from sqlstream.catalog import CatalogObject, CatalogTable, CatalogView, PutObject
from sqlstream.errors import UserError
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.names import find_object, object_path
from sqlstream.planner.bind.table_options import check_altered_options
from sqlstream.planner.dialect.statements import (
    AlterTable,
    AlterTableOptions,
    AlterView,
    Identifier,
    RenameObject,
)
from sqlstream.planner.statements.alter_columns import alter_columns
from sqlstream.planner.statements.create_view import bind_view
from sqlstream.planner.statements.result import DdlResult


def rename(statement: RenameObject, context: BindContext) -> DdlResult:
    """Give a table or view another name in its database."""
    kind = "view" if statement.is_view else "table"
    found = _find(statement.name, context, statement.is_view, statement.if_exists)
    if found is None:
        return _absent(statement.name, kind)
    target = statement.target
    path = object_path(target.parts, context, target.span)
    if len(target.parts) == 1:
        path = replace(found.path, name=target.parts[0])
    if (path.catalog, path.database) != (found.path.catalog, found.path.database):
        raise UserError(
            "SS2011",
            f'a {kind} stays in its database, which is "{found.path.catalog}.{found.path.database}"',
            span=target.span,
            hint="write the name alone",
        )
    if context.catalog.get_kind(path, found.is_temporary) is not None:
        raise UserError(
            "SS2013", f'"{path.name}" exists already', span=target.span, hint="choose another name"
        )
    done = f'{kind} "{found.path.name}" is now "{path.name}"'
    return DdlResult.ok(catalog.RenameObject(found, path.name), done=done)


def alter_table_options(statement: AlterTableOptions, context: BindContext) -> DdlResult:
    """Set options of a table, or reset them to their defaults."""
    found = _find(statement.name, context, False, statement.if_exists)
    if found is None:
        return _absent(statement.name, "table")
    assert isinstance(found, CatalogTable)
    if not statement.options and not statement.reset:
        raise UserError(
            "SS2011", "ALTER TABLE … SET takes at least one option", span=statement.span, hint="name one"
        )
    reset = {key.parts[0]: key.span for key in statement.reset}
    options = check_altered_options(found, statement.options, reset, context, statement.name.span)
    return DdlResult.ok(
        PutObject(replace(found, options=options), found), done=f'table "{found.path.name}" altered'
    )


def alter_table(statement: AlterTable, context: BindContext) -> DdlResult:
    """Add, change, drop or rename columns, the primary key or the watermark of a table."""
    found = _find(statement.name, context, False, statement.if_exists)
    if found is None:
        return _absent(statement.name, "table")
    assert isinstance(found, CatalogTable)
    return alter_columns(statement, found, context)


def alter_view(statement: AlterView, context: BindContext) -> DdlResult:
    """Give a view another query. Its column names become those of the query, as in Flink."""
    found = _find(statement.name, context, True, False)
    assert isinstance(found, CatalogView)
    altered = bind_view(found.path, statement.query, statement.query_text, (), statement.name.span, context)
    altered = replace(altered, comment=found.comment, is_temporary=found.is_temporary)
    return DdlResult.ok(PutObject(altered, found), done=f'view "{found.path.name}" altered')


def _find(name: Identifier, context: BindContext, is_view: bool, if_exists: bool) -> CatalogObject | None:
    """The visible object of that name and kind; None when there is none and the statement says IF EXISTS."""
    path = object_path(name.parts, context, name.span)
    if if_exists and context.catalog.get(path) is None:
        return None
    found = find_object(path, context, name.span)
    if isinstance(found, CatalogView) != is_view:
        actual, kind = ("view", "table") if not is_view else ("table", "view")
        raise UserError(
            "SS2002",
            f'"{path.name}" is a {actual}, not a {kind}',
            span=name.span,
            hint=f"write ALTER {actual.upper()} {path.name}",
        )
    return found


def _absent(name: Identifier, kind: str) -> DdlResult:
    return DdlResult.ok(done=f'{kind} "{name.parts[-1]}" does not exist: nothing changed')
