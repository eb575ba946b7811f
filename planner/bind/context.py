"""The input of binding a statement: catalog, connectors, formats and the session's settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream import config
from sqlstream.catalog import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogFunction,
    CatalogReader,
    FileDefinition,
    InferredTable,
    ObjectPath,
)
from sqlstream.effects import ALL, Permit
from sqlstream.errors import Span, UserError
from sqlstream.spi.catalog import CATALOG_TYPES, CatalogDescriptor
from sqlstream.spi.connector import ConnectorDescriptor
from sqlstream.spi.format import FormatDescriptor
from sqlstream.spi.inspection import FileInference, FunctionInspector, InstalledFunctions

# What a statement knows of the files that it reads by their path.


@dataclasses.dataclass
class FileDefinitions:
    """State: the definitions so far, one for each path and options beside it. Without `inference` there are no others."""

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
    which files, modules and hints it may use.
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

    def line_of(self, span: Span) -> int:
        """The line of a place in the statement, from 1; 0 for a place outside of it."""
        offset = span.start - self.text_start
        return self.text.count("\n", 0, offset) + 1 if 0 <= offset < len(self.text) else 0

    def source(self, span: Span | None) -> str:
        """The text of a part of the statement; empty where it is not known."""
        if span is None or span.start < self.text_start:
            return ""
        return self.text[span.start - self.text_start : span.end - self.text_start]
