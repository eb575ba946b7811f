"""The producer's end of a stream: sends the subpartitions that one TaskManager reads, as far as its credit allows."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

import msgspec
import pyarrow as pa

from sqlstream.elements import EndOfInput
from sqlstream.runtime.net.channels import Channel, StreamItem
from sqlstream.runtime.net.credits import CreditBalance
from sqlstream.runtime.net.exchange import PartitionTable, SubpartitionId
from sqlstream.runtime.net.streams import frames
from sqlstream.runtime.net.streams.byte_stream import ByteStream
from sqlstream.runtime.net.streams.frame_stream import FrameStream
from sqlstream.runtime.net.streams.shared_segment import SegmentWriter
from sqlstream.runtime.net.streams.stream_loop import StreamLoop

logger = logging.getLogger(__name__)

SHARED_BYTES_MIN = 1 << 14
"""Batches below are sent over the socket: to find a place for one costs as much as to copy it."""

CHANNELS_MAX = 1 << 16

TURN_ITEMS = 64
"""How many items a thread sends before it leaves the rest to the loop's, which serves other streams in between: a task does not
send for the others for as long as they have rows."""


class _SentChannel:
    """A channel that the consumer has opened. State: its credit, grants that came and are not counted yet, the schema that the
    consumer was told, and the last one that has the same types (`alike`)."""

    __slots__ = ("alike", "channel", "credit", "grants", "number", "schema", "schema_bytes", "subpartition")

    def __init__(self, number: int, channel: Channel, subpartition: SubpartitionId) -> None:
        self.number = number
        self.channel = channel
        self.subpartition = subpartition
        self.credit = CreditBalance()
        self.grants: deque[int] = deque()
        self.schema: pa.Schema | None = None
        self.alike: pa.Schema | None = None
        self.schema_bytes = 0

    @property
    def can_send_rows(self) -> bool:
        while self.grants:
            self.credit.grant(self.grants.popleft())
        return self.credit.can_send


class SubpartitionStream:
    """Sends from each channel in turn, one item at a time, and takes an item from its channel only when it can be sent: a channel
    without credit stops no other, and what is put first in a channel passes what waits there.

    Sends on the thread that makes something sendable: a task's when it puts a batch, the loop's when credit comes or the socket
    has room; one at a time. `on_end` is called when the consumer is gone. State: the opened channels, and those that may have
    something to send."""

    def __init__(
        self,
        connection: ByteStream,
        loop: StreamLoop,
        table: PartitionTable,
        segment: SegmentWriter | None,
        on_end: Callable[[SubpartitionStream], None],
    ) -> None:
        self._loop = loop
        self._table = table
        self._segment = segment
        self._on_stream_end = on_end
        self._channels: dict[int, _SentChannel] = {}
        self._ready: deque[_SentChannel] = deque()
        self._sending = threading.Lock()
        self._is_released = False
        # Guards the end: no channel is opened behind it.
        self._lock = threading.Lock()
        self._stream = FrameStream(
            connection, loop, frames.FROM_CONSUMERS, self._on_frame, self._on_end, self._send_ready
        )

    def start(self) -> None:
        self._stream.start()

    def trim(self) -> None:
        """Return the memory of the shared segment that nothing uses."""
        if self._segment is not None:
            self._segment.trim()

    def close(self) -> None:
        self._stream.close()
        self._release()

    # --- frames of the consumer, on the loop's thread

    def _on_frame(self, frame: frames.Frame) -> None:
        if frame.kind == frames.FrameKind.OPEN:
            self._open(frame)
            return
        sent = self._channels.get(frame.channel)
        if sent is None:
            # It has ended meanwhile.
            return
        if frame.kind == frames.FrameKind.GRANT:
            sent.grants.append(frame.size)
            self._announce(sent)
        elif frame.kind == frames.FrameKind.LIMIT:
            # Whatever a peer sends, a bound of nothing would block the channel.
            sent.channel.resize(max(1, frame.size))
        else:
            self._abandon(sent)

    def _open(self, frame: frames.Frame) -> None:
        if frame.channel in self._channels or len(self._channels) >= CHANNELS_MAX:
            raise frames.BadFrame(f"channel {frame.channel} twice, or too many")
        try:
            subpartition = frames.decode_subpartition(frame.body)
        except msgspec.MsgspecError as error:
            raise frames.BadFrame("no name of a subpartition") from error
        channel = self._table.meet(subpartition, capacity_bytes=0)
        sent = _SentChannel(frame.channel, channel, subpartition)
        with self._lock:
            self._channels[frame.channel] = sent
            is_over = self._is_released
        if is_over:
            self._abandon(sent)
            return
        sent.grants.append(frame.size)
        channel.listen(lambda: self._announce(sent))
        self._announce(sent)

    def _abandon(self, sent: _SentChannel) -> None:
        """The consumer takes no more: the producer must not fill a channel that is never read."""
        self._forget(sent)
        sent.channel.close()
        self._table.forget(sent.subpartition, sent.channel)

    def _on_end(self, cause: str) -> None:
        self._release()
        self._on_stream_end(self)

    def _release(self) -> None:
        with self._lock:
            self._is_released = True
            channels = list(self._channels.values())
        for sent in channels:
            self._abandon(sent)
        if self._segment is not None:
            self._segment.close()

    # --- sending, on any thread

    def _announce(self, sent: _SentChannel) -> None:
        self._ready.append(sent)
        self._send_ready()

    def _send_ready(self) -> None:
        # Who finds the lock taken leaves its channel to the holder, which looks again after it has released it.
        left = TURN_ITEMS
        while left and self._ready and not self._stream.is_congested:
            if not self._sending.acquire(blocking=False):
                return
            try:
                while left and self._ready and not self._stream.is_congested:
                    left -= 1
                    self._send_next(self._ready.popleft())
            finally:
                self._sending.release()
        if not left and self._ready:
            self._loop.call(self._send_ready)

    def _send_next(self, sent: _SentChannel) -> None:
        if self._channels.get(sent.number) is not sent:
            return
        queued, has_more = sent.channel.take(with_rows=sent.can_send_rows)
        if has_more and queued is not None:
            self._ready.append(sent)
        try:
            if queued is not None:
                self._send(sent, queued.item, queued.size)
            elif sent.channel.is_closed:
                self._end_channel(sent, "the producer stopped before the end of its rows")
        except Exception as error:  # the boundary between channels: the thread may be that of another task
            logger.warning("a batch of %s could not be sent", sent.subpartition, exc_info=error)
            sent.channel.close()
            self._end_channel(sent, f"a batch could not be sent: {error}")

    def _send(self, sent: _SentChannel, item: StreamItem, size: int) -> None:
        if isinstance(item, pa.RecordBatch):
            self._send_batch(sent, item, size)
            return
        self._stream.send(frames.FrameKind.ELEMENT, sent.number, body=frames.encode(item))
        if isinstance(item, EndOfInput):
            self._forget(sent)

    def _send_batch(self, sent: _SentChannel, batch: pa.RecordBatch, size: int) -> None:
        backlog = sent.channel.queued_bytes
        if sent.schema is None or not batch.schema.equals(sent.schema):
            batch = self._under_schema(sent, batch)
        sent.credit.spend(size)
        if self._segment is not None and size >= SHARED_BYTES_MIN:
            place = self._segment.write(batch, sent.schema_bytes)
            if place is not None:
                body = frames.encode_place(place)
                self._stream.send(frames.FrameKind.SHARED_BATCH, sent.number, size, backlog, body)
                return
        self._stream.send(frames.FrameKind.BATCH, sent.number, size, backlog, batch.serialize())

    def _under_schema(self, sent: _SentChannel, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Types are others where subtasks of a recursive query send rows of several of its parts over one channel."""
        given = batch.schema
        if sent.schema is not None and (given.equals(sent.alike) or given.types == sent.schema.types):
            sent.alike = given
            return pa.RecordBatch.from_arrays(batch.columns, schema=sent.schema)
        encoded = given.serialize()
        sent.schema = sent.alike = given
        sent.schema_bytes = encoded.size
        self._stream.send(frames.FrameKind.SCHEMA, sent.number, body=encoded)
        return batch

    def _end_channel(self, sent: _SentChannel, cause: str) -> None:
        self._stream.send(frames.FrameKind.GONE, sent.number, body=cause.encode()[: frames.SMALL_BODY_MAX])
        self._forget(sent)

    def _forget(self, sent: _SentChannel) -> None:
        self._channels.pop(sent.number, None)
        if not self._channels:
            self.trim()
