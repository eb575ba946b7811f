"""Rows of text from columns: constant pieces, and between them the values of a batch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.formats.text_values import FRACTION_DIGITS
from sqlstream.runtime.kernels.buffers import address_of, view_bitmap, view_buffer
from sqlstream.runtime.kernels.text import text_rows as kernels
from sqlstream.types import LogicalType, TypeRoot, is_integer

PLAIN, ENCLOSED, CSV, JSON = kernels.PLAIN, kernels.ENCLOSED, kernels.CSV, kernels.JSON
_BLOCK_BYTES = 256 * 1024
_PAD = 8
_EXACT_SCALE_MAX = 6
"""Decimals with more digits behind the point may have an exponent in their text."""
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31: other years have texts of other lengths."""
_DAY_S = 86_400


@dataclass(frozen=True)
class RowForm:
    """What stands around the values, and what stands for NULL.

    With `leaves_out_nulls` a NULL is left out with its prefix; then all prefixes begin with a comma, the first of which in a row
    is not written. `marks` are the delimiter, quote and escape of CSV, of which the last two may be equal. `date_separator`
    stands between the date and the time of a timestamp.
    """

    opening: bytes
    prefixes: tuple[bytes, ...]
    end: bytes
    null: bytes
    leaves_out_nulls: bool = False
    quotes_empty: bool = False
    marks: bytes = b"\0\0\0"
    date_separator: str = " "


@dataclass(frozen=True)
class RowColumn:
    """A column as the kernel reads it. `values` is what keeps the memory of the addresses alive."""

    values: pa.Array
    entries: dict[int, int] = field(default_factory=dict)


def text_column(texts: pa.Array, quoting: int) -> RowColumn:
    """Texts, written as `quoting` says."""
    return RowColumn(texts, {kernels.KIND: kernels.TEXT, kernels.QUOTING: quoting})


def direct_column(column: pa.Array, t: LogicalType, quoting: int) -> RowColumn | None:
    """Values that the kernel writes, PLAIN or ENCLOSED, as `format_text` does; None for a column of which it cannot write all."""
    entries = _direct_entries(column, t)
    if entries is None:
        return None
    if entries[kernels.KIND] == kernels.DATE:
        column = column.view(pa.int32())
    if entries[kernels.KIND] in (kernels.INTEGER, kernels.DATE):
        column = column.cast(pa.int64())
    return RowColumn(column, entries | {kernels.QUOTING: quoting})


def _direct_entries(column: pa.Array, t: LogicalType) -> dict[int, int] | None:
    match t.root:
        case _ if is_integer(t):
            return {kernels.KIND: kernels.INTEGER}
        case TypeRoot.DECIMAL if 0 <= column.type.scale <= _EXACT_SCALE_MAX and _has_short_decimals(column):
            scale = column.type.scale
            return {kernels.KIND: kernels.DECIMAL, kernels.SCALE: 10**scale, kernels.FRACTION_DIGITS: scale}
        case TypeRoot.DATE if _is_within(column, _FIRST_DAY, _LAST_DAY):
            return {kernels.KIND: kernels.DATE}
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            per_second = 10 ** FRACTION_DIGITS[column.type.unit]
            day = _DAY_S * per_second
            if not _is_within(column, _FIRST_DAY * day, (_LAST_DAY + 1) * day - 1):
                return None
            return {
                kernels.KIND: kernels.TIMESTAMP,
                kernels.SCALE: per_second,
                kernels.FRACTION_DIGITS: t.precision,
                kernels.SUFFIX: ord("Z") if t.root is TypeRoot.TIMESTAMP_LTZ else 0,
            }
    return None


def _has_short_decimals(column: pa.Array) -> bool:
    if not pa.types.is_decimal128(column.type):
        return False
    words = view_buffer(column.buffers()[1], np.int64, 2 * column.offset, 2 * len(column))
    return column.type.precision <= 18 or bool((words[1::2] == words[::2] >> 63).all())


def _is_within(column: pa.Array, low: int, high: int) -> bool:
    bounds = pc.min_max(column)
    least, most = bounds["min"], bounds["max"]
    return not least.is_valid or (low <= least.value and most.value <= high)


