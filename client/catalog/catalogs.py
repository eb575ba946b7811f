"""The catalogs of a process, with every type that CREATE CATALOG can name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sqlstream.catalog import CatalogDefinition, CatalogManager
from sqlstream.catalog.manager import Catalog

if TYPE_CHECKING:
    from sqlstream.runtime.host.rooted_files import FilePlaces

DEFAULT_DIRECTORY = "default_catalog"
STORE_DIRECTORY = "catalog_store"


def memory_catalogs() -> CatalogManager:
    """Catalogs that are forgotten with the process, except those that CREATE CATALOG keeps in files."""
    return CatalogManager(factories={"file": _open_file})


def kept_catalogs(path: str, places: FilePlaces | None = None) -> CatalogManager:
    """The catalogs kept in the directory `path`: the default catalog, and the definitions of those that CREATE CATALOG made.
    With `places`, those lie there: UserError SS5030 for another one."""
    from sqlstream.client.catalog.file_catalog import open_file_catalog
    from sqlstream.client.catalog.file_store import FileCatalogStore

    default = open_file_catalog(os.path.join(path, DEFAULT_DIRECTORY))
    store = FileCatalogStore(os.path.join(path, STORE_DIRECTORY))

    def open_within(name: str, definition: CatalogDefinition) -> Catalog:
        if places is not None:
            from sqlstream.runtime.host.rooted_files import RootedFiles

            RootedFiles(places).check(definition.options.get("path", ""))
        return _open_file(name, definition)

    return CatalogManager(default, {"file": open_within}, store)


def _open_file(name: str, definition: CatalogDefinition) -> Catalog:
    from sqlstream.client.catalog.file_catalog import FileCatalog

    return FileCatalog(name, definition)
