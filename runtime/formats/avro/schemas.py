"""Schemas of Avro, as the values of their JSON: those of a table's rows (Flink: AvroSchemaConverter), and those of writers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType, TypeRoot, is_integer

ROW_NAME = "org.apache.flink.avro.generated.record"
"""The name of the record of a table's rows, as Flink has it."""

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "error", "enum", "fixed")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.BIGINT: "long",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.NULL: "null",
}


def record_of(schema: Schema, *, is_legacy: bool) -> dict[str, Any]:
    """The schema of a table's rows. UserError SS4006 for columns that Avro cannot carry."""
    fields = [_Converter(f.name, is_legacy).field(f.name, f.type, ROW_NAME) for f in schema.fields]
    return {"type": "record", "name": "record", "namespace": ROW_NAME.rpartition(".")[0], "fields": fields}


class _Converter:
    """Types within a column as schemas. With `is_legacy` a TIMESTAMP is a `timestamp-millis`, as in Flink before 1.19."""

    def __init__(self, column: str, is_legacy: bool) -> None:
        self._column, self._is_legacy = column, is_legacy

    def field(self, name: str, t: LogicalType, row_name: str) -> dict[str, Any]:
        if _NAME.fullmatch(name) is None:
            raise UserError(
                "SS4006",
                f'format "avro" cannot carry a field with the name "{name}"',
                column=self._column,
                hint="name it with letters, digits and _, and no digit first",
            )
        made = {"name": name, "type": self._schema(t, f"{row_name}_{name}")}
        return {**made, "default": None} if t.nullable and t.root is not TypeRoot.NULL else made

    def _schema(self, t: LogicalType, row_name: str) -> Any:
        plain = self._not_null(t, row_name)
        return ["null", plain] if t.nullable and plain != "null" else plain

    def _not_null(self, t: LogicalType, row_name: str) -> Any:
        if t.root in _PLAIN:
            return _PLAIN[t.root]
        if is_integer(t):
            return "int"
        if t.root in STRING_ROOTS or t.root in BINARY_ROOTS:
            return "string" if t.root in STRING_ROOTS else "bytes"
        match t.root:
            case TypeRoot.DECIMAL:
                return {
                    "type": "bytes",
                    "logicalType": "decimal",
                    "precision": t.precision,
                    "scale": t.scale,
                }
            case TypeRoot.DATE:
                return {"type": "int", "logicalType": "date"}
            case TypeRoot.TIME if t.precision <= 3:
                return {"type": "int", "logicalType": "time-millis"}
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
                return {"type": "long", "logicalType": self._timestamp(t)}
            case TypeRoot.ROW:
                fields = [self.field(f.name, f.type, row_name) for f in t.fields]
                space, _, name = row_name.rpartition(".")
                return {"type": "record", "name": name, "namespace": space, "fields": fields}
            case TypeRoot.ARRAY if t.element is not None:
                return {"type": "array", "items": self._schema(t.element, row_name)}
            case TypeRoot.MULTISET if t.element is not None and t.element.root in STRING_ROOTS:
                return {"type": "map", "values": "int"}
            case TypeRoot.MAP if t.key is not None and t.element is not None and t.key.root in STRING_ROOTS:
                return {"type": "map", "values": self._schema(t.element, row_name)}
            case TypeRoot.MAP | TypeRoot.MULTISET:
                raise self._refused(t, "declare it as MAP<STRING, …>: keys are strings")
            case _:
                raise self._refused(t, "use a cast to STRING or BIGINT")

    def _timestamp(self, t: LogicalType) -> str:
        is_local = t.root is TypeRoot.TIMESTAMP
        if self._is_legacy and (not is_local or t.precision > 3):
            raise self._refused(
                t, "set 'avro.timestamp_mapping.legacy' = 'false', or declare it as TIMESTAMP(3)"
            )
        if t.precision > 6:
            raise self._refused(t, "declare it with a precision of 6 or less")
        name = "timestamp-millis" if t.precision <= 3 else "timestamp-micros"
        return f"local-{name}" if is_local and not self._is_legacy else name

    def _refused(self, t: LogicalType, hint: str) -> UserError:
        return UserError(
            "SS4006",
            f'format "avro" cannot carry column "{self._column}": {t.with_nullable(True)} has no schema there',
            column=self._column,
            hint=hint,
        )


