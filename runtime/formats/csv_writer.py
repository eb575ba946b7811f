"""Batches as delimited text."""

from __future__ import annotations

import re
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.runtime.formats.csv_dialect import CsvDialect
from sqlstream.runtime.formats.row_writer import (
    CSV,
    PLAIN,
    RowColumn,
    RowForm,
    RowWriter,
    direct_column,
    text_column,
)
from sqlstream.runtime.formats.text_values import format_text
from sqlstream.schema import Schema
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType


class CsvWriter:
    """Write each batch as text; values are quoted where they need it. No state but the stream.

    NULL is `csv.null-literal`, or an empty field, never in quotes. An equal text is quoted, so that a reader which
    distinguishes quotes can tell the two apart (PostgreSQL's and DuckDB's COPY write the same).
    """

    def __init__(
        self,
        stream: BinaryIO,
        schema: Schema,
        dialect: CsvDialect,
        *,
        end: bytes = b"\n",
        has_header: bool | None = None,
    ) -> None:
        """`end` is what ends a row; `has_header` is the dialect's unless it is given."""
        self._stream = stream
        self._schema = schema
        self._dialect = dialect
        # A character that values of other types than text are written with, base64 among them.
        self._is_delimiter_plain = dialect.delimiter.isalnum() or dialect.delimiter in "+-.:/= "
        null = (dialect.null_literal or "").encode()
        delimiter = dialect.delimiter.encode()
        self._rows = RowWriter(
            RowForm(
                opening=b"",
                prefixes=(b"", *[delimiter] * (len(schema) - 1)),
                end=end,
                null=null,
                # An empty line could be taken for none.
                quotes_empty=not null or len(schema) == 1,
                marks=f"{dialect.delimiter}{dialect.quote}{dialect.escape or dialect.quote}".encode().ljust(
                    3
                ),
            )
        )
        if dialect.has_header if has_header is None else has_header:
            columns = [self._texts(pa.array([name], pa.string()), name) for name in schema.names]
            self._rows.write(stream, columns, 1)

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            columns = [
                self._column(c, f.name, f.type)
                for c, f in zip(batch.columns, self._schema.fields, strict=True)
            ]
            self._rows.write(self._stream, columns, batch.num_rows)

    def close(self) -> None:
        """Nothing is buffered."""

    def _column(self, column: pa.Array, name: str, t: LogicalType) -> RowColumn:
        if t.root in STRING_ROOTS + BINARY_ROOTS or self._is_delimiter_plain:
            return self._texts(format_text(column, t), name)
        return direct_column(column, t, PLAIN) or text_column(format_text(column, t), PLAIN)

    def _texts(self, texts: pa.Array, name: str) -> RowColumn:
        return (
            text_column(texts, CSV) if self._dialect.quote else text_column(self._escaped(texts, name), PLAIN)
        )

    def _escaped(self, texts: pa.Array, name: str) -> pa.Array:
        """The texts as a dialect without quotes has them. UserError SS5014 for one that it cannot have."""
        dialect = self._dialect
        if not dialect.escape or pc.any(pc.match_substring_regex(texts, r"[\r\n]")).as_py():
            bad = pc.match_substring_regex(texts, rf"[{re.escape(dialect.delimiter)}\r\n]")
            if not pc.any(bad).as_py():
                return texts
            raise UserError(
                "SS5014",
                f'a value of column "{name}" holds the delimiter or a line end, and quotes are disabled',
                hint="remove 'csv.disable-quote-character', or choose another 'csv.field-delimiter'",
            )
        inner = pc.replace_substring(texts, dialect.escape, dialect.escape * 2)
        return pc.replace_substring(inner, dialect.delimiter, dialect.escape + dialect.delimiter)
