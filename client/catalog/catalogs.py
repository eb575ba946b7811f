"""The catalogs of a process, with every type that CREATE CATALOG can name: ours, and those of other packages."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlstream.catalog import CatalogDefinition, CatalogManager
from sqlstream.catalog.manager import Catalog, CatalogFactory
from sqlstream.client.catalog.definition_files import (
    SUFFIX,
    entries,
    file_name,
    read_definition,
    remove_definition,
    remove_leftovers,
    sql_name,
    write_definition,
)
from sqlstream.client.catalog.stored import DamagedDefinition, decode_catalog, encode_catalog
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.runtime.host.files import file_error
from sqlstream.runtime.registry import Descriptors
from sqlstream.spi.catalog import CATALOG_TYPES, CatalogDescriptor, CatalogType, NamesCatalogPaths
from sqlstream.spi.packages import Guest, Kind, find_guest, make_guest

if TYPE_CHECKING:
    from sqlstream.client.catalog.file_catalog import Keep
    from sqlstream.runtime.host.rooted_files import FilePlaces


DEFAULT_DIRECTORY = "default_catalog"
STORE_DIRECTORY = "catalog_store"


def memory_catalogs() -> CatalogManager:
    """Catalogs that are forgotten with the process, except those that CREATE CATALOG keeps in files."""
    return CatalogManager(factories={"file": _open_file}, others=lambda kind: _guest_factory(kind, None))


def catalog_types() -> Mapping[str, CatalogDescriptor]:
    """The descriptors of all types of catalogs, for the planner."""
    return Descriptors(
        Kind.CATALOG, CATALOG_TYPES, lambda kind: CATALOG_TYPES.get(kind) or _guest(kind).descriptor
    )


def kept_catalogs(
    path: str, places: FilePlaces | None = None, keep: Keep = lambda changes: None
) -> CatalogManager:
    """The catalogs kept in the directory `path`: the default catalog, and the definitions of those that CREATE CATALOG made.
    With `places`, those lie there: UserError SS5030 for another one. What is about to change below `path` is given to `keep`."""
    from sqlstream.client.catalog.file_catalog import open_file_catalog

    default = open_file_catalog(os.path.join(path, DEFAULT_DIRECTORY), keep=keep)
    store = FileCatalogStore(os.path.join(path, STORE_DIRECTORY), keep)

    def open_within(name: str, definition: CatalogDefinition) -> Catalog:
        if places is not None:
            from sqlstream.runtime.host.rooted_files import RootedFiles

            RootedFiles(places).check(definition.options.get("path", ""))
        return _open_file(name, definition)

    return CatalogManager(default, {"file": open_within}, store, lambda kind: _guest_factory(kind, places))


def _guest(kind: str) -> CatalogType:
    guest = find_guest(Kind.CATALOG, kind)
    assert guest is not None
    return _made(guest)


@functools.cache
def _made(guest: Guest) -> CatalogType:
    made: CatalogType = make_guest(guest, CatalogDescriptor)
    return made


def _guest_factory(kind: str, places: FilePlaces | None) -> CatalogFactory | None:
    """What opens catalogs of a type that a package brings; None when none does. UserError SS5030, with `places`, for one that
    lies elsewhere or does not say where it lies."""
    guest = find_guest(Kind.CATALOG, kind)
    if guest is None:
        return None
    made = _made(guest)

    def open_within(name: str, definition: CatalogDefinition) -> Catalog:
        from sqlstream.runtime.host.rooted_files import RootedFiles

        if not isinstance(made, NamesCatalogPaths):
            raise UserError(
                "SS5030",
                f"{guest.label} does not say which files it reads, and this server allows some only",
                hint=f"ask the authors of {guest.distribution} for a method `paths`",
            )
        assert places is not None
        for path in made.paths(definition.options):
            RootedFiles(places).check(path)
        return made.open(name, definition)

    return made.open if places is None else open_within


def _open_file(name: str, definition: CatalogDefinition) -> Catalog:
    from sqlstream.client.catalog.file_catalog import FileCatalog

    return FileCatalog(name, definition)


# Definitions of catalogs in a directory, one JSON file each (Flink: FileCatalogStore).


logger = logging.getLogger(__name__)


class FileCatalogStore:
    """Keeps what CREATE CATALOG declares. For one server: it reads the directory once, when it starts."""

    def __init__(self, path: str, keep: Keep = lambda changes: None) -> None:
        self._path, self._keep = os.path.abspath(path), keep
        try:
            os.makedirs(self._path, 0o700, exist_ok=True)
        except OSError as error:
            raise file_error("make directory", self._path, error) from error
        remove_leftovers(self._path)

    def load(self) -> Mapping[str, CatalogDefinition]:
        """The definitions by name; one that cannot be read is logged by its file, and left out."""
        found = {}
        for entry in entries(self._path):
            name = sql_name(entry.name.removesuffix(SUFFIX))
            if name is None or not entry.name.endswith(SUFFIX):
                logger.warning('"%s" belongs to no catalog and is passed over', entry.path)
                continue
            try:
                found[name] = decode_catalog(read_definition(entry.path))
            except DamagedDefinition as damage:
                logger.error('catalog "%s" cannot be opened: "%s": %s', name, entry.path, damage)
            except SqlStreamError as error:
                logger.error('catalog "%s" cannot be opened: %s', name, error.message)
        return found

    def put(self, name: str, definition: CatalogDefinition) -> None:
        path, content = self._file(name), encode_catalog(definition)
        self._keep({path: content})
        write_definition(path, content)

    def remove(self, name: str) -> None:
        path = self._file(name)
        if os.path.exists(path):
            self._keep({path: None})
            remove_definition(path)

    def _file(self, name: str) -> str:
        return os.path.join(self._path, file_name(name) + SUFFIX)
