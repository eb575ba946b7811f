"""Format `csv`: rows of delimited text, decoded a block at a time by Arrow's reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType, TypeRoot, is_integer

if TYPE_CHECKING:
    import pyarrow as pa


_TRUE = ["true", "True", "TRUE"]
_FALSE = ["false", "False", "FALSE"]


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

    Arrow's reader decodes a block as it is. A block that Arrow refuses (or whose dialect Arrow does not have) is cut into
    records by a kernel and converted column by column, which finds the bad records and their lines.
    """

    def __init__(self, request: ReadRequest) -> None:
        super().__init__(request)
        dialect = CsvDialect.parse(request.options)
        self._schema = request.schema
        self._dialect = dialect
        self._block_bytes = request.block_bytes or BLOCK_BYTES
        self._names: list[str] = list(request.schema.names)
        self._is_tidy = not (dialect.allows_comments or dialect.trims_spaces)
        self._risky_decimals = RiskyDecimals(
            self._types.values(), dialect.delimiter, dialect.quote, dialect.escape
        )

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        is_first = True
        for block in read_blocks(self._stream, self._path, self._cut_rows, self._block_bytes):
            if is_first and self._dialect.has_header:
                block = self._read_header(block)
            is_first = False
            yield self.decode(block)

    def _cut_rows(self, data: bytes | bytearray, is_last: bool) -> Cut:
        """Whole rows, marked plain when Arrow's reader decodes them correctly; it takes malformed quotes for text."""
        quote, escape = self._dialect.quote.encode(), self._dialect.escape.encode()
        if (not quote or quote not in data) and (not escape or escape not in data):
            # Where lines end with carriage returns alone, the last one may be half of a line end.
            end = data.rfind(b"\n") + 1 or data.rfind(b"\r", 0, -1) + 1
            return Cut(len(data) if is_last else end)
        from sqlstream.runtime.kernels.text import csv_records as kernel

        flags = kernel.TRIM * self._dialect.trims_spaces | kernel.COMMENTS * self._dialect.allows_comments
        text = np.frombuffer(data, dtype=np.uint8)
        end, is_plain = kernel.complete_length(text, *self._codes(), flags, ROW_BYTES_MAX, is_last)
        return Cut(int(end), bool(is_plain))

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

        if self._is_tidy and block.is_plain and not self._risky_decimals.are_in(block.data):
            try:
                text = pa.py_buffer(block.data)
                if not self._hexadecimals_are_in(block.data, text):
                    return self._convert(text), []
            except pa.ArrowInvalid:
                pass  # Decoding record by record finds the one at fault.
        return self._decode_records(block)

    # --- by Arrow's reader -------------------------------------------------------------------------------------------------

    def _convert(self, text: pa.Buffer) -> pa.RecordBatch:
        from sqlstream.runtime.formats.text_values import parse_text, require_times

        types = {name: _arrow_type(t) for name, t in self._types.items()}
        table = self._read(text, types, self._null_values(), self._dialect.null_literal is not None)
        columns = [
            parse_text(table[name].combine_chunks(), t)
            if t.root in BINARY_ROOTS
            else require_times(table[name])
            for name, t in self._types.items()
        ]
        return _to_batch(table.num_rows, columns, list(self._types))

    def _hexadecimals_are_in(self, data: bytes, text: pa.Buffer) -> bool:
        """Whether an integer column holds 0x10, which Arrow takes for a number."""
        import pyarrow as pa

        from sqlstream.runtime.formats.text_values import holds_hexadecimal

        integers = [name for name, t in self._types.items() if is_integer(t)]
        if not integers or not _holds_0x(data):
            return False
        table = self._read(text, dict.fromkeys(integers, pa.binary()), [], False)
        return any(holds_hexadecimal(chunk) for name in integers for chunk in table[name].chunks)

    def _null_values(self) -> list[str]:
        dialect = self._dialect
        if dialect.null_literal is None:
            return [""]
        return [dialect.null_literal, ""] if dialect.empty_is_null else [dialect.null_literal]

    def _read(
        self, text: pa.Buffer, types: dict[str, pa.DataType], null_values: list[str], has_null_strings: bool
    ) -> pa.Table:
        import pyarrow as pa
        from pyarrow import csv

        dialect = self._dialect
        if not text.size:
            return pa.schema(list((types or {self._names[0]: pa.string()}).items())).empty_table()
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
                column_types=types or {self._names[0]: pa.binary()},
                include_columns=list(types) or self._names[:1],
                null_values=null_values,
                strings_can_be_null=has_null_strings or dialect.empty_is_null,
                true_values=_TRUE,
                false_values=_FALSE,
                timestamp_parsers=[csv.ISO8601],
            ),
        )

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
        table = self._read(records.text, dict.fromkeys(self._types, pa.binary()), [], False)
        whole = np.flatnonzero(is_whole)
        columns = {name: self._with_nulls(table[name].combine_chunks(), t) for name, t in self._types.items()}
        for name, t in self._types.items():
            self._find_bad(columns[name], name, t, whole, reasons)
        rejected = [self._reject(block, records, i, reasons[i]) for i in sorted(reasons)]
        keep = pa.array(~np.isin(whole, np.fromiter(reasons, dtype=np.int64, count=len(reasons))))
        parsed = [parse_fields(columns[name].filter(keep), t) for name, t in self._types.items()]
        return _to_batch(keep.true_count, parsed, list(self._types)), rejected

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


