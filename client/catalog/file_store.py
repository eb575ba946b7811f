"""Definitions of catalogs in a directory, one JSON file each (Flink: FileCatalogStore)."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from sqlstream.catalog import CatalogDefinition
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
from sqlstream.errors import SqlStreamError
from sqlstream.runtime.host.files import file_error

logger = logging.getLogger(__name__)


class FileCatalogStore:
    """Keeps what CREATE CATALOG declares. For one server: it reads the directory once, when it starts."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
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
        write_definition(self._file(name), encode_catalog(definition))

    def remove(self, name: str) -> None:
        path = self._file(name)
        if os.path.exists(path):
            remove_definition(path)

    def _file(self, name: str) -> str:
        return os.path.join(self._path, file_name(name) + SUFFIX)
