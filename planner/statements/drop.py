"""DROP TABLE and DROP VIEW."""

from __future__ import annotations

from sqlstream.catalog import CatalogView, RemoveDamaged, RemoveObject
from sqlstream.errors import UserError
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.names import check_database, object_path, suggest
from sqlstream.planner.dialect.statements import DropObject
from sqlstream.planner.statements.result import DdlResult


def drop(statement: DropObject, context: BindContext) -> DdlResult:
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
