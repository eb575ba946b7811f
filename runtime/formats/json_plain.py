"""Plainly written JSON objects as columns, by a kernel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.evaluate.decimals import INT64_DIGITS
from sqlstream.runtime.formats.blocks import Block, Cut
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.runtime.formats.json_objects import parse_values, take_apart
from sqlstream.runtime.formats.text_values import FRACTION_DIGITS
from sqlstream.runtime.kernels.buffers import address_of, reused, to_array, validity_buffer
from sqlstream.runtime.kernels.json.json_index import index_lines
from sqlstream.runtime.kernels.json.json_rows import (
    BOOLEAN,
    COLUMN_WIDTH,
    DECIMAL,
    DEPTH_MAX,
    DOUBLE,
    INTEGER,
    LIST,
    MEMBER_WIDTH,
    MEMBERS_MAX,
    NESTED,
    NULLS,
    NUMBER,
    RECORD,
    SLACK,
    TEXT,
    TIMESTAMP,
    TOO_ODD,
    read_rows,
)
from sqlstream.types import NESTED_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot, is_integer

_LIMITS = {TypeRoot.TINYINT: 2**7 - 1, TypeRoot.SMALLINT: 2**15 - 1, TypeRoot.INTEGER: 2**31 - 1}
_NUMBERS = (TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL)
_IN_PLACE = (DOUBLE, DECIMAL, TIMESTAMP)
"""Forms whose values are read where they stand; as texts they may be written in any way."""
_ODD_SHARE = 8
"""When more than one of so many lines is odd, and so many more, timestamps are taken as texts, and then numbers too."""


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
    """Decodes plainly written lines with the kernel, ROWs and ARRAYs column by column.

    State: memory for the texts, the elements of arrays and the index of a block, used again for the next one. Columns get copies
    of the size they need, so that rows kept by an operator hold no more memory than their own. Which of the forms
    `_IN_PLACE` are still used: values that are written in unusual ways are taken as texts.
    """

    def __init__(self, types: dict[str, LogicalType], *, needs_fields: bool) -> None:
        self._types, self._needs_fields = types, needs_fields
        self._index = LineIndex()
        self._declare_all(_IN_PLACE)

    def _declare_all(self, in_place: Sequence[int]) -> None:
        self._in_place = in_place
        self._columns: list[_Column] = []
        self._tops = {name: self._declare(name, t, False, 0) for name, t in self._types.items()}
        self._layouts = 1 + sum(column.form == RECORD for column in self._columns)

    def _declare(self, name: str, t: LogicalType, is_element: bool, depth: int) -> _Column:
        form, limit = _form_of(t, self._in_place)
        if form in (RECORD, LIST) and depth == DEPTH_MAX:
            form = NESTED
        if form == LIST and not name:
            # The kernel knows no lists of lists.
            form = NESTED
        column = _Column(np.frombuffer(name.encode(), dtype=np.uint8), t, form, limit, is_element)
        self._columns.append(column)
        if form == RECORD:
            column.parts = [self._declare(f.name, f.type, is_element, depth + 1) for f in t.fields]
        elif form == LIST:
            assert t.element is not None
            column.parts = [self._declare("", t.element, True, depth + 1)]
        return column

    def decode(self, block: Block) -> PlainRows | None:
        """None when most lines are odd. ArrowInvalid when a text is no UTF-8, or no value of its column's type."""
        data, index = block.data, block.index
        if index is None:
            data, index = bytes(data), self._index
            data = data if data.endswith(b"\n") else data + b"\n"
            index.fill(data)
        lines = len(index.ends)
        if not index.is_ascii:
            _check_text(data)
        members = np.zeros((self._layouts * MEMBERS_MAX, MEMBER_WIDTH), dtype=np.int64)
        layouts = itertools.count(
            address_of(members) + 8 * MEMBER_WIDTH * MEMBERS_MAX, 8 * MEMBER_WIDTH * MEMBERS_MAX
        )
        table = np.array(
            [column.prepared(lines, len(data), layouts) for column in self._columns], dtype=np.int64
        ).reshape(-1, COLUMN_WIDTH)
        odd = np.empty((2, lines), dtype=np.int64)
        text = np.frombuffer(data, dtype=np.uint8)
        rows, odds = read_rows(text, index.specials, index.ends, table, self._needs_fields, odd, members)
        in_place = {column.form for column in self._columns}.intersection(_IN_PLACE)
        if in_place and odds > _ODD_SHARE + lines // _ODD_SHARE:
            self._declare_all((DOUBLE, DECIMAL) if TIMESTAMP in in_place else ())
            return self.decode(block)
        if rows == TOO_ODD:
            return None
        for column, nulls in zip(self._columns, table[:, NULLS], strict=True):
            column.has_nulls = bool(nulls)
        if self._tops:
            arrays = [column.array(rows) for column in self._tops.values()]
            batch = pa.RecordBatch.from_arrays(arrays, names=list(self._tops))
        else:
            batch = empty_columns(rows)
        return PlainRows(batch, odd[0, :odds], odd[1, :odds])


