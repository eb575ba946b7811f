"""A result's bytes as they come from a server → its head, its batches, and how it ended. Nothing is read from a network here."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pyarrow as pa

from sqlstream.client.connection.wire import read_ending, read_head
from sqlstream.client.following.remarks import Remark
from sqlstream.client.http_api.media import METADATA_KEY
from sqlstream.client.sessions.outcomes import ResultFacts
from sqlstream.errors import ExternalError

MESSAGE_BYTES_MAX = 256 * 1024 * 1024
"""A longer message is refused: no server of ours sends one."""

_CONTINUATION = 0xFFFFFFFF
_PREFIX = struct.Struct("<Ii")
_ALIGNMENT = 8
_BODY_LENGTH_FIELD = 3
"""Of the table `Message` in Arrow's format/Message.fbs: version, header_type, header, bodyLength."""


class ArrowStreamDecoder:
    """Any pieces of a stream in, whole batches out, without waiting: pyarrow's reader needs a file and a thread that waits.

    State: the bytes of the message that is not complete, and the schema. `is_ended`: the end mark of the stream was read; a
    stream without it was cut off. `end_metadata`: that of the last batch without rows, empty if it has none. ValueError or
    pa.ArrowInvalid for anything but a stream without dictionaries.
    """

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None
        self.is_ended = False
        self.end_metadata: Mapping[bytes, bytes] = {}
        self._schema_message = b""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[pa.RecordBatch]:
        """The batches that are complete with these bytes."""
        self._buffer += data
        batches: list[pa.RecordBatch] = []
        while not self.is_ended and (message := self._next_message()) is not None:
            if self.schema is None:
                self.schema = pa.ipc.read_schema(pa.py_buffer(message))
                self._schema_message = message
            else:
                batch = pa.ipc.read_record_batch(pa.py_buffer(message), self.schema)
                if not batch.num_rows:
                    self.end_metadata = self._metadata(message)
                batches.append(batch)
        return batches

    def _metadata(self, message: bytes) -> Mapping[bytes, bytes]:
        """What the message of a batch says beside its rows, which pyarrow tells only of whole streams."""
        with pa.ipc.open_stream(self._schema_message + message) as reader:
            return dict(reader.read_next_batch_with_custom_metadata().custom_metadata or {})

    def _next_message(self) -> bytes | None:
        """Remove and return the next whole message."""
        if len(self._buffer) < _PREFIX.size:
            return None
        mark, metadata_bytes = _PREFIX.unpack_from(self._buffer)
        if mark != _CONTINUATION:
            raise ValueError("the answer is no Arrow stream")
        if metadata_bytes == 0:
            self.is_ended = True
            return None
        body_start = _PREFIX.size + metadata_bytes
        if not 0 < metadata_bytes <= MESSAGE_BYTES_MAX or metadata_bytes % _ALIGNMENT:
            raise ValueError("the answer is a damaged Arrow stream")
        if len(self._buffer) < body_start:
            return None
        end = body_start + _body_bytes(memoryview(self._buffer)[_PREFIX.size : body_start])
        if end > MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of the Arrow stream has more than {MESSAGE_BYTES_MAX:,} bytes")
        if len(self._buffer) < end:
            return None
        message = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        return message


def _body_bytes(metadata: memoryview) -> int:
    """`bodyLength` of a FlatBuffers table `Message`: the one field that says where the message ends."""
    try:
        (table,) = struct.unpack_from("<I", metadata, 0)
        (vtable_distance,) = struct.unpack_from("<i", metadata, table)
        vtable = table - vtable_distance
        vtable_bytes, _ = struct.unpack_from("<HH", metadata, vtable)
        slot = 4 + 2 * _BODY_LENGTH_FIELD
        if slot >= vtable_bytes:
            return 0
        (offset,) = struct.unpack_from("<H", metadata, vtable + slot)
        if offset == 0:
            return 0
        (length,) = struct.unpack_from("<q", metadata, table + offset)
    except struct.error as error:
        raise ValueError("the answer is a damaged Arrow stream") from error
    if length < 0:
        raise ValueError("the answer is a damaged Arrow stream")
    return int(length)


class ResultStream:
    """Feed it the pieces of `…/result/stream?rowFormat=ARROW`; when there are no more, call `finish`.

    State: the head once it has come, batches that were not taken, and `remarks`, which come with the end.
    """

    def __init__(self, url: str) -> None:
        self.head: ResultFacts | None = None
        self.remarks: list[Remark] = []
        self._url = url
        self._decoder = ArrowStreamDecoder()
        self._batches: list[pa.RecordBatch] = []

    def feed(self, data: bytes) -> None:
        """Accept a piece. ExternalError SS5041 when it is no result."""
        try:
            batches = self._decoder.feed(data)
            if self.head is None and self._decoder.schema is not None:
                self.head = read_head(self._decoder.schema)
        except (ValueError, pa.ArrowInvalid) as error:
            raise ExternalError(
                "SS5041",
                f"{self._url} answered with no result: {error}",
                hint="check that the URL is that of a server of the same version",
            ) from error
        self._batches += [batch for batch in batches if batch.num_rows]

    def take(self) -> list[pa.RecordBatch]:
        """The batches that have come since the last call, without metadata."""
        taken, self._batches = self._batches, []
        return [batch.replace_schema_metadata(None) for batch in taken]

    def read_ending(self) -> None:
        """Read what the last batch says of the end, if it does. JobError when the job has not finished: its stream is cut off
        after that batch, so that no reader takes it for a whole one."""
        if METADATA_KEY in self._decoder.end_metadata:
            self.remarks = read_ending(self._decoder.end_metadata)

    def finish(self) -> None:
        """No more bytes come. JobError when the job has not finished, ExternalError SS5043 when the stream is not whole."""
        self.read_ending()
        if not self._decoder.is_ended:
            raise ExternalError(
                "SS5043",
                f"the connection to {self._url} was lost within a result",
                hint="see whether the server still runs, then send the statement again",
            )
