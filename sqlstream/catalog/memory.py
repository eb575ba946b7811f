"""A catalog in memory (Flink: GenericInMemoryCatalog)."""

from __future__ import annotations

import threading

from sqlstream.catalog.changes import ContentsChange
from sqlstream.catalog.contents import CatalogContents, DatabaseContents, changed
from sqlstream.catalog.objects import DEFAULT_DATABASE, CatalogDefinition

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

    def apply(self, change: ContentsChange) -> None:
        with self._lock:
            self._contents = changed(self._contents, change)

    def redefine(self, definition: CatalogDefinition) -> bool:
        self.definition = definition
        return True

    def close(self) -> None:
        """Nothing is open."""
