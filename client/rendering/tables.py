"""Rows for people to read: a framed table, a framed changelog, or a block of lines per row."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import IO

import pyarrow as pa

from sqlstream.arrow import kind_texts, without_row_kinds
from sqlstream.client.rendering.sql_text import NULL_IN_CAST, sql_texts
from sqlstream.client.rendering.table_layout import (
    CELL_COLUMNS_MIN,
    NUMBER_ROOTS,
    can_be_cut,
    cut,
    fitted_widths,
    frame_columns,
    frame_line,
    table_line,
    wrapped,
)
from sqlstream.schema import Schema
from sqlstream.terminal_text import NULL_TEXT, display_width, shown
from sqlstream.types import LogicalType, TypeRoot

OP = "op"
"""The name of the column with the kind of a changelog's row."""

UNKNOWN_COLUMNS = 30
"""Width of a changelog's column whose values may have any length."""

AS_BLOCKS = "--format vertical"
"""What a command shows rows as blocks with."""

_ROWS_AT_ONCE = 16_384


def op_column(batch: pa.RecordBatch) -> pa.Array:
    """The row kinds as +I, -U, +U, -D."""
    return kind_texts(batch, lambda kind: kind.symbol)


def text_columns(
    batch: pa.RecordBatch, schema: Schema, with_op: bool, time_zone: str, nested_null: str = NULL_IN_CAST
) -> list[pa.Array]:
    """Each column as text, NULL as NULL, and as `nested_null` within a value; the row kinds first if `with_op`."""
    columns = [
        sql_texts(column, field.type, time_zone, nested_null)
        for column, field in zip(without_row_kinds(batch).columns, schema.fields, strict=True)
    ]
    return [op_column(batch), *columns] if with_op else columns


@dataclasses.dataclass(frozen=True)
class Look:
    """How people see the rows of a result. `max_width` cuts texts and nested values (None: no limit), `columns` is the width of
    the terminal (None: no terminal), `as_blocks` what a note says to type for rows that are too wide. `time_zone` applies to
    the texts of TIMESTAMP_LTZ values, `null_text` stands for NULL."""

    schema: Schema
    time_zone: str = "UTC"
    null_text: str = NULL_TEXT
    max_width: int | None = None
    columns: int | None = None
    as_blocks: str = AS_BLOCKS

    @property
    def names(self) -> list[str]:
        return [shown(name) for name in self.schema.names]

    @property
    def right(self) -> list[bool]:
        """Whether a column's values stand at its right edge."""
        return [t.root in NUMBER_ROOTS for t in self.schema.types]

    @property
    def cut_note(self) -> str:
        return f", some values cut ({self.as_blocks} shows them whole)"

    def texts(self, batch: pa.RecordBatch, with_op: bool) -> list[list[str]]:
        """One list of texts per column."""
        columns = text_columns(batch, self.schema, with_op, self.time_zone, self.null_text)
        return [column.fill_null(self.null_text).to_pylist() for column in columns]


