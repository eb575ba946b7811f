"""Tables and views as the planner sees them, and the Catalog protocol with its in-memory form."""

from __future__ import annotations

import enum
from typing import Protocol

import msgspec

from sqlstream.schema import Schema
from sqlstream.types import LogicalType

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"


class ObjectPath(msgspec.Struct, frozen=True, order=True):
    catalog: str
    database: str
    name: str

    def __str__(self) -> str:
        return f"`{self.catalog}`.`{self.database}`.`{self.name}`"


class ColumnKind(enum.Enum):
    PHYSICAL = "PHYSICAL"
    COMPUTED = "COMPUTED"
    METADATA = "METADATA"


class Column(msgspec.Struct, frozen=True):
    """A resolved column. COMPUTED keeps its expression as SQL text: the binder binds it anew in each query, so that a stored
    catalog holds no plan."""

    name: str
    type: LogicalType
    kind: ColumnKind = ColumnKind.PHYSICAL
    expression: str = ""
    metadata_key: str = ""
    is_virtual: bool = False
    comment: str = ""


class WatermarkDefinition(msgspec.Struct, frozen=True):
    """WATERMARK FOR `column` AS `expression` (SQL text)."""

    column: str
    expression: str


class CatalogTable(msgspec.Struct, frozen=True):
    """A table as its DDL resolved it. `columns` carry declared types: the watermark's column is a ROWTIME, PROCTIME() is one."""

    path: ObjectPath
    columns: tuple[Column, ...]
    options: dict[str, str]
    watermark: WatermarkDefinition | None = None
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    comment: str = ""
    is_temporary: bool = False

    def __hash__(self) -> int:
        # Options are a dict; equal tables have equal paths, and plans that hold tables are found by hash.
        return hash(self.path)

    @property
    def schema(self) -> Schema:
        return Schema.of(*[(c.name, c.type) for c in self.columns])

    def physical_schema(self) -> Schema:
        return Schema.of(*[(c.name, c.type) for c in self.columns if c.kind is ColumnKind.PHYSICAL])


class CatalogView(msgspec.Struct, frozen=True):
    """A view: its query's text, bound anew in each use, and the schema it had when it was created."""

    path: ObjectPath
    query: str
    schema: Schema
    column_names: tuple[str, ...] = ()
    comment: str = ""
    is_temporary: bool = False


CatalogObject = CatalogTable | CatalogView


class Catalog(Protocol):
    """What the binder and the DDL statements need of a catalog."""

    def get(self, path: ObjectPath) -> CatalogObject | None: ...

    def get_kind(self, path: ObjectPath, is_temporary: bool) -> CatalogObject | None: ...

    def list(self, catalog: str, database: str) -> tuple[CatalogObject, ...]: ...

    def put(self, entry: CatalogObject) -> None: ...

    def drop(self, path: ObjectPath) -> None: ...


class MemoryCatalog:
    """A session's tables and views, forgotten with it. A temporary object hides a permanent one of the same name."""

    def __init__(self) -> None:
        self._permanent: dict[ObjectPath, CatalogObject] = {}
        self._temporary: dict[ObjectPath, CatalogObject] = {}

    def get(self, path: ObjectPath) -> CatalogObject | None:
        return self._temporary.get(path) or self._permanent.get(path)

    def get_kind(self, path: ObjectPath, is_temporary: bool) -> CatalogObject | None:
        """The object of that very kind, hidden or not."""
        return (self._temporary if is_temporary else self._permanent).get(path)

    def list(self, catalog: str, database: str) -> tuple[CatalogObject, ...]:
        visible = {**self._permanent, **self._temporary}
        return tuple(
            entry
            for path, entry in sorted(visible.items())
            if path.catalog == catalog and path.database == database
        )

    def put(self, entry: CatalogObject) -> None:
        (self._temporary if entry.is_temporary else self._permanent)[entry.path] = entry

    def drop(self, path: ObjectPath) -> None:
        if self._temporary.pop(path, None) is None:
            self._permanent.pop(path, None)
