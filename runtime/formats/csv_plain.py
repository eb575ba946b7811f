"""Plainly written CSV as columns, by a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.formats.blocks import Block
from sqlstream.runtime.formats.csv import parse_fields
from sqlstream.runtime.formats.csv_dialect import CsvDialect
from sqlstream.runtime.formats.file_rows import empty_columns
from sqlstream.runtime.kernels.buffers import address_of, reused, to_array, validity_buffer
from sqlstream.runtime.kernels.text.csv_fields import (
    COLUMN_WIDTH,
    FORM,
    INTEGER,
    NULLS,
    ODD,
    SKIPPED,
    SLACK,
    TEXT,
    read_fields,
)
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType, is_integer

Array = np.ndarray[Any, Any]


class PlainFields:
    """Decodes blocks whose records are all plain.

    State: memory for the texts of a block, used again for the next one, and the columns that are read as text because values of
    them were not plain. What is returned is copied, so that rows kept by an operator hold no more memory than their own.
    """

    def __init__(self, types: dict[str, LogicalType], names: list[str], dialect: CsvDialect) -> None:
        """`names` are those of all fields of a record."""
        self._types = types
        self._places = [names.index(name) for name in types]
        self._codes = ord(dialect.delimiter), ord(dialect.quote) if dialect.quote else -1
        null = dialect.null_literal
        self._null = np.frombuffer((null or "").encode(), dtype=np.uint8), null is not None
        self._table = np.zeros((len(names), COLUMN_WIDTH), dtype=np.int64)
        self._table[:, FORM] = SKIPPED
        for place, t in zip(self._places, types.values(), strict=True):
            is_empty_null = dialect.empty_is_null or t.root not in STRING_ROOTS + BINARY_ROOTS
            self._table[place] = *_form_of(t), 0, 0, 0, 0, is_empty_null
        self._texts: dict[int, Array] = {}

    def decode(self, block: Block) -> pa.RecordBatch | None:
        """None when a record is not plain. ArrowInvalid when a text is no UTF-8, or no value of its column's type."""
        data = block.data
        # Most files have no such character, and to look for it is far cheaper than to count it.
        returns = data.count(b"\r") if b"\r" in data else 0
        rows_max = block.newlines + returns + 1
        if data and not data.endswith(b"\n"):
            data += b"\n"
        while True:
            columns = [self._column(place, rows_max, len(data)) for place in self._places]
            rows, odd = read_fields(
                np.frombuffer(data, dtype=np.uint8), *self._codes, *self._null, self._table
            )
            if rows != ODD:
                break
            if odd == ODD:
                return None
            self._table[odd, FORM] = TEXT
        if not columns:
            return empty_columns(rows)
        is_ascii = data.isascii()
        arrays = [
            self._array(place, t, column, rows, is_ascii)
            for place, t, column in zip(self._places, self._types.values(), columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self._types))

    def _column(self, place: int, rows_max: int, data_bytes: int) -> tuple[Array, Array, Array]:
        """Memory for values or text, offsets and validity of a column, which is told to the kernel."""
        offsets = np.empty(0, dtype=np.int32)
        if self._table[place, FORM] == TEXT:
            offsets = np.empty(rows_max + 1, dtype=np.int32)
            offsets[0] = 0
            kept = self._texts.get(place, np.empty(0, dtype=np.uint8))
            values = self._texts[place] = reused(kept, data_bytes + SLACK)
        else:
            values = np.empty(rows_max, dtype=np.int64)
        valid = np.empty(rows_max, dtype=np.uint8)
        self._table[place, 2:6] = address_of(values), address_of(offsets), address_of(valid), 0
        return values, offsets, valid

    def _array(
        self, place: int, t: LogicalType, column: tuple[Array, Array, Array], rows: int, is_ascii: bool
    ) -> pa.Array:
        values, offsets, valid = column
        mask = valid[:rows] if self._table[place, NULLS] else None
        if self._table[place, FORM] != TEXT:
            target = to_arrow_type(t)
            width = np.dtype(f"int{target.bit_width}")
            return to_array(target, values[:rows].astype(width, copy=False), mask)
        text = values[: offsets[rows]]
        if t.root in STRING_ROOTS:
            text = text.copy()
        texts = pa.Array.from_buffers(
            pa.string() if is_ascii else pa.binary(),
            rows,
            [validity_buffer(mask), pa.py_buffer(offsets), pa.py_buffer(text)],
        )
        return parse_fields(texts, t)


def _form_of(t: LogicalType) -> tuple[int, int]:
    """The kernel's form for a type, and its limit."""
    if is_integer(t):
        return INTEGER, 2 ** (to_arrow_type(t).bit_width - 1) - 1
    return TEXT, 0
