"""Messages of format `protobuf-confluent`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.formats.confluent.messages import (
    HEADER_BYTES,
    FramedMessages,
    FramedWriter,
    bytes_of,
    framed_ids,
)
from sqlstream.runtime.formats.confluent.registry import RegisteredSchema, Registry
from sqlstream.runtime.formats.protobuf.decoder import Program
from sqlstream.runtime.formats.protobuf.descriptors import files_of_text, message_at
from sqlstream.runtime.formats.protobuf.encoder import MessageEncoder
from sqlstream.runtime.formats.protobuf.proto_writer import proto_of
from sqlstream.runtime.formats.protobuf.stored_types import Misfit
from sqlstream.schema import Schema
from sqlstream.spi.format import MessageRequest

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

_PLACES_MAX = 16
"""How deep a message may stand in others."""
_VARINT_BYTES_MAX = 5
_FIRST_MESSAGE = b"\0"


class ConfluentMessages(FramedMessages):
    """Reads each message by its schema. Columns that a schema lacks are NULL."""

    def __init__(self, request: MessageRequest, *, reads_defaults: bool) -> None:
        super().__init__(request, "PROTOBUF")
        self._reads_defaults = reads_defaults

    def compiled(self, schema: RegisteredSchema) -> Program:
        files = files_of_text(schema.text, schema.references)
        places = tuple(place for place in schema.places if place >= 0)
        try:
            message = message_at(files[0], places)
        except LookupError as error:
            raise ValueError(f"it has no message at the place {', '.join(map(str, places))}") from error
        try:
            return self._of_message(message)
        except Misfit as error:
            raise UserError(
                "SS5324",
                f"the schema {schema.number} of the registry: {error}",
                hint="declare the columns as the message has its fields",
            ) from error

    def nothing(self) -> Program:
        (file,) = files_of_text('syntax = "proto3"; message Row {}')
        return self._of_message(message_at(file, (0,)))

    def _of_message(self, message: Descriptor) -> Program:
        return Program(message, self.columns, reads_defaults=self._reads_defaults, may_lack=True)

    def headers(self, messages: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        ids, is_framed = framed_ids(messages)
        bounds, data = bytes_of(messages)
        found = np.full((len(messages), 1 + _PLACES_MAX), -1, dtype=np.int64)
        found[:, 0] = ids
        at = np.where(is_framed, bounds[:-1] + HEADER_BYTES, -1)
        counts = _varints(data, at, bounds[1:])
        # A zero stands for the first message of the file.
        found[(at >= 0) & (counts == 0), 1] = 0
        at[(counts < 0) | (counts > _PLACES_MAX)] = -1
        for place in range(int(counts[at >= 0].max(initial=0))):
            wanted = np.flatnonzero((at >= 0) & (counts > place))
            inner = at[wanted]
            numbers = _varints(data, inner, bounds[1:][wanted])
            found[wanted, 1 + place] = numbers
            at[wanted] = np.where(numbers < 0, -1, inner)
        return found, np.where(at >= 0, at - bounds[:-1], -1)


def _varints(data: np.ndarray[Any, Any], at: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]) -> Any:
    """The signed number at each of these places, which are moved behind it; −1 and a place of −1 where there is none."""
    numbers, is_open = np.zeros(len(at), dtype=np.int64), at >= 0
    is_whole = np.zeros(len(at), dtype=bool)
    for step in range(_VARINT_BYTES_MAX):
        is_open &= at < ends
        rows = np.flatnonzero(is_open)
        byte = data[at[rows]].astype(np.int64)
        numbers[rows] |= (byte & 127) << (7 * step)
        at[rows] += 1
        done = rows[byte <= 127]
        is_whole[done] = True
        is_open[done] = False
    at[~is_whole] = -1
    return np.where(is_whole, (numbers >> 1) ^ -(numbers & 1), -1)


def confluent_writer(
    schema: Schema, options: dict[str, str], text: str | None, null_literal: str
) -> FramedWriter:
    """`text`: a .proto file whose first message is written, None for that of the table."""
    text = proto_of(schema) if text is None else text
    encoder = MessageEncoder(written_message(text), schema, null_literal)
    return FramedWriter(text, encoder, Registry(options, "PROTOBUF"), _FIRST_MESSAGE)


def written_message(text: str) -> Descriptor:
    """The first message of a .proto file. ValueError when there is none."""
    file = files_of_text(text)[0]
    try:
        return message_at(file, (0,))
    except LookupError as error:
        raise ValueError("it has no message") from error
