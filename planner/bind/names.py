"""Names of tables and views: written parts → catalog path → catalog object, or a suggestion."""

from __future__ import annotations

from sqlstream.catalog import CatalogObject, CatalogTable, ObjectPath
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.dialect.habits import table_hint


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
    """The path of an object to create. UserError SS2014 when there is no such catalog or database."""
    path = object_path(parts, context, span)
    check_database(path.catalog, path.database, context, span)
    return path


def database_path(
    parts: tuple[str, ...], context: BindContext, span: Span | None, *, exists: bool = True
) -> tuple[str, str]:
    """The catalog and the name of a `[catalog.]database`. UserError SS2014 when there is no such catalog or, if it has to
    exist, database."""
    catalog, database = (context.current_catalog, *parts)[-2:]
    if exists:
        check_database(catalog, database, context, span)
    else:
        check_catalog(catalog, context, span)
    return catalog, database


def check_catalog(catalog: str, context: BindContext, span: Span | None) -> None:
    """UserError SS2014 when there is no such catalog."""
    known = context.catalog.catalogs()
    if catalog not in known:
        hint = suggest(catalog, list(known), "catalogs")
        raise UserError("SS2014", f'catalog "{catalog}" does not exist', span=span, hint=hint)


def check_database(catalog: str, database: str, context: BindContext, span: Span | None) -> None:
    """UserError SS2014 when there is no such catalog, or no such database in it."""
    check_catalog(catalog, context, span)
    if context.catalog.database(catalog, database) is None:
        hint = suggest(database, list(context.catalog.databases(catalog)), "databases")
        message = f'database "{catalog}.{database}" does not exist'
        raise UserError("SS2014", message, span=span, hint=hint)


def find_object(
    path: ObjectPath, context: BindContext, span: Span | None, extra_names: tuple[str, ...] = ()
) -> CatalogObject:
    """The table or view at `path`. UserError SS2001 with a suggestion when there is none, SS2014 when its catalog or
    database does not exist.

    `extra_names` are further candidates for the suggestion (common table expressions).
    """
    found = context.catalog.get(path)
    if found is not None:
        return found
    foreign = table_hint(
        (path.database, path.name) if path.database != context.current_database else (path.name,)
    )
    if foreign:
        shown = f"{path.database}.{path.name}" if path.database != context.current_database else path.name
        raise UserError("SS2001", f'table "{shown}" does not exist', span=span, hint=foreign)
    check_database(path.catalog, path.database, context, span)
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
