"""Catalogs of type `shelf`: in memory, with the databases that an option names."""

from __future__ import annotations

from sqlstream.catalog import CatalogDatabase, CatalogDefinition, PutDatabase
from sqlstream.catalog.contents import MemoryCatalog
from sqlstream.catalog.manager import Catalog
from sqlstream.spi.catalog import CatalogDescriptor


class Shelf:
    """Forgotten with the process."""

    sqlstream_api = 1
    descriptor = CatalogDescriptor("shelf", required=("databases",), optional=("default-database",))

    def open(self, name: str, definition: CatalogDefinition) -> Catalog:
        made = MemoryCatalog(definition)
        for database in definition.options["databases"].split(","):
            made.apply(PutDatabase(name, database.strip(), CatalogDatabase()))
        return made

    def paths(self, options: object) -> tuple[str, ...]:
        return ()