def _counted(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


class Table:
    """A framed table of all rows, written at the end, with a note when values were cut.

    Columns with long values are narrowed until the table fits the terminal; with `wraps`, a cell continues in the next line
    instead of being cut. State: the batches. Their texts are computed twice, piece by piece, so that a large result is never a
    whole of Python objects.
    """

    def __init__(self, look: Look, out: IO[str], wraps: bool = False) -> None:
        self._look = look
        self._out = out
        self._wraps = wraps
        self._batches: list[pa.RecordBatch] = []
        self._is_cut = False

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    @property
    def is_wide(self) -> bool:
        """Whether the table of the rows so far is wider than the terminal, though its columns are as narrow as they get."""
        return self._exceeds(self._layout()[0])

    def _layout(self) -> tuple[list[int], list[int]]:
        """The width of each column, and of the texts in it."""
        types, max_width = self._look.schema.types, self._look.max_width
        longest = self._longest()
        wanted = [max(display_width(n), w) for n, w in zip(self._look.names, longest, strict=True)]
        if max_width is not None:
            limit = max(max_width, CELL_COLUMNS_MIN)
            wanted = [min(w, limit) if can_be_cut(t) else w for w, t in zip(wanted, types, strict=True)]
        least = [
            min(w, CELL_COLUMNS_MIN if can_be_cut(t) else max(CELL_COLUMNS_MIN, long))
            for w, t, long in zip(wanted, types, longest, strict=True)
        ]
        widths = fitted_widths(wanted, least, self._look.columns)
        limits = [
            min(w, max_width) if max_width is not None and can_be_cut(t) else w
            for w, t in zip(widths, types, strict=True)
        ]
        return widths, limits

    def finish(self) -> None:
        widths, limits = self._layout()
        right = self._look.right
        frame = frame_line(widths)
        self._out.write(_head(self._look.names, widths, right))
        for batch in self._pieces():
            self._out.write("".join(f"{line}\n" for line in self._lines(batch, widths, limits, right)))
        count = sum(batch.num_rows for batch in self._batches)
        tail = f"{frame}\n{_counted(count)} in set" if count else "Empty set"
        self._out.write(f"{tail}{self._remark(widths)}\n")
        self._out.flush()

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                yield batch.slice(start, _ROWS_AT_ONCE)

    def _longest(self) -> list[int]:
        """The width of the widest value of each column."""
        longest = [0] * len(self._look.schema.fields)
        for batch in self._pieces():
            columns = self._look.texts(batch, with_op=False)
            for i, column in enumerate(columns):
                longest[i] = max(longest[i], max(display_width(shown(text)) for text in column))
        return longest

    def _lines(
        self, batch: pa.RecordBatch, widths: list[int], limits: list[int], right: list[bool]
    ) -> Iterator[str]:
        columns = self._look.texts(batch, with_op=False)
        if self._wraps:
            for row in zip(*columns, strict=True):
                parts = [wrapped(text, limit) for text, limit in zip(row, limits, strict=True)]
                for i in range(max(map(len, parts))):
                    yield table_line([p[i] if i < len(p) else "" for p in parts], widths, right)
            return
        cells = [[cut(t, limit) for t in column] for column, limit in zip(columns, limits, strict=True)]
        self._is_cut = self._is_cut or _has_cut(columns, cells)
        for row in zip(*cells, strict=True):
            yield table_line(row, widths, right)

    def _remark(self, widths: list[int]) -> str:
        if self._is_cut:
            return self._look.cut_note
        return f", wider than the terminal (try {self._look.as_blocks})" if self._exceeds(widths) else ""

    def _exceeds(self, widths: list[int]) -> bool:
        columns = self._look.columns
        return columns is not None and sum(widths) + frame_columns(len(widths)) > columns


def _head(names: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    """The names of the columns in their frame."""
    frame = frame_line(widths)
    titles = [cut(n, w) for n, w in zip(names, widths, strict=True)]
    return f"{frame}\n{table_line(titles, widths, right)}\n{frame}\n"


def _has_cut(columns: Sequence[Sequence[str]], cells: Sequence[Sequence[str]]) -> bool:
    """Whether a cell shows less than its text; every cut one ends with an ellipsis."""
    return any(
        cell.endswith("…") and cell != shown(text)
        for column, shown_column in zip(columns, cells, strict=True)
        for text, cell in zip(column, shown_column, strict=True)
    )


class Changelog:
    """Rows as they arrive, `op` first, columns as wide as their type needs (Flink's tableau).

    On a terminal of `columns` the columns with long values share the remaining width, and longer values are cut. Elsewhere a
    value is cut to `max_width` if given; a longer value moves the frame of its line.
    """

    def __init__(self, look: Look, out: IO[str]) -> None:
        self._look = look
        self._out = out
        names = [OP, *look.names]
        types, max_width, columns = look.schema.types, look.max_width, look.columns
        usual = max(max_width or UNKNOWN_COLUMNS, CELL_COLUMNS_MIN)
        wanted = [2, *(_type_width(t, usual) for t in types)]
        least = [
            2,
            *(CELL_COLUMNS_MIN if can_be_cut(t) else w for t, w in zip(types, wanted[1:], strict=True)),
        ]
        wanted = [max(w, display_width(n)) for w, n in zip(wanted, names, strict=True)]
        self._widths = fitted_widths(wanted, least, columns)
        is_limited = columns is not None or max_width is not None
        self._limits = [
            (min(w, max_width or w) if is_limited else sys.maxsize) if can_be_cut(t) else sys.maxsize
            for w, t in zip(self._widths[1:], types, strict=True)
        ]
        self._right = [False, *look.right]
        self._count = 0
        self._is_cut = False
        self._frame = frame_line(self._widths)
        self._write(_head(names, self._widths, self._right))

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        kinds, *columns = self._look.texts(batch, with_op=True)
        cells = [[cut(t, limit) for t in column] for column, limit in zip(columns, self._limits, strict=True)]
        self._is_cut = self._is_cut or _has_cut(columns, cells)
        self._count += batch.num_rows
        lines = [table_line(row, self._widths, self._right) for row in zip(kinds, *cells, strict=True)]
        self._write("".join(f"{line}\n" for line in lines))

    def finish(self) -> None:
        tail = f"{self._frame}\n" if self._count else ""
        self._write(
            f"{tail}Received a total of {_counted(self._count)}{self._look.cut_note if self._is_cut else ''}\n"
        )


def _type_width(type_: LogicalType, unknown: int) -> int:
    """The width that any value of the type fits into; `unknown` where the type sets no limit."""
    widths = {
        TypeRoot.BOOLEAN: 7, TypeRoot.TINYINT: 4, TypeRoot.SMALLINT: 6, TypeRoot.INTEGER: 11, TypeRoot.BIGINT: 20,
        TypeRoot.FLOAT: 15, TypeRoot.DOUBLE: 24, TypeRoot.DATE: 10, TypeRoot.TIME: 12,
    }  # fmt: skip
    if type_.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return 19 + (type_.precision + 1 if type_.precision else 0)
    if type_.root is TypeRoot.DECIMAL:
        return type_.precision + 2
    return widths.get(type_.root, unknown)


class Vertical:
    """One block of lines per row, one line per column, nothing cut; written as rows arrive."""

    def __init__(self, look: Look, with_op: bool, out: IO[str]) -> None:
        self._look = look
        self._with_op = with_op
        self._out = out
        names = look.names
        if with_op:
            names.insert(0, OP)
        width = max(map(display_width, names))
        self._titles = [f"{name}{' ' * (width - display_width(name))} | " for name in names]
        self._count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            piece = batch.slice(start, _ROWS_AT_ONCE)
            rows = zip(*self._look.texts(piece, self._with_op), strict=True)
            self._out.write("".join(map(self._block, rows)))
        self._out.flush()

    def _block(self, row: tuple[str, ...]) -> str:
        self._count += 1
        lines = [f"{title}{shown(text)}\n" for title, text in zip(self._titles, row, strict=True)]
        return f"-[ row {self._count:,} ]-\n{''.join(lines)}"

    def finish(self) -> None:
        self._out.write(f"{_counted(self._count)} in set\n" if self._count else "Empty set\n")
        self._out.flush()
