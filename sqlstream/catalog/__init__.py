"""Catalogs, their databases, and the tables and views in these; without files: client/catalog keeps catalogs in files."""

from sqlstream.catalog.changes import (
    CatalogChange,
    CatalogConflict,
    PutCatalog,
    PutDatabase,
    PutObject,
    RemoveCatalog,
    RemoveDamaged,
    RemoveDatabase,
    RemoveObject,
    RenameObject,
    UseDatabase,
)
from sqlstream.catalog.contents import CatalogContents, DatabaseContents
from sqlstream.catalog.manager import Catalog, CatalogFactory, CatalogManager, CatalogStore
from sqlstream.catalog.memory import MemoryCatalog
from sqlstream.catalog.objects import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    CatalogDatabase,
    CatalogDefinition,
    CatalogObject,
    CatalogTable,
    CatalogView,
    Column,
    ColumnKind,
    FileDefinition,
    InferredTable,
    ObjectPath,
    WatermarkDefinition,
)
from sqlstream.catalog.session_catalog import SessionCatalog
from sqlstream.catalog.snapshot import CatalogReader, CatalogSnapshot

__all__ = [
    "DEFAULT_CATALOG",
    "DEFAULT_DATABASE",
    "Catalog",
    "CatalogChange",
    "CatalogConflict",
    "CatalogContents",
    "CatalogDatabase",
    "CatalogDefinition",
    "CatalogFactory",
    "CatalogManager",
    "CatalogObject",
    "CatalogReader",
    "CatalogSnapshot",
    "CatalogStore",
    "CatalogTable",
    "CatalogView",
    "Column",
    "ColumnKind",
    "DatabaseContents",
    "FileDefinition",
    "InferredTable",
    "MemoryCatalog",
    "ObjectPath",
    "PutCatalog",
    "PutDatabase",
    "PutObject",
    "RemoveCatalog",
    "RemoveDamaged",
    "RemoveDatabase",
    "RemoveObject",
    "RenameObject",
    "SessionCatalog",
    "UseDatabase",
    "WatermarkDefinition",
]
