"""All catalogs of a server (Flink: CatalogManager), and the protocols of what they are made of."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from sqlstream.catalog import changes
from sqlstream.catalog.contents import TYPE as IN_MEMORY
from sqlstream.catalog.contents import CatalogContents, MemoryCatalog
from sqlstream.catalog.objects import DEFAULT_CATALOG, CatalogDatabase, CatalogDefinition
from sqlstream.errors import SqlStreamError, UserError

logger = logging.getLogger(__name__)


class Catalog(Protocol):
    """One catalog, shared by sessions: thread-safe. Objects in it have its name in their paths."""

    @property
    def definition(self) -> CatalogDefinition: ...

    def contents(self) -> CatalogContents:
        """All of it as it is now. ExternalError when it cannot be read."""

    def apply(self, change: changes.ContentsChange) -> None:
        """Make a change, all or none; when this returns, it is kept. CatalogConflict when the catalog has changed since the
        change was planned; ExternalError when it cannot be kept."""

    def redefine(self, definition: CatalogDefinition) -> bool:
        """Take another definition of the same type. False when its contents lie elsewhere: then it must be opened instead."""

    def close(self) -> None: ...


CatalogFactory = Callable[[str, CatalogDefinition], Catalog]
"""Opens the catalog of a name and definition. UserError for a wrong option, ExternalError when it cannot be opened."""


class CatalogStore(Protocol):
    """Keeps the definitions of catalogs beyond the process (Flink: CatalogStore)."""

    def load(self) -> Mapping[str, CatalogDefinition]: ...

    def put(self, name: str, definition: CatalogDefinition) -> None: ...

    def remove(self, name: str) -> None: ...


class CatalogManager:
    """The catalogs by name, shared by all sessions; thread-safe.

    `default` becomes `default_catalog`, in memory unless given. `factories` open what CREATE CATALOG declares, by type; `others`
    finds the factory of another type. With a `store`, catalogs created here are there again in the next manager over the same
    store; those that cannot be opened are kept in `unopened` with the reason, and the others work. `close` closes the catalogs.
    """

    def __init__(
        self,
        default: Catalog | None = None,
        factories: Mapping[str, CatalogFactory] | None = None,
        store: CatalogStore | None = None,
        others: Callable[[str], CatalogFactory | None] = lambda kind: None,
    ) -> None:
        self._factories = {IN_MEMORY: lambda _, definition: MemoryCatalog(definition), **(factories or {})}
        self._others = others
        self._store = store
        self._lock = threading.Lock()
        self._catalogs: Mapping[str, Catalog] = {DEFAULT_CATALOG: default or MemoryCatalog()}
        self.unopened: dict[str, str] = {}
        for name, definition in (store.load() if store is not None else {}).items():
            self._reopen(name, definition)

    def _reopen(self, name: str, definition: CatalogDefinition) -> None:
        try:
            catalog = self._open(name, definition)
        except SqlStreamError as error:
            logger.error('catalog "%s" cannot be opened: %s', name, error.message)
            self.unopened[name] = error.message
        else:
            self._catalogs = {**self._catalogs, name: catalog}

    def catalogs(self) -> Mapping[str, Catalog]:
        """The catalogs as they are now; the mapping is never modified."""
        return self._catalogs

    def apply(self, change: changes.ContentsChange | changes.PutCatalog | changes.RemoveCatalog) -> None:
        """Make a change, all or none. CatalogConflict when it was planned upon another state."""
        match change:
            case changes.PutCatalog(name, definition, None):
                self._create(name, definition)
            case changes.PutCatalog(name, definition, expected):
                self._alter(name, definition, expected)
            case changes.RemoveCatalog(name):
                self._drop(name)
            case _:
                catalog = self._catalogs.get(changes.changed_catalog(change))
                if catalog is None:
                    raise changes.CatalogConflict
                catalog.apply(change)

    def _open(self, name: str, definition: CatalogDefinition) -> Catalog:
        factory = self._factories.get(definition.type) or self._others(definition.type)
        if factory is None:
            raise UserError(
                "SS4004",
                f'catalogs of type "{definition.type}" cannot be created here',
                hint=f"choose one of {', '.join(sorted(self._factories))}",
            )
        return factory(name, definition)

    def _create(self, name: str, definition: CatalogDefinition) -> None:
        with self._lock:
            if name in self._catalogs:
                raise changes.CatalogConflict
            catalog = self._open(name, definition)
            try:
                if self._store is not None:
                    self._store.put(name, catalog.definition)
            except BaseException:
                catalog.close()
                raise
            self.unopened.pop(name, None)
            self._catalogs = {**self._catalogs, name: catalog}

    def _alter(self, name: str, definition: CatalogDefinition, expected: CatalogDefinition | None) -> None:
        with self._lock:
            catalog = self._catalogs.get(name)
            if catalog is None or catalog.definition != expected:
                raise changes.CatalogConflict
            before = catalog.definition
            is_new = not catalog.redefine(definition)
            if is_new:
                # The former one is closed when nobody refers to it, as for DROP.
                catalog = self._open(name, definition)
            try:
                if not is_new:
                    _make_default_database(name, catalog)
                if self._store is not None:
                    self._store.put(name, catalog.definition)
            except BaseException:
                if is_new:
                    catalog.close()
                else:
                    catalog.redefine(before)
                raise
            self._catalogs = {**self._catalogs, name: catalog}

    def _drop(self, name: str) -> None:
        with self._lock:
            if name not in self._catalogs:
                raise changes.CatalogConflict
            if self._store is not None:
                self._store.remove(name)
            self._catalogs = {n: c for n, c in self._catalogs.items() if n != name}
            # Not closed: a session may be reading it. It is closed when nobody refers to it.

    def close(self) -> None:
        with self._lock:
            for catalog in self._catalogs.values():
                catalog.close()


def _make_default_database(name: str, catalog: Catalog) -> None:
    database = catalog.definition.default_database
    if database not in catalog.contents().databases:
        # Another session may make it at the same time.
        with contextlib.suppress(changes.CatalogConflict):
            catalog.apply(changes.PutDatabase(name, database, CatalogDatabase()))