class RowWriter:
    """Writes rows of one form. No state but constants: the buffer belongs to the thread."""

    def __init__(self, form: RowForm) -> None:
        self._form = form
        pieces = [form.opening, form.end, form.null, *form.prefixes]
        starts = np.cumsum([0, *(len(p) + _PAD for p in pieces)])
        self._constants = np.frombuffer(b"".join(p + bytes(_PAD) for p in pieces), np.uint8)
        addresses = [int(start) + address_of(self._constants) for start in starts]
        self._prefixes = [(a, len(p)) for a, p in zip(addresses[3:], form.prefixes, strict=False)]
        self._marks = np.frombuffer(form.marks, np.uint8).copy()
        fixed = sum(map(len, pieces)) + len(form.prefixes) * (kernels.NUMBER_BYTES_MAX + len(form.null))
        layout = np.zeros(kernels.LAYOUT_ENTRIES, np.int64)
        layout[kernels.OPENING], layout[kernels.OPENING_BYTES] = addresses[0], len(form.opening)
        layout[kernels.END], layout[kernels.END_BYTES] = addresses[1], len(form.end)
        layout[kernels.NULL], layout[kernels.NULL_BYTES] = addresses[2], len(form.null)
        layout[kernels.FIXED_BYTES] = fixed
        layout[kernels.LEAVES_OUT_NULLS] = form.leaves_out_nulls
        layout[kernels.QUOTES_EMPTY] = form.quotes_empty
        layout[kernels.SEPARATOR] = ord(form.date_separator)
        self._layout = layout

    def write(self, stream: BinaryIO, columns: Sequence[RowColumn], rows: int) -> None:
        """Write the rows of columns that have equal lengths."""
        table = np.zeros((len(columns), kernels.COLUMN_ENTRIES), np.int64)
        kept: list[object] = []
        for entries, column, (prefix, length) in zip(table, columns, self._prefixes, strict=True):
            for entry, value in column.entries.items():
                entries[entry] = value
            entries[kernels.PREFIX], entries[kernels.PREFIX_BYTES] = prefix, length
            _place(column.values, entries)
            bitmap, bit = view_bitmap(column.values)
            if len(bitmap):
                kept.append(bitmap)
                entries[kernels.BITMAP], entries[kernels.BIT] = address_of(bitmap), bit
        seconds = np.zeros((len(columns), 2), np.int64)
        texts = np.zeros((len(columns), 32), np.uint8)
        start = 0
        while start < rows:
            out = _scratch.block
            end, size = kernels.write_rows(table, self._layout, self._marks, start, rows, seconds, texts, out)
            if end == start:
                out = np.empty(self._bytes_max(columns, start), np.uint8)
                end, size = kernels.write_rows(
                    table, self._layout, self._marks, start, start + 1, seconds, texts, out
                )
            stream.write(out[:size].data)
            start = end

    def _bytes_max(self, columns: Sequence[RowColumn], row: int) -> int:
        """A bound on what one row takes."""
        texts = (c.values[row].as_buffer() for c in columns if c.entries[kernels.KIND] == kernels.TEXT)
        size = sum(text.size for text in texts if text is not None)
        return int(self._layout[kernels.FIXED_BYTES]) + kernels.GROWTH * size + kernels.SLACK


def _place(values: pa.Array, entries: np.ndarray) -> None:
    """Note where the values of a column lie."""
    kind = entries[kernels.KIND]
    buffers = values.buffers()
    if kind != kernels.TEXT:
        width = 16 if kind == kernels.DECIMAL else 8
        data = buffers[1]
        entries[kernels.VALUES] = 0 if data is None else data.address + values.offset * width
        return
    _, offsets, data = buffers
    if data is not None:
        entries[kernels.VALUES] = data.address
        entries[kernels.LIMIT] = data.address + data.size
    entries[kernels.OFFSETS] = offsets.address + 4 * values.offset


class _Scratch(threading.local):
    """What a thread writes rows to before they go to a file. The same memory again and again: to touch new memory costs more
    than to write the rows."""

    def __init__(self) -> None:
        self.block = np.empty(_BLOCK_BYTES, np.uint8)


_scratch = _Scratch()
