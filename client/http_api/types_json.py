"""Logical types as JSON and back (Flink: LogicalTypeJsonSerializer), and the columns of a result (ColumnInfo)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlstream.schema import Field, Schema
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType, RowField, TypeRoot

_WITH_LENGTH = (*STRING_ROOTS, *BINARY_ROOTS)
_WITH_PRECISION = (TypeRoot.DECIMAL, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)

_YEAR_MONTH = {"precision": 2, "fractionalPrecision": 0, "resolution": "YEAR_TO_MONTH"}
_DAY_TIME = {"precision": 2, "fractionalPrecision": 3, "resolution": "DAY_TO_SECOND"}
"""An interval's digits of its first field and of a second, and its fields: one choice each."""

Json = dict[str, Any]


def columns_json(schema: Schema) -> list[Json]:
    """The columns of a result, as `results.columns` shows them."""
    return [{"name": f.name, "logicalType": type_json(f.type), "comment": None} for f in schema.fields]


def schema_of(columns: list[Json]) -> Schema:
    """The inverse of `columns_json`. KeyError or ValueError for anything else."""
    return Schema(tuple(Field(c["name"], type_of(c["logicalType"])) for c in columns))


def type_json(t: LogicalType) -> Json:
    """A type as JSON, without its time attribute.

    >>> from sqlstream import types as sql
    >>> type_json(sql.decimal(10, 2).not_null())
    {'type': 'DECIMAL', 'nullable': False, 'precision': 10, 'scale': 2}
    """
    found: Json = {"type": t.root.value, "nullable": t.nullable}
    if t.root in _WITH_LENGTH:
        found["length"] = t.length
    elif t.root in _WITH_PRECISION:
        found["precision"] = t.precision
        if t.root is TypeRoot.DECIMAL:
            found["scale"] = t.scale
    else:
        found |= _parts_json(t)
    return found


def _parts_json(t: LogicalType) -> Json:
    match t.root:
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            assert t.element is not None
            return {"elementType": type_json(t.element)}
        case TypeRoot.MAP:
            assert t.key is not None
            assert t.element is not None
            return {"keyType": type_json(t.key), "valueType": type_json(t.element)}
        case TypeRoot.ROW:
            fields = [{"name": f.name, "fieldType": type_json(f.type), "description": None} for f in t.fields]
            return {"fields": fields}
        case TypeRoot.INTERVAL_YEAR_MONTH:
            return dict(_YEAR_MONTH)
        case TypeRoot.INTERVAL_DAY_TIME:
            return dict(_DAY_TIME)
        case _:
            return {}


def type_of(found: Mapping[str, Any]) -> LogicalType:
    """The inverse of `type_json`. KeyError or ValueError for anything else.

    >>> str(type_of({"type": "ARRAY", "nullable": True, "elementType": {"type": "INTEGER", "nullable": False}}))
    'ARRAY<INT NOT NULL>'
    """
    root = TypeRoot(found["type"])
    parts: Json = {}
    match root:
        case _ if root in _WITH_LENGTH:
            parts["length"] = found["length"]
        case _ if root in _WITH_PRECISION:
            parts["precision"] = found["precision"]
            parts["scale"] = found["scale"] if root is TypeRoot.DECIMAL else 0
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            parts["element"] = type_of(found["elementType"])
        case TypeRoot.MAP:
            parts |= {"key": type_of(found["keyType"]), "element": type_of(found["valueType"])}
        case TypeRoot.ROW:
            fields = found["fields"]
            parts["fields"] = tuple(RowField(f["name"], type_of(f["fieldType"])) for f in fields)
        case TypeRoot.INTERVAL_DAY_TIME:
            parts["precision"] = _DAY_TIME["fractionalPrecision"]
    return LogicalType(root, found["nullable"], **parts)


# The media types and the metadata that the gateway writes and its clients read.


DETAILED = "application/vnd.sqlstream+json"
"""Named in a request's Accept header, it adds the member `error` to an error's body. Flink's own client accepts no other
member beside `errors`."""

RESPOND_ASYNC = "respond-async"
"""As `Prefer` of a request (RFC 7240): a server says soon that what it is to send is not there yet, with 202 Accepted."""

ARROW_STREAM = "application/vnd.apache.arrow.stream"

METADATA_KEY = b"sqlstream"
"""The key of the JSON object in the metadata of an Arrow stream's schema, and of the batch that ends an endless stream."""
