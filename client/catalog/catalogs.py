"""The catalogs of a process, with every type that CREATE CATALOG can name."""

from __future__ import annotations

import os

from sqlstream.catalog import CatalogDefinition, CatalogManager
from sqlstream.catalog.manager import Catalog

DEFAULT_DIRECTORY = "default_catalog"
STORE_DIRECTORY = "catalog_store"


def memory_catalogs() -> CatalogManager:
    """Catalogs that are forgotten with the process, except those that CREATE CATALOG keeps in files."""
    return CatalogManager(factories={"file": _open_file})


def kept_catalogs(path: str) -> CatalogManager:
    """The catalogs kept in the directory `path`: the default catalog, and the definitions of those that CREATE CATALOG made."""
    from client.catalog.file_catalog import open_file_catalog
    from client.catalog.file_store import FileCatalogStore

    default = open_file_catalog(os.path.join(path, DEFAULT_DIRECTORY))
    store = FileCatalogStore(os.path.join(path, STORE_DIRECTORY))
    return CatalogManager(default, {"file": _open_file}, store)


def _open_file(name: str, definition: CatalogDefinition) -> Catalog:
    from client.catalog.file_catalog import FileCatalog

    return FileCatalog(name, definition)
