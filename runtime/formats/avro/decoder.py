"""Rows in Avro's binary encoding as batches: the schema of their writer becomes a program, which a kernel runs for each row."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.evaluate.time.time_range import bounds_of
from sqlstream.runtime.formats.avro.encoder import element_types
from sqlstream.runtime.formats.avro.schemas import Names, fields_of, type_name
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.runtime.kernels.avro import decode as run
from sqlstream.runtime.kernels.buffers import to_array, validity_buffer
from sqlstream.types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    is_integer,
)

REASONS = {
    run.TOO_SHORT: "it ends within a value",
    run.NO_LENGTH: "a length in it is none",
    run.NO_BRANCH: "it has a branch that its union or enum does not have",
    run.NO_TEXT: "a string in it is no UTF-8",
    run.OUT_OF_RANGE: "a value in it does not fit the type of its column",
    run.NO_COLUMN: "a value in it has a type of its union that its column cannot have",
    run.LEFT_OVER: "there are bytes behind its rows",
}

Array = np.ndarray[Any, Any]

_INT, _LONG = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_LIMITS = {
    TypeRoot.TINYINT: (-(2**7), 2**7 - 1),
    TypeRoot.SMALLINT: (-(2**15), 2**15 - 1),
    TypeRoot.INTEGER: _INT,
    TypeRoot.BIGINT: _LONG,
    TypeRoot.TIME: (0, 86_399_999),
}
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
_TEXT_BYTES_MAX = 2**31 - 1
_DEPTH_MAX = 64


class Unfit(Exception):
    """A schema whose values are none of a column's type: which column, and how the schema is named."""

    def __init__(self, column: str, stored: str) -> None:
        super().__init__(column, stored)
        self.column, self.stored = column, stored


@dataclass
class _Column:
    """A column of the kernel: `width` as in its operation NULL. `symbol_bytes`: those of its longest symbol."""

    scope: int
    width: int
    symbol_bytes: int = 0


@dataclass
class _Value:
    """A value of a type, the number of its column, and the values within it."""

    type: LogicalType
    column: int
    parts: list[_Value] = field(default_factory=list)


class Rows(NamedTuple):
    """`owners`: the place of each row's message. `rejected`: place and reason of each message that is malformed."""

    batch: pa.RecordBatch
    owners: Array
    rejected: Array