def _holds_0x(data: bytes) -> bool:
    """Whether 0x or 0X stands in a text: pairs of bytes at even and at odd places, where a search would stop at every zero."""
    pairs = (np.frombuffer(data, "<u2", (len(data) - odd) // 2, odd) for odd in (0, 1) if len(data) > 1)
    return any((pair == ord("0") + 256 * ord(x)).any() for pair in pairs for x in "xX")


def _arrow_type(t: LogicalType) -> pa.DataType:
    import pyarrow as pa

    from sqlstream.arrow import to_arrow_type

    return pa.string() if t.root in BINARY_ROOTS else to_arrow_type(t)


def parse_fields(column: pa.Array, t: LogicalType) -> pa.Array:
    """Bytes of fields as values of a scalar type; ArrowInvalid when one of them is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from sqlstream.runtime.formats.text_values import parse_text

    texts = column.cast(pa.string())
    if t.root.value == "BOOLEAN" and pc.any(pc.is_in(texts, value_set=pa.array(["0", "1"]))).as_py():
        raise pa.ArrowInvalid("a number is no boolean")
    return parse_text(texts, t)


def _to_batch(rows: int, columns: list[Any], names: list[str]) -> pa.RecordBatch:
    import pyarrow as pa

    if not names:
        return empty_columns(rows)
    arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return pa.RecordBatch.from_arrays(arrays, names=names)


# Finds CSV texts that Arrow must not read as DECIMAL: they crash it, or it reads them as other numbers.


_DECIMAL128_DIGITS = 38


class RiskyDecimals:
    """Finds numbers with exponents of several digits, and those whose digits together with a column's scale overflow 128 bits.

    Arrow (26.0) reads past its tables of powers for the former, and does not notice the latter.
    """

    def __init__(self, types: Iterable[LogicalType], delimiter: str, quote: str, escape: str) -> None:
        scales = [t.scale for t in types if t.root is TypeRoot.DECIMAL]
        self._has_decimals = bool(scales)
        self._digits_max = _DECIMAL128_DIGITS - max(scales, default=0)
        self._escape = escape.encode()
        edge = rb"[\s" + re.escape((delimiter + quote).encode()) + rb"]"
        long = rb"[0-9.]{%d,}" % (self._digits_max + 1)
        number = rb"[+-]?(?:" + long + rb"|[0-9.]+[eE][+-]?[0-9]{2,})"
        self._risky = re.compile(rb"(?:\A|" + edge + rb")" + number + rb"(?:" + edge + rb"|\Z)")

    def are_in(self, data: bytes) -> bool:
        if not self._has_decimals:
            return False
        if self._escape and self._escape in data:
            return True
        from sqlstream.runtime.kernels.text.csv_records import may_hold_risky_number

        # The expression finds exactly where numbers begin and end, but takes twenty times as long as the kernel.
        is_suspect = may_hold_risky_number(np.frombuffer(data, dtype=np.uint8), self._digits_max)
        return is_suspect and self._risky.search(data) is not None
