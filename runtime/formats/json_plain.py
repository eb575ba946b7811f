"""Plainly written JSON objects as columns, by a kernel."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.formats.blocks import Block
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.runtime.formats.json_objects import Structure, has_shape_of, holds, shows_digits, take_apart
from sqlstream.runtime.formats.json_strict import keep_last_members
from sqlstream.runtime.formats.json_values import parse_values, text_type_of
from sqlstream.types import NESTED_ROOTS, LogicalType, TypeRoot, is_integer

_KERNEL = "sqlstream.runtime.kernels.json_rows"

_BYTES_BEFORE_LOADING = 96 << 20
"""Bytes of JSON from which on the kernel saves time: loading numba and a first kernel takes 0.25 s."""

_BYTES_BEFORE_LOADING_ONE_MORE = 4 << 20
"""The same when numba is loaded already: loading this kernel takes 12 ms."""

_LIMITS = {TypeRoot.TINYINT: 2**7 - 1, TypeRoot.SMALLINT: 2**15 - 1, TypeRoot.INTEGER: 2**31 - 1}
_NUMBERS = (TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL)


class KernelDemand:
    """Bytes of JSON that this process has decoded without the kernel. A race between tasks may lose counts, which is harmless."""

    def __init__(self) -> None:
        self._bytes = 0

    def add(self, data_bytes: int) -> None:
        self._bytes += data_bytes

    def is_met(self) -> bool:
        """Whether to use the kernel: it is loaded already, or there is enough to decode to load it."""
        if _KERNEL in sys.modules:
            return True
        has_numba = "numba" in sys.modules
        return self._bytes >= (_BYTES_BEFORE_LOADING_ONE_MORE if has_numba else _BYTES_BEFORE_LOADING)


KERNEL_DEMAND = KernelDemand()


def is_nested(t: LogicalType) -> bool:
    """Whether the kernel only finds where values of a type end, and DuckDB decodes them."""
    return t.root in NESTED_ROOTS


@dataclass(frozen=True)
class PlainRows:
    """The rows of the plain lines; for every other line, its number from 0 and the number of rows before it."""

    batch: pa.RecordBatch
    odd_lines: np.ndarray[Any, Any]
    rows_before: np.ndarray[Any, Any]


class PlainObjects:
    """Decodes plainly written lines with the kernel.

    State: memory for the texts of a block, used again for the next one. Columns get copies of the size they need, so that
    rows kept by an operator hold no more memory than their own.
    """

    def __init__(self, types: dict[str, LogicalType], *, needs_fields: bool) -> None:
        self._types = types
        self._needs_fields = needs_fields
        self._keeps_numbers = any(shows_digits(t) for t in types.values())
        self._names = {name: np.frombuffer(name.encode(), dtype=np.uint8) for name in types}
        self._texts: dict[str, np.ndarray[Any, Any]] = {}

    def decode(self, block: Block) -> PlainRows | None:
        """None when most lines are odd. ArrowInvalid when a text is no UTF-8, or no value of its column's type."""
        from sqlstream.runtime.kernels.json_rows import (
            COLUMN_WIDTH,
            MEMBER_WIDTH,
            MEMBERS_MAX,
            TOO_ODD,
            read_rows,
        )

        data, lines = block.data, block.newlines
        if not data.endswith(b"\n"):
            data, lines = data + b"\n", lines + 1
        if not data.isascii():
            _check_text(data)
        columns = [self._column(name, t, lines, len(data)) for name, t in self._types.items()]
        table = np.array([column.row() for column in columns], dtype=np.int64).reshape(-1, COLUMN_WIDTH)
        odd = np.empty((2, lines), dtype=np.int64)
        members = np.zeros((MEMBERS_MAX, MEMBER_WIDTH), dtype=np.int64)
        rows, odds = read_rows(np.frombuffer(data, dtype=np.uint8), table, self._needs_fields, odd, members)
        if rows == TOO_ODD:
            return None
        return PlainRows(self._batch(columns, table, rows), odd[0, :odds], odd[1, :odds])

    def _column(self, name: str, t: LogicalType, lines: int, data_bytes: int) -> _Column:
        from sqlstream.runtime.kernels.json_rows import BOOLEAN, INTEGER, SLACK

        form, limit = _form_of(t)
        if form in (INTEGER, BOOLEAN):
            values, offsets = np.empty(lines, dtype=np.int64), np.empty(0, dtype=np.int32)
        else:
            offsets = np.empty(lines + 1, dtype=np.int32)
            offsets[0] = 0
            values = self._texts.get(name, offsets)
            if values.nbytes < data_bytes + SLACK:
                values = self._texts[name] = np.empty(data_bytes + SLACK, dtype=np.uint8)
        return _Column(self._names[name], form, limit, values, offsets, np.empty(lines, dtype=np.uint8))

    def _batch(self, columns: list[_Column], table: np.ndarray[Any, Any], rows: int) -> pa.RecordBatch:
        from sqlstream.runtime.kernels.json_rows import NULLS

        if not columns:
            return empty_columns(rows)
        arrays = [
            self._array(column, t, rows, int(table[number, NULLS]))
            for number, (column, t) in enumerate(zip(columns, self._types.values(), strict=True))
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self._types))

    def _array(self, column: _Column, t: LogicalType, rows: int, nulls: int) -> pa.Array:
        from sqlstream.runtime.kernels.buffers import to_array, validity_buffer
        from sqlstream.runtime.kernels.json_rows import BOOLEAN, INTEGER, NESTED

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
        return self._take_apart(texts, t) if column.form == NESTED else parse_values(texts, t)

    def _take_apart(self, texts: pa.Array, t: LogicalType) -> pa.Array:
        """Each text becomes the one field of an object, since `take_apart` splits only objects."""
        if not len(texts):
            return parse_values(pa.array([], text_type_of({"v": t})).field(0), t)
        objects = pc.binary_join_element_wise('{"v":', pc.fill_null(texts, "null"), "}", "")
        objects, _ = keep_last_members(objects)
        if not holds(objects, has_shape_of({"v": t})).all():
            raise pa.ArrowInvalid(f"a value is no {t}")
        structure = Structure({"v": t}, keeps_numbers=self._keeps_numbers)
        return parse_values(take_apart(objects, structure).flatten()[0], t)


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
        name, *addresses = (p.ctypes.data for p in (self.name, self.values, self.offsets, self.valid))
        return [name, len(self.name), self.form, self.limit, *addresses, 0, 0]


def _form_of(t: LogicalType) -> tuple[int, int]:
    """The kernel's form for a type, and its limit."""
    from sqlstream.runtime.kernels.json_rows import BOOLEAN, INTEGER, NESTED, NUMBER, TEXT

    if is_integer(t):
        return INTEGER, _LIMITS.get(t.root, 2**63 - 1)
    if t.root is TypeRoot.BOOLEAN:
        return BOOLEAN, 0
    if is_nested(t):
        return NESTED, 0
    if t.root in _NUMBERS:
        # With more digits than a double surely keeps, FLOAT would be rounded once where DuckDB makes it twice.
        return NUMBER, 15 if t.root is TypeRoot.FLOAT else 40
    return TEXT, 0


def _check_text(data: bytes) -> None:
    offsets = pa.py_buffer(np.array([0, len(data)], dtype=np.int32))
    pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)]).cast(pa.string())
