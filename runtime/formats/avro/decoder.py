"""Rows in Avro's binary encoding as batches: the schema of their writer becomes a program, which a kernel runs for each row."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.evaluate.time.time_range import bounds_of
from sqlstream.runtime.formats.avro.schemas import Names, fields_of, type_name
from sqlstream.runtime.formats.decoded_columns import ColumnPlan, Rows, Value
from sqlstream.runtime.kernels.avro import decode as run
from sqlstream.runtime.kernels.buffers import address_of
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
_DEPTH_MAX = 64
_OPERATIONS_MAX = 100_000


class Unfit(Exception):
    """A schema whose values are none of a column's type: which column, and how the schema is named."""

    def __init__(self, column: str, stored: str) -> None:
        super().__init__(column, stored)
        self.column, self.stored = column, stored


class Program:
    """What the kernel runs for rows of a writer's schema, to read `columns`, by their names in its record.

    ValueError for what is no schema, `Unfit` for one whose values are none of a column's."""

    reasons = REASONS

    def __init__(self, schema: Any, columns: Mapping[str, LogicalType]) -> None:
        self._names = Names()
        self._code: list[list[int]] = []
        self._plan = ColumnPlan()
        self._depths = 0
        self._texts: list[bytes] = []
        self._column = ""
        self._nesting = 0
        self._values = {name: self._plan.declared(t) for name, t in columns.items()}
        record, space = self._names.resolved(schema, "")
        if isinstance(record, list) or record["type"] != "record":
            raise ValueError("it is not that of a record")
        self._fields(record, space, dict(self._values), 0, is_top=True)
        self._emit(run.END)
        self.has_bytes = self._has_bytes(schema, "")
        self._code_table = np.array(self._code, dtype=np.int64)

    # Operations.

    def _emit(self, *operation: int) -> int:
        if len(self._code) == _OPERATIONS_MAX:
            raise ValueError(f"reading its values takes more than {_OPERATIONS_MAX} operations")
        self._code.append([*operation, *[0] * (run.PROGRAM_WIDTH - len(operation))])
        return len(self._code) - 1

    def _null(self, value: Value) -> None:
        self._emit(run.NULL, value.column, self._plan.columns[value.column].width)
        if value.type.root is TypeRoot.ROW:
            for part in value.parts:
                self._null(part)

    def _fields(
        self, record: Any, space: str, wanted: dict[str, Value], depth: int, *, is_top: bool = False
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

    def _union(self, branches: list[Any], compiled: Callable[[Any], object]) -> None:
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

    def _read(self, schema: Any, space: str, value: Value, depth: int) -> None:
        self._enter()
        try:
            self._read_resolved(*self._names.resolved(schema, space), value, depth)
        finally:
            self._nesting -= 1

    def _read_resolved(self, schema: Any, space: str, value: Value, depth: int) -> None:
        if isinstance(schema, list):
            fits: list[bool] = []
            self._union(schema, lambda s: fits.append(self._read_branch(s, space, value, depth)))
            holds_more = [b != "null" for b in schema]
            if not any(map(operator.and_, fits, holds_more)) and any(holds_more):
                raise Unfit(self._column, type_name(schema))
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

    def _list(self, value: Value, element: Any, space: str, depth: int, compiled: Callable[[], None]) -> None:
        if not self._has_bytes(element, space):
            raise ValueError("it has an array whose elements have no bytes")
        scope = self._plan.columns[value.parts[0].column].scope
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

    def _read_branch(self, schema: Any, space: str, value: Value, depth: int) -> bool:
        """Whether a branch of a union may be a value; a row that has another one fails."""
        length, texts, depths = len(self._code), len(self._texts), self._depths
        try:
            self._read(schema, space, value, depth)
        except Unfit:
            del self._code[length:]
            del self._texts[texts:]
            self._depths = depths
            self._emit(run.FAIL)
            return False
        return True

    def _operation(self, schema: Mapping[str, Any], value: Value) -> tuple[int, ...] | None:
        """Reading one value without parts, without its column; None when it is none of the type."""
        kind, t = schema["type"], value.type
        if kind in ("int", "long"):
            return _number_operation(kind, _logical_type(schema), t)
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

    def _symbols(self, schema: Mapping[str, Any], value: Value) -> tuple[int, ...]:
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not symbols or not all(isinstance(s, str) for s in symbols):
            raise ValueError("it has an enum without symbols")
        first = len(self._texts)
        self._texts += [s.encode() for s in symbols]
        column = self._plan.columns[value.column]
        column.text_bytes = max(column.text_bytes, *(len(text) for text in self._texts[first:]))
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

    def of_messages(self, messages: pa.Array, is_there: Array, header_bytes: int = 0) -> Rows:
        """The rows of messages of which some are there."""
        return self.decoded(messages, np.where(is_there, -1, 0), header_bytes)

    def decoded(self, messages: pa.Array, counts: Array, header_bytes: int = 0) -> Rows:
        """The rows of messages (a binary array without NULLs), each with as many rows as `counts` says (see the kernel)
        behind a header."""
        bounds = np.frombuffer(messages.buffers()[1], dtype=np.int32)[messages.offset :][: len(messages) + 1]
        size, data = int(bounds[-1]) - int(bounds[0]), messages.buffers()[2]
        rows_max = int(np.abs(counts).sum())
        memory = self._plan.memory(rows_max, size)
        kept = [np.frombuffer(text or b"\0", dtype=np.uint8) for text in self._texts]
        texts = [(address_of(k), len(text)) for k, text in zip(kept, self._texts, strict=True)]
        owners = np.empty(rows_max, dtype=np.int64)
        rejected = np.empty((len(messages), 2), dtype=np.int64)
        rows, failures = run.decode_rows(
            data.address if data is not None else 0,
            bounds,
            header_bytes,
            counts,
            self._code_table,
            memory.table,
            memory.lists,
            memory.cursors,
            np.zeros(self._depths, dtype=np.int64),
            np.array(texts, dtype=np.int64).reshape(-1, 2),
            owners,
            rejected,
        )
        return Rows(memory.batch(self._values, rows), owners[:rows], rejected[:failures])


_OF_DEBEZIUM = {
    "io.debezium.time.Timestamp": "timestamp-millis",
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
    "io.debezium.time.NanoTimestamp": "timestamp-nanos",
    "io.debezium.time.MicroTime": "time-micros",
}
"""The logical types of numbers that Debezium names in a way of its own."""


def _logical_type(schema: Mapping[str, Any]) -> Any:
    return schema.get("logicalType") or _OF_DEBEZIUM.get(str(schema.get("connect.name")))


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
