"""Databases, tables and views as a catalog holds them and the planner sees them."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.function_ref import FunctionRef
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


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
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


class InferredTable(msgspec.Struct, frozen=True):
    """What was inferred from files: all that a table needs to read them without looking at them again."""

    columns: tuple[Column, ...]
    options: dict[str, str]
    partition_keys: tuple[str, ...] = ()


class FileDefinition(msgspec.Struct, frozen=True):
    """The files at a path of FROM, with the options that were written beside it, and what was inferred from them."""

    path: str
    given: dict[str, str]
    table: InferredTable


class CatalogTable(msgspec.Struct, frozen=True):
    """A table as its DDL resolved it. `columns` carry declared types: the watermark's column is a ROWTIME, PROCTIME() is one.

    `key_name` is the name that the constraint of the primary key was given. `is_anonymous`: the table is in no catalog. It is
    what was inferred from files in FROM, and its name is their path.
    """

    path: ObjectPath
    columns: tuple[Column, ...]
    options: dict[str, str]
    watermark: WatermarkDefinition | None = None
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    comment: str = ""
    is_temporary: bool = False
    is_anonymous: bool = False
    key_name: str = ""

    def __hash__(self) -> int:
        # Options are a dict; equal tables have equal paths, and plans that hold tables are found by hash.
        return hash(self.path)

    @property
    def schema(self) -> Schema:
        return Schema.of(*[(c.name, c.type) for c in self.columns])

    def physical_schema(self) -> Schema:
        return Schema.of(*[(c.name, c.type) for c in self.columns if c.kind is ColumnKind.PHYSICAL])


class CatalogView(msgspec.Struct, frozen=True):
    """A view: its query's text, bound anew in each use, and the schema it had when it was created.

    Names in the query without a catalog or database belong to `query_catalog` and `query_database`, which were the current
    ones when the view was created; an empty one is the view's own. `files` are the files that the query reads by their path, as
    they were when the view was created.
    """

    path: ObjectPath
    query: str
    schema: Schema
    column_names: tuple[str, ...] = ()
    comment: str = ""
    is_temporary: bool = False
    query_catalog: str = ""
    query_database: str = ""
    files: tuple[FileDefinition, ...] = ()


CatalogObject = CatalogTable | CatalogView


class CatalogModel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model as CREATE MODEL declares it: the columns that it takes and those that it returns; `options` name the provider."""

    path: ObjectPath
    inputs: tuple[Column, ...]
    outputs: tuple[Column, ...]
    options: dict[str, str]
    comment: str = ""
    is_temporary: bool = False

    def __hash__(self) -> int:
        # Options are a dict; equal models have equal paths.
        return hash(self.path)

    @property
    def provider(self) -> str:
        return self.options["provider"]


class CatalogDatabase(msgspec.Struct, frozen=True):
    """What CREATE DATABASE declares beside the name."""

    comment: str = ""
    properties: dict[str, str] = {}


class CatalogDefinition(msgspec.Struct, frozen=True):
    """What CREATE CATALOG declares beside the name: `options` with the catalog's `type` among them."""

    options: dict[str, str]
    comment: str = ""

    @property
    def type(self) -> str:
        return self.options["type"]

    @property
    def default_database(self) -> str:
        """The database that USE CATALOG makes the current one."""
        return self.options.get("default-database", "default")


# Functions that users have written in Python, as a catalog holds them.


class CatalogFunction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function as CREATE FUNCTION resolved it. Its name is in small letters.

    `class_name` is `module.name` of the Python object, `files` what USING names: they go with each job that calls the function.
    A temporary system function has a path without catalog and database, and so has one that a `package` brings, which no catalog
    holds."""

    path: ObjectPath
    class_name: str
    ref: FunctionRef
    files: tuple[str, ...] = ()
    comment: str = ""
    is_temporary: bool = False
    package: str = ""

    @property
    def is_system(self) -> bool:
        return not self.path.catalog


def system_path(name: str) -> ObjectPath:
    """The path of a temporary system function, or of a package's."""
    return ObjectPath("", "", name)
