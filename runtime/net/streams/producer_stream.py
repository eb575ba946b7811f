"""The consumer's end of a stream: all channels that this process reads from one other TaskManager."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

import msgspec
import pyarrow as pa

from sqlstream.elements import CheckpointBarrier, Element, EndOfInput
from sqlstream.runtime.net.channels import Channel, ChannelClosed
from sqlstream.runtime.net.credits import CreditWindow
from sqlstream.runtime.net.exchange import OnLost, SubpartitionId
from sqlstream.runtime.net.streams import frames
from sqlstream.runtime.net.streams.byte_stream import ByteStream
from sqlstream.runtime.net.streams.frame_stream import FrameStream
from sqlstream.runtime.net.streams.shared_segment import SegmentReader
from sqlstream.runtime.net.streams.stream_loop import StreamLoop


class RemoteInput(Channel):
    """The consumer's side of a channel whose producer runs in another process: holds the items that have arrived, which the
    granted credit bounds; reading them grants more.

    The exchange's thread puts, the task's thread takes. State: the queue and the credit window, released by `close` or at the end
    of input."""

    def __init__(
        self, stream: ProducerStream, subpartition: SubpartitionId, window: CreditWindow, on_lost: OnLost
    ) -> None:
        super().__init__(capacity_bytes=sys.maxsize)
        self.subpartition = subpartition
        self.window = window
        self.schema: pa.Schema | None = None
        self.number = -1
        self._stream = stream
        self._on_lost = on_lost
        self.on_read = self._grant_again

    def close(self) -> None:
        super().close()
        self.window.release()
        self._stream.forget(self)

    # --- the loop's thread

    def on_batch(self, batch: pa.RecordBatch, size: int, backlog_bytes: int) -> None:
        self._stream.grant(self, self.window.on_received(backlog_bytes))
        self._put(batch, size)

    def on_element(self, element: Element) -> None:
        if isinstance(element, EndOfInput):
            self.window.release()
        if isinstance(element, CheckpointBarrier) and element.is_unaligned:
            try:
                self.put_first(element, 0, keeps_passed=True)
            except ChannelClosed:
                return
        else:
            self._put(element, 0)
            if isinstance(element, CheckpointBarrier) and element.overtakes_at_ms and self.on_timed:
                self.on_timed(element)

    def on_gone(self, cause: str) -> None:
        """No item follows, and the end of input has not come."""
        self.window.release()
        if not self.is_closed:
            self._on_lost(cause)

    def _put(self, item: pa.RecordBatch | Element, size: int) -> None:
        try:
            self.put(item, size)
        except ChannelClosed:
            # The task has ended; the producer is told.
            return

    # --- the task's thread

    def limit(self, capacity_bytes: int) -> None:
        """One half may be on its way or here, the other wait at the producer."""
        half = capacity_bytes // 2
        self._stream.grant(self, self.window.limit(half))
        self._stream.limit(self, half)

    def _grant_again(self, size: int) -> None:
        if size:
            self._stream.grant(self, self.window.on_read(size))


logger = logging.getLogger(__name__)

Connect = Callable[[], tuple[ByteStream, int | None]]
"""Connects to the TaskManager, waiting for seconds at most; the stream, and the file of its shared memory."""


class ProducerStream:
    """Connects on a thread of its own, and opens the channels that were requested meanwhile.

    Whatever ends the stream, each of its channels that has not ended is told the cause once; `on_end` is called after that, by
    any thread. State: those channels, and the connection."""

    def __init__(
        self, name: str, connect: Connect, loop: StreamLoop, on_end: Callable[[ProducerStream], None]
    ) -> None:
        """`name` is how the cause names the peer."""
        self.name = name
        self._connect = connect
        self._loop = loop
        self._on_stream_end = on_end
        self._lock = threading.Lock()
        self._inputs: dict[int, RemoteInput] = {}
        self._next_number = 0
        self._stream: FrameStream | None = None
        self._segment: SegmentReader | None = None
        self._end_cause = ""

    def start(self) -> None:
        try:
            threading.Thread(target=self._start, name=f"connect to {self.name}", daemon=True).start()
        except RuntimeError as error:
            self._end_unconnected(error)

    def _start(self) -> None:
        try:
            connection, file = self._connect()
        except Exception as error:  # the thread's boundary: a failure to connect is that of the channels
            self._end_unconnected(error)
            return
        stream = FrameStream(connection, self._loop, frames.FROM_PRODUCERS, self._on_frame, self._on_end)
        try:
            segment = SegmentReader(file) if file is not None else None
        except (OSError, frames.BadFrame) as error:
            stream.close()
            self._end_unconnected(error)
            return
        with self._lock:
            is_over = bool(self._end_cause)
            if not is_over:
                self._stream, self._segment = stream, segment
                # Before anything is sent: a socket that is full at once is watched only when the loop knows it.
                stream.start()
                for remote in self._inputs.values():
                    self._send_open(stream, remote)
        if is_over:
            stream.close()

    def _end_unconnected(self, error: Exception) -> None:
        reason = str(getattr(error, "strerror", None) or error).partition("\n")[0]
        self._end(f"could not connect to {self.name}: {reason}")

    # --- any thread

    def open(self, remote: RemoteInput) -> bool:
        """Request a channel; False when the stream has ended."""
        with self._lock:
            if self._end_cause:
                return False
            remote.number = self._next_number
            self._next_number += 1
            self._inputs[remote.number] = remote
            if self._stream is not None:
                self._send_open(self._stream, remote)
        return True

    def _send_open(self, stream: FrameStream, remote: RemoteInput) -> None:
        grant = remote.window.initial_grant()
        stream.send(frames.FrameKind.OPEN, remote.number, grant, body=frames.encode(remote.subpartition))

    def grant(self, remote: RemoteInput, size: int) -> None:
        stream = self._stream
        if size and stream is not None and remote.number in self._inputs:
            stream.send(frames.FrameKind.GRANT, remote.number, size)

    def limit(self, remote: RemoteInput, size: int) -> None:
        """Have the producer queue no more than `size` bytes."""
        stream = self._stream
        if stream is not None and remote.number in self._inputs:
            stream.send(frames.FrameKind.LIMIT, remote.number, size)

    def forget(self, remote: RemoteInput) -> None:
        """The channel's task takes no more of it."""
        with self._lock:
            is_open = self._inputs.pop(remote.number, None) is not None
        if is_open and self._stream is not None:
            self._stream.send(frames.FrameKind.CLOSE, remote.number)

    def close(self) -> None:
        """End the stream; its channels are told."""
        self._end(f"the exchange with {self.name} has ended")

    # --- the loop's thread

    def _on_frame(self, frame: frames.Frame) -> None:
        remote = self._inputs.get(frame.channel)
        if remote is None:
            self._drop(frame)
            return
        match frame.kind:
            case frames.FrameKind.BATCH:
                batch = pa.ipc.read_record_batch(frame.body, remote.schema)
                remote.on_batch(batch, frame.size, frame.backlog)
            case frames.FrameKind.SHARED_BATCH:
                remote.on_batch(self._shared(frame, remote.schema), frame.size, frame.backlog)
            case frames.FrameKind.ELEMENT:
                self._on_element(remote, frame.body)
            case frames.FrameKind.SCHEMA:
                remote.schema = pa.ipc.read_schema(frame.body)
            case _:
                self._remove(remote)
                remote.on_gone(frame.body.decode(errors="replace"))

    def _drop(self, frame: frames.Frame) -> None:
        """What was on its way when the task closed its channel."""
        segment = self._segment
        if frame.kind == frames.FrameKind.SHARED_BATCH and segment is not None:
            segment.free(frames.decode_place(frame.body))

    def _shared(self, frame: frames.Frame, schema: pa.Schema) -> pa.RecordBatch:
        segment = self._segment
        if segment is None:
            raise frames.BadFrame("a batch in shared memory that is not there")
        return segment.read(frames.decode_place(frame.body), schema)

    def _on_element(self, remote: RemoteInput, body: bytes) -> None:
        try:
            element = frames.decode_element(body)
        except msgspec.MsgspecError as error:
            raise frames.BadFrame("no element") from error
        if isinstance(element, EndOfInput):
            self._remove(remote)
        remote.on_element(element)

    def _remove(self, remote: RemoteInput) -> None:
        with self._lock:
            self._inputs.pop(remote.number, None)

    def _on_end(self, cause: str) -> None:
        self._end(f"{self.name}: {cause}")

    def _end(self, cause: str) -> None:
        with self._lock:
            if self._end_cause:
                return
            self._end_cause = cause
            inputs, self._inputs = list(self._inputs.values()), {}
            self._segment = None
        if self._stream is not None:
            self._stream.close()
        # First, so that who opens an input meanwhile gets a stream of its own.
        self._on_stream_end(self)
        for remote in inputs:
            remote.on_gone(cause)
