"""Types of columns for the fields of messages, and the types in which kernels have them.

A message is a ROW. A google.protobuf.Timestamp may be a TIMESTAMP too, and one of the wrappers of google.protobuf what it wraps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.evaluate.time.time_range import bounds_of
from sqlstream.runtime.formats.protobuf.proto_text import SCALARS
from sqlstream.runtime.kernels.buffers import validity_buffer, view_buffer
from sqlstream.types import (
    BIGINT,
    BINARY_ROOTS,
    INT,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    array,
    is_integer,
    map_of,
    row,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS = (-62_135_596_800, 253_402_300_799)
"""Those of a Timestamp: the years 1 to 9999."""
_DEPTH_MAX = 64


class Misfit(Exception):
    """A column, or a field of it, that has another type than its field, or none: what is said of it."""


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def stored_row(
    message: Descriptor, columns: dict[str, LogicalType], *, may_lack: bool = False
) -> dict[str, LogicalType]:
    """The types in which the kernel has these columns. `Misfit` where one cannot be a field, or is none and the message must
    have all."""
    return {name: _stored_field(message, name, t, name, may_lack) for name, t in columns.items()}


def _stored_field(message: Descriptor, name: str, t: LogicalType, path: str, may_lack: bool) -> LogicalType:
    field = message.fields_by_name.get(name)
    if field is None and may_lack and t.nullable:
        return t
    if field is None:
        raise Misfit(f'message "{message.full_name}" has no field "{name}", which column "{path}" names')
    if not field.is_repeated:
        return _stored(field, t, path, may_lack)
    if is_map(field):
        if t.root is TypeRoot.MAP and t.key is not None and t.element is not None:
            key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
            made = map_of(
                _stored(key, t.key, f"{path}.key", may_lack).with_nullable(False),
                _stored(value, t.element, f"{path}.value", may_lack),
            )
            return made.with_nullable(t.nullable)
    elif t.root is TypeRoot.ARRAY and t.element is not None:
        return array(_stored(field, t.element, path, may_lack)).with_nullable(t.nullable)
    raise _misfit(field, t, path)


def _stored(field: FieldDescriptor, t: LogicalType, path: str, may_lack: bool) -> LogicalType:
    """Of a single value."""
    if path.count(".") > _DEPTH_MAX:
        raise Misfit(f'column "{path[:60]}" is nested too deeply')
    message = field.message_type
    if message is None:
        if not _may_be(field, t):
            raise _misfit(field, t, path)
        return t
    if field.type == field.TYPE_GROUP:
        raise Misfit(f'column "{path}" is a group, which is not supported')
    if t.root is TypeRoot.ROW:
        fields = [
            (f.name, _stored_field(message, f.name, f.type, f"{path}.{f.name}", may_lack)) for f in t.fields
        ]
        return row(*fields).with_nullable(t.nullable)
    if message.full_name == _TIMESTAMP and t.root in TIMESTAMP_ROOTS:
        parts = (("seconds", BIGINT.with_nullable(False)), ("nanos", INT.with_nullable(False)))
        return row(*parts).with_nullable(t.nullable)
    if message.full_name in _WRAPPERS:
        wrapped = _stored(message.fields_by_name["value"], t, path, may_lack)
        return row(("value", wrapped.with_nullable(False))).with_nullable(t.nullable)
    raise _misfit(field, t, path)


def _may_be(field: FieldDescriptor, t: LogicalType) -> bool:
    if field.type == field.TYPE_ENUM:
        return t.root in STRING_ROOTS or is_integer(t)
    match field.cpp_type:
        case field.CPPTYPE_INT32:
            return t.root is TypeRoot.INTEGER
        case field.CPPTYPE_UINT32:
            return t.root in (TypeRoot.INTEGER, TypeRoot.BIGINT)
        case field.CPPTYPE_INT64 | field.CPPTYPE_UINT64:
            return t.root is TypeRoot.BIGINT
        case field.CPPTYPE_FLOAT:
            return t.root is TypeRoot.FLOAT
        case field.CPPTYPE_DOUBLE:
            return t.root is TypeRoot.DOUBLE
        case field.CPPTYPE_BOOL:
            return t.root is TypeRoot.BOOLEAN
    return t.root in (BINARY_ROOTS if field.type == field.TYPE_BYTES else STRING_ROOTS)


def _misfit(field: FieldDescriptor, t: LogicalType, path: str) -> Misfit:
    name = SCALARS[field.type - 1]
    if field.message_type is not None and not is_map(field):
        name = f"message {field.message_type.full_name}"
    elif field.enum_type is not None:
        name = f"enum {field.enum_type.full_name}"
    if field.is_repeated and path.rpartition(".")[2] == field.name:
        name = "map" if is_map(field) else f"repeated {name}"
    return Misfit(f'column "{path}" is {name}, the table declares {t.with_nullable(True)}')


def seconds_limits(t: LogicalType) -> tuple[int, int]:
    """The least and the greatest whole second of a timestamp that its column can have."""
    target = to_arrow_type(t)
    least, greatest = bounds_of(target)
    per_second = _PER_SECOND[target.unit]
    return max(_SECONDS[0], -(-least // per_second)), min(_SECONDS[1], greatest // per_second - 1)


# Arrays of one type as those of the other.


def restored(values: pa.Array, stored: LogicalType, t: LogicalType) -> pa.Array:
    """What the kernel has read as the type of its column."""
    if stored == t or (stored.root is t.root and not (t.fields or t.element)):
        return values
    target, validity = to_arrow_type(t), values.buffers()[0]
    if stored.root is TypeRoot.ARRAY:
        assert stored.element is not None
        assert t.element is not None
        elements = restored(values.values, stored.element, t.element)
        return pa.Array.from_buffers(target, len(values), values.buffers()[:2], children=[elements])
    if stored.root is TypeRoot.MAP:
        assert stored.element is not None
        assert t.element is not None
        items = restored(values.items, stored.element, t.element)
        fields = pa.struct([target.key_field, target.item_field])
        entries = pa.Array.from_buffers(fields, len(items), [None], children=[values.keys, items])
        return pa.Array.from_buffers(target, len(values), values.buffers()[:2], children=[entries])
    if t.root is TypeRoot.ROW:
        parts = [
            restored(values.field(i), inner.type, outer.type)
            for i, (inner, outer) in enumerate(zip(stored.fields, t.fields, strict=True))
        ]
        return pa.Array.from_buffers(target, len(values), [validity], children=parts)
    if t.root not in TIMESTAMP_ROOTS:
        # What a wrapper wraps is NULL where the wrapper is.
        return values.field(0)
    per_second = _PER_SECOND[target.unit]
    seconds, nanos = (
        pc.fill_null(values.field(i), 0).to_numpy(zero_copy_only=False).astype(np.int64) for i in (0, 1)
    )
    moments = seconds * per_second + nanos // (10**9 // per_second)
    return pa.Array.from_buffers(target, len(values), [validity, pa.py_buffer(moments)])


def seconds_and_nanos(moments: pa.Array) -> list[pa.Array]:
    """The fields of Timestamps."""
    per_second = _PER_SECOND[moments.type.unit]
    values = pc.fill_null(moments.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    seconds = values // per_second
    nanos = (values - seconds * per_second) * (10**9 // per_second)
    return [pa.array(seconds), pa.array(nanos.astype(np.int32))]


def list_offsets(values: pa.Array) -> np.ndarray[Any, Any]:
    """The offsets of the lists in their elements."""
    found = view_buffer(values.buffers()[1], np.int32, values.offset, len(values) + 1)
    return found if len(values) else np.zeros(1, dtype=np.int32)


def list_of(
    target: pa.DataType, offsets: np.ndarray[Any, Any], elements: pa.Array, is_null: pa.Array
) -> pa.Array:
    """Lists, or maps of entries, of other elements than they had."""
    valid = validity_buffer(~np.asarray(is_null)) if pc.any(is_null).as_py() else None
    buffers = [valid, pa.py_buffer(np.array(offsets, dtype=np.int32))]
    return pa.Array.from_buffers(target, len(is_null), buffers, children=[elements])
