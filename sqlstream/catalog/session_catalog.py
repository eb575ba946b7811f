"""One session's view of the catalogs: its temporary objects, and its current catalog and database."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sqlstream.catalog import changes, objects
from sqlstream.catalog.contents import CatalogContents, DatabaseContents, changed
from sqlstream.catalog.manager import CatalogManager
from sqlstream.catalog.snapshot import CatalogSnapshot


class SessionCatalog:
    """Statements of one session change it one after the other; other threads may read at any time.

    `manager` is shared with other sessions, and by default the session's own and in memory. Temporary objects are forgotten
    with the session, and take `held_bytes` until then, in about. The current database may be dropped by another session: then
    names are not found in it.
    """

    def __init__(self, manager: CatalogManager | None = None) -> None:
        self.manager = manager or CatalogManager()
        self._temporary: dict[objects.ObjectPath, objects.CatalogObject] = {}
        self._temporary_functions: dict[objects.ObjectPath, objects.CatalogFunction] = {}
        self._temporary_models: dict[objects.ObjectPath, objects.CatalogModel] = {}
        self.held_bytes = 0
        self.current_catalog = objects.DEFAULT_CATALOG
        self.current_database = self.manager.catalogs()[objects.DEFAULT_CATALOG].definition.default_database

    def snapshot(self) -> CatalogSnapshot:
        """One consistent state, for one statement."""
        return CatalogSnapshot(
            self.manager.catalogs(), self._temporary, self._temporary_functions, self._temporary_models
        )

    def apply(self, change: changes.CatalogChange) -> None:
        """Make a change that a statement has planned on a snapshot; all or none.

        CatalogConflict when another session has changed what it was planned upon: plan the statement anew.
        """
        match change:
            case changes.UseDatabase(catalog, database):
                self.current_catalog, self.current_database = catalog, database
            case changes.PutObject(entry) | changes.RemoveObject(entry) | changes.RenameObject(entry) if (
                entry.is_temporary
            ):
                self._apply_temporary(change)
            case changes.PutFunction(function) | changes.RemoveFunction(function) if function.is_temporary:
                self._apply_temporary_function(change)
            case changes.ChangeModel(before, after) if change.entry.is_temporary:
                # Replaced and not modified, as below.
                rest = {p: m for p, m in self._temporary_models.items() if before is None or p != before.path}
                self._temporary_models = rest | ({after.path: after} if after is not None else {})
                self.held_bytes += sum(
                    sign * _size([m]) for sign, m in ((1, after), (-1, before)) if m is not None
                )
            case _:
                self.manager.apply(change)

    def _apply_temporary_function(self, change: changes.PutFunction | changes.RemoveFunction) -> None:
        # Replaced and not modified: a snapshot holds the former one.
        rest = {p: e for p, e in self._temporary_functions.items() if p != change.entry.path}
        added = {change.entry.path: change.entry} if isinstance(change, changes.PutFunction) else {}
        former = self._temporary_functions.get(change.entry.path)
        self._temporary_functions = rest | added
        self.held_bytes += _size(added.values()) - _size([former] if former is not None else [])

    def _apply_temporary(
        self, change: changes.PutObject | changes.RemoveObject | changes.RenameObject
    ) -> None:
        path = change.entry.path
        present = {path: entry} if (entry := self._temporary.get(path)) is not None else {}
        if isinstance(change, changes.RenameObject) and change.target in self._temporary:
            raise changes.CatalogConflict
        before = CatalogContents(
            {path.database: DatabaseContents(objects={p.name: e for p, e in present.items()})}
        )
        after = changed(before, change).databases[path.database].objects.values()
        # Replaced and not modified: a snapshot holds the former one.
        rest = {p: e for p, e in self._temporary.items() if p != path}
        self._temporary = rest | {e.path: e for e in after}
        self.held_bytes += _size(after) - _size(present.values())

    def temporary(self) -> tuple[tuple[objects.CatalogObject, ...], tuple[objects.CatalogFunction, ...]]:
        """The temporary tables and views, and the temporary functions."""
        return tuple(self._temporary.values()), tuple(self._temporary_functions.values())

    def temporary_models(self) -> tuple[objects.CatalogModel, ...]:
        return tuple(self._temporary_models.values())

    def put(self, entry: objects.CatalogObject) -> None:
        """Add or replace an object, whatever is there. CatalogConflict when another session changes it meanwhile."""
        self.apply(changes.PutObject(entry, self.get_kind(entry.path, entry.is_temporary)))

    # -- what is there now: for completion and for lists ---------------------------------------------

    def catalogs(self) -> tuple[str, ...]:
        return self.snapshot().catalogs()

    def definition(self, catalog: str) -> objects.CatalogDefinition | None:
        return self.snapshot().definition(catalog)

    def databases(self, catalog: str) -> tuple[str, ...]:
        return self.snapshot().databases(catalog)

    def database(self, catalog: str, database: str) -> objects.CatalogDatabase | None:
        return self.snapshot().database(catalog, database)

    def is_empty(self, catalog: str, database: str) -> bool:
        return self.snapshot().is_empty(catalog, database)

    def get(self, path: objects.ObjectPath) -> objects.CatalogObject | None:
        return self.snapshot().get(path)

    def get_kind(self, path: objects.ObjectPath, is_temporary: bool) -> objects.CatalogObject | None:
        return self.snapshot().get_kind(path, is_temporary)

    def is_damaged(self, path: objects.ObjectPath) -> bool:
        return self.snapshot().is_damaged(path)

    def names(self, catalog: str, database: str) -> tuple[str, ...]:
        return self.snapshot().names(catalog, database)

    def columns(self, path: objects.ObjectPath) -> tuple[objects.Column, ...]:
        return self.snapshot().columns(path)

    def function(self, path: objects.ObjectPath, is_temporary: bool) -> objects.CatalogFunction | None:
        return self.snapshot().function(path, is_temporary)

    def is_damaged_function(self, path: objects.ObjectPath) -> bool:
        return self.snapshot().is_damaged_function(path)

    def functions(self, catalog: str, database: str) -> tuple[objects.CatalogFunction, ...]:
        return self.snapshot().functions(catalog, database)

    def model(self, path: objects.ObjectPath, is_temporary: bool) -> objects.CatalogModel | None:
        return self.snapshot().model(path, is_temporary)

    def is_damaged_model(self, path: objects.ObjectPath) -> bool:
        return self.snapshot().is_damaged_model(path)

    def models(self, catalog: str, database: str) -> tuple[objects.CatalogModel, ...]:
        return self.snapshot().models(catalog, database)

    def list(self, catalog: str, database: str) -> tuple[objects.CatalogObject, ...]:
        return self.snapshot().list(catalog, database)


def _size(entries: Iterable[objects.CatalogObject | objects.CatalogFunction | objects.CatalogModel]) -> int:
    return sum(len(msgspec.msgpack.encode(entry)) for entry in entries)