class Program:
    """What the kernel runs for rows of a writer's schema, to read `columns`, by their names in its record.

    ValueError for what is no schema, `Unfit` for one whose values are none of a column's."""

    def __init__(self, schema: Any, columns: Mapping[str, LogicalType]) -> None:
        self._names = Names()
        self._code: list[list[int]] = []
        self._columns: list[_Column] = []
        self._lists = [-1]
        self._depths = 0
        self._texts: list[bytes] = []
        self._column = ""
        self._nesting = 0
        self._values = {name: self._declared(t, 0) for name, t in columns.items()}
        record, space = self._names.resolved(schema, "")
        if isinstance(record, list) or record["type"] != "record":
            raise ValueError("it is not that of a record")
        self._fields(record, space, dict(self._values), 0, is_top=True)
        self._emit(run.END)
        self.has_bytes = self._has_bytes(schema, "")
        self._code_table = np.array(self._code, dtype=np.int64)

    # The columns of a type.

    def _declared(self, t: LogicalType, scope: int) -> _Value:
        made = _Value(t, len(self._columns))
        self._columns.append(_Column(scope, _width(t)))
        if t.root is TypeRoot.ROW:
            made.parts = [self._declared(f.type, scope) for f in t.fields]
        elif (elements := element_types(t)) is not None:
            within = len(self._lists)
            self._lists.append(made.column)
            made.parts = [self._declared(part, within) for part in elements]
        return made

    # Operations.

    def _emit(self, *operation: int) -> int:
        self._code.append([*operation, *[0] * (run.PROGRAM_WIDTH - len(operation))])
        return len(self._code) - 1

    def _null(self, value: _Value) -> None:
        self._emit(run.NULL, value.column, self._columns[value.column].width)
        if value.type.root is TypeRoot.ROW:
            for part in value.parts:
                self._null(part)

    def _fields(
        self, record: Any, space: str, wanted: dict[str, _Value], depth: int, *, is_top: bool = False
    ) -> None:
        """The fields of a record, in the order of the writer; a wanted one that it does not have is NULL."""
        fields = fields_of(record)
        names = [f["name"] for f in fields]
        for name, value in wanted.items():
            if name not in names:
                self._column = name if is_top else self._column
                if not value.type.nullable:
                    raise Unfit(self._column, f"without a field {name}")
                self._null(value)
        for one in fields:
            if one["name"] in wanted:
                self._column = one["name"] if is_top else self._column
                self._read(one["type"], space, wanted[one["name"]], depth)
            else:
                self._skip(one["type"], space, depth)

    def _union(self, branches: list[Any], compiled: Callable[[Any], None]) -> None:
        self._emit(run.BRANCH, len(branches))
        jumps = [self._emit(run.JUMP) for _ in branches]
        ends = []
        for jump, branch in zip(jumps, branches, strict=True):
            self._code[jump][1] = len(self._code)
            compiled(branch)
            ends.append(self._emit(run.JUMP))
        for end in ends:
            self._code[end][1] = len(self._code)

    def _blocks(self, depth: int, compiled: Callable[[], None], scope: int = 0) -> None:
        self._depths = max(self._depths, depth + 1)
        block = self._emit(run.BLOCK, depth)
        compiled()
        if scope:
            self._emit(run.NEXT, scope)
        self._emit(run.JUMP, block)
        self._code[block][2] = len(self._code)

    def _enter(self) -> None:
        self._nesting += 1
        if self._nesting > _DEPTH_MAX:
            raise ValueError("it holds itself, or is nested too deeply")

    def _read(self, schema: Any, space: str, value: _Value, depth: int) -> None:
        self._enter()
        try:
            self._read_resolved(*self._names.resolved(schema, space), value, depth)
        finally:
            self._nesting -= 1

    def _read_resolved(self, schema: Any, space: str, value: _Value, depth: int) -> None:
        if isinstance(schema, list):
            may_be = [self._may_be(branch, space, value, depth) for branch in schema]
            holds_more = [b != "null" for b in schema]
            if not any(map(operator.and_, may_be, holds_more)) and any(holds_more):
                raise Unfit(self._column, type_name(schema))
            fitting = iter(may_be)
            self._union(
                schema,
                lambda s: (
                    self._read(s, space, value, depth) if next(fitting) else _ignore(self._emit(run.FAIL))
                ),
            )
            return
        kind, t = schema["type"], value.type
        if kind == "null":
            self._null(value)
        elif kind == "record" and t.root is TypeRoot.ROW:
            self._emit(run.MARK, value.column)
            parts = {f.name: part for f, part in zip(t.fields, value.parts, strict=True)}
            self._fields(schema, space, parts, depth)
        elif kind == "array" and t.root is TypeRoot.ARRAY:
            (element,) = value.parts
            self._list(
                value,
                schema["items"],
                space,
                depth,
                lambda: self._read(schema["items"], space, element, depth + 1),
            )
        elif kind == "map" and t.root in (TypeRoot.MAP, TypeRoot.MULTISET):
            key, element = value.parts

            def entry() -> None:
                self._emit(run.TEXT, key.column)
                self._read(schema["values"], space, element, depth + 1)

            self._list(value, "string", space, depth, entry)
        else:
            operation = self._operation(schema, value)
            if operation is None:
                raise Unfit(self._column, type_name(schema))
            self._emit(operation[0], value.column, *operation[1:])

    def _list(
        self, value: _Value, element: Any, space: str, depth: int, compiled: Callable[[], None]
    ) -> None:
        if not self._has_bytes(element, space):
            raise ValueError("it has an array whose elements have no bytes")
        scope = self._columns[value.parts[0].column].scope
        self._blocks(depth, compiled, scope)
        self._emit(run.LIST, value.column, scope)

    def _has_bytes(self, schema: Any, space: str) -> bool:
        """Whether every value has a byte or more."""
        self._enter()
        try:
            schema, space = self._names.resolved(schema, space)
            if isinstance(schema, list):
                return True
            if schema["type"] == "record":
                return any(self._has_bytes(f["type"], space) for f in fields_of(schema))
            return schema["type"] != "null" and not (schema["type"] == "fixed" and _size(schema) == 0)
        finally:
            self._nesting -= 1

    def _may_be(self, schema: Any, space: str, value: _Value, depth: int) -> bool:
        """Whether a branch of a union may be a value; what it takes to find that out is forgotten."""
        length, texts, depths = len(self._code), len(self._texts), self._depths
        try:
            self._read(schema, space, value, depth)
        except Unfit:
            return False
        finally:
            del self._code[length:]
            del self._texts[texts:]
            self._depths = depths
        return True

    def _operation(self, schema: Mapping[str, Any], value: _Value) -> tuple[int, ...] | None:
        """Reading one value without parts, without its column; None when it is none of the type."""
        kind, t = schema["type"], value.type
        if kind in ("int", "long"):
            return _number_operation(kind, schema.get("logicalType"), t)
        if kind in ("float", "double"):
            wider = t.root is TypeRoot.DOUBLE or (t.root is TypeRoot.FLOAT and kind == "float")
            return (run.FLOAT if kind == "float" else run.DOUBLE,) if wider else None
        if kind == "boolean":
            return (run.BOOLEAN,) if t.root is TypeRoot.BOOLEAN else None
        if kind == "enum" and t.root in STRING_ROOTS:
            return self._symbols(schema, value)
        if kind in ("bytes", "fixed") and t.root is TypeRoot.DECIMAL:
            scale = schema.get("scale", 0) if schema.get("logicalType") == "decimal" else t.scale
            limit = 10**t.precision
            length = _size(schema) if kind == "fixed" else -1
            return (
                (run.DECIMAL, limit >> 64, _signed(limit & (2**64 - 1)), length) if scale == t.scale else None
            )
        if kind == "fixed" and t.root in BINARY_ROOTS:
            return (run.FIXED, _size(schema))
        if kind in ("bytes", "string") and t.root in BINARY_ROOTS:
            return (run.BYTES,)
        if kind in ("bytes", "string") and t.root in STRING_ROOTS and schema.get("logicalType") != "decimal":
            return (run.TEXT,)
        return None

    def _symbols(self, schema: Mapping[str, Any], value: _Value) -> tuple[int, ...]:
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not symbols or not all(isinstance(s, str) for s in symbols):
            raise ValueError("it has an enum without symbols")
        first = len(self._texts)
        self._texts += [s.encode() for s in symbols]
        column = self._columns[value.column]
        column.symbol_bytes = max(column.symbol_bytes, *(len(text) for text in self._texts[first:]))
        return run.SYMBOL, first, len(symbols)

    def _skip(self, schema: Any, space: str, depth: int) -> None:
        self._enter()
        try:
            schema, space = self._names.resolved(schema, space)
            if isinstance(schema, list):
                self._union(schema, lambda s: self._skip(s, space, depth))
                return
            match schema["type"]:
                case "null":
                    pass
                case "record":
                    for one in fields_of(schema):
                        self._skip(one["type"], space, depth)
                case "array":
                    if not self._has_bytes(schema["items"], space):
                        raise ValueError("it has an array whose elements have no bytes")
                    self._blocks(depth, lambda: self._skip(schema["items"], space, depth + 1))
                case "map":

                    def entry() -> None:
                        self._emit(run.SKIP_BYTES)
                        self._skip(schema["values"], space, depth + 1)

                    self._blocks(depth, entry)
                case "int" | "long" | "enum":
                    self._emit(run.SKIP_NUMBER)
                case "bytes" | "string":
                    self._emit(run.SKIP_BYTES)
                case kind:
                    widths = {"boolean": 1, "float": 4, "double": 8}
                    self._emit(run.SKIP, widths[kind] if kind in widths else _size(schema))
        finally:
            self._nesting -= 1

    # Running it.

    def decoded(self, messages: pa.Array, counts: Array, header_bytes: int = 0) -> Rows:
        """The rows of messages (a binary array without NULLs), each with as many rows as `counts` says (see the kernel)
        behind a header."""
        bounds = np.frombuffer(messages.buffers()[1], dtype=np.int32)[messages.offset :][: len(messages) + 1]
        size, data = int(bounds[-1]) - int(bounds[0]), messages.buffers()[2]
        rows_max = int(np.abs(counts).sum())
        memory = [
            _Memory(c, rows_max if c.scope == 0 else min(size, _TEXT_BYTES_MAX), size) for c in self._columns
        ]
        table = np.array([m.row() for m in memory], dtype=np.int64).reshape(-1, run.COLUMN_WIDTH)
        kept = [np.frombuffer(text or b"\0", dtype=np.uint8) for text in self._texts]
        texts = [(k.ctypes.data, len(text)) for k, text in zip(kept, self._texts, strict=True)]
        cursors = np.zeros(len(self._lists), dtype=np.int64)
        owners = np.empty(rows_max, dtype=np.int64)
        rejected = np.empty((len(messages), 2), dtype=np.int64)
        rows, failures = run.decode_rows(
            data.address if data is not None else 0,
            bounds,
            header_bytes,
            counts,
            self._code_table,
            table,
            np.array(self._lists, dtype=np.int64),
            cursors,
            np.zeros(self._depths, dtype=np.int64),
            np.array(texts, dtype=np.int64).reshape(-1, 2),
            owners,
            rejected,
        )
        if not self._values:
            return Rows(empty_columns(rows), owners[:rows], rejected[:failures])
        found = _Found(memory, table[:, run.NULLS], cursors)
        arrays = [found.array(value) for value in self._values.values()]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(self._values))
        return Rows(batch, owners[:rows], rejected[:failures])


