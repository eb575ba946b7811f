"""Messages of Protocol Buffers as batches: their descriptor becomes tables, by which a kernel reads them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.formats.decoded_columns import ColumnPlan, Rows, Value
from sqlstream.runtime.formats.protobuf.stored_types import is_map, restored, seconds_limits, stored_row
from sqlstream.runtime.kernels.buffers import address_of
from sqlstream.runtime.kernels.protobuf import decode as run
from sqlstream.types import STRING_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_REASONS = {
    run.TOO_SHORT: "it ends within a value",
    run.NO_NUMBER: "a number in it does not end",
    run.NO_TAG: "it has a field without a number or type that there is",
    run.NO_TEXT: "a string in it is no UTF-8",
    run.OUT_OF_RANGE: "a value in it does not fit the type of its column",
    run.NO_GROUP: "a group in it does not end, or has too many in it",
}
_LONG = (-(2**63), 2**63 - 1)
_LIMITS = {
    TypeRoot.TINYINT: (-(2**7), 2**7 - 1),
    TypeRoot.SMALLINT: (-(2**15), 2**15 - 1),
    TypeRoot.INTEGER: (-(2**31), 2**31 - 1),
    TypeRoot.BIGINT: _LONG,
}
_NANOS = (0, 999_999_999)
_UNRECOGNIZED = b"UNRECOGNIZED"
"""The text of a number that an open enum does not have, as Java's classes have it."""

_Lines = list[list[int]]


