"""Rows as people and programs read them: a table, JSON lines, CSV, or an Arrow stream."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa

from client.sql_text import sql_texts
from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.errors import UserError
from sqlstream.schema import Field, Schema
from sqlstream.terminal_text import character_width, display_width, shown
from sqlstream.types import STRING, LogicalType, TypeRoot

FORMATS = ("table", "json", "csv", "arrow")
NULL_TEXT = "<NULL>"
OP = "op"
"""The name of the column that says what a row of a changelog does."""

_CUT = ", some values cut ('table.display.max-column-width')"
_SYMBOLS = pa.array([kind.symbol for kind in RowKind])


class Renderer(Protocol):
    """Takes batches as they come; `finish` ends the output."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def finish(self) -> None: ...


def make_renderer(
    name: str,
    schema: Schema,
    *,
    with_op: bool,
    max_width: int,
    time_zone: str = "UTC",
    out: IO[str] | None = None,
) -> Renderer:
    """`with_op` puts a column `op` with +I, -U, +U or -D first; `max_width` cuts the cells of a table; `time_zone` is
    that of TIMESTAMP_LTZ values in tables and CSV. UserError SS4006 for a result that has a column `op` too, unless people
    read it."""
    stream = out or sys.stdout
    if with_op and name != "table" and OP in schema.names:
        # A program that looks for `op` would find one of the two, and never know which.
        raise UserError(
            "SS4006",
            f'format "{name}" cannot carry column "{OP}" in a changelog, where "{OP}" is the kind of a change',
            hint="name the column otherwise with AS, or print the final table or --format table",
        )
    match name:
        case "json":
            return JsonLines(schema, with_op, stream)
        case "csv":
            return Csv(schema, with_op, time_zone, stream)
        case "arrow":
            return ArrowStream(schema, with_op, getattr(stream, "buffer", stream))
        case _:
            kind = Changelog if with_op else Table
            return kind(schema, max_width, time_zone, stream)


def op_column(batch: pa.RecordBatch) -> pa.Array:
    """The row kinds as +I, -U, +U, -D."""
    return _SYMBOLS.take(pa.array(row_kinds(batch).astype(np.int32)))


def _texts(batch: pa.RecordBatch, schema: Schema, with_op: bool, time_zone: str) -> list[pa.Array]:
    data = without_row_kinds(batch)
    columns = [sql_texts(c, f.type, time_zone) for c, f in zip(data.columns, schema.fields, strict=True)]
    return [op_column(batch), *columns] if with_op else columns


_RIGHT_ALIGNED = (
    TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
)  # fmt: skip


class Table:
    """A framed table of all rows, as wide as its contents, written at the end, which tells when values were cut."""

    def __init__(self, schema: Schema, max_width: int, time_zone: str, out: IO[str]) -> None:
        self._schema = schema
        self._max_width = max_width
        self._time_zone = time_zone
        self._out = out
        self._rows: list[list[str]] = []
        self._is_cut = False

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [
            c.fill_null(NULL_TEXT).to_pylist() for c in _texts(batch, self._schema, False, self._time_zone)
        ]
        cells = [[cut(text, self._max_width) for text in column] for column in columns]
        self._is_cut = self._is_cut or _has_cut(columns, cells)
        self._rows.extend(list(row) for row in zip(*cells, strict=True))

    def finish(self) -> None:
        names = [cut(name, max(self._max_width, 8)) for name in self._schema.names]
        widths = [display_width(name) for name in names]
        for row in self._rows:
            widths = [max(w, display_width(text)) for w, text in zip(widths, row, strict=True)]
        frame = "+" + "+".join("-" * (w + 2) for w in widths) + "+"
        right = [f.type.root in _RIGHT_ALIGNED for f in self._schema.fields]
        lines = [frame, table_line(names, widths, right), frame]
        lines += [table_line(row, widths, right) for row in self._rows]
        if self._rows:
            lines.append(frame)
        count = len(self._rows)
        end = f"{count:,} row{'' if count == 1 else 's'} in set" if count else "Empty set"
        lines.append(end + (_CUT if self._is_cut else ""))
        self._out.write("\n".join(lines) + "\n")
        self._out.flush()


def _has_cut(columns: Sequence[Sequence[str]], cells: Sequence[Sequence[str]]) -> bool:
    """Whether a cell shows less than its text; every cut one ends with an ellipsis."""
    return any(
        cell.endswith("…") and cell != shown(text)
        for column, shown_column in zip(columns, cells, strict=True)
        for text, cell in zip(column, shown_column, strict=True)
    )


class Changelog:
    """Rows as they come, `op` first, columns as wide as their type needs (Flink's tableau)."""

    def __init__(self, schema: Schema, max_width: int, time_zone: str, out: IO[str]) -> None:
        self._schema = schema
        self._out = out
        self._max_width = max_width
        self._time_zone = time_zone
        names = [shown(name) for name in schema.names]
        self._widths = [2] + [
            max(_type_width(t, max_width), display_width(n)) for n, t in zip(names, schema.types, strict=True)
        ]
        self._right = [False] + [f.type.root in _RIGHT_ALIGNED for f in schema.fields]
        self._count = 0
        self._is_cut = False
        self._frame = "+" + "+".join("-" * (w + 2) for w in self._widths) + "+"
        header = table_line([OP, *names], self._widths, self._right)
        self._write(f"{self._frame}\n{header}\n{self._frame}\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [
            c.fill_null(NULL_TEXT).to_pylist() for c in _texts(batch, self._schema, True, self._time_zone)
        ]
        cells = [
            [cut(text, width) for text in column] for column, width in zip(columns, self._widths, strict=True)
        ]
        self._is_cut = self._is_cut or _has_cut(columns, cells)
        self._count += batch.num_rows
        lines = [table_line(row, self._widths, self._right) for row in zip(*cells, strict=True)]
        self._write("".join(f"{line}\n" for line in lines))

    def finish(self) -> None:
        tail = f"{self._frame}\n" if self._count else ""
        end = f"Received a total of {self._count:,} row{'' if self._count == 1 else 's'}"
        self._write(f"{tail}{end}{_CUT if self._is_cut else ''}\n")


