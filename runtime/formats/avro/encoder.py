"""Batches as rows in Avro's binary encoding: the schema of a table becomes a program, which a kernel runs for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.formats.encoded_columns import ColumnTable, element_types
from sqlstream.runtime.kernels.avro import encode as run
from sqlstream.runtime.kernels.buffers import address_of
from sqlstream.schema import Schema
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType, TypeRoot

Array = np.ndarray[Any, Any]

_OPERATIONS = {
    TypeRoot.BOOLEAN: run.BOOLEAN,
    TypeRoot.FLOAT: run.FLOAT,
    TypeRoot.DOUBLE: run.DOUBLE,
    TypeRoot.DECIMAL: run.DECIMAL,
}
_ENTRY_BYTES = 18
"""The most that an entry takes without its text: the branch of a union, and a decimal with its length."""


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
        """Columns are numbered in the order in which `ColumnTable` adds them."""
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
        columns = ColumnTable(_ENTRY_BYTES)
        for array, t in zip(batch.columns, self._types, strict=False):
            columns.add(array, t)
        target = np.empty(columns.bytes_max + 16, dtype=np.uint8)
        ends = np.empty(batch.num_rows + 1, dtype=np.int32)
        size = run.encode_rows(
            address_of(target),
            batch.num_rows,
            self._program,
            columns.table(),
            np.zeros(self._scopes, dtype=np.int64),
            np.zeros(self._depths, dtype=np.int64),
            ends,
        )
        data = pa.py_buffer(target[:size].copy())
        return pa.Array.from_buffers(pa.binary(), batch.num_rows, [None, pa.py_buffer(ends), data])


def _operation(t: LogicalType) -> int:
    if t.root in STRING_ROOTS or t.root in BINARY_ROOTS:
        return run.BYTES
    return _OPERATIONS.get(t.root, run.INTEGER)