class Names:
    """The named schemas that a schema has defined so far, by their full names. ValueError for what is no schema."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[dict[str, Any], str]] = {}

    def resolved(self, schema: Any, space: str) -> tuple[Any, str]:
        """A schema that is a name as what it names, with the name space for names within it. Objects that only say a primitive
        type are taken for what they are."""
        schema = _unwrapped(schema)
        if isinstance(schema, str) and schema not in PRIMITIVES:
            found = self._known.get(schema if "." in schema or not space else f"{space}.{schema}")
            found = found or self._known.get(schema)
            if found is None:
                raise ValueError(f'it names a type "{schema}" that it does not define')
            return found
        if isinstance(schema, list):
            if any(isinstance(_unwrapped(branch), list) for branch in schema):
                raise ValueError("it has a union within a union")
            return schema, space
        if isinstance(schema, str):
            return {"type": schema}, space
        kind = schema.get("type") if isinstance(schema, dict) else None
        if kind in NAMED:
            name = schema.get("name")
            if not isinstance(name, str) or not name:
                raise ValueError(f"it has a {kind} without a name")
            own = schema.get("namespace", space) if "." not in name else name.rpartition(".")[0]
            full = f"{own}.{name.rpartition('.')[2]}" if own else name
            self._known[full] = (schema, own)
            return schema, own
        if kind in (*PRIMITIVES, "array", "map"):
            return schema, space
        if isinstance(kind, str):
            return self.resolved(kind, space)
        raise ValueError("a part of it is no type")


def find_difference(given: Any, ours: Any, names: Names, space: str = "", path: str = "it") -> str | None:
    """Why values of our schema are not encoded as the given one says; None when they are. ValueError when that is no schema."""
    given, space = names.resolved(given, space)
    if isinstance(ours, list) or isinstance(given, list):
        if not isinstance(ours, list):
            return f"{path} is a union there, and its column is NOT NULL"
        if (
            not isinstance(given, list)
            or len(given) != 2
            or names.resolved(given[0], space)[0] != {"type": "null"}
        ):
            return f"{path} is not a union of null and a type there, in this order"
        return find_difference(given[1], ours[1], names, space, path)
    kind = ours if isinstance(ours, str) else ours["type"]
    has = [given.get(key) for key in _ENCODED] if kind != "record" else None
    wanted = [None if isinstance(ours, str) else ours.get(key) for key in _ENCODED]
    if given["type"] != kind or (has is not None and wanted[0] is not None and has != wanted):
        return f"{path} is {type_name(given)} there, and its column is {type_name(ours)}"
    if kind == "array":
        return find_difference(given.get("items"), ours["items"], names, space, f"an element of {path}")
    if kind == "map":
        return find_difference(given.get("values"), ours["values"], names, space, f"a value of {path}")
    if kind != "record":
        return None
    fields = fields_of(given)
    if [f["name"] for f in fields] != [f["name"] for f in ours["fields"]]:
        listed = ", ".join(f["name"] for f in fields)
        return f"{path} has the fields {listed or 'none'} there, which are not the columns in their order"
    pairs = zip(fields, ours["fields"], strict=True)
    found = (find_difference(f["type"], o["type"], names, space, f'"{f["name"]}"') for f, o in pairs)
    return next((each for each in found if each is not None), None)


_ENCODED = ("logicalType", "precision", "scale")


def _unwrapped(schema: Any) -> Any:
    while isinstance(schema, dict) and isinstance(schema.get("type"), dict | list):
        schema = schema["type"]
    return schema


def type_name(schema: Any) -> str:
    """How messages name a schema."""
    if isinstance(schema, list):
        return f"a union of {', '.join(type_name(s) for s in schema)}"
    if isinstance(schema, str):
        return schema
    logical = schema.get("logicalType")
    return f"{schema['type']} ({logical})" if isinstance(logical, str) else str(schema["type"])


def fields_of(record: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The fields of a record. ValueError when they are none."""
    fields = record.get("fields")
    if not isinstance(fields, list) or not all(
        isinstance(f, dict) and isinstance(f.get("name"), str) and "type" in f for f in fields
    ):
        raise ValueError("it has a record without fields")
    return fields