def _type_width(type_: LogicalType, max_width: int) -> int:
    """Room that any value of the type needs, as far as the type tells."""
    widths = {
        TypeRoot.BOOLEAN: 7, TypeRoot.TINYINT: 4, TypeRoot.SMALLINT: 6, TypeRoot.INTEGER: 11, TypeRoot.BIGINT: 20,
        TypeRoot.FLOAT: 15, TypeRoot.DOUBLE: 24, TypeRoot.DATE: 10, TypeRoot.TIME: 12,
    }  # fmt: skip
    if type_.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return 19 + (type_.precision + 1 if type_.precision else 0)
    if type_.root is TypeRoot.DECIMAL:
        return type_.precision + 2
    return min(widths.get(type_.root, max_width), max(max_width, 8))


def cut(text: str, width: int) -> str:
    """The text as `shown`, cut to `width` columns with an ellipsis."""
    text = shown(text)
    if display_width(text) <= width:
        return text
    kept = columns = 0
    for character in text:
        columns += character_width(character)
        if columns > width - 1:
            break
        kept += 1
    return text[:kept] + "…"


def table_line(cells: Iterable[str], widths: list[int], right: list[bool]) -> str:
    padded = []
    for cell, width, is_right in zip(cells, widths, right, strict=True):
        space = " " * max(0, width - display_width(cell))
        padded.append(space + cell if is_right else cell + space)
    return "| " + " | ".join(padded) + " |"


_INTERVALS = (TypeRoot.INTERVAL_DAY_TIME, TypeRoot.INTERVAL_YEAR_MONTH)


class JsonLines:
    """One object a row, as format `json` writes it, intervals as text; `op` first when asked for."""

    def __init__(self, schema: Schema, with_op: bool, out: IO[str]) -> None:
        from runtime.formats.json_writer import JsonWriter

        self._with_op = with_op
        self._out = out
        self._buffer = io.BytesIO()
        self._schema = schema
        written = tuple(Field(f.name, STRING) if f.type.root in _INTERVALS else f for f in schema.fields)
        fields = (Field(OP, STRING), *written) if with_op else written
        self._writer = JsonWriter(self._buffer, Schema(fields), {})

    def write(self, batch: pa.RecordBatch) -> None:
        data = without_row_kinds(batch)
        columns = [
            sql_texts(c, f.type, "UTC") if f.type.root in _INTERVALS else c
            for c, f in zip(data.columns, self._schema.fields, strict=True)
        ]
        names = list(data.schema.names)
        if self._with_op:
            columns, names = [op_column(batch), *columns], [OP, *names]
        self._writer.write(pa.RecordBatch.from_arrays(columns, names=names))
        self._out.write(_taken(self._buffer))
        self._out.flush()

    def finish(self) -> None:
        self._out.flush()


class Csv:
    """A header line and comma-separated values; NULL is an empty field, an empty text is `""`."""

    def __init__(self, schema: Schema, with_op: bool, time_zone: str, out: IO[str]) -> None:
        from runtime.formats.csv_dialect import CsvDialect
        from runtime.formats.csv_writer import CsvWriter

        self._schema = schema
        self._with_op = with_op
        self._out = out
        self._time_zone = time_zone
        self._buffer = io.BytesIO()
        names = [OP, *schema.names] if with_op else schema.names
        texts = Schema(tuple(Field(name, STRING) for name in names))
        self._writer = CsvWriter(self._buffer, texts, CsvDialect.parse({"header": "true"}))
        self._flush()

    def write(self, batch: pa.RecordBatch) -> None:
        columns = _texts(batch, self._schema, self._with_op, self._time_zone)
        self._writer.write(pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))]))
        self._flush()

    def finish(self) -> None:
        self._flush()

    def _flush(self) -> None:
        self._out.write(_taken(self._buffer))
        self._out.flush()


def _taken(buffer: io.BytesIO) -> str:
    """The text written so far, which is gone from the buffer then."""
    text = buffer.getvalue().decode()
    buffer.seek(0)
    buffer.truncate()
    return text


class ArrowStream:
    """An Arrow IPC stream, with a first column `op` when asked for."""

    def __init__(self, schema: Schema, with_op: bool, out: Any) -> None:
        arrow = to_arrow_schema(schema)
        self._out = out
        self._with_op = with_op
        self._schema = pa.schema([pa.field(OP, pa.string()), *arrow]) if with_op else arrow
        self._writer = pa.ipc.new_stream(out, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        columns = without_row_kinds(batch).columns
        if self._with_op:
            columns = [op_column(batch), *columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._out.flush()

    def finish(self) -> None:
        self._writer.close()
        self._out.flush()


def final_rows(schema: Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The table that a finished changelog describes; insert-only batches pass as they come."""
    folded = None
    for batch in batches:
        if folded is None and not is_changelog(batch):
            yield batch
            continue
        if folded is None:
            from runtime.operators.row_multiset import RowMultiset

            folded = RowMultiset(to_arrow_schema(schema))
        folded.sweep(folded.apply(batch)[0])
    if folded is not None:
        yield folded.rows()
