"""Format `csv`: rows of delimited text, decoded a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from sqlstream.errors import UserError
from sqlstream.runtime.formats.blocks import BLOCK_BYTES, ROW_BYTES_MAX, Block, Cut, count_lines, read_blocks
from sqlstream.runtime.formats.csv_dialect import CsvDialect, CsvOptions
from sqlstream.runtime.formats.file_rows import FileRows, absent_column, empty_columns, quoted, undecodable
from sqlstream.runtime.formats.flat_types import refuse_types
from sqlstream.schema import Schema
from sqlstream.spi.format import (
    FileReader,
    FileWriter,
    FormatDescriptor,
    MessageReader,
    MessageRequest,
    MessageWriter,
    ReadRequest,
    Rejected,
)
from sqlstream.spi.table_options import descriptors_of
from sqlstream.times import what_it_is_not
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.runtime.formats.csv_plain import PlainFields


class Csv:
    """Columns are in the table's order or, with a header, in the header's."""

    descriptor = FormatDescriptor("csv", descriptors_of(CsvOptions), ".csv", is_text=True, has_messages=True)

    def reader(self, request: ReadRequest) -> FileReader:
        return CsvReader(request)

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        from sqlstream.runtime.formats.csv_writer import CsvWriter

        return CsvWriter(stream, schema, CsvDialect.parse(options))

    def message_reader(self, request: MessageRequest) -> MessageReader:
        from sqlstream.runtime.formats.messages import CsvMessages

        return CsvMessages(request)

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        from sqlstream.runtime.formats.messages import CsvMessageWriter

        return CsvMessageWriter(schema, CsvDialect.parse(options))

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        CsvDialect.parse(options)
        refuse_types("csv", schema, allows_nested=False)


@dataclass(frozen=True)
class _Records:
    """A block, cut into records by the kernel `tidy`; those with the right number of fields are also in `text`."""

    text: pa.Buffer
    starts: np.ndarray[Any, Any]
    ends: np.ndarray[Any, Any]
    lines: np.ndarray[Any, Any]
    counts: np.ndarray[Any, Any]
    faults: np.ndarray[Any, Any]


class CsvReader(FileRows):
    """Decodes the requested columns block by block.

    A kernel reads the fields of a block whose records are all plain. Any other block is cut into records and converted column
    by column, which finds the bad records and their lines.
    """

    def __init__(self, request: ReadRequest) -> None:
        super().__init__(request)
        dialect = CsvDialect.parse(request.options)
        self._schema = request.schema
        self._dialect = dialect
        self._block_bytes = request.block_bytes or BLOCK_BYTES
        self._names: list[str] = list(request.schema.names)
        has_odd_null = bool(dialect.quote) and dialect.quote in (dialect.null_literal or "")
        self._is_tidy = not (dialect.allows_comments or dialect.trims_spaces or has_odd_null)
        self._plain: PlainFields | None = None

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        is_first = True
        for block in read_blocks(self._stream, self._path, self._cut_rows, self._block_bytes):
            if is_first and self._dialect.has_header:
                block = self._read_header(block)
            is_first = False
            yield self.decode(block)

    def _cut_rows(self, data: bytes | bytearray, is_last: bool) -> Cut:
        """Whole rows, marked plain when nothing is wrong with their quotes."""
        quote = self._dialect.quote.encode()
        has_escapes = self._has_escapes(data)
        if (not quote or quote not in data) and not has_escapes:
            # Where lines end with carriage returns alone, the last one may be half of a line end.
            end = data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, -1) + 1
            return Cut(len(data) if is_last else end)
        from sqlstream.runtime.kernels.text import csv_records as kernel
        from sqlstream.runtime.kernels.text.csv_fields import plain_end

        text = np.frombuffer(data, dtype=np.uint8)
        if self._is_tidy and not has_escapes:
            end = plain_end(text, ord(self._dialect.delimiter), ord(self._dialect.quote), is_last)
            if 0 <= end >= len(data) - ROW_BYTES_MAX:
                return Cut(end)
        flags = kernel.TRIM * self._dialect.trims_spaces | kernel.COMMENTS * self._dialect.allows_comments
        end, is_plain = kernel.complete_length(text, *self._codes(), flags, ROW_BYTES_MAX, is_last)
        return Cut(int(end), bool(is_plain))

    def _has_escapes(self, data: bytes | bytearray) -> bool:
        escape = self._dialect.escape.encode()
        return bool(escape) and escape in data

    def _codes(self) -> tuple[int, int, int]:
        """Delimiter, quote and escape as bytes, -1 for none."""
        dialect = self._dialect
        quote, escape = (ord(c) if c else -1 for c in (dialect.quote, dialect.escape))
        return ord(dialect.delimiter), quote, escape

    def _read_header(self, block: Block) -> Block:
        end, line = 0, block.first_line
        header = b""
        # Comments and empty lines may stand before the header.
        while end < len(block.data) and (
            not header or (header[:1] == b"#" and self._dialect.allows_comments)
        ):
            start, end = end, self._dialect.header_end(block.data, end)
            header = block.data[start:end].strip(b"\r\n")
            line += block.data.count(b"\n", start, end)
        names = self._split_header(header, line)
        for wanted in self._schema.names:
            if wanted not in names:
                raise absent_column(f'the header of "{self._path}"', wanted, names)
            if names.count(wanted) > 1:
                raise UserError(
                    "SS5012",
                    f'the header of "{self._path}" has several columns "{wanted}"',
                    hint="give each column of the file a name of its own",
                )
        self._names = names
        rows = block.data[end:]
        return Block(rows, line, count_lines(rows), block.is_plain)

    def _split_header(self, header: bytes, line: int) -> list[str]:
        import csv

        try:
            return self._dialect.split_header(header.decode("utf-8", "replace"))
        except csv.Error as error:
            text = header.decode("utf-8", "replace")
            raise undecodable(self._path, Rejected(line - 1, f"as a header, {error}", text)) from error

    def decode(self, block: Block) -> tuple[pa.RecordBatch, list[Rejected]]:
        import pyarrow as pa

        from sqlstream.runtime.formats.csv_plain import PlainFields

        if self._is_tidy and block.is_plain and not self._has_escapes(block.data):
            if self._plain is None:
                self._plain = PlainFields(self._types, self._names, self._dialect)
            try:
                batch = self._plain.decode(block)
            except pa.ArrowInvalid:
                batch = None
            if batch is not None:
                return batch, []
        return self._decode_records(block)

    # --- record by record ---------------------------------------------------------------------------------------------

    def _cut(self, block: Block, fields: int) -> _Records:
        import pyarrow as pa

        from sqlstream.runtime.kernels.text import csv_records as kernel

        dialect = self._dialect
        flags = (
            kernel.TRIM * dialect.trims_spaces
            | kernel.COMMENTS * dialect.allows_comments
            | kernel.TRAILING_DELIMITER * dialect.allows_trailing_delimiter
            | kernel.EXTRA_FIELDS * dialect.ignores_extra_fields
            | kernel.EMPTY_LINES * (fields == 1)
        )
        data = np.frombuffer(block.data, dtype=np.uint8)
        most = block.data.count(b"\n") + block.data.count(b"\r") + 1
        out = np.empty(len(data) + most, dtype=np.uint8)
        parts = [np.empty(most, dtype=np.int64) for _ in range(5)]
        seen, size = kernel.tidy(data, *self._codes(), fields, flags, ROW_BYTES_MAX, out, *parts)
        return _Records(pa.py_buffer(out)[:size], *(part[:seen] for part in parts))

    def _decode_records(self, block: Block) -> tuple[pa.RecordBatch, list[Rejected]]:
        import pyarrow as pa

        fields = len(self._names)
        records = self._cut(block, fields)
        is_whole = (records.faults == 0) & (records.counts == fields)
        reasons: dict[int, str] = {
            int(i): self._fault(int(records.faults[i]), int(records.counts[i]))
            for i in np.flatnonzero(~is_whole)
        }
        table = self._read(records.text)
        whole = np.flatnonzero(is_whole)
        columns = {name: self._with_nulls(table[name].combine_chunks(), t) for name, t in self._types.items()}
        for name, t in self._types.items():
            self._find_bad(columns[name], name, t, whole, reasons)
        rejected = [self._reject(block, records, i, reasons[i]) for i in sorted(reasons)]
        keep = pa.array(~np.isin(whole, np.fromiter(reasons, dtype=np.int64, count=len(reasons))))
        parsed = [parse_fields(columns[name].filter(keep), t) for name, t in self._types.items()]
        return _to_batch(keep.true_count, parsed, list(self._types)), rejected

    def _read(self, text: pa.Buffer) -> pa.Table:
        """The fields of tidy records as bytes."""
        import pyarrow as pa
        from pyarrow import csv

        dialect = self._dialect
        wanted = list(self._types) or self._names[:1]
        if not text.size:
            return pa.schema(dict.fromkeys(wanted, pa.binary())).empty_table()
        return csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(
                column_names=self._names, use_threads=False, block_size=min(text.size + 1, 2**31 - 1)
            ),
            parse_options=csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote or False,
                escape_char=dialect.escape or False,
                newlines_in_values=True,
                ignore_empty_lines=len(self._names) > 1,
            ),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.binary()), include_columns=wanted, null_values=[]
            ),
        )

    def _with_nulls(self, column: pa.Array, t: LogicalType) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        dialect = self._dialect
        nulls = [] if dialect.null_literal is None else [dialect.null_literal.encode()]
        if dialect.empty_is_null or t.root not in STRING_ROOTS + BINARY_ROOTS:
            nulls.append(b"")
        if not nulls:
            return column
        is_null = pc.is_in(column, value_set=pa.array(nulls, pa.binary()))
        return pc.if_else(is_null, pa.scalar(None, pa.binary()), column)

    def _find_bad(
        self,
        column: pa.Array,
        name: str,
        t: LogicalType,
        whole: np.ndarray[Any, Any],
        reasons: dict[int, str],
    ) -> None:
        from sqlstream.runtime.formats.text_values import find_unparsable

        for row in find_unparsable(column, partial(parse_fields, t=t)):
            text = column[row].as_py().decode("utf-8", "replace")
            reason = f'{quoted(text)} in column "{name}" is no {what_it_is_not(text, t)}'
            reasons.setdefault(int(whole[row]), reason)

    def _fault(self, fault: int, count: int) -> str:
        """The reason for a rejected record, from the `fault` and `count` that the kernel `tidy` returns."""
        from sqlstream.runtime.kernels.text import csv_records as kernel

        where = f'column "{self._names[count - 1]}"' if count <= len(self._names) else f"field {count}"
        match fault:
            case kernel.UNTERMINATED:
                return f"a quote is not closed in {where}"
            case kernel.TEXT_BEHIND_QUOTE:
                return f"text stands behind the closing quote in {where}"
            case kernel.ESCAPE_AT_END:
                return f"the file ends behind an escape character in {where}"
            case _:
                return f"it has {count} fields instead of {len(self._names)}"

    def _reject(self, block: Block, records: _Records, record: int, reason: str) -> Rejected:
        text = block.data[int(records.starts[record]) : int(records.ends[record])].decode("utf-8", "replace")
        rejected = Rejected(block.first_line + int(records.lines[record]), reason, text)
        if not self._dialect.ignores_errors:
            raise undecodable(self._path, rejected, "csv.ignore-parse-errors")
        return rejected


def parse_fields(column: pa.Array, t: LogicalType) -> pa.Array:
    """Bytes of fields as values of a scalar type; ArrowInvalid when one of them is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from sqlstream.runtime.formats.text_values import parse_text

    texts = column if pa.types.is_string(column.type) else column.cast(pa.string())
    if t.root.value == "BOOLEAN" and pc.any(pc.is_in(texts, value_set=pa.array(["0", "1"]))).as_py():
        raise pa.ArrowInvalid("a number is no boolean")
    return parse_text(texts, t)


def _to_batch(rows: int, columns: list[Any], names: list[str]) -> pa.RecordBatch:
    import pyarrow as pa

    if not names:
        return empty_columns(rows)
    arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return pa.RecordBatch.from_arrays(arrays, names=names)
