"""Plainly written JSON objects as columns, by a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.formats.blocks import Block, Cut
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.runtime.formats.json_objects import parse_values, take_apart
from sqlstream.runtime.kernels.buffers import address_of, to_array, validity_buffer
from sqlstream.runtime.kernels.json.json_index import index_lines
from sqlstream.runtime.kernels.json.json_rows import (
    BOOLEAN,
    COLUMN_WIDTH,
    INTEGER,
    MEMBER_WIDTH,
    MEMBERS_MAX,
    NESTED,
    NULLS,
    NUMBER,
    SLACK,
    TEXT,
    TOO_ODD,
    read_rows,
)
from sqlstream.types import NESTED_ROOTS, LogicalType, TypeRoot, is_integer

_LIMITS = {TypeRoot.TINYINT: 2**7 - 1, TypeRoot.SMALLINT: 2**15 - 1, TypeRoot.INTEGER: 2**31 - 1}
_NUMBERS = (TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL)


@dataclass(frozen=True)
class PlainRows:
    """The rows of the plain lines; for every other line, its number from 0 and the number of rows before it."""

    batch: pa.RecordBatch
    odd_lines: np.ndarray[Any, Any]
    rows_before: np.ndarray[Any, Any]


class LineIndex:
    """Where the lines of a text end, and which of its bytes are special to JSON.

    State: memory for both, used again for the next text; the bitmap of special bytes, the places of newlines, and whether all
    bytes are ASCII, as the kernel found them.
    """

    def __init__(self) -> None:
        self.specials: np.ndarray[Any, Any] = np.empty(0, dtype=np.uint64)
        self.ends: np.ndarray[Any, Any] = np.empty(0, dtype=np.int32)
        self.is_ascii = True
        self._ends = self.ends
        self._rest = np.empty(64, dtype=np.uint8)

    def fill(self, data: bytes | bytearray) -> None:
        if len(self._ends) <= len(data):
            # Memory that no newline is written to is not taken.
            self._ends = np.empty(len(data) + 1, dtype=np.int32)
            self.specials = np.empty(len(data) // 64 + 2, dtype=np.uint64)
        text = np.frombuffer(data, dtype=np.uint8)
        newlines, is_ascii = index_lines(text, self.specials, self._ends, self._rest)
        self.ends, self.is_ascii = self._ends[:newlines], bool(is_ascii)

    def cut(self, data: bytes | bytearray, is_last: bool) -> Cut:
        """Whole lines, with this as their index."""
        self.fill(data)
        end = int(self.ends[-1]) + 1 if len(self.ends) else 0
        if is_last and end < len(data):
            return Cut(len(data))
        return Cut(end, index=self, newlines=len(self.ends))


class PlainObjects:
    """Decodes plainly written lines with the kernel.

    State: memory for the texts and the index of a block, used again for the next one. Columns get copies of the size they need,
    so that rows kept by an operator hold no more memory than their own.
    """

    def __init__(self, types: dict[str, LogicalType], *, needs_fields: bool) -> None:
        self._types = types
        self._needs_fields = needs_fields
        self._names = {name: np.frombuffer(name.encode(), dtype=np.uint8) for name in types}
        self._texts: dict[str, np.ndarray[Any, Any]] = {}
        self._index = LineIndex()

    def decode(self, block: Block) -> PlainRows | None:
        """None when most lines are odd. ArrowInvalid when a text is no UTF-8, or no value of its column's type."""
        data, index = block.data, block.index
        if index is None:
            data, index = data if data.endswith(b"\n") else data + b"\n", self._index
            index.fill(data)
        lines = len(index.ends)
        if not index.is_ascii:
            _check_text(data)
        columns = [self._column(name, t, lines, len(data)) for name, t in self._types.items()]
        table = np.array([column.row() for column in columns], dtype=np.int64).reshape(-1, COLUMN_WIDTH)
        odd = np.empty((2, lines), dtype=np.int64)
        members = np.zeros((MEMBERS_MAX, MEMBER_WIDTH), dtype=np.int64)
        text = np.frombuffer(data, dtype=np.uint8)
        rows, odds = read_rows(text, index.specials, index.ends, table, self._needs_fields, odd, members)
        if rows == TOO_ODD:
            return None
        return PlainRows(self._batch(columns, table, rows), odd[0, :odds], odd[1, :odds])

    def _column(self, name: str, t: LogicalType, lines: int, data_bytes: int) -> _Column:
        form, limit = _form_of(t)
        if form in (INTEGER, BOOLEAN):
            values, offsets = np.empty(lines, dtype=np.int64), np.empty(0, dtype=np.int32)
        else:
            offsets = np.empty(lines + 1, dtype=np.int32)
            offsets[0] = 0
            kept = self._texts.get(name)
            if kept is None or kept.nbytes < data_bytes + SLACK:
                kept = self._texts[name] = np.empty(data_bytes + SLACK, dtype=np.uint8)
            values = kept
        return _Column(self._names[name], form, limit, values, offsets, np.empty(lines, dtype=np.uint8))

    def _batch(self, columns: list[_Column], table: np.ndarray[Any, Any], rows: int) -> pa.RecordBatch:
        if not columns:
            return empty_columns(rows)
        arrays = [
            self._array(column, t, rows, int(table[number, NULLS]))
            for number, (column, t) in enumerate(zip(columns, self._types.values(), strict=True))
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self._types))

    def _array(self, column: _Column, t: LogicalType, rows: int, nulls: int) -> pa.Array:
        valid = column.valid[:rows] if nulls else None
        target = to_arrow_type(t)
        if column.form == INTEGER:
            return to_array(target, column.values[:rows].astype(target.to_pandas_dtype(), copy=False), valid)
        if column.form == BOOLEAN:
            return to_array(target, column.values[:rows], valid)
        text = column.values[: column.offsets[rows]].copy()
        texts = pa.Array.from_buffers(
            pa.string(), rows, [validity_buffer(valid), pa.py_buffer(column.offsets), pa.py_buffer(text)]
        )
        return parse_values(take_apart(texts, t) if column.form == NESTED else texts, t)


@dataclass(frozen=True)
class _Column:
    """The kernel's output arrays of a column: its values or text, its offsets, and one byte per row, 1 when it is not NULL."""

    name: np.ndarray[Any, Any]
    form: int
    limit: int
    values: np.ndarray[Any, Any]
    offsets: np.ndarray[Any, Any]
    valid: np.ndarray[Any, Any]

    def row(self) -> list[int]:
        """The column's entry in the kernel's table of columns."""
        name, *addresses = (address_of(p) for p in (self.name, self.values, self.offsets, self.valid))
        return [name, len(self.name), self.form, self.limit, *addresses, 0, 0]


def _form_of(t: LogicalType) -> tuple[int, int]:
    """The kernel's form for a type, and its limit."""
    if is_integer(t):
        return INTEGER, _LIMITS.get(t.root, 2**63 - 1)
    if t.root is TypeRoot.BOOLEAN:
        return BOOLEAN, 0
    if t.root in NESTED_ROOTS:
        return NESTED, 0
    if t.root in _NUMBERS:
        return NUMBER, 40
    return TEXT, 0


def _check_text(data: bytes) -> None:
    offsets = pa.py_buffer(np.array([0, len(data)], dtype=np.int32))
    pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)]).cast(pa.string())
