"""Batches as messages of Protocol Buffers: their descriptor becomes a program, which a kernel runs for each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.runtime.formats.decoded_columns import ColumnPlan, Value
from sqlstream.runtime.formats.encoded_columns import ColumnTable
from sqlstream.runtime.formats.file_rows import quoted
from sqlstream.runtime.formats.protobuf.stored_types import (
    is_map,
    list_of,
    list_offsets,
    seconds_and_nanos,
    stored_row,
)
from sqlstream.runtime.kernels.buffers import address_of
from sqlstream.runtime.kernels.protobuf import encode as run
from sqlstream.schema import Schema
from sqlstream.types import INT, STRING_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot, array, map_of, row

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_ENTRY_BYTES = 30
"""The most that an entry takes without its text: tags and numbers of a list or message, and of the value within."""

_VARINT, _EIGHT, _DELIMITED, _FOUR = 0, 1, 2, 5


class MessageEncoder:
    """Encodes rows of a table's columns as messages. NULL is a field that is missing; in a list or map, which have no NULL, it is
    the default of the type, or `null_literal` for a string. No state.

    `Misfit` for columns that are no fields."""

    def __init__(self, message: Descriptor, schema: Schema, null_literal: str = "") -> None:
        self._declared = dict(zip(schema.names, schema.types, strict=True))
        self._stored = stored_row(message, self._declared)
        self._fields = {name: message.fields_by_name[name] for name in self._declared}
        self._written = {name: _written_field(self._fields[name], t) for name, t in self._stored.items()}
        self._null_literal = null_literal
        self._plan = ColumnPlan()
        self._code: list[list[int]] = []
        self._depths = self._marks = 0
        self._message(message, {name: self._plan.declared(t) for name, t in self._written.items()}, 0, 0)
        self._emit(run.END)
        self._program = np.array(self._code, dtype=np.int64)

    # The program, which has the last field first.

    def _emit(self, *operation: int) -> int:
        self._code.append([*operation, *[0] * (run.PROGRAM_WIDTH - len(operation))])
        return len(self._code) - 1

    def _message(self, message: Descriptor, values: Mapping[str, Value], depth: int, marks: int) -> None:
        fields = [(message.fields_by_name[name], value) for name, value in values.items()]
        for field, value in sorted(fields, key=lambda each: -each[0].number):
            option = self._emit(run.OPTION, value.column)
            if field.is_repeated:
                self._list(field, value, depth, marks)
            elif field.message_type is not None:
                self._inner(field, value, depth, marks)
            else:
                self._scalar(field, value, _tag(field), is_left_out=not field.has_presence)
            self._code[option][2] = len(self._code)

    def _inner(
        self, field: FieldDescriptor, value: Value, depth: int, marks: int, *, may_be_null: bool = False
    ) -> None:
        """A message within, which is empty where it is NULL."""
        self._mark(marks)
        option = self._emit(run.OPTION, value.column) if may_be_null else None
        parts = dict(zip((f.name for f in value.type.fields), value.parts, strict=True))
        self._message(field.message_type, parts, depth, marks + 1)
        if option is not None:
            self._code[option][2] = len(self._code)
        self._emit(run.WRAP, marks, _tag(field))

    def _mark(self, marks: int) -> None:
        self._marks = max(self._marks, marks + 1)
        self._emit(run.MARK, marks)

    def _list(self, field: FieldDescriptor, value: Value, depth: int, marks: int) -> None:
        within = self._plan.columns[value.parts[0].column].scope
        self._depths = max(self._depths, depth + 1)
        if field.is_packed:
            self._mark(marks)
        begin = self._emit(run.LIST, value.column, 0, depth, within)
        if is_map(field):
            self._mark(marks)
            key, item = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            if item.message_type is not None:
                self._inner(item, value.parts[1], depth + 1, marks + 1, may_be_null=True)
            else:
                self._scalar(item, value.parts[1], _tag(item), is_left_out=False)
            self._scalar(key, value.parts[0], _tag(key), is_left_out=False)
            self._emit(run.WRAP, marks, _tag(field))
        elif field.message_type is not None:
            self._inner(field, value.parts[0], depth + 1, marks, may_be_null=True)
        else:
            self._scalar(field, value.parts[0], 0 if field.is_packed else _tag(field), is_left_out=False)
        self._emit(run.NEXT, begin + 1, depth, within)
        if field.is_packed:
            self._emit(run.WRAP, marks, _tag(field, _DELIMITED))
        self._code[begin][2] = len(self._code)

    def _scalar(self, field: FieldDescriptor, value: Value, tag: int, *, is_left_out: bool) -> None:
        self._emit(_operation(field), value.column, tag, int(is_left_out))

    # Writing.

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """A message for each row: a binary array."""
        columns = ColumnTable(_ENTRY_BYTES)
        for name, values in zip(self._declared, batch.columns, strict=False):
            prepared = self._prepared(self._fields[name], values, self._declared[name], name)
            columns.add(prepared, self._written[name])
        target = np.empty(columns.bytes_max + 16, dtype=np.uint8)
        begins = np.empty(batch.num_rows + 1, dtype=np.int32)
        size = run.encode_messages(
            address_of(target) + len(target),
            batch.num_rows,
            self._program,
            columns.table(),
            np.zeros(len(self._plan.lists), dtype=np.int64),
            np.zeros(self._depths, dtype=np.int64),
            np.zeros(self._marks, dtype=np.int64),
            begins,
        )
        data = pa.py_buffer(target[len(target) - size :].copy())
        offsets = pa.py_buffer((size - begins).astype(np.int32))
        return pa.Array.from_buffers(pa.binary(), batch.num_rows, [None, offsets, data])

    def _prepared(
        self,
        field: FieldDescriptor,
        values: pa.Array,
        t: LogicalType,
        path: str,
        *,
        is_element: bool = False,
        is_there: pa.Array | None = None,
    ) -> pa.Array:
        """A column as the kernel writes it. `is_there`: which of the messages that have it are not NULL, if any is."""
        if field.is_repeated and not is_element:
            return self._prepared_list(field, values, t, path)
        message = field.message_type
        if message is None:
            missing = values.is_null() if is_there is None else pc.and_(values.is_null(), is_there)
            if field.is_required and pc.any(missing).as_py():
                raise _unwritable(path, "NULL, which its required field does not have", "declare it NOT NULL")
            return self._prepared_values(field, values, path, is_element=is_element)
        if t.root is TypeRoot.ROW:
            is_there = values.is_valid() if values.null_count else None
            parts = [
                self._prepared(
                    message.fields_by_name[f.name], part, f.type, f"{path}.{f.name}", is_there=is_there
                )
                for f, part in zip(t.fields, values.flatten(), strict=True)
            ]
            names = [f.name for f in t.fields]
        elif t.root in TIMESTAMP_ROOTS:
            parts, names = seconds_and_nanos(values), ["seconds", "nanos"]
        else:
            parts = [self._prepared(message.fields_by_name["value"], values, t, path)]
            names = ["value"]
        return pa.StructArray.from_arrays(parts, names, mask=values.is_null())

    def _prepared_list(self, field: FieldDescriptor, values: pa.Array, t: LogicalType, path: str) -> pa.Array:
        offsets, is_null = list_offsets(values), values.is_null()
        if not is_map(field):
            assert t.element is not None
            elements = self._prepared(field, values.values, t.element, path, is_element=True)
            return list_of(pa.list_(elements.type), offsets, elements, is_null)
        assert t.key is not None
        assert t.element is not None
        key, item = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        parts = [
            self._prepared(key, values.keys, t.key, f"{path}.key", is_element=True),
            self._prepared(item, values.items, t.element, f"{path}.value", is_element=True),
        ]
        entries = pa.StructArray.from_arrays(parts, ["key", "value"])
        target = pa.map_(parts[0].type, parts[1].type)
        fields = pa.struct([target.key_field, target.item_field])
        return list_of(target, offsets, entries.cast(fields), is_null)

    def _prepared_values(
        self, field: FieldDescriptor, values: pa.Array, path: str, *, is_element: bool
    ) -> pa.Array:
        if field.enum_type is not None and pa.types.is_string(values.type):
            values = _numbers(field, values, path)
        is_unsigned = field.cpp_type == field.CPPTYPE_UINT32 and pa.types.is_int64(values.type)
        if is_unsigned and len(values):
            limits = pc.min_max(values).as_py()
            if (limits["min"] or 0) < 0 or (limits["max"] or 0) >= 2**32:
                raise _unwritable(
                    path, "a value that is no number of 32 bits without a sign", "declare it as INT"
                )
        if values.null_count and is_element:
            return pc.fill_null(values, self._instead_of_null(field))
        return values

    def _instead_of_null(self, field: FieldDescriptor) -> Any:
        if field.enum_type is not None:
            return field.enum_type.values[0].number
        if field.type == field.TYPE_STRING:
            return self._null_literal
        if field.type == field.TYPE_BYTES:
            return b""
        return False if field.type == field.TYPE_BOOL else 0


def _numbers(field: FieldDescriptor, texts: pa.Array, path: str) -> pa.Array:
    """The numbers of an enum by their names."""
    names = field.enum_type.values_by_name
    places = pc.index_in(texts, pa.array(list(names), pa.string()))
    if places.null_count > texts.null_count:
        unknown = texts.filter(pc.and_(places.is_null(), texts.is_valid()))[0].as_py()
        raise _unwritable(
            path,
            f"{quoted(unknown)}, which enum {field.enum_type.full_name} does not have",
            "write one of its names",
        )
    return pa.array([value.number for value in names.values()], pa.int32()).take(places)


def _unwritable(path: str, what: str, hint: str) -> UserError:
    return UserError("SS5014", f'column "{path}" holds {what}', hint=hint)


def _written_field(field: FieldDescriptor, t: LogicalType) -> LogicalType:
    """The type that the kernel writes: an enum is its number."""
    if t.root is TypeRoot.ARRAY and field.is_repeated:
        assert t.element is not None
        return array(_written(field, t.element)).with_nullable(t.nullable)
    if t.root is TypeRoot.MAP:
        assert t.key is not None
        assert t.element is not None
        value = field.message_type.fields_by_name["value"]
        return map_of(t.key, _written(value, t.element)).with_nullable(t.nullable)
    return _written(field, t)


def _written(field: FieldDescriptor, t: LogicalType) -> LogicalType:
    if field.message_type is not None:
        fields = field.message_type.fields_by_name
        parts = [(f.name, _written_field(fields[f.name], f.type)) for f in t.fields]
        return row(*parts).with_nullable(t.nullable)
    if field.enum_type is not None and t.root in STRING_ROOTS:
        return INT.with_nullable(t.nullable)
    return t


def _operation(field: FieldDescriptor) -> int:
    match field.type:
        case field.TYPE_UINT32:
            return run.UNSIGNED
        case field.TYPE_SINT32:
            return run.ZIGZAG_32
        case field.TYPE_SINT64:
            return run.ZIGZAG
        case field.TYPE_BOOL:
            return run.BOOLEAN
        case field.TYPE_FIXED32 | field.TYPE_SFIXED32:
            return run.FIXED_32
        case field.TYPE_FLOAT:
            return run.FLOAT
        case field.TYPE_FIXED64 | field.TYPE_SFIXED64 | field.TYPE_DOUBLE:
            return run.FIXED_64
        case field.TYPE_STRING | field.TYPE_BYTES:
            return run.BYTES
    return run.WORD


def _tag(field: FieldDescriptor, wire: int | None = None) -> int:
    """What stands before a value: the number of its field, and how it is encoded."""
    if wire is None:
        wire = _VARINT
        if field.message_type is not None or _operation(field) == run.BYTES:
            wire = _DELIMITED
        elif _operation(field) in (run.FIXED_32, run.FLOAT):
            wire = _FOUR
        elif _operation(field) == run.FIXED_64:
            wire = _EIGHT
    return field.number << 3 | wire
