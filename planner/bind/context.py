"""The input of binding a statement: catalog, connectors, formats and the session's settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sqlstream import config
from sqlstream.catalog import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogFunction,
    CatalogObject,
    CatalogReader,
    CatalogTable,
    FileDefinition,
    InferredTable,
    ObjectPath,
)
from sqlstream.effects import ALL, Permit
from sqlstream.errors import Span, UserError, did_you_mean
from sqlstream.planner.dialect.habits import table_hint
from sqlstream.spi.catalog import CATALOG_TYPES, CatalogDescriptor
from sqlstream.spi.connector import ConnectorDescriptor
from sqlstream.spi.format import FormatDescriptor
from sqlstream.spi.inspection import FileInference, FunctionInspector, InstalledFunctions

if TYPE_CHECKING:
    from sqlstream.expired_rows import KeptPlace
    from sqlstream.planner.bind.backfill import Backfills


@dataclasses.dataclass
class FileDefinitions:
    """What a statement knows of the files that it reads by their path.

    State: the definitions so far, one for each path and options beside it. Without `inference` there are no others."""

    inference: FileInference | None = None
    known: tuple[FileDefinition, ...] = ()

    def find(self, path: str, given: Mapping[str, str]) -> InferredTable | None:
        return next((f.table for f in self.known if f.path == path and f.given == given), None)

    def add(self, definition: FileDefinition) -> None:
        self.known += (definition,)


# How many expressions one statement may have.


EXPRESSIONS_MAX = "sqlstream.statement.max-expressions"


class StatementSize:
    """Counts the columns, operators and calls that are bound for one statement. State: that count, and the limit once read.

    A view counts each time it is read, so that short statements over nested views are bounded too. Literals do not count: they
    cost little, and VALUES has many.
    """

    def __init__(self) -> None:
        self._count = 0
        self._count_max: int | None = None

    def add(self, count: int, settings: Mapping[str, str], span: Span | None) -> None:
        """UserError SS3019 when the statement has more expressions than `settings` allow."""
        if self._count_max is None:
            self._count_max = int(config.get(settings, EXPRESSIONS_MAX))
        self._count += count
        if self._count > self._count_max:
            raise UserError(
                "SS3019",
                f"the statement has more than {self._count_max} columns, operators and calls",
                span=span,
                hint=f"split it, or raise '{EXPRESSIONS_MAX}'",
            )


@dataclasses.dataclass(frozen=True)
class BindContext:
    """Made by the session; the planner has no other source of information, and opens nothing.

    `catalog` is one consistent state of the catalogs: the whole statement is bound to it. `connectors` and `formats` are
    keyed by identifier; `config` holds the settings that the user has set. `size` counts the statement's expressions.
    `files` are those that the statement reads by their path. `functions` imports what CREATE FUNCTION names; `installed` are
    functions of other packages; `called` are the users' and packages' functions that the statement has named so far. `text` is
    that of the statement, from `text_start` on in its script; empty where it is not known. `permit` says what planning may do:
    which files, modules and hints it may use. `check_table` runs the checks of a table's connector, which its descriptor cannot
    express: UserError without a position. `model_version` gives the SHA-256 of a model's file: UserError without a position when
    it is not there. `model_files` are the paths of those that the statement has named so far, by their SHA-256.
    `backfills` are the histories of tables that an INSERT names. `expired_places` are the jobs that keep expired rows of a table,
    by its name and its identity: UserError without a position when there is none.
    """

    catalog: CatalogReader
    connectors: Mapping[str, ConnectorDescriptor] = dataclasses.field(default_factory=dict)
    formats: Mapping[str, FormatDescriptor] = dataclasses.field(default_factory=dict)
    config: Mapping[str, str] = dataclasses.field(default_factory=dict)
    current_catalog: str = DEFAULT_CATALOG
    current_database: str = DEFAULT_DATABASE
    size: StatementSize = dataclasses.field(default_factory=StatementSize)
    files: FileDefinitions = dataclasses.field(default_factory=FileDefinitions)
    functions: FunctionInspector | None = None
    installed: InstalledFunctions | None = None
    catalog_types: Mapping[str, CatalogDescriptor] = dataclasses.field(default_factory=lambda: CATALOG_TYPES)
    called: dict[ObjectPath, CatalogFunction] = dataclasses.field(default_factory=dict)
    text: str = ""
    text_start: int = 0
    permit: Permit = ALL
    check_table: Callable[[CatalogTable], None] = lambda table: None
    model_version: Callable[[str], str] = lambda path: ""
    model_files: dict[str, str] = dataclasses.field(default_factory=dict)
    backfills: Backfills | None = None
    expired_places: Callable[[str, str], tuple[KeptPlace, ...]] = lambda name, identity: ()

    def line_of(self, span: Span) -> int:
        """The line of a place in the statement, from 1; 0 for a place outside of it."""
        offset = span.start - self.text_start
        return self.text.count("\n", 0, offset) + 1 if 0 <= offset < len(self.text) else 0

    def source(self, span: Span | None) -> str:
        """The text of a part of the statement; empty where it is not known."""
        if span is None or span.start < self.text_start:
            return ""
        return self.text[span.start - self.text_start : span.end - self.text_start]


# Names of tables and views: written parts → catalog path → catalog object, or a suggestion.


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


def renamed_path(
    path: ObjectPath, parts: tuple[str, ...], kind: str, context: BindContext, span: Span | None
) -> ObjectPath:
    """Where what is at `path` is under the name that RENAME TO gives. UserError SS2011 for another database."""
    renamed = object_path(parts, context, span)
    if len(parts) == 1:
        renamed = replace(path, name=parts[0])
    if (renamed.catalog, renamed.database) != (path.catalog, path.database):
        raise UserError(
            "SS2011",
            f'a {kind} stays in its database, which is "{path.catalog}.{path.database}"',
            span=span,
            hint="write the name alone",
        )
    return renamed


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