class _Memory:
    """The arrays of a column with room for `entries`, and for all bytes of messages where they vary."""

    def __init__(self, column: _Column, entries: int, size: int) -> None:
        self.scope = column.scope
        self.valid = np.empty(entries, dtype=np.uint8)
        self.offsets = np.empty(entries + 1 if column.width == 0 else 0, dtype=np.int32)
        if column.width == 0:
            self.offsets[0] = 0
            length = size + entries * column.symbol_bytes
        else:
            length = entries * max(column.width, 0)
        self.values = np.empty(length, dtype=np.uint8)

    def row(self) -> list[int]:
        return [self.values.ctypes.data, self.offsets.ctypes.data, self.valid.ctypes.data, 0, self.scope]


class _Found:
    """What the kernel has written, as Arrow's arrays of the size that they need."""

    def __init__(self, memory: list[_Memory], nulls: Array, cursors: Array) -> None:
        self._memory, self._nulls, self._cursors = memory, nulls, cursors

    def array(self, value: _Value) -> pa.Array:
        memory = self._memory[value.column]
        count = int(self._cursors[memory.scope])
        valid = memory.valid[:count] if self._nulls[value.column] else None
        t, root = to_arrow_type(value.type), value.type.root
        if root is TypeRoot.NULL:
            return pa.nulls(count)
        if root is TypeRoot.ROW:
            parts = [self.array(part) for part in value.parts]
            return pa.Array.from_buffers(t, count, [validity_buffer(valid)], children=parts)
        if memory.offsets.size:
            ends = memory.offsets[: count + 1].copy()
            if not value.parts:
                data = memory.values[: ends[-1]].copy()
                return pa.Array.from_buffers(
                    t, count, [validity_buffer(valid), pa.py_buffer(ends), pa.py_buffer(data)]
                )
            parts = [self.array(part) for part in value.parts]
            if pa.types.is_map(t):
                entries = pa.struct([t.key_field, t.item_field])
                parts = [pa.Array.from_buffers(entries, len(parts[0]), [None], children=parts)]
            return pa.Array.from_buffers(
                t, count, [validity_buffer(valid), pa.py_buffer(ends)], children=parts
            )
        return to_array(t, _plain(memory.values, count, root, t), valid)


