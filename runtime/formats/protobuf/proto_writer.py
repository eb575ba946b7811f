"""The text of a .proto file for the columns of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot, is_integer

MESSAGE = "Row"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SCALARS = {
    TypeRoot.BOOLEAN: "bool",
    TypeRoot.INTEGER: "int32",
    TypeRoot.BIGINT: "int64",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
}


def proto_of(schema: Schema) -> str:
    """The message `Row`, whose fields are numbered as the columns stand. UserError SS4006 for columns that it cannot carry."""
    body = _message(MESSAGE, ((f.name, f.type) for f in schema.fields), "")
    imports = 'import "google/protobuf/timestamp.proto";\n' if "google.protobuf.Timestamp" in body else ""
    return f'syntax = "proto3";\n{imports}{body}'


def _message(name: str, fields: Iterable[tuple[str, LogicalType]], path: str) -> str:
    lines: list[str] = []
    inner: list[str] = []
    for number, (field, t) in enumerate(fields, start=1):
        where = f"{path}.{field}" if path else field
        if _NAME.fullmatch(field) is None:
            raise UserError(
                "SS4006",
                f'Protocol Buffers cannot carry a field with the name "{field}"',
                column=where.partition(".")[0],
                hint="name it with letters, digits and _, and a letter first",
            )
        type_name = f"{field}_type"
        if t.root is TypeRoot.MAP and t.key is not None and t.element is not None:
            if t.key.root not in (*STRING_ROOTS, TypeRoot.INTEGER, TypeRoot.BIGINT, TypeRoot.BOOLEAN):
                raise _refused(where, t)
            declared = f"map<{_single(t.key, type_name, where, inner)}, {_single(t.element, type_name, where, inner)}>"
        elif t.root is TypeRoot.ARRAY and t.element is not None:
            declared = f"repeated {_single(t.element, type_name, where, inner)}"
        else:
            is_plain = t.root in _SCALARS or t.root in STRING_ROOTS or t.root in BINARY_ROOTS
            label = "optional " if t.nullable and is_plain else ""
            declared = label + _single(t, type_name, where, inner)
        lines.append(f"  {declared} {field} = {number};\n")
    nested = "".join(f"  {line}\n" for text in inner for line in text.splitlines())
    return f"message {name} {{\n{nested}{''.join(lines)}}}\n"


def _single(t: LogicalType, type_name: str, where: str, inner: list[str]) -> str:
    """The name of a type; that of a row is added to the messages within."""
    if t.root in _SCALARS:
        return _SCALARS[t.root]
    if t.root in STRING_ROOTS:
        return "string"
    if t.root in BINARY_ROOTS:
        return "bytes"
    if t.root in TIMESTAMP_ROOTS:
        return "google.protobuf.Timestamp"
    if t.root is TypeRoot.ROW:
        inner.append(_message(type_name, ((f.name, f.type) for f in t.fields), where))
        return type_name
    raise _refused(where, t)


def _refused(where: str, t: LogicalType) -> UserError:
    hint = "declare it as INT" if is_integer(t) else "use a cast to STRING or BIGINT"
    if t.root in (TypeRoot.ARRAY, TypeRoot.MAP):
        hint = "declare a ROW around the inner list or map"
    return UserError(
        "SS4006",
        f'Protocol Buffers cannot carry column "{where}": {t.with_nullable(True)} has no type there',
        column=where.partition(".")[0],
        hint=hint,
    )
