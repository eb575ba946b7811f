"""Batches as delimited text, a column at a time."""

from __future__ import annotations

import re
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.csv_dialect import CsvDialect
from runtime.formats.text_values import format_text, joined_bytes
from runtime.kernels.buffers import view_buffer, view_offsets
from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType


class CsvWriter:
    """Write each batch as one piece of text; values are quoted where they need it. No state but the stream.

    NULL is `csv.null-literal`, or an empty field, never in quotes. An equal text is quoted, so that a reader which
    distinguishes quotes can tell the two apart (PostgreSQL's and DuckDB's COPY write the same).
    """

    def __init__(self, stream: BinaryIO, schema: Schema, dialect: CsvDialect) -> None:
        self._stream = stream
        self._schema = schema
        self._dialect = dialect
        special = "".join(re.escape(c) for c in (dialect.delimiter, dialect.quote, dialect.escape) if c)
        # A character that values of other types than text are written with, base64 among them.
        self._is_delimiter_plain = dialect.delimiter.isalnum() or dialect.delimiter in "+-.:/= "
        self._special = rf"[{special}\r\n]|^\s|\s$|^#"
        self._special_bytes = f"{dialect.delimiter}{dialect.quote or ''}{dialect.escape or ''}#".encode()
        self._null_text = dialect.null_literal or ""
        if dialect.has_header:
            names = pa.record_batch([pa.array([name]) for name in schema.names], names=list(schema.names))
            texts = [
                self._quoted(column, name) for name, column in zip(schema.names, names.columns, strict=True)
            ]
            self._write_rows(texts)

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._write_rows(
                [
                    self._text(c, f.name, f.type)
                    for c, f in zip(batch.columns, self._schema.fields, strict=True)
                ]
            )

    def close(self) -> None:
        """Nothing is buffered."""

    def _text(self, column: pa.Array, name: str, t: LogicalType) -> pa.Array:
        texts = format_text(column, t)
        if t.root in STRING_ROOTS + BINARY_ROOTS or self._is_delimiter_plain:
            texts = self._quoted(texts, name)
        return pc.fill_null(texts, self._null_text)

    def _quoted(self, texts: pa.Array, name: str) -> pa.Array:
        dialect = self._dialect
        if not self._may_need_quotes(texts):
            return texts
        needs = pc.match_substring_regex(texts, self._special)
        if dialect.quote:
            needs = pc.or_(needs, pc.equal(texts, self._null_text))
            if len(self._schema) == 1:
                needs = pc.or_(needs, pc.equal(texts, ""))  # An empty line could be taken for none.
        if not pc.any(needs).as_py():
            return texts
        if not dialect.quote:
            return self._escaped(texts, name)
        inner = pc.replace_substring(texts, dialect.escape, dialect.escape * 2) if dialect.escape else texts
        inner = pc.replace_substring(inner, dialect.quote, dialect.quote * 2)
        edge = pa.scalar(dialect.quote)
        return pc.if_else(needs, pc.binary_join_element_wise(edge, inner, edge, ""), texts)

    def _may_need_quotes(self, texts: pa.Array) -> bool:
        """False when no text has a character that is special anywhere, and none stands for NULL.

        Looking for single bytes takes a tenth of the time of the regular expression.
        """
        offsets, _ = view_offsets(texts)
        if len(self._schema) == 1 or len(self._null_text) > 0 or (np.diff(offsets) == 0).any():
            return True
        data = view_buffer(texts.buffers()[2], np.uint8, int(offsets[0]), int(offsets[-1] - offsets[0]))
        # Spaces are all at most this byte, or begin with a byte beyond ASCII.
        if data.min(initial=0xFF) <= ord(" ") or data.max(initial=0) >= 0x7F:
            return True
        return any((data == byte).any() for byte in self._special_bytes)

    def _escaped(self, texts: pa.Array, name: str) -> pa.Array:
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

    def _write_rows(self, texts: list[pa.Array]) -> None:
        # Ended before they are joined, so that the rows are copied once.
        ended = pc.binary_join_element_wise(texts[-1], "\n", "")
        rows = pc.binary_join_element_wise(*texts[:-1], ended, pa.scalar(self._dialect.delimiter))
        self._stream.write(joined_bytes(rows))
