"""What the planner sees of the catalogs: one consistent state, with a session's temporary objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlstream.catalog import objects
from sqlstream.catalog.contents import CatalogContents, DatabaseContents
from sqlstream.catalog.manager import Catalog
from sqlstream.errors import ExternalError


class CatalogReader(Protocol):
    """What the binder, the DDL statements and completion need of the catalogs."""

    def catalogs(self) -> tuple[str, ...]: ...

    def definition(self, catalog: str) -> objects.CatalogDefinition | None: ...

    def databases(self, catalog: str) -> tuple[str, ...]: ...

    def database(self, catalog: str, database: str) -> objects.CatalogDatabase | None: ...

    def is_empty(self, catalog: str, database: str) -> bool: ...

    def get(self, path: objects.ObjectPath) -> objects.CatalogObject | None: ...

    def get_kind(self, path: objects.ObjectPath, is_temporary: bool) -> objects.CatalogObject | None: ...

    def is_damaged(self, path: objects.ObjectPath) -> bool: ...

    def names(self, catalog: str, database: str) -> tuple[str, ...]: ...

    def list(self, catalog: str, database: str) -> tuple[objects.CatalogObject, ...]: ...

    def function(self, path: objects.ObjectPath, is_temporary: bool) -> objects.CatalogFunction | None: ...

    def is_damaged_function(self, path: objects.ObjectPath) -> bool: ...

    def functions(self, catalog: str, database: str) -> tuple[objects.CatalogFunction, ...]: ...

    def model(self, path: objects.ObjectPath, is_temporary: bool) -> objects.CatalogModel | None: ...

    def is_damaged_model(self, path: objects.ObjectPath) -> bool: ...

    def models(self, catalog: str, database: str) -> tuple[objects.CatalogModel, ...]: ...


class CatalogSnapshot:
    """The catalogs at one moment, each as it was when it was first asked for; so a plan never mixes two states of a catalog,
    and a catalog that cannot be read fails only the statements that use it.

    A temporary object hides a permanent one of the same name. ExternalError SS5020 for an object or database whose kept
    definition cannot be read, when it is asked for by name. For one thread.
    """

    def __init__(
        self,
        catalogs: Mapping[str, Catalog],
        temporary: Mapping[objects.ObjectPath, objects.CatalogObject] | None = None,
        temporary_functions: Mapping[objects.ObjectPath, objects.CatalogFunction] | None = None,
        temporary_models: Mapping[objects.ObjectPath, objects.CatalogModel] | None = None,
    ) -> None:
        self._catalogs = catalogs
        self._temporary = temporary or {}
        self._temporary_functions = temporary_functions or {}
        self._temporary_models = temporary_models or {}
        self._read: dict[str, CatalogContents] = {}

    def catalogs(self) -> tuple[str, ...]:
        return tuple(sorted(self._catalogs))

    def definition(self, catalog: str) -> objects.CatalogDefinition | None:
        found = self._catalogs.get(catalog)
        return None if found is None else found.definition

    def databases(self, catalog: str) -> tuple[str, ...]:
        """Names, those of databases that cannot be read among them; none when there is no such catalog."""
        contents = self._contents(catalog)
        return tuple(sorted((*contents.databases, *contents.damaged)))

    def database(self, catalog: str, database: str) -> objects.CatalogDatabase | None:
        found = self._database(catalog, database)
        return None if found is None else found.database

    def is_empty(self, catalog: str, database: str) -> bool:
        """Whether a database holds nothing permanent."""
        found = self._database(catalog, database)
        return found is None or found.is_empty

    def get(self, path: objects.ObjectPath) -> objects.CatalogObject | None:
        return self._temporary.get(path) or self._permanent(path)

    def get_kind(self, path: objects.ObjectPath, is_temporary: bool) -> objects.CatalogObject | None:
        """The object of that very kind, hidden or not."""
        return self._temporary.get(path) if is_temporary else self._permanent(path)

    def is_damaged(self, path: objects.ObjectPath) -> bool:
        """Whether a permanent object is there whose definition cannot be read."""
        found = self._database(path.catalog, path.database)
        return found is not None and path.name in found.damaged

    def list(self, catalog: str, database: str) -> tuple[objects.CatalogObject, ...]:
        """The visible objects in order of their names, without those that cannot be read."""
        found = self._database(catalog, database)
        visible = dict(found.objects) if found is not None else {}
        for path, entry in self._temporary.items():
            if (path.catalog, path.database) == (catalog, database):
                visible[path.name] = entry
        return tuple(entry for _, entry in sorted(visible.items()))

    def names(self, catalog: str, database: str) -> tuple[str, ...]:
        """The names of all objects, those that cannot be read among them."""
        found = self._database(catalog, database)
        damaged = found.damaged if found is not None else ()
        return tuple(sorted({*(e.path.name for e in self.list(catalog, database)), *damaged}))

    def columns(self, path: objects.ObjectPath) -> tuple[objects.Column, ...]:
        """The columns of a table or view; none when there is no such object."""
        found = self.get(path)
        if found is None or isinstance(found, objects.CatalogTable):
            return found.columns if found is not None else ()
        return tuple(objects.Column(f.name, f.type) for f in found.schema.fields)

    def function(self, path: objects.ObjectPath, is_temporary: bool) -> objects.CatalogFunction | None:
        """The function of that very kind. ExternalError SS5020 for a permanent one whose definition cannot be read."""
        if is_temporary:
            return self._temporary_functions.get(path)
        database = self._database(path.catalog, path.database)
        if database is not None and path.name in database.damaged_functions:
            reason = database.damaged_functions[path.name]
            raise _unreadable(f'function "{path.name}"', reason, ", or drop the function")
        return None if database is None else database.functions.get(path.name)

    def is_damaged_function(self, path: objects.ObjectPath) -> bool:
        """Whether a permanent function is there whose definition cannot be read."""
        found = self._database(path.catalog, path.database)
        return found is not None and path.name in found.damaged_functions

    def functions(self, catalog: str, database: str) -> tuple[objects.CatalogFunction, ...]:
        """The visible functions of a database in order of their names, without those that cannot be read; temporary system
        functions are those of the empty names."""
        found = self._database(catalog, database) if catalog else None
        visible = dict(found.functions) if found is not None else {}
        for path, entry in self._temporary_functions.items():
            if (path.catalog, path.database) == (catalog, database):
                visible[path.name] = entry
        return tuple(entry for _, entry in sorted(visible.items()))

    def model(self, path: objects.ObjectPath, is_temporary: bool) -> objects.CatalogModel | None:
        """The model of that very kind. ExternalError SS5020 for a permanent one whose definition cannot be read."""
        if is_temporary:
            return self._temporary_models.get(path)
        database = self._database(path.catalog, path.database)
        if database is not None and path.name in database.damaged_models:
            raise _unreadable(
                f'model "{path.name}"', database.damaged_models[path.name], ", or drop the model"
            )
        return None if database is None else database.models.get(path.name)

    def is_damaged_model(self, path: objects.ObjectPath) -> bool:
        """Whether a permanent model is there whose definition cannot be read."""
        found = self._database(path.catalog, path.database)
        return found is not None and path.name in found.damaged_models

    def models(self, catalog: str, database: str) -> tuple[objects.CatalogModel, ...]:
        """The visible models of a database in order of their names, without those that cannot be read."""
        found = self._database(catalog, database)
        visible = dict(found.models) if found is not None else {}
        for path, entry in self._temporary_models.items():
            if (path.catalog, path.database) == (catalog, database):
                visible[path.name] = entry
        return tuple(entry for _, entry in sorted(visible.items()))

    def _contents(self, catalog: str) -> CatalogContents:
        if catalog not in self._read:
            found = self._catalogs.get(catalog)
            self._read[catalog] = CatalogContents() if found is None else found.contents()
        return self._read[catalog]

    def _database(self, catalog: str, database: str) -> DatabaseContents | None:
        contents = self._contents(catalog)
        if database in contents.damaged:
            raise _unreadable(f'database "{catalog}.{database}"', contents.damaged[database])
        return contents.databases.get(database)

    def _permanent(self, path: objects.ObjectPath) -> objects.CatalogObject | None:
        database = self._database(path.catalog, path.database)
        if database is not None and path.name in database.damaged:
            raise _unreadable(f'table "{path.name}"', database.damaged[path.name], ", or drop the table")
        return None if database is None else database.objects.get(path.name)


def _unreadable(what: str, reason: str, or_drop: str = "") -> ExternalError:
    return ExternalError(
        "SS5020",
        f"the definition of {what} cannot be read",
        detail=reason,
        hint=f"repair the file{or_drop or ', or remove it to forget the definition'}",
    )
