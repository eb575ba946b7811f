"""Formats of text for the messages of queues: each message is read as a line would be, wherever line ends stand in it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.formats.blocks import Block, count_lines
from sqlstream.runtime.formats.csv import CsvReader
from sqlstream.runtime.formats.csv_dialect import CsvDialect
from sqlstream.runtime.formats.csv_writer import CsvWriter
from sqlstream.runtime.formats.file_rows import joined_rows
from sqlstream.runtime.formats.json_reader import JsonReader
from sqlstream.runtime.formats.text_values import find_unparsable, joined_bytes, joined_lines
from sqlstream.runtime.kernels.buffers import address_of, valid_mask, validity_buffer, view_offsets
from sqlstream.runtime.kernels.text.lines import write_lines
from sqlstream.schema import Schema
from sqlstream.spi.format import DecodedMessages, FileWriter, MessageRequest, ReadRequest, Rejected
from sqlstream.types import BINARY_ROOTS

_LINE_END = "[\r\n]"


def read_request(request: MessageRequest) -> ReadRequest:
    """As of a file without bytes, whose undecodable rows are passed over."""
    options = {**request.options, "ignore-parse-errors": "true"}
    return ReadRequest(
        io.BytesIO(), "", request.schema, request.columns, options=options, demand=request.demand
    )


class JsonMessages:
    """Documents of JSON, in which a line end is white space. A message without content has no row.

    State: memory for their lines, used again for the next ones."""

    def __init__(self, reader: JsonReader) -> None:
        self._reader = reader
        self._lines = np.empty(0, dtype=np.uint8)

    def decode(self, messages: pa.Array) -> DecodedMessages:
        texts = pc.fill_null(messages, b"") if messages.null_count else messages
        offsets, address = view_offsets(texts)
        size = int(offsets[-1] - offsets[0]) + len(texts)
        if len(self._lines) < size:
            self._lines = np.empty(size, dtype=np.uint8)
        write_lines(offsets, address, address_of(self._lines))
        return self._reader.decode(Block(self._lines[:size].tobytes(), 0, len(messages)))


class CsvMessages:
    """Rows of CSV. A message with line ends, or with quotes of which one may be open, is decoded by itself, so that none takes
    another one for its rest."""

    def __init__(self, request: MessageRequest) -> None:
        self._reader = CsvReader(read_request(request))
        self._quote = CsvDialect.parse(request.options).quote
        self._is_wide = len(request.schema) > 1

    def decode(self, messages: pa.Array) -> DecodedMessages:
        texts = pc.replace_substring_regex(pc.fill_null(messages, b""), rf"{_LINE_END}+$", b"")
        is_alone, quotes = pc.match_substring_regex(texts, _LINE_END), None
        if self._quote:
            quotes = pc.count_substring(texts, self._quote)
            is_alone = pc.or_(is_alone, pc.equal(pc.bit_wise_and(quotes, 1), 1))
        is_row = messages.is_valid()
        if self._is_wide:
            is_row = pc.and_(is_row, pc.greater(pc.binary_length(texts), 0))
        together = np.flatnonzero(pc.and_not(is_row, is_alone).to_numpy(zero_copy_only=False))
        batch, rejected = self._reader.decode(_block(texts.take(pa.array(together))))
        if quotes is not None and batch.num_rows + len(rejected) != len(together):
            # Quotes within a field that does not begin with one are text: one may be open where their number is even.
            is_alone = pc.or_(is_alone, pc.greater(quotes, 0))
            together = np.flatnonzero(pc.and_not(is_row, is_alone).to_numpy(zero_copy_only=False))
            batch, rejected = self._reader.decode(_block(texts.take(pa.array(together))))
        parts = [DecodedMessages(batch, *_placed(together, rejected))]
        for place in np.flatnonzero(pc.and_(is_row, is_alone).to_numpy(zero_copy_only=False)):
            batch, rejected = self._reader.decode(_block(texts.slice(place, 1)))
            if batch.num_rows > 1:
                text = texts[place].as_py().decode("utf-8", "replace")
                batch, rejected = batch.slice(0, 0), [Rejected(0, "it is several rows", text)]
            # What is undecodable may be so in several of its lines.
            rejected = [Rejected(0, r.reason, r.text) for r in rejected[:1]]
            batch = batch.slice(0, 0) if rejected else batch
            parts.append(DecodedMessages(batch, *_placed(np.array([place]), rejected)))
        return joined_rows(parts)


def _block(texts: pa.Array) -> Block:
    data = bytes(joined_lines(texts, b"\n"))
    return Block(data, 0, count_lines(data))


def _placed(places: np.ndarray[Any, Any], rejected: list[Rejected]) -> tuple[Any, list[Rejected]]:
    """Of messages at these places: the places of those that have rows, and what is rejected."""
    moved = [Rejected(int(places[r.line]), r.reason, r.text) for r in rejected]
    return np.delete(places, [r.line for r in rejected]), moved


class RawMessages:
    """Each message is the value of a row; one without content is NULL."""

    def __init__(self, request: MessageRequest, charset: str) -> None:
        self._columns = request.columns
        self._type = request.schema.types[0]
        self._charset = charset

    def decode(self, messages: pa.Array) -> DecodedMessages:
        owners, rejected, values = None, [], messages
        if self._type.root not in BINARY_ROOTS and self._charset != "utf-8":
            values = _recoded(messages, self._charset)
        elif self._type.root not in BINARY_ROOTS:
            bad = find_unparsable(messages, lambda part: part.cast(pa.string()))
            if bad:
                texts = [messages[i].as_py().decode("utf-8", "replace") for i in bad]
                rejected = [Rejected(i, "it is no text in UTF-8", t) for i, t in zip(bad, texts, strict=True)]
                owners = np.delete(np.arange(len(messages)), bad)
                values = messages.take(pa.array(owners))
            values = values.cast(pa.string())
        batch = pa.RecordBatch.from_arrays([values], names=["value"])
        return DecodedMessages(
            batch.rename_columns(list(self._columns)) if self._columns else batch.select([]), owners, rejected
        )


def _recoded(texts: pa.Array, charset: str) -> pa.Array:
    """Texts of a charset whose characters are a byte each, as UTF-8."""
    lengths = np.array([len(bytes([b]).decode(charset, "replace").encode()) for b in range(256)])
    filled = pc.fill_null(texts, b"")
    data = bytes(joined_bytes(filled))
    places = np.concatenate(([0], np.cumsum(lengths[np.frombuffer(data, np.uint8)])))
    ends = np.concatenate(([0], np.cumsum(pc.binary_length(filled).to_numpy())))
    encoded = data.decode(charset, "replace").encode()
    buffers = [
        validity_buffer(valid_mask(texts)),
        pa.py_buffer(places[ends].astype(np.int32)),
        pa.py_buffer(encoded),
    ]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


# Rows as messages.


class LineMessages:
    """Messages of a writer that ends each row, and nothing else, with a newline."""

    def __init__(self, make: Callable[[BinaryIO], FileWriter]) -> None:
        self._stream = io.BytesIO()
        self._writer = make(self._stream)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        self._stream.seek(0)
        self._stream.truncate()
        self._writer.write(batch)
        return _split(self._stream.getvalue(), b"\n")


class CsvMessageWriter:
    """Rows of CSV without line ends behind them."""

    def __init__(self, schema: Schema, dialect: CsvDialect) -> None:
        self._schema, self._dialect = schema, dialect

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        end = b"\n"
        while True:
            stream = io.BytesIO()
            CsvWriter(stream, self._schema, self._dialect, end=end, has_header=False).write(batch)
            data = stream.getvalue()
            if data.count(end) == batch.num_rows:
                return _split(data, end)
            # A value holds the end: what ends rows is made longer, until none does.
            end += b"\0\n"


def _split(data: bytes, end: bytes) -> pa.Array:
    if not data:
        return pa.array([], pa.binary())
    if len(end) > 1:
        return pc.split_pattern(pa.array([data.removesuffix(end)], pa.binary()), end).flatten()
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == end[0])
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts
    texts = np.delete(np.frombuffer(data, np.uint8), ends)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
