"""Rows as people and programs read them: a table, JSON lines, CSV, or an Arrow stream."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot

FORMATS = ("table", "json", "csv", "arrow")
NULL_TEXT = "<NULL>"
_SYMBOLS = pa.array([kind.symbol for kind in RowKind])


class Renderer(Protocol):
    """Takes batches as they come; `finish` ends the output."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def finish(self) -> None: ...


def make_renderer(
    name: str, schema: Schema, *, with_op: bool, max_width: int, out: IO[str] | None = None
) -> Renderer:
    """`with_op` puts a column `op` with +I, -U, +U or -D first; `max_width` cuts the cells of a table."""
    stream = out or sys.stdout
    match name:
        case "json":
            return JsonLines(schema, with_op, stream)
        case "csv":
            return Csv(schema, with_op, stream)
        case "arrow":
            return ArrowStream(schema, with_op, getattr(stream, "buffer", stream))
        case _:
            return Changelog(schema, max_width, stream) if with_op else Table(schema, max_width, stream)


def op_column(batch: pa.RecordBatch) -> pa.Array:
    """The row kinds as +I, -U, +U, -D."""
    return _SYMBOLS.take(pa.array(row_kinds(batch).astype(np.int32)))


def sql_texts(column: pa.Array, type_: LogicalType) -> pa.Array:
    """Each value as SQL prints it; NULL stays NULL."""
    match type_.root:
        case TypeRoot.BOOLEAN:
            return pc.if_else(column, "TRUE", "FALSE")
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            digits = type_.precision
            plain = column.cast(pa.timestamp(column.type.unit)) if column.type.tz else column
            texts = pc.strftime(plain.cast(pa.timestamp("ns")), "%Y-%m-%d %H:%M:%S")
            return pc.utf8_slice_codeunits(texts, 0, 19 + (digits + 1 if digits else 0))
        case (
            TypeRoot.ARRAY
            | TypeRoot.MAP
            | TypeRoot.ROW
            | TypeRoot.MULTISET
            | TypeRoot.BINARY
            | TypeRoot.VARBINARY
        ):
            is_map = type_.root in (TypeRoot.MAP, TypeRoot.MULTISET)
            texts = [
                None if v is None else "{}" if is_map and not v else _nested_text(v)
                for v in column.to_pylist()
            ]
            return pa.array(texts, pa.string())
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            texts = column.cast(pa.string())
            # A whole number shows that it is approximate, as in SQL's own CAST to STRING.
            is_whole = pc.match_substring_regex(texts, r"^-?\d+$")
            return pc.if_else(is_whole, pc.binary_join_element_wise(texts, "0", "."), texts)
        case TypeRoot.INTERVAL_DAY_TIME:
            return pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())
        case _:
            return column.cast(pa.string())


def _nested_text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "x'" + value.hex() + "'"
    if isinstance(value, dict):
        return "(" + ", ".join(_nested_text(v) for v in value.values()) + ")"
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):
            return "{" + ", ".join(f"{_nested_text(k)}={_nested_text(v)}" for k, v in value) + "}"
        return "[" + ", ".join(_nested_text(v) for v in value) + "]"
    return str(value)


def _texts(batch: pa.RecordBatch, schema: Schema, with_op: bool) -> list[pa.Array]:
    data = without_row_kinds(batch)
    columns = [sql_texts(c, f.type) for c, f in zip(data.columns, schema.fields, strict=True)]
    return [op_column(batch), *columns] if with_op else columns


_RIGHT_ALIGNED = (
    TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
)  # fmt: skip


