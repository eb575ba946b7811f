"""What goes over a stream between two TaskManagers: frames, each a header of 32 bytes and a body."""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from sqlstream.elements import Element
from sqlstream.runtime.net.exchange import SubpartitionId

_HEADER = struct.Struct("<BxxxIQQQ")
_SHARED = struct.Struct("<QQI?")
_RECEIVED_BYTES_MAX = 1 << 16

SMALL_BODY_MAX = 1 << 12
SCHEMA_BYTES_MAX = 1 << 26
BATCH_BYTES_MAX = 1 << 33


class FrameKind(enum.IntEnum):
    """OPEN, GRANT, CLOSE and LIMIT go from the consumer to the producer, the others back.

    OPEN: read this subpartition (body), with a first credit of `size` bytes, as channel `channel` of the stream.
    GRANT: `size` bytes more. CLOSE: no more of this channel. LIMIT: queue `size` bytes at most.
    SCHEMA: that of the batches that follow on the channel, until the next one. BATCH: a batch (body) that costs `size` bytes of
    credit, with `backlog` bytes queued behind it. SHARED_BATCH: the same, the body says where it is in the shared memory.
    ELEMENT: a watermark, a barrier, the end of input. GONE: nothing follows, the body says why."""

    OPEN = 1
    GRANT = 2
    CLOSE = 3
    SCHEMA = 4
    BATCH = 5
    SHARED_BATCH = 6
    ELEMENT = 7
    GONE = 8
    LIMIT = 9


BodyLimits = Mapping[int, int]
"""The kinds of frames that one end accepts, and the bytes that the body of each has at most."""

FROM_CONSUMERS: BodyLimits = {
    FrameKind.OPEN: SMALL_BODY_MAX,
    FrameKind.GRANT: 0,
    FrameKind.CLOSE: 0,
    FrameKind.LIMIT: 0,
}
FROM_PRODUCERS: BodyLimits = {
    FrameKind.SCHEMA: SCHEMA_BYTES_MAX,
    FrameKind.BATCH: BATCH_BYTES_MAX,
    FrameKind.SHARED_BATCH: _SHARED.size,
    FrameKind.ELEMENT: SMALL_BODY_MAX,
    FrameKind.GONE: SMALL_BODY_MAX,
}

_LARGE = (FrameKind.SCHEMA, FrameKind.BATCH)


class Frame(NamedTuple):
    """The body of a SCHEMA or BATCH is a `pa.Buffer` of its own, others are bytes."""

    kind: int
    channel: int
    size: int
    backlog: int
    body: Any


class SharedPlace(NamedTuple):
    """Where a batch is in a shared segment: `slot` is freed when the consumer no longer needs it. With `is_scarce` it makes a
    copy at once, since bytes or slots run out."""

    offset: int
    length: int
    slot: int
    is_scarce: bool


class BadFrame(Exception):
    """The peer sent what no version of this program sends."""


encode = msgspec.msgpack.encode
decode_element = msgspec.msgpack.Decoder(Element).decode
decode_subpartition = msgspec.msgpack.Decoder(SubpartitionId).decode


def encode_header(kind: FrameKind, channel: int, body_bytes: int, size: int, backlog: int) -> bytes:
    return _HEADER.pack(kind, channel, body_bytes, size, backlog)


def encode_place(place: SharedPlace) -> bytes:
    return _SHARED.pack(*place)


def decode_place(body: bytes) -> SharedPlace:
    """BadFrame for anything else."""
    try:
        return SharedPlace(*_SHARED.unpack(body))
    except struct.error as error:
        raise BadFrame(f"a place of {len(body)} bytes") from error


class FrameReader:
    """Puts frames together from bytes as they arrive: receive into `target()`, then call `received`.

    State: received bytes that are no whole frame yet, at most 64 KiB and one large body."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._bytes = bytearray(_RECEIVED_BYTES_MAX)
        self._view = memoryview(self._bytes)
        self._start = 0
        self._end = 0
        self._header: tuple[int, int, int, int, int] | None = None
        self._body: Any = None
        self._body_view = memoryview(b"")
        self._filled = 0

    def target(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._body is not None:
            return self._body_view[self._filled :]
        if self._start:
            rest = self._bytes[self._start : self._end]
            self._start, self._end = 0, len(rest)
            self._view[: self._end] = rest
        return self._view[self._end :]

    def received(self, size: int) -> list[Frame]:
        """The frames that are whole with the next `size` bytes. BadFrame."""
        if self._body is not None:
            self._filled += size
            return [self._large_frame()] if self._filled == len(self._body_view) else []
        self._end += size
        frames = []
        while self._end - self._start >= _HEADER.size:
            frame = self._next_frame()
            if frame is None:
                break
            frames.append(frame)
        return frames

    def _next_frame(self) -> Frame | None:
        header = _HEADER.unpack_from(self._bytes, self._start)
        kind, channel, body_bytes, size, backlog = header
        if body_bytes > self._limits.get(kind, -1):
            raise BadFrame(f"a frame of kind {kind} and {body_bytes} bytes")
        start = self._start + _HEADER.size
        there = min(body_bytes, self._end - start)
        if kind in _LARGE:
            self._header, self._filled = header, there
            self._body = pa.allocate_buffer(body_bytes)
            self._body_view = memoryview(self._body).cast("B")
            self._body_view[:there] = self._view[start : start + there]
            self._start = start + there
            return self._large_frame() if there == body_bytes else None
        if there < body_bytes:
            return None
        self._start = start + body_bytes
        return Frame(kind, channel, size, backlog, bytes(self._view[start : self._start]))

    def _large_frame(self) -> Frame:
        assert self._header is not None
        kind, channel, _, size, backlog = self._header
        body, self._body, self._body_view = self._body, None, memoryview(b"")
        return Frame(kind, channel, size, backlog, body)
