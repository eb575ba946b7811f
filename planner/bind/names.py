"""Names of tables and views: written parts → catalog path → catalog object, or a suggestion."""

from __future__ import annotations

from planner.bind.context import BindContext
from sqlstream.catalog import CatalogObject, CatalogTable, ObjectPath
from sqlstream.errors import Span, UserError, did_you_mean


def resolve_path(parts: tuple[str, ...], catalog: str, database: str, span: Span | None) -> ObjectPath:
    """`[catalog.][database.]name`, completed with the current catalog and database."""
    if len(parts) > 3:
        raise UserError(
            "SS2001",
            f'"{".".join(parts)}" has {len(parts)} parts',
            span=span,
            hint="name a table as table, database.table or catalog.database.table",
        )
    full = (catalog, database)[: 3 - len(parts)] + parts
    return ObjectPath(*full)


def object_path(parts: tuple[str, ...], context: BindContext, span: Span | None) -> ObjectPath:
    """The full path of a name in a DDL or INSERT statement."""
    return resolve_path(parts, context.current_catalog, context.current_database, span)


def created_path(parts: tuple[str, ...], context: BindContext, span: Span | None) -> ObjectPath:
    """The path of an object to create. UserError SS2001 outside the current database, the only one."""
    path = object_path(parts, context, span)
    if (path.catalog, path.database) != (context.current_catalog, context.current_database):
        raise UserError(
            "SS2001",
            f'database "{path.catalog}.{path.database}" does not exist',
            span=span,
            hint=f"leave the database out; it is {context.current_catalog}.{context.current_database}",
        )
    return path


def find_object(
    path: ObjectPath, context: BindContext, span: Span | None, extra_names: tuple[str, ...] = ()
) -> CatalogObject:
    """The table or view at `path`. UserError SS2001 with a suggestion when there is none.

    `extra_names` are further candidates for the suggestion (common table expressions).
    """
    found = context.catalog.get(path)
    if found is not None:
        return found
    here = [entry.path.name for entry in context.catalog.list(path.catalog, path.database)]
    is_here = (path.catalog, path.database) == (context.current_catalog, context.current_database)
    shown = path.name if is_here else f"{path.catalog}.{path.database}.{path.name}"
    hint = suggest(path.name, [*extra_names, *here])
    raise UserError("SS2001", f'table "{shown}" does not exist', span=span, hint=hint)


def find_table(path: ObjectPath, context: BindContext, span: Span | None) -> CatalogTable:
    """The table at `path`; a view is refused."""
    found = find_object(path, context, span)
    if not isinstance(found, CatalogTable):
        raise UserError("SS2002", f'"{path.name}" is a view, not a table', span=span, hint="name a table")
    return found


def suggest(name: str, candidates: list[str], what: str = "tables") -> str:
    """A hint with the closest name, else with all names when they are few, else an empty one."""
    close = did_you_mean(name, candidates)
    if close:
        return close
    if not candidates:
        return "no table has been created yet" if what == "tables" else ""
    shown = ", ".join(dict.fromkeys(candidates))
    return f"the {what} are {shown}" if len(shown) <= 200 else ""
