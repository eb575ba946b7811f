"""Format `raw`: each line, or piece between delimiters, is the one value of a row."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from sqlstream.errors import UserError
from sqlstream.runtime.formats.blocks import BLOCK_BYTES, Cut, read_blocks
from sqlstream.runtime.formats.file_rows import FileRows, empty_columns, undecodable
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionType
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
from sqlstream.spi.table_options import descriptors_of, option, parse_options
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS

if TYPE_CHECKING:
    import pyarrow as pa

_CHARSETS = ("UTF-8", "US-ASCII", "ISO-8859-1", "WINDOWS-1252")


@dataclass(frozen=True, kw_only=True)
class RawOptions:
    """The options of a table, as written."""

    charset: str = option("charset", OptionType.ENUM, "How text is encoded.", "UTF-8", choices=_CHARSETS)
    line_delimiter: str = option(
        "line-delimiter",
        OptionType.STRING,
        "What stands between two rows; \\n, \\r and \\t may be used.",
        "\\n",
    )


class Raw:
    """A table of one STRING or BYTES column."""

    descriptor = FormatDescriptor("raw", descriptors_of(RawOptions), ".raw", is_text=True, has_messages=True)

    def reader(self, request: ReadRequest) -> FileReader:
        return RawReader(request)

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        return RawWriter(stream, schema, options)

    def message_reader(self, request: MessageRequest) -> MessageReader:
        from sqlstream.runtime.formats.messages import RawMessages

        return RawMessages(request, _charset(request.options))

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        return RawMessageWriter(schema, options)

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        _delimiter(options)
        if len(schema) != 1:
            raise UserError(
                "SS4006",
                f'format "raw" carries one column, not {len(schema)}',
                hint="declare one column of type STRING or BYTES, or use another format",
            )
        field = schema.fields[0]
        if field.type.root not in STRING_ROOTS + BINARY_ROOTS:
            raise UserError(
                "SS4006",
                f'format "raw" cannot carry column "{field.name}" of type {field.type}',
                column=field.name,
                hint="declare it as STRING or BYTES and cast it in the query",
            )


class RawReader(FileRows):
    """Split blocks at the delimiter."""

    def __init__(self, request: ReadRequest) -> None:
        schema = request.schema
        if len(schema) != 1:
            raise UserError(
                "SS5012",
                f'format "raw" carries one column, and the path "{request.path}" does not have the others',
                detail=f"the columns are {', '.join(schema.names)}",
                hint="put the file below a directory <column>=<value> for each partition column",
            )
        super().__init__(request)
        self._columns = request.columns
        self._block_bytes = request.block_bytes or BLOCK_BYTES
        self._type = schema.types[0]
        self._delimiter = _delimiter(request.options)
        self._charset = _charset(request.options)

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        import pyarrow as pa

        for block in read_blocks(self._stream, self._path, self._cut_rows, self._block_bytes, is_utf_8=False):
            values = self._split(self._recode(block.data), block.first_line)
            if self._columns:
                yield pa.RecordBatch.from_arrays([values], names=list(self._columns)), []
            else:
                yield empty_columns(len(values)), []

    def _cut_rows(self, data: bytes | bytearray, is_last: bool) -> Cut:
        end = data.rfind(self._delimiter)
        return Cut(len(data) if is_last else end + len(self._delimiter) if end >= 0 else 0)

    def _split(self, data: bytes, line: int) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._delimiter == b"\n":
            data = data.replace(b"\r\n", b"\n")
        whole = pa.array([data.removesuffix(self._delimiter)], pa.binary())
        values = pc.split_pattern(whole, self._delimiter).flatten()
        if self._type.root in BINARY_ROOTS:
            return values
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise self._undecodable(values, line) from error

    def _recode(self, data: bytes) -> bytes:
        """Text as UTF-8, all of it at once: no charset but that has characters of several bytes."""
        if self._charset == "utf-8" or self._type.root in BINARY_ROOTS:
            return data
        return data.decode(self._charset, "replace").encode()

    def _undecodable(self, values: pa.Array, line: int) -> UserError:
        import pyarrow as pa

        from sqlstream.runtime.formats.text_values import find_unparsable

        row = find_unparsable(values, lambda column: column.cast(pa.string()))[0]
        text = values[row].as_py().decode("utf-8", "replace")
        return undecodable(self._path, Rejected(line + row, "it is no text in UTF-8", text))


class RawWriter:
    """Write each value and the delimiter; NULL is the empty value. No state but the stream."""

    def __init__(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> None:
        self._stream = stream
        self._is_text = schema.types[0].root in STRING_ROOTS
        self._column = schema.names[0]
        self._delimiter = _delimiter(options)
        self._charset = _charset(options)

    def write(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        from sqlstream.runtime.formats.text_values import joined_lines

        values = pc.fill_null(batch.column(0).cast(pa.binary()), b"")
        data = joined_lines(values, self._delimiter)
        self._stream.write(self._encode(bytes(data)) if self._is_text and self._charset != "utf-8" else data)

    def close(self) -> None:
        """Nothing is buffered."""

    def _encode(self, data: bytes) -> bytes:
        return _encoded(data, self._charset, self._column)


class RawMessageWriter:
    """Each value is a message; that of NULL has no content. No state."""

    def __init__(self, schema: Schema, options: dict[str, str]) -> None:
        self._column, self._charset = schema.names[0], _charset(options)
        self._is_recoded = schema.types[0].root in STRING_ROOTS and self._charset != "utf-8"

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa

        values = batch.column(0)
        if not self._is_recoded:
            return values.cast(pa.binary())
        import numpy as np
        import pyarrow.compute as pc

        from sqlstream.runtime.formats.text_values import joined_bytes
        from sqlstream.runtime.kernels.buffers import valid_mask, validity_buffer

        filled = pc.fill_null(values, "")
        # Every charset but UTF-8 has a byte for each character.
        ends = np.concatenate(([0], np.cumsum(pc.utf8_length(filled).to_numpy()))).astype(np.int32)
        data = _encoded(bytes(joined_bytes(filled)), self._charset, self._column)
        buffers = [validity_buffer(valid_mask(values)), pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _encoded(data: bytes, charset: str, column: str) -> bytes:
    try:
        return data.decode().encode(charset)
    except UnicodeEncodeError as error:
        raise UserError(
            "SS5014",
            f'column "{column}" holds the character "{error.object[error.start]}",'
            f" which {charset} does not have",
            hint="set 'raw.charset' = 'UTF-8'",
        ) from error


def _charset(options: dict[str, str]) -> str:
    return codecs.lookup(parse_options(RawOptions, options).charset).name


def _delimiter(options: dict[str, str]) -> bytes:
    text = parse_options(RawOptions, options).line_delimiter
    for escape, character in (("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t")):
        text = text.replace(escape, character)
    if not text:
        raise UserError(
            "SS4002",
            'option "raw.line-delimiter" cannot be empty',
            option="line-delimiter",
            hint="write '\\n'",
        )
    return text.encode()
