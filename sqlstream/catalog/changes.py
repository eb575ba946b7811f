"""The changes that DDL statements make to catalogs, each with the state that it was planned upon."""

from __future__ import annotations

import msgspec

from sqlstream.catalog import objects


class CatalogConflict(Exception):
    """Another session has changed what the change was planned upon: plan the statement anew. Users never see it."""


class PutObject(msgspec.Struct, frozen=True):
    """Add a table or view, or replace `expected`; without it nothing may be at the path."""

    entry: objects.CatalogObject
    expected: objects.CatalogObject | None = None


class RemoveObject(msgspec.Struct, frozen=True):
    """Remove a table or view, which must still be the same."""

    entry: objects.CatalogObject


class RemoveDamaged(msgspec.Struct, frozen=True):
    """Remove a table or view whose kept definition cannot be read."""

    path: objects.ObjectPath


class RenameObject(msgspec.Struct, frozen=True):
    """Rename a table or view, which must still be the same, within its database; nothing may have the other name."""

    entry: objects.CatalogObject
    name: str

    @property
    def target(self) -> objects.ObjectPath:
        return objects.ObjectPath(self.entry.path.catalog, self.entry.path.database, self.name)


class PutFunction(msgspec.Struct, frozen=True):
    """Add a function, or replace `expected`; without it there may be no function of its name."""

    entry: objects.CatalogFunction
    expected: objects.CatalogFunction | None = None


class RemoveFunction(msgspec.Struct, frozen=True):
    """Remove a function, which must still be the same."""

    entry: objects.CatalogFunction


class RemoveDamagedFunction(msgspec.Struct, frozen=True):
    """Remove a function whose kept definition cannot be read."""

    path: objects.ObjectPath


class ChangeModel(msgspec.Struct, frozen=True):
    """Make the model `before` the model `after`, in the same database. Without `before` there may be none of that name; without
    `after` it is dropped."""

    before: objects.CatalogModel | None
    after: objects.CatalogModel | None

    @property
    def entry(self) -> objects.CatalogModel:
        found = self.before or self.after
        assert found is not None
        return found


class RemoveDamagedModel(msgspec.Struct, frozen=True):
    """Remove a model whose kept definition cannot be read."""

    path: objects.ObjectPath


class PutDatabase(msgspec.Struct, frozen=True):
    """Add a database, or replace the definition `expected`; without it there may be no such database."""

    catalog: str
    name: str
    database: objects.CatalogDatabase
    expected: objects.CatalogDatabase | None = None


class RemoveDatabase(msgspec.Struct, frozen=True):
    """Remove a database; unless `is_cascade` it must be empty."""

    catalog: str
    name: str
    is_cascade: bool


class PutCatalog(msgspec.Struct, frozen=True):
    """Add a catalog, or give one another definition than `expected`; without it there may be no such catalog."""

    name: str
    definition: objects.CatalogDefinition
    expected: objects.CatalogDefinition | None = None


class RemoveCatalog(msgspec.Struct, frozen=True):
    """Forget a catalog; what it keeps in files stays there."""

    name: str


class UseDatabase(msgspec.Struct, frozen=True):
    """Make a catalog and database the current ones of the session."""

    catalog: str
    database: str


FunctionChange = PutFunction | RemoveFunction | RemoveDamagedFunction
ModelChange = ChangeModel | RemoveDamagedModel

_ObjectChange = PutObject | RemoveObject | RemoveDamaged | RenameObject
ContentsChange = _ObjectChange | FunctionChange | ModelChange | PutDatabase | RemoveDatabase
"""A change within one catalog."""

CatalogChange = ContentsChange | PutCatalog | RemoveCatalog | UseDatabase


def changed_catalog(change: ContentsChange) -> str:
    """The name of the catalog that the change is for."""
    match change:
        case PutObject(entry) | RemoveObject(entry) | RenameObject(entry):
            return entry.path.catalog
        case PutFunction(function) | RemoveFunction(function):
            return function.path.catalog
        case ChangeModel():
            return change.entry.path.catalog
        case RemoveDamaged(path) | RemoveDamagedFunction(path) | RemoveDamagedModel(path):
            return path.catalog
        case PutDatabase() | RemoveDatabase():
            return change.catalog
