"""Batches as rows in Avro's binary encoding: the schema of a table becomes a program, which a kernel runs for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.avro import encode as run
from sqlstream.runtime.kernels.buffers import unpack_bits, valid_mask, view_buffer, view_offsets, view_values
from sqlstream.schema import Schema
from sqlstream.types import BINARY_ROOTS, INT, STRING_ROOTS, LogicalType, TypeRoot

Array = np.ndarray[Any, Any]

_OPERATIONS = {
    TypeRoot.BOOLEAN: run.BOOLEAN,
    TypeRoot.FLOAT: run.FLOAT,
    TypeRoot.DOUBLE: run.DOUBLE,
    TypeRoot.DECIMAL: run.DECIMAL,
}
_BYTES_MAX = {run.INTEGER: 10, run.FLOAT: 4, run.DOUBLE: 8, run.BOOLEAN: 1, run.BYTES: 5, run.DECIMAL: 17}
_LIST_BYTES_MAX = 6
_EMPTY = np.empty(0, dtype=np.uint8)


class RowEncoder:
    """Encodes rows of a table's columns as `schemas.record_of` says. No state."""

    def __init__(self, schema: Schema) -> None:
        self._types = schema.types
        self._code: list[list[int]] = []
        self._count = 0
        self._scopes = 1
        self._depths = 0
        for t in schema.types:
            self._compile(t, 0, 0)
        self._emit(run.END)
        self._program = np.array(self._code, dtype=np.int64)

    def _emit(self, *operation: int) -> int:
        self._code.append([*operation, *[0] * (run.PROGRAM_WIDTH - len(operation))])
        return len(self._code) - 1

    def _compile(self, t: LogicalType, scope: int, depth: int) -> None:
        """Columns are numbered in the order in which `_Columns` adds them."""
        if t.root is TypeRoot.NULL:
            return
        column = self._count
        self._count += 1
        option = self._emit(run.OPTION, column) if t.nullable else None
        if t.root is TypeRoot.ROW:
            for f in t.fields:
                self._compile(f.type, scope, depth)
        elif (parts := element_types(t)) is not None:
            within, self._scopes = self._scopes, self._scopes + 1
            self._depths = max(self._depths, depth + 1)
            begin = self._emit(run.LIST, column, 0, depth, within) + 1
            for part in parts:
                self._compile(part, within, depth + 1)
            self._emit(run.NEXT, begin, depth, within)
            self._code[begin - 1][2] = len(self._code)
        else:
            self._emit(_operation(t), column)
        if option is not None:
            self._code[option][2] = len(self._code)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """The bytes of each row, one after the other: a binary array."""
        columns = _Columns()
        for array, t in zip(batch.columns, self._types, strict=False):
            columns.add(array, t, 0)
        target = np.empty(columns.bytes_max + 16, dtype=np.uint8)
        ends = np.empty(batch.num_rows + 1, dtype=np.int32)
        size = run.encode_rows(
            target.ctypes.data,
            batch.num_rows,
            self._program,
            np.array(columns.rows, dtype=np.int64).reshape(-1, run.COLUMN_WIDTH),
            np.zeros(self._scopes, dtype=np.int64),
            np.zeros(self._depths, dtype=np.int64),
            ends,
        )
        data = pa.py_buffer(target[:size].copy())
        return pa.Array.from_buffers(pa.binary(), batch.num_rows, [None, pa.py_buffer(ends), data])


class _Columns:
    """Arrays as the kernel takes them, which live as long as this object. `bytes_max`: what their rows take at most."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.bytes_max = 0
        self._kept: list[Any] = []
        self._scopes = 1

    def add(self, array: pa.Array, t: LogicalType, scope: int) -> None:
        if t.root is TypeRoot.NULL:
            return
        valid = valid_mask(array)
        row = [0, 0, 0 if valid is None else self._address(valid), scope]
        self.rows.append(row)
        self.bytes_max += len(array) if t.nullable else 0
        if t.root is TypeRoot.ROW:
            for i, f in enumerate(t.fields):
                self.add(array.field(i), f.type, scope)
            return
        if (parts := element_types(t)) is not None:
            self._add_list(array, t, parts, row)
            return
        operation = _operation(t)
        self.bytes_max += _BYTES_MAX[operation] * len(array)
        if operation == run.BYTES:
            offsets, row[0] = view_offsets(array)
            row[1] = self._address(offsets)
            self.bytes_max += int(offsets[-1]) - int(offsets[0])
            self._kept.append(array)
        else:
            row[0] = self._address(_plain(array, operation))
            self._kept.append(array)

    def _add_list(
        self, array: pa.Array, t: LogicalType, parts: tuple[LogicalType, ...], row: list[int]
    ) -> None:
        within, self._scopes = self._scopes, self._scopes + 1
        offsets = view_buffer(array.buffers()[1], np.int32, array.offset, len(array) + 1)
        offsets = offsets if len(array) else np.zeros(1, dtype=np.int32)
        first, last = int(offsets[0]), int(offsets[-1])
        # A NULL may have elements, which are passed over.
        row[1] = self._address(offsets - offsets[0])
        self.bytes_max += _LIST_BYTES_MAX * len(array)
        elements = (array.keys, array.items) if t.root is not TypeRoot.ARRAY else (array.values,)
        for part, elements_of in zip(parts, elements, strict=True):
            self.add(elements_of.slice(first, last - first), part, within)

    def _address(self, values: Array) -> int:
        self._kept.append(values)
        return int(values.ctypes.data)


def _plain(array: pa.Array, operation: int) -> Array:
    """The values of a column with a fixed width: whole numbers in 64 bits, truth values in a byte."""
    if operation == run.BOOLEAN:
        return unpack_bits(*_bits(array), len(array))
    if operation == run.DECIMAL:
        return view_values(array, np.dtype("V16"))
    if operation == run.FLOAT:
        return view_values(array, np.float32)
    if operation == run.DOUBLE:
        return view_values(array, np.float64)
    return view_values(array, f"int{array.type.bit_width}").astype(np.int64)


def _bits(array: pa.Array) -> tuple[Array, int]:
    """The bits of a column of truth values, and the first of them."""
    data = array.buffers()[1]
    if data is None or not len(array):
        return _EMPTY, 0
    return np.frombuffer(data, dtype=np.uint8)[array.offset >> 3 :], array.offset & 7


def _operation(t: LogicalType) -> int:
    if t.root in STRING_ROOTS or t.root in BINARY_ROOTS:
        return run.BYTES
    return _OPERATIONS.get(t.root, run.INTEGER)


def element_types(t: LogicalType) -> tuple[LogicalType, ...] | None:
    """The types of the elements of a list: of keys and values for a map. None for what is none."""
    if t.root is TypeRoot.ARRAY and t.element is not None:
        return (t.element,)
    if t.root is TypeRoot.MULTISET and t.element is not None:
        return t.element.with_nullable(False), INT.with_nullable(False)
    if t.root is TypeRoot.MAP and t.key is not None and t.element is not None:
        return t.key.with_nullable(False), t.element
    return None
