"""All that a catalog holds as one value, and what it becomes by a change."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping

from msgspec.structs import replace

from sqlstream.catalog import changes
from sqlstream.catalog.objects import (
    DEFAULT_DATABASE,
    CatalogDatabase,
    CatalogDefinition,
    CatalogFunction,
    CatalogModel,
    CatalogObject,
    ObjectPath,
)


@dataclasses.dataclass(frozen=True)
class DatabaseContents:
    """A database with its tables and views by name, and its functions and models, whose names are apart. `damaged`,
    `damaged_functions` and `damaged_models` name those whose kept definition cannot be read, with the reason."""

    database: CatalogDatabase = dataclasses.field(default_factory=CatalogDatabase)
    objects: Mapping[str, CatalogObject] = dataclasses.field(default_factory=dict)
    damaged: Mapping[str, str] = dataclasses.field(default_factory=dict)
    functions: Mapping[str, CatalogFunction] = dataclasses.field(default_factory=dict)
    damaged_functions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    models: Mapping[str, CatalogModel] = dataclasses.field(default_factory=dict)
    damaged_models: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        of_tables, of_functions = self.objects or self.damaged, self.functions or self.damaged_functions
        return not (of_tables or of_functions or self.models or self.damaged_models)


@dataclasses.dataclass(frozen=True)
class CatalogContents:
    """The databases of a catalog by name; `damaged` as for objects. Never modified: a change makes another value, so that
    whoever holds one sees a consistent catalog."""

    databases: Mapping[str, DatabaseContents] = dataclasses.field(default_factory=dict)
    damaged: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def get(self, path: ObjectPath) -> CatalogObject | None:
        database = self.databases.get(path.database)
        return None if database is None else database.objects.get(path.name)


def changed(contents: CatalogContents, change: changes.ContentsChange) -> CatalogContents:
    """The contents after `change`. CatalogConflict when they are not what it was planned upon."""
    match change:
        case changes.PutObject(entry, expected):
            return _with_object(contents, entry, expected)
        case changes.RemoveObject(entry):
            return _without_object(contents, entry)
        case changes.RemoveDamaged(path):
            return _without_damaged(contents, path)
        case changes.RenameObject(entry):
            if contents.get(change.target) is not None:
                raise changes.CatalogConflict
            moved = replace(entry, path=change.target)
            return _with_object(_without_object(contents, entry), moved, None)
        case changes.PutFunction() | changes.RemoveFunction() | changes.RemoveDamagedFunction():
            return _with_function_change(contents, change)
        case changes.ChangeModel() | changes.RemoveDamagedModel():
            return _with_model_change(contents, change)
        case changes.PutDatabase(_, name, database, expected_database):
            return _with_database(contents, name, database, expected_database)
        case changes.RemoveDatabase(_, name, is_cascade):
            return _without_database(contents, name, is_cascade)


def _database(contents: CatalogContents, name: str) -> DatabaseContents:
    found = contents.databases.get(name)
    if found is None:
        raise changes.CatalogConflict
    return found


def _with_objects(
    contents: CatalogContents, name: str, objects: Mapping[str, CatalogObject]
) -> CatalogContents:
    database = dataclasses.replace(contents.databases[name], objects=objects)
    return dataclasses.replace(contents, databases={**contents.databases, name: database})


def _with_object(
    contents: CatalogContents, entry: CatalogObject, expected: CatalogObject | None
) -> CatalogContents:
    path = entry.path
    database = _database(contents, path.database)
    if database.objects.get(path.name) != expected or path.name in database.damaged:
        raise changes.CatalogConflict
    return _with_objects(contents, path.database, {**database.objects, path.name: entry})


def _without_object(contents: CatalogContents, entry: CatalogObject) -> CatalogContents:
    path = entry.path
    database = _database(contents, path.database)
    if database.objects.get(path.name) != entry:
        raise changes.CatalogConflict
    rest = {name: other for name, other in database.objects.items() if name != path.name}
    return _with_objects(contents, path.database, rest)


def _without_damaged(contents: CatalogContents, path: ObjectPath) -> CatalogContents:
    database = _database(contents, path.database)
    if path.name not in database.damaged:
        raise changes.CatalogConflict
    rest = {name: reason for name, reason in database.damaged.items() if name != path.name}
    after = dataclasses.replace(database, damaged=rest)
    return dataclasses.replace(contents, databases={**contents.databases, path.database: after})


def _with_function_change(contents: CatalogContents, change: changes.FunctionChange) -> CatalogContents:
    path = change.path if isinstance(change, changes.RemoveDamagedFunction) else change.entry.path
    database = _database(contents, path.database)
    functions, damaged = dict(database.functions), dict(database.damaged_functions)
    match change:
        case changes.RemoveDamagedFunction():
            if damaged.pop(path.name, None) is None:
                raise changes.CatalogConflict
        case changes.PutFunction(entry, expected):
            if functions.get(path.name) != expected or path.name in damaged:
                raise changes.CatalogConflict
            functions[path.name] = entry
        case changes.RemoveFunction(entry):
            if functions.pop(path.name, None) != entry:
                raise changes.CatalogConflict
    after = dataclasses.replace(database, functions=functions, damaged_functions=damaged)
    return dataclasses.replace(contents, databases={**contents.databases, path.database: after})


def _with_model_change(contents: CatalogContents, change: changes.ModelChange) -> CatalogContents:
    path = change.path if isinstance(change, changes.RemoveDamagedModel) else change.entry.path
    database = _database(contents, path.database)
    models, damaged = dict(database.models), dict(database.damaged_models)
    match change:
        case changes.RemoveDamagedModel():
            if damaged.pop(path.name, None) is None:
                raise changes.CatalogConflict
        case changes.ChangeModel(before, after):
            if before is not None and models.pop(before.path.name, None) != before:
                raise changes.CatalogConflict
            if after is not None:
                if after.path.name in models or after.path.name in damaged:
                    raise changes.CatalogConflict
                models[after.path.name] = after
    after_change = dataclasses.replace(database, models=models, damaged_models=damaged)
    return dataclasses.replace(contents, databases={**contents.databases, path.database: after_change})


def _with_database(
    contents: CatalogContents, name: str, database: CatalogDatabase, expected: CatalogDatabase | None
) -> CatalogContents:
    present = contents.databases.get(name)
    if (None if present is None else present.database) != expected or name in contents.damaged:
        raise changes.CatalogConflict
    after = dataclasses.replace(present or DatabaseContents(), database=database)
    return dataclasses.replace(contents, databases={**contents.databases, name: after})


def _without_database(contents: CatalogContents, name: str, is_cascade: bool) -> CatalogContents:
    if not _database(contents, name).is_empty and not is_cascade:
        raise changes.CatalogConflict
    rest = {other: database for other, database in contents.databases.items() if other != name}
    return dataclasses.replace(contents, databases=rest)


# A catalog in memory (Flink: GenericInMemoryCatalog).


TYPE = "generic_in_memory"


class MemoryCatalog:
    """Databases, tables and views, forgotten with the process. Thread-safe: one value holds all of them and is replaced at
    once."""

    def __init__(self, definition: CatalogDefinition | None = None) -> None:
        self.definition = definition or CatalogDefinition(
            {"type": TYPE, "default-database": DEFAULT_DATABASE}
        )
        self._contents = CatalogContents({self.definition.default_database: DatabaseContents()})
        self._lock = threading.Lock()

    def contents(self) -> CatalogContents:
        return self._contents

    def apply(self, change: changes.ContentsChange) -> None:
        with self._lock:
            self._contents = changed(self._contents, change)

    def redefine(self, definition: CatalogDefinition) -> bool:
        self.definition = definition
        return True

    def close(self) -> None:
        """Nothing is open."""
