"""Frames in both directions over one connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sqlstream.runtime.net.streams import frames
from sqlstream.runtime.net.streams.byte_stream import ByteStream
from sqlstream.runtime.net.streams.stream_loop import StreamLoop

_READS_MAX = 16
"""How often one stream is read before the others have their turn."""


class FrameStream:
    """Any thread sends, and never waits: what the socket does not take is kept, and `is_congested` asks to send no more data.

    The loop's thread calls `on_frame` for each frame, `on_room` when a congested stream has sent all, and `on_end` once, with the
    cause, when the stream ends in any way but `close`. State: the connection."""

    def __init__(
        self,
        stream: ByteStream,
        loop: StreamLoop,
        limits: frames.BodyLimits,
        on_frame: Callable[[frames.Frame], None],
        on_end: Callable[[str], None],
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._stream = stream
        self._loop = loop
        self._reader = frames.FrameReader(limits)
        self._on_frame = on_frame
        self._on_end = on_end
        self._on_room = on_room
        self._is_closed = False
        self._sending = threading.Lock()

    def start(self) -> None:
        with self._sending:
            if not self._is_closed:
                self._loop.add(self._stream.socket, self._on_ready)

    @property
    def is_congested(self) -> bool:
        return self._stream.is_congested

    def send(
        self, kind: frames.FrameKind, channel: int, size: int = 0, backlog: int = 0, body: Any = b""
    ) -> None:
        """Send one frame; nothing happens when the stream has ended."""
        view = memoryview(body).cast("B")
        parts = [memoryview(frames.encode_header(kind, channel, len(view), size, backlog)), view]
        with self._sending:
            if self._is_closed:
                return
            was_congested = self._stream.is_congested
            try:
                self._stream.send(parts)
            except OSError as error:
                self._fail(error)
                return
            if self._stream.is_congested and not was_congested:
                self._loop.watch_writes(self._stream.socket, True)

    def close(self) -> None:
        """End the stream; `on_end` is not called. Harmless when repeated."""
        with self._sending:
            if self._is_closed:
                return
            self._is_closed = True
        self._loop.remove(self._stream.socket, self._stream.close)

    # --- the loop's thread

    def _on_ready(self, is_readable: bool, is_writable: bool) -> None:
        try:
            if is_writable:
                self._flush()
            if is_readable:
                self._receive()
        except Exception as error:  # the thread's boundary: a stream's failure is that of its channels
            self._end(error)

    def _flush(self) -> None:
        with self._sending:
            if self._is_closed or not self._stream.is_congested:
                return
            self._stream.flush()
            if self._stream.is_congested:
                return
            self._loop.watch_writes(self._stream.socket, False)
        self._on_room()

    def _receive(self) -> None:
        reads = 0
        # What was received but not decrypted makes no socket readable.
        while not self._is_closed and (reads < _READS_MAX or self._stream.has_encrypted):
            reads += 1
            target = self._reader.target()
            size = self._stream.receive_into(target)
            for frame in self._reader.received(size):
                self._on_frame(frame)
            if size < len(target) and not self._stream.has_encrypted:
                return

    def _fail(self, error: Exception) -> None:
        """A thread that sends has found the connection broken: the loop's thread ends the stream."""
        self._loop.call(lambda: self._end(error))

    def _end(self, error: Exception) -> None:
        if self._is_closed:
            return
        self.close()
        self._on_end(_cause(error))


def _cause(error: Exception) -> str:
    if isinstance(error, frames.BadFrame):
        return f"it sent {error}"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return f"{type(error).__name__}: {error}"