class _Column:
    """The kernel's output arrays of a column: its values or text, its offsets, and one byte per row, 1 when it is not NULL.

    State: these. The text, and all of a column of elements, of which there may be more than lines, is copied and used again.
    """

    def __init__(
        self, name: np.ndarray[Any, Any], t: LogicalType, form: int, limit: int, is_element: bool
    ) -> None:
        self.form = form
        self.parts: list[_Column] = []
        self.has_nulls = False
        self._name, self._type, self._limit, self._is_element = name, t, limit, is_element
        self._values = self._valid = np.empty(0, dtype=np.uint8)
        self._offsets = np.empty(0, dtype=np.int32)

    @property
    def _size(self) -> int:
        """How many columns it is, with those within it."""
        return 1 + sum(part._size for part in self.parts)

    def prepared(self, lines: int, data_bytes: int, layouts: Iterator[int]) -> list[int]:
        """Make room for a block; returns the column's entry in the kernel's table of columns."""
        # An element and what separates it from the next are two bytes at least.
        rows = data_bytes // 2 + 1 if self._is_element else lines
        if not self._is_element or len(self._valid) < rows:
            self._valid = np.empty(rows, dtype=np.uint8)
            if self.form in (INTEGER, BOOLEAN, *_IN_PLACE):
                self._values = np.empty(2 * rows if self.form == DECIMAL else rows, dtype=np.int64)
            elif self.form != RECORD:
                self._offsets = np.empty(rows + 1, dtype=np.int32)
                self._offsets[0] = 0
        if self.form in (TEXT, NUMBER, NESTED):
            self._values = reused(self._values, data_bytes + SLACK)
        addresses = [address_of(p) for p in (self._values, self._offsets, self._valid)]
        layout = next(layouts) if self.form == RECORD else 0
        size = 8 * COLUMN_WIDTH * self._size
        name = [address_of(self._name), len(self._name)]
        return [*name, self.form, self._limit, *addresses, 0, 0, size, len(self.parts), layout]

    def array(self, rows: int) -> pa.Array:
        """What the kernel has written."""
        target = to_arrow_type(self._type)
        valid = self._valid[:rows] if self.has_nulls else None
        if self.form == RECORD:
            parts = [part.array(rows) for part in self.parts]
            return pa.Array.from_buffers(target, rows, [validity_buffer(valid)], children=parts)
        if self.form == BOOLEAN:
            return to_array(target, self._values[:rows], valid)
        if self.form == INTEGER:
            dtype, is_shared = target.to_pandas_dtype(), self._is_element
            return to_array(target, self._values[:rows].astype(dtype, copy=is_shared), valid)
        if self.form in _IN_PLACE:
            values = self._values[: 2 * rows if self.form == DECIMAL else rows]
            values = values.copy() if self._is_element else values
            return pa.Array.from_buffers(target, rows, [validity_buffer(valid), pa.py_buffer(values)])
        offsets = self._offsets[: rows + 1]
        offsets = offsets.copy() if self._is_element else offsets
        buffers = [validity_buffer(valid), pa.py_buffer(offsets)]
        if self.form == LIST:
            elements = self.parts[0].array(int(offsets[rows]))
            return pa.Array.from_buffers(target, rows, buffers, children=[elements])
        text = self._values[: offsets[rows]].copy()
        texts = pa.Array.from_buffers(pa.string(), rows, [*buffers, pa.py_buffer(text)])
        return parse_values(take_apart(texts, self._type) if self.form == NESTED else texts, self._type)


def _form_of(t: LogicalType, in_place: Sequence[int]) -> tuple[int, int]:
    """The kernel's form for a type, and its limit. Of the forms `_IN_PLACE`, one of these."""
    if is_integer(t):
        return INTEGER, _LIMITS.get(t.root, 2**63 - 1)
    if t.root is TypeRoot.BOOLEAN:
        return BOOLEAN, 0
    if t.root is TypeRoot.ROW:
        return RECORD, 0
    if t.root is TypeRoot.ARRAY:
        return LIST, 0
    if t.root in NESTED_ROOTS:
        return NESTED, 0
    if TIMESTAMP in in_place and t.root in TIMESTAMP_ROOTS:
        target = to_arrow_type(t)
        return TIMESTAMP, (target.tz is not None) << 8 | FRACTION_DIGITS[target.unit]
    if DOUBLE in in_place and t.root is TypeRoot.DOUBLE:
        return DOUBLE, 0
    if DECIMAL in in_place and t.root is TypeRoot.DECIMAL and t.precision <= INT64_DIGITS:
        return DECIMAL, t.scale << 8 | t.precision
    if t.root in _NUMBERS:
        return NUMBER, 40
    return TEXT, 0


def _check_text(data: bytes) -> None:
    offsets = pa.py_buffer(np.array([0, len(data)], dtype=np.int32))
    pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)]).cast(pa.string())