class Program:
    """What the kernel needs to read `columns`, by the names of their fields in the message. With `reads_defaults` a field that is
    missing has its default instead of NULL, as one without presence, or of a column NOT NULL, always has. A message that
    `may_lack` fields has NULL for them.

    `Misfit` for columns that are no fields."""

    reasons = _REASONS

    def __init__(
        self,
        message: Descriptor,
        columns: Mapping[str, LogicalType],
        *,
        reads_defaults: bool = False,
        may_lack: bool = False,
    ) -> None:
        self._reads_defaults = reads_defaults
        self._declared = dict(columns)
        self._stored = stored_row(message, self._declared, may_lack=may_lack)
        self._plan = ColumnPlan()
        self._values = {name: self._plan.declared(t) for name, t in self._stored.items()}
        self._contexts: _Lines = []
        self._fields: _Lines = []
        self._resets: _Lines = []
        self._symbols: list[tuple[int, bytes]] = [(0, b"")]
        self._depth = 0
        self._context(message, self._values, self._declared, -1, 1)

    # Tables.

    def _context(
        self,
        message: Descriptor,
        values: Mapping[str, Value],
        declared: Mapping[str, LogicalType],
        there: int,
        depth: int,
    ) -> int:
        """The number of the context of a message, whose fields have these values."""
        self._depth = max(self._depth, depth)
        index = len(self._contexts)
        self._contexts.append([])
        fields_of = message.fields_by_name
        known = [
            (fields_of[name], value, declared[name]) for name, value in values.items() if name in fields_of
        ]
        known.sort(key=lambda each: each[0].number)
        fields = [self._field(field, value, t, depth) for field, value, t in known]
        for line, (field, _, _) in zip(fields, known, strict=True):
            others = [
                other
                for other in known
                if field.containing_oneof is not None
                and other[0].containing_oneof == field.containing_oneof
                and other[0].number != field.number
            ]
            line += self._block(reset for _, value, _ in others for reset in self._forgotten(value))
        first = len(self._fields)
        self._fields += fields
        is_entry = message.GetOptions().map_entry
        resets = [r for field, value, t in known for r in self._reset(field, value, t, is_entry=is_entry)]
        lacking = [r for name, value in values.items() if name not in fields_of for r in self._nulls(value)]
        self._contexts[index] = [first, len(fields), *self._block([*resets, *lacking]), there]
        return index

    def _block(self, resets: Iterable[list[int]]) -> list[int]:
        made = list(resets)
        self._resets += made
        return [len(self._resets) - len(made), len(made)]

    def _field(self, field: FieldDescriptor, value: Value, t: LogicalType, depth: int) -> list[int]:
        """A line of fields, without its resets."""
        place = [-1, 0]
        if field.is_repeated:
            place = [value.column, self._plan.columns[value.parts[0].column].scope]
            if is_map(field):
                assert t.key is not None
                assert t.element is not None
                key, item = value.parts
                inner = self._context(
                    field.message_type,
                    {"key": key, "value": item},
                    {"key": t.key, "value": t.element},
                    -1,
                    depth + 1,
                )
                return [field.number, run.MESSAGE, key.column, *place, inner, 0, -1]
            assert t.element is not None
            (value,), t = value.parts, t.element
        if field.message_type is not None:
            parts = dict(zip((f.name for f in value.type.fields), value.parts, strict=True))
            inner = self._context(field.message_type, parts, _parts_of(value, t), value.column, depth + 1)
            return [field.number, run.MESSAGE, value.column, *place, inner, 0, -1]
        kind, a, b, unknown = self._kind(field, value, t)
        return [field.number, kind, value.column, *place, a, b, unknown]

    def _kind(self, field: FieldDescriptor, value: Value, t: LogicalType) -> tuple[int, int, int, int]:
        """Kind, A, B and UNKNOWN of a field without parts."""
        if t.root in TIMESTAMP_ROOTS:
            # A field of a Timestamp, whose type is that of its column.
            return (run.WORD, *seconds_limits(t), -1) if field.number == 1 else (run.SIGNED, *_NANOS, -1)
        if field.type == field.TYPE_ENUM:
            return self._enum(field, value)
        is_wide = value.type.root is TypeRoot.BIGINT
        match field.type:
            case field.TYPE_INT64 | field.TYPE_UINT64:
                return run.WORD, *_LONG, -1
            case field.TYPE_UINT32 if is_wide:
                return run.UNSIGNED, 0, 0, -1
            case field.TYPE_INT32 | field.TYPE_UINT32:
                return run.SIGNED, *_LIMITS[TypeRoot.INTEGER], -1
            case field.TYPE_SINT32 | field.TYPE_SINT64:
                return run.ZIGZAG, 0, 0, -1
            case field.TYPE_FIXED32 if is_wide:
                return run.FIXED_UNSIGNED, 0, 0, -1
            case field.TYPE_FIXED32 | field.TYPE_SFIXED32:
                return run.FIXED_SIGNED, 0, 0, -1
            case field.TYPE_FIXED64 | field.TYPE_SFIXED64 | field.TYPE_DOUBLE:
                return run.FIXED_WORD, 0, 0, -1
            case field.TYPE_FLOAT:
                return run.FLOAT, 0, 0, -1
            case field.TYPE_BOOL:
                return run.BOOLEAN, 0, 0, -1
        return run.TEXT if field.type == field.TYPE_STRING else run.BYTES, 0, 0, -1

    def _enum(self, field: FieldDescriptor, value: Value) -> tuple[int, int, int, int]:
        is_text = value.type.root in STRING_ROOTS
        names: dict[int, bytes] = {}
        for one in field.enum_type.values:
            names.setdefault(one.number, one.name.encode() if is_text else b"")
        if not is_text and not field.enum_type.is_closed:
            return run.SIGNED, *_LIMITS[value.type.root], -1
        if not is_text:
            least, greatest = _LIMITS[value.type.root]
            names = {n: b"" for n in names if least <= n <= greatest}
        first = len(self._symbols)
        self._symbols += sorted(names.items())
        unknown = -1 if field.enum_type.is_closed else self._text(_UNRECOGNIZED, value)
        column = self._plan.columns[value.column]
        column.text_bytes = max(column.text_bytes, *(len(name) for name in names.values()), 0)
        return run.SYMBOL if is_text else run.NUMBER, first, len(names), unknown

    def _text(self, text: bytes, value: Value) -> int:
        """The line of a text that a column may have without its being in a message."""
        if not text:
            return 0
        column = self._plan.columns[value.column]
        column.text_bytes = max(column.text_bytes, len(text))
        self._symbols.append((0, text))
        return len(self._symbols) - 1

    # What entries are until a field says otherwise.

    def _reset(
        self, field: FieldDescriptor, value: Value, t: LogicalType, *, is_entry: bool = False
    ) -> Iterator[list[int]]:
        is_default = self._reads_defaults or is_entry or not t.nullable
        if field.is_repeated:
            scope = self._plan.columns[value.parts[0].column].scope
            yield [value.column, run.AS_LIST, int(is_default), scope]
        elif t.root in TIMESTAMP_ROOTS and field.message_type is None:
            yield [value.column, run.IN_WORD, 1, 0]
        elif not is_default and field.has_presence:
            yield from self._nulls(value)
        elif field.message_type is not None:
            yield [value.column, run.NO_VALUE, 1, 0]
            declared = _parts_of(value, t)
            for part, inner in zip(value.parts, value.type.fields, strict=True):
                yield from self._reset(
                    field.message_type.fields_by_name[inner.name], part, declared[inner.name]
                )
        else:
            yield [value.column, *self._default(field, value)]

    def _default(self, field: FieldDescriptor, value: Value) -> list[int]:
        default = field.default_value
        match field.cpp_type:
            case field.CPPTYPE_STRING:
                text = default.encode() if isinstance(default, str) else bytes(default)
                return [run.AS_TEXT, 1, self._text(text, value)]
            case field.CPPTYPE_BOOL:
                return [run.IN_BYTE, 1, int(default)]
            case field.CPPTYPE_DOUBLE | field.CPPTYPE_FLOAT:
                return [run.IN_WORD, 1, *struct.unpack("<q", struct.pack("<d", default))]
            case field.CPPTYPE_ENUM if value.type.root in STRING_ROOTS:
                name = field.enum_type.values_by_number[default].name
                return [run.AS_TEXT, 1, self._text(name.encode(), value)]
        word = int(default)
        return [run.IN_WORD, 1, word - 2**64 if word > _LONG[1] else word]

    def _nulls(self, value: Value) -> Iterator[list[int]]:
        column = self._plan.columns[value.column]
        if value.type.root is TypeRoot.ROW:
            yield [value.column, run.NO_VALUE, 0, 0]
            for part in value.parts:
                yield from self._nulls(part)
        elif value.parts:
            yield [value.column, run.AS_LIST, 0, self._plan.columns[value.parts[0].column].scope]
        elif column.width == 0:
            yield [value.column, run.AS_TEXT, 0, 0]
        else:
            yield [value.column, run.IN_BYTE if column.width == 1 else run.IN_WORD, 0, 0]

    def _forgotten(self, value: Value) -> Iterator[list[int]]:
        """NULL again, with the elements of lists that its elements have."""
        yield from self._nulls(value)
        yield from self._inner_lists(value, is_inner=False)

    def _inner_lists(self, value: Value, *, is_inner: bool) -> Iterator[list[int]]:
        is_list = bool(value.parts) and value.type.root is not TypeRoot.ROW
        if is_list and is_inner:
            yield [value.column, run.AS_INNER_LIST, 0, self._plan.columns[value.parts[0].column].scope]
        for part in value.parts:
            yield from self._inner_lists(part, is_inner=is_inner or is_list)

    # Reading.

    def of_messages(self, messages: pa.Array, is_there: np.ndarray[Any, Any], header_bytes: int = 0) -> Rows:
        """The rows of messages (a binary array without NULLs) of which some are there, each behind a header."""
        bounds = np.frombuffer(messages.buffers()[1], dtype=np.int32)[messages.offset :][: len(messages) + 1]
        size, data = int(bounds[-1]) - int(bounds[0]), messages.buffers()[2]
        memory = self._plan.memory(int(np.count_nonzero(is_there)), size)
        kept = [np.frombuffer(text or b"\0", dtype=np.uint8) for _, text in self._symbols]
        symbols = [
            (number, address_of(k), len(text)) for (number, text), k in zip(self._symbols, kept, strict=True)
        ]
        owners = np.empty(int(np.count_nonzero(is_there)), dtype=np.int64)
        rejected = np.empty((len(messages), 2), dtype=np.int64)
        rows, failures = run.decode_messages(
            data.address if data is not None else 0,
            bounds,
            header_bytes,
            is_there.astype(np.uint8),
            _table(self._contexts, run.CONTEXT_WIDTH),
            _table(self._fields, run.FIELD_WIDTH),
            _table(self._resets, run.RESET_WIDTH),
            memory.table,
            memory.lists,
            memory.cursors,
            _table(symbols, run.SYMBOL_WIDTH),
            np.zeros((self._depth, run.FRAME_WIDTH), dtype=np.int64),
            np.zeros(run.GROUPS_MAX, dtype=np.int64),
            owners,
            rejected,
        )
        memory.count_nulls()
        batch = memory.batch(self._values, rows)
        if self._stored != self._declared:
            columns = zip(batch.columns, self._stored.values(), self._declared.values(), strict=True)
            batch = pa.RecordBatch.from_arrays([restored(*c) for c in columns], names=list(self._declared))
        return Rows(batch, owners[:rows], rejected[:failures])


def _table(lines: Any, width: int) -> np.ndarray[Any, Any]:
    return np.array(lines, dtype=np.int64).reshape(-1, width)


def _parts_of(value: Value, t: LogicalType) -> dict[str, LogicalType]:
    """The declared types of the fields of a message. Those of a Timestamp or wrapper have the type of their column."""
    if t.root is TypeRoot.ROW:
        return {f.name: f.type for f in t.fields}
    return {f.name: t.with_nullable(False) for f in value.type.fields}