class Table:
    """A framed table of all rows, as wide as its contents, written at the end."""

    def __init__(self, schema: Schema, max_width: int, out: IO[str]) -> None:
        self._schema = schema
        self._max_width = max_width
        self._out = out
        self._rows: list[list[str]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [c.fill_null(NULL_TEXT).to_pylist() for c in _texts(batch, self._schema, False)]
        self._rows.extend([cut(text, self._max_width) for text in row] for row in zip(*columns, strict=True))

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
        lines.append(f"{count:,} row{'' if count == 1 else 's'} in set" if count else "Empty set")
        self._out.write("\n".join(lines) + "\n")
        self._out.flush()


class Changelog:
    """Rows as they come, `op` first, columns as wide as their type needs (Flink's tableau)."""

    def __init__(self, schema: Schema, max_width: int, out: IO[str]) -> None:
        self._schema = schema
        self._out = out
        self._max_width = max_width
        self._widths = [2] + [max(_type_width(f.type, max_width), len(f.name)) for f in schema.fields]
        self._right = [False] + [f.type.root in _RIGHT_ALIGNED for f in schema.fields]
        self._count = 0
        self._frame = "+" + "+".join("-" * (w + 2) for w in self._widths) + "+"
        header = table_line(["op", *schema.names], self._widths, self._right)
        self._write(f"{self._frame}\n{header}\n{self._frame}\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [c.fill_null(NULL_TEXT).to_pylist() for c in _texts(batch, self._schema, True)]
        rows = list(zip(*columns, strict=True))
        self._count += len(rows)
        lines = [
            table_line([cut(t, w) for t, w in zip(row, self._widths, strict=True)], self._widths, self._right)
            for row in rows
        ]
        self._write("".join(f"{line}\n" for line in lines))

    def finish(self) -> None:
        tail = f"{self._frame}\n" if self._count else ""
        self._write(f"{tail}Received a total of {self._count:,} row{'' if self._count == 1 else 's'}\n")


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


def display_width(text: str) -> int:
    """Columns that a terminal needs: East Asian wide characters take two."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def cut(text: str, width: int) -> str:
    """The text on one line, cut to `width` columns with an ellipsis."""
    text = text.replace("\n", "\\n").replace("\r", "\\r")
    if display_width(text) <= width:
        return text
    kept = ""
    for character in text:
        if display_width(kept + character) > width - 1:
            break
        kept += character
    return kept + "…"


def table_line(cells: Iterable[str], widths: list[int], right: list[bool]) -> str:
    padded = []
    for cell, width, is_right in zip(cells, widths, right, strict=True):
        space = " " * max(0, width - display_width(cell))
        padded.append(space + cell if is_right else cell + space)
    return "| " + " | ".join(padded) + " |"


class JsonLines:
    """One object a row; `op` first when asked for. Times are SQL text, decimals numbers."""

    def __init__(self, schema: Schema, with_op: bool, out: IO[str]) -> None:
        import msgspec

        self._schema = schema
        self._with_op = with_op
        self._out = out
        self._encoder = msgspec.json.Encoder(decimal_format="number")

    def write(self, batch: pa.RecordBatch) -> None:
        names = list(self._schema.names)
        data = without_row_kinds(batch)
        columns = [_json_values(c, f.type) for c, f in zip(data.columns, self._schema.fields, strict=True)]
        if self._with_op:
            names.insert(0, "op")
            columns.insert(0, op_column(batch).to_pylist())
        encode = self._encoder.encode
        lines = [encode(dict(zip(names, row, strict=True))).decode() for row in zip(*columns, strict=True)]
        self._out.write("".join(f"{line}\n" for line in lines))
        self._out.flush()

    def finish(self) -> None:
        self._out.flush()


def _json_values(column: pa.Array, type_: LogicalType) -> list[Any]:
    match type_.root:
        case (
            TypeRoot.TIMESTAMP
            | TypeRoot.TIMESTAMP_LTZ
            | TypeRoot.TIME
            | TypeRoot.DATE
            | TypeRoot.INTERVAL_DAY_TIME
        ):
            return list(sql_texts(column, type_).to_pylist())
        case TypeRoot.MAP | TypeRoot.MULTISET:
            return [None if v is None else {str(k): item for k, item in v} for v in column.to_pylist()]
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            import base64

            return [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
        case _:
            return list(column.to_pylist())


class Csv:
    """A header line and comma-separated values; NULL is an empty field."""

    def __init__(self, schema: Schema, with_op: bool, out: IO[str]) -> None:
        import csv

        self._schema = schema
        self._with_op = with_op
        self._out = out
        self._writer = csv.writer(out, lineterminator="\n")
        self._writer.writerow(["op", *schema.names] if with_op else schema.names)

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [c.to_pylist() for c in _texts(batch, self._schema, self._with_op)]
        self._writer.writerows(zip(*columns, strict=True))
        self._out.flush()

    def finish(self) -> None:
        self._out.flush()


class ArrowStream:
    """An Arrow IPC stream, with a first column `op` when asked for."""

    def __init__(self, schema: Schema, with_op: bool, out: Any) -> None:
        arrow = to_arrow_schema(schema)
        self._with_op = with_op
        self._schema = pa.schema([pa.field("op", pa.string()), *arrow]) if with_op else arrow
        self._writer = pa.ipc.new_stream(out, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        columns = without_row_kinds(batch).columns
        if self._with_op:
            columns = [op_column(batch), *columns]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def finish(self) -> None:
        self._writer.close()


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