def _plain(values: Array, count: int, root: TypeRoot, t: pa.DataType) -> Array:
    """The values of a column with a fixed width, in the width of its type."""
    if root is TypeRoot.BOOLEAN:
        return values[:count]
    if root is TypeRoot.DECIMAL:
        return values[: 16 * count].copy().view("V16")
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return values.view(np.float64)[:count].astype(np.float32 if root is TypeRoot.FLOAT else np.float64)
    return values.view(np.int64)[:count].astype(f"int{t.bit_width}")


def _width(t: LogicalType) -> int:
    if t.root is TypeRoot.DECIMAL:
        return 16
    if t.root is TypeRoot.BOOLEAN:
        return 1
    if t.root in (TypeRoot.ROW, TypeRoot.NULL):
        return -1
    is_variable = t.root in (*STRING_ROOTS, *BINARY_ROOTS, TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET)
    return 0 if is_variable else 8


def _number_operation(kind: str, logical: Any, t: LogicalType) -> tuple[int, ...] | None:
    """INTEGER, or AS_REAL, with its arguments but the column."""
    low, high = _INT if kind == "int" else _LONG
    if t.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return run.AS_REAL, low, high
    if t.root in TIMESTAMP_ROOTS and kind == "long":
        unit = "ms" if t.precision <= 3 else "us"
        if isinstance(logical, str) and "timestamp-" in logical:
            unit = {"millis": "ms", "micros": "us", "nanos": "ns"}.get(logical.rpartition("-")[2], unit)
        return _moment(t, unit)
    if t.root is TypeRoot.DATE and kind == "int":
        return run.INTEGER, *bounds_of(pa.date32()), 1
    if t.root is TypeRoot.TIME:
        return (
            (run.INTEGER, 0, 86_399_999_999, -1000)
            if logical == "time-micros"
            else (run.INTEGER, *_LIMITS[t.root], 1)
        )
    if is_integer(t):
        limits = _LIMITS[t.root]
        return run.INTEGER, max(low, limits[0]), min(high, limits[1]), 1
    return None


def _moment(t: LogicalType, unit: str) -> tuple[int, ...]:
    """A timestamp that is written in a unit."""
    target = to_arrow_type(t)
    least, greatest = bounds_of(target)
    wanted, given = _PER_SECOND[target.unit], _PER_SECOND[unit]
    if wanted >= given:
        factor = wanted // given
        return run.INTEGER, -(-least // factor), greatest // factor, factor
    factor = given // wanted
    return run.INTEGER, max(least * factor, _LONG[0]), min(greatest * factor + factor - 1, _LONG[1]), -factor


def _size(schema: Mapping[str, Any]) -> int:
    size = schema.get("size")
    if not isinstance(size, int) or size < 0:
        raise ValueError("it has a fixed without a size")
    return size


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def _ignore(_: int) -> None:
    """For an operation whose place does not matter."""
