"""Messages that begin with a zero and the id of their schema in a registry, as Confluent's serializers write them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.runtime.formats.binary_messages import MessageProgram, decoded, rejected_message
from sqlstream.runtime.formats.confluent.registry import RegisteredSchema, Registry
from sqlstream.runtime.formats.file_rows import joined_rows
from sqlstream.spi.files import Files
from sqlstream.spi.format import DecodedMessages, MessageRequest, MessageWriter

MAGIC = b"\0"
HEADER_BYTES = 5
NO_HEADER = "it does not begin with a zero and the id of a schema"


class FramedMessages(ABC):
    """Reads each message by its schema, which the registry has. State: the schemas that were met."""

    def __init__(self, request: MessageRequest, kind: str) -> None:
        self.columns = request.types()
        self.registry = Registry(request.options, kind)
        self._programs: dict[tuple[int, ...], MessageProgram] = {}

    def call_through(self, files: Files) -> None:
        self.registry.files = files

    @abstractmethod
    def compiled(self, schema: RegisteredSchema) -> MessageProgram:
        """What reads messages of a schema; ValueError and such for what is none."""

    @abstractmethod
    def nothing(self) -> MessageProgram:
        """What reads no message, and gives batches of the columns."""

    def decode(self, messages: pa.Array) -> DecodedMessages:
        # A message without content has no row.
        there = np.flatnonzero(messages.is_valid().to_numpy(zero_copy_only=False))
        filled = messages if len(there) == len(messages) else messages.take(pa.array(there))
        headers, begins = self.headers(filled)
        rejected = [
            rejected_message(filled, m, int(there[m]), NO_HEADER) for m in np.flatnonzero(begins < 0).tolist()
        ]
        lines = np.column_stack([headers, begins])
        kinds, numbers = lines[:1], np.zeros(len(lines), dtype=np.int64)
        if (lines != kinds).any():
            kinds, numbers = np.unique(lines, axis=0, return_inverse=True)
        parts = []
        for number, (*header, begin) in enumerate(kinds.tolist()):
            if begin >= 0:
                chosen = np.flatnonzero(numbers == number)
                own = filled if len(chosen) == len(filled) else filled.take(pa.array(chosen))
                parts.append(decoded(self._program(tuple(header)), own, there[chosen], begin))
        if not parts:
            empty = pa.array([], pa.binary())
            parts.append(decoded(self.nothing(), empty, np.empty(0, dtype=np.int64)))
        found = joined_rows(parts)
        failed = sorted([*rejected, *found.rejected], key=lambda r: r.line)
        return DecodedMessages(found.batch, found.owners, failed)

    def headers(self, messages: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """A line for each message, which begins with the id of its schema and says how it is read, and where its content begins
        (−1 without a header)."""
        ids, is_framed = framed_ids(messages)
        return ids[:, None], np.where(is_framed, HEADER_BYTES, -1)

    def _program(self, header: tuple[int, ...]) -> MessageProgram:
        if header not in self._programs:
            schema = self.registry.schema(header[0])
            try:
                self._programs[header] = self.compiled(schema._replace(places=header[1:]))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise UserError(
                    "SS5324", f"the schema {header[0]} of the registry cannot be read: {error}"
                ) from error
        return self._programs[header]


class FramedWriter:
    """Registers the schema of the table's rows before the first of them is written. State: its id."""

    def __init__(self, text: str, contents: MessageWriter, registry: Registry, more: bytes = b"") -> None:
        """`text`: the schema. `more`: what a message of its kind has behind the id."""
        self._text, self._contents, self._registry, self._more = text, contents, registry, more
        self._number: int | None = None

    def call_through(self, files: Files) -> None:
        self._registry.files = files

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        if self._number is None:
            self._number = self._registry.registered(self._text)
        return framed(self._contents.encode(batch), self._number, self._more)


def are_framed(messages: pa.Array) -> np.ndarray[Any, Any]:
    """Which messages begin with a zero and an id."""
    length = pc.fill_null(pc.binary_length(messages), 0).to_numpy()
    starts = pc.fill_null(pc.starts_with(messages, MAGIC), False).to_numpy(zero_copy_only=False)
    return np.asarray(starts, dtype=bool) & (length >= HEADER_BYTES)


def framed_ids(messages: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The ids of the schemas of messages (0 where there is none), and which of them have one."""
    is_framed = are_framed(messages)
    starts, data = bytes_of(messages)
    ids = np.zeros(len(messages), dtype=np.int64)
    if is_framed.any():
        digits = data[starts[:-1][is_framed, None] + np.arange(1, HEADER_BYTES)]
        ids[is_framed] = digits.astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    return ids, is_framed


def bytes_of(messages: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The offsets of messages, and the bytes that they count in."""
    _, offsets, data = messages.buffers()
    if not len(messages) or data is None:
        return np.zeros(len(messages) + 1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    starts = np.frombuffer(offsets, dtype=np.int32)[messages.offset :][: len(messages) + 1].astype(np.int64)
    return starts, np.frombuffer(data, dtype=np.uint8)


def framed(messages: pa.Array, number: int, more: bytes = b"") -> pa.Array:
    """Messages behind a zero, the id of a schema, and what its kind has besides."""
    header = MAGIC + number.to_bytes(4, "big") + more
    binary = pa.binary()
    return pc.binary_join_element_wise(pa.scalar(header, binary), messages, pa.scalar(b"", binary))
