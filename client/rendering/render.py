"""Rows as people and programs read them: a table, JSON lines, CSV, or an Arrow stream."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, Protocol

import pyarrow as pa

from sqlstream.arrow import is_changelog, to_arrow_schema, without_row_kinds
from sqlstream.client.rendering.sql_text import sql_texts
from sqlstream.client.rendering.tables import (
    OP,
    Changelog,
    Look,
    Table,
    Vertical,
    op_column,
    text_columns,
)
from sqlstream.errors import UserError
from sqlstream.schema import Field, Schema
from sqlstream.types import STRING, TypeRoot

_FOR_PEOPLE = ("table", "vertical")


class Renderer(Protocol):
    """Writes batches as they arrive; `finish` ends the output."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def finish(self) -> None: ...


def make_renderer(
    name: str, look: Look, *, with_op: bool, wraps: bool = False, out: IO[str] | None = None
) -> Renderer:
    """The renderer for --format `name`. `with_op` adds a first column `op` with +I, -U, +U or -D. In a table, `wraps` breaks
    cells that do not fit into lines instead of cutting them.
    UserError SS4006 when a result for programs has a column `op` of its own."""
    schema, stream = look.schema, out or sys.stdout
    if with_op and name not in _FOR_PEOPLE and OP in schema.names:
        # A program that looks up `op` would find either of the two columns.
        raise UserError(
            "SS4006",
            f'format "{name}" cannot carry column "{OP}" in a changelog, where "{OP}" is the kind of a change',
            hint="name the column otherwise with AS, or print the final table or --format table",
        )
    match name:
        case "json":
            return JsonLines(schema, with_op, stream)
        case "csv":
            return Csv(schema, with_op, look.time_zone, stream)
        case "arrow":
            return ArrowStream(schema, with_op, getattr(stream, "buffer", stream))
    if name == "vertical":
        return Vertical(look, with_op, stream)
    return Changelog(look, stream) if with_op else Table(look, stream, wraps)


_INTERVALS = (TypeRoot.INTERVAL_DAY_TIME, TypeRoot.INTERVAL_YEAR_MONTH)


class JsonLines:
    """One object per row, as format `json` writes it, intervals as text; `op` first if `with_op`."""

    def __init__(self, schema: Schema, with_op: bool, out: IO[str]) -> None:
        from sqlstream.runtime.formats.json_writer import JsonWriter

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
        from sqlstream.runtime.formats.csv_dialect import CsvDialect
        from sqlstream.runtime.formats.csv_writer import CsvWriter

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
        columns = text_columns(batch, self._schema, self._with_op, self._time_zone)
        self._writer.write(pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))]))
        self._flush()

    def finish(self) -> None:
        self._flush()

    def _flush(self) -> None:
        self._out.write(_taken(self._buffer))
        self._out.flush()


def _taken(buffer: io.BytesIO) -> str:
    """Remove and return the text written so far."""
    text = buffer.getvalue().decode()
    buffer.seek(0)
    buffer.truncate()
    return text


class ArrowStream:
    """An Arrow IPC stream, with a first column `op` if `with_op`."""

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
    """The table that a finished changelog describes; insert-only batches pass unchanged."""
    folded = None
    for batch in batches:
        if folded is None and not is_changelog(batch):
            yield batch
            continue
        if folded is None:
            from sqlstream.runtime.state.tables.row_multiset import RowMultiset

            folded = RowMultiset(to_arrow_schema(schema))
        folded.sweep(folded.apply(batch)[0])
    if folded is not None:
        yield folded.rows()
