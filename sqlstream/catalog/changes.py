"""The changes that DDL statements make to catalogs, each with the state that it was planned upon."""

from __future__ import annotations

import dataclasses

from sqlstream.catalog import objects


class CatalogConflict(Exception):
    """Another session has changed what the change was planned upon: plan the statement anew. Users never see it."""


@dataclasses.dataclass(frozen=True)
class PutObject:
    """Add a table or view, or replace `expected`; without it nothing may be at the path."""

    entry: objects.CatalogObject
    expected: objects.CatalogObject | None = None


@dataclasses.dataclass(frozen=True)
class RemoveObject:
    """Remove a table or view, which must still be the same."""

    entry: objects.CatalogObject


@dataclasses.dataclass(frozen=True)
class RemoveDamaged:
    """Remove a table or view whose kept definition cannot be read."""

    path: objects.ObjectPath


@dataclasses.dataclass(frozen=True)
class RenameObject:
    """Rename a table or view, which must still be the same, within its database; nothing may have the other name."""

    entry: objects.CatalogObject
    name: str

    @property
    def target(self) -> objects.ObjectPath:
        return objects.ObjectPath(self.entry.path.catalog, self.entry.path.database, self.name)


@dataclasses.dataclass(frozen=True)
class PutFunction:
    """Add a function, or replace `expected`; without it there may be no function of its name."""

    entry: objects.CatalogFunction
    expected: objects.CatalogFunction | None = None


@dataclasses.dataclass(frozen=True)
class RemoveFunction:
    """Remove a function, which must still be the same."""

    entry: objects.CatalogFunction


@dataclasses.dataclass(frozen=True)
class RemoveDamagedFunction:
    """Remove a function whose kept definition cannot be read."""

    path: objects.ObjectPath


@dataclasses.dataclass(frozen=True)
class PutDatabase:
    """Add a database, or replace the definition `expected`; without it there may be no such database."""

    catalog: str
    name: str
    database: objects.CatalogDatabase
    expected: objects.CatalogDatabase | None = None


@dataclasses.dataclass(frozen=True)
class RemoveDatabase:
    """Remove a database; unless `is_cascade` it must be empty."""

    catalog: str
    name: str
    is_cascade: bool


@dataclasses.dataclass(frozen=True)
class PutCatalog:
    """Add a catalog, or give one another definition than `expected`; without it there may be no such catalog."""

    name: str
    definition: objects.CatalogDefinition
    expected: objects.CatalogDefinition | None = None


@dataclasses.dataclass(frozen=True)
class RemoveCatalog:
    """Forget a catalog; what it keeps in files stays there."""

    name: str


@dataclasses.dataclass(frozen=True)
class UseDatabase:
    """Make a catalog and database the current ones of the session."""

    catalog: str
    database: str


FunctionChange = PutFunction | RemoveFunction | RemoveDamagedFunction

ContentsChange = (
    PutObject | RemoveObject | RemoveDamaged | RenameObject | FunctionChange | PutDatabase | RemoveDatabase
)
"""A change within one catalog."""

CatalogChange = ContentsChange | PutCatalog | RemoveCatalog | UseDatabase


def changed_catalog(change: ContentsChange) -> str:
    """The name of the catalog that the change is for."""
    match change:
        case PutObject(entry) | RemoveObject(entry) | RenameObject(entry):
            return entry.path.catalog
        case PutFunction(function) | RemoveFunction(function):
            return function.path.catalog
        case RemoveDamaged(path) | RemoveDamagedFunction(path):
            return path.catalog
        case PutDatabase() | RemoveDatabase():
            return change.catalog
