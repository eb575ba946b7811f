"""How tables, views, functions, models and databases are written in a catalog's files: JSON for people, exact for us."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from sqlstream import catalog
from sqlstream.errors import UserError
from sqlstream.function_ref import FunctionRef
from sqlstream.kept_formats import CATALOGS
from sqlstream.schema import Schema

FORMAT = CATALOGS.version
"""The version of all files of a catalog. A file of another version is refused."""


class DamagedDefinition(Exception):
    """A file does not hold what it should; the text says why."""


class _Head(msgspec.Struct):
    format: int


class StoredTable(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag="TABLE", tag_field="kind"
):
    """A table without its path, which is that of its file."""

    format: int
    columns: tuple[catalog.Column, ...]
    options: dict[str, str]
    watermark: catalog.WatermarkDefinition | None = None
    primary_key: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    comment: str = ""
    key_name: str = ""


class StoredView(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag="VIEW", tag_field="kind"
):
    """A view without its path."""

    format: int
    query: str
    schema: Schema
    column_names: tuple[str, ...] = ()
    comment: str = ""
    query_catalog: str = ""
    query_database: str = ""
    files: tuple[catalog.FileDefinition, ...] = ()


class StoredFunction(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag="FUNCTION",
    tag_field="kind",
):
    """A function without its path."""

    format: int
    class_name: str
    ref: FunctionRef
    files: tuple[str, ...] = ()
    comment: str = ""


class StoredModel(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag="MODEL", tag_field="kind"
):
    """A model without its path."""

    format: int
    inputs: tuple[catalog.Column, ...]
    outputs: tuple[catalog.Column, ...]
    options: dict[str, str]
    comment: str = ""


class StoredDatabase(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    format: int
    comment: str = ""
    properties: dict[str, str] = {}


class StoredCatalog(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A catalog of a CatalogStore."""

    format: int
    options: dict[str, str]
    comment: str = ""


class CatalogHead(msgspec.Struct, frozen=True):
    """The file that marks a directory as a catalog."""

    format: int


Stored = TypeVar("Stored")


def encode_object(entry: catalog.CatalogObject) -> bytes:
    """The file of a permanent table or view."""
    stored: StoredTable | StoredView
    if isinstance(entry, catalog.CatalogTable):
        stored = StoredTable(
            FORMAT,
            entry.columns,
            entry.options,
            entry.watermark,
            entry.primary_key,
            entry.partition_keys,
            entry.comment,
            entry.key_name,
        )
    else:
        stored = StoredView(
            FORMAT,
            entry.query,
            entry.schema,
            entry.column_names,
            entry.comment,
            entry.query_catalog,
            entry.query_database,
            entry.files,
        )
    return encode(stored)


def decode_object(content: bytes, path: catalog.ObjectPath) -> catalog.CatalogObject:
    """The object of a file. DamagedDefinition when the file is no definition of this format."""
    stored = decode(content, StoredTable | StoredView)  # type: ignore[arg-type]
    if isinstance(stored, StoredTable):
        return catalog.CatalogTable(
            path,
            stored.columns,
            stored.options,
            stored.watermark,
            stored.primary_key,
            stored.partition_keys,
            stored.comment,
            key_name=stored.key_name,
        )
    assert isinstance(stored, StoredView)
    return catalog.CatalogView(
        path,
        stored.query,
        stored.schema,
        stored.column_names,
        stored.comment,
        query_catalog=stored.query_catalog,
        query_database=stored.query_database,
        files=stored.files,
    )


def encode_function(entry: catalog.CatalogFunction) -> bytes:
    """The file of a permanent function."""
    return encode(StoredFunction(FORMAT, entry.class_name, entry.ref, entry.files, entry.comment))


def decode_function(content: bytes, path: catalog.ObjectPath) -> catalog.CatalogFunction:
    """The function of a file, with the name that its catalog has here. DamagedDefinition when the file is no such definition."""
    stored = decode(content, StoredFunction)
    ref = msgspec.structs.replace(stored.ref, path=f"{path.catalog}.{path.database}.{path.name}")
    return catalog.CatalogFunction(path, stored.class_name, ref, stored.files, stored.comment)


def encode_model(entry: catalog.CatalogModel) -> bytes:
    """The file of a permanent model."""
    return encode(StoredModel(FORMAT, entry.inputs, entry.outputs, entry.options, entry.comment))


def decode_model(content: bytes, path: catalog.ObjectPath) -> catalog.CatalogModel:
    """The model of a file. DamagedDefinition when the file is no such definition."""
    stored = decode(content, StoredModel)
    if not stored.options.get("provider"):
        raise DamagedDefinition('it names no "provider" among its options')
    return catalog.CatalogModel(path, stored.inputs, stored.outputs, stored.options, stored.comment)


def encode_database(database: catalog.CatalogDatabase) -> bytes:
    return encode(StoredDatabase(FORMAT, database.comment, database.properties))


def decode_database(content: bytes) -> catalog.CatalogDatabase:
    stored = decode(content, StoredDatabase)
    return catalog.CatalogDatabase(stored.comment, stored.properties)


def encode_catalog(definition: catalog.CatalogDefinition) -> bytes:
    return encode(StoredCatalog(FORMAT, definition.options, definition.comment))


def decode_catalog(content: bytes) -> catalog.CatalogDefinition:
    stored = decode(content, StoredCatalog)
    if not stored.options.get("type"):
        raise DamagedDefinition('it names no "type" among its options')
    return catalog.CatalogDefinition(stored.options, stored.comment)


def encode(stored: msgspec.Struct) -> bytes:
    """Indented JSON. UserError SS2017 for text that no file can hold."""
    try:
        return msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n"
    except UnicodeEncodeError:
        raise UserError(
            "SS2017",
            "a text with half a character cannot be kept in a file",
            hint="write the whole character",
        ) from None


def decode(content: bytes, kind: type[Stored]) -> Stored:
    """DamagedDefinition when `content` is no JSON, of another format, or no `kind`."""
    try:
        head = msgspec.json.decode(content, type=_Head)
        if not CATALOGS.reads(head.format):
            raise DamagedDefinition(f"it was {'; '.join(CATALOGS.refusal(head.format))}")
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = str(error)
        # "JSON" keeps its letters.
        is_word = said[1:2].islower()
        raise DamagedDefinition(said[:1].lower() + said[1:] if is_word else said) from None
