"""What the tables have in common whose servers send by themselves: a thread that receives, and a reader that emits it."""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sqlstream.runtime.connectors.message_rows import MessageRows
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus

_PARTS_MAX, _BYTES_MAX = 8, 64 << 20
_AWAITING_S, _AWAITING_ROOM_S = 0.01, 0.1
_ENDING_S = 1.0
_AWAITING_MS = 1_000
"""How long a reader is left alone at most while nothing comes."""
_WAKING_BYTES = 4096


@dataclass(frozen=True)
class Received:
    """Messages in their order, with metadata of each; `position` is behind them. `is_last`: no more will come."""

    messages: pa.Array
    metadata: Mapping[str, pa.Array] = field(default_factory=dict)
    position: dict[str, Any] = field(default_factory=dict)
    is_last: bool = False


class Receiver:
    """Runs `receive` in a thread, which hands on what comes until `is_closed`. State: a few parts that nobody has taken, of so
    many bytes and one part more, and a pipe that can be read when one has come since `take` found none."""

    def __init__(self, name: str, receive: Callable[[Receiver], None]) -> None:
        self._parts: deque[Received | BaseException] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._receive = receive
        self.is_closed = threading.Event()
        self.fileno, self._woken = os.pipe()
        for end in (self.fileno, self._woken):
            os.set_blocking(end, False)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self._receive(self)
        except BaseException as error:
            self._put(error)

    def hand_on(self, received: Received) -> None:
        """Waits while the reader has enough."""
        self._put(received)

    def _put(self, part: Received | BaseException) -> None:
        with self._changed:
            while len(self._parts) >= _PARTS_MAX or self._bytes >= _BYTES_MAX:
                if self.is_closed.is_set():
                    return
                self._changed.wait(_AWAITING_ROOM_S)
            self._parts.append(part)
            self._bytes += _bytes_of(part)
            self._changed.notify_all()
            if self._woken >= 0:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._woken, b"!")

    def take(self) -> Received | None:
        """What has come; the thread's error is raised. None when nothing has."""
        if self._thread.ident is None:
            self._thread.start()
        with self._changed:
            if not self._parts:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.fileno, _WAKING_BYTES)
                self._changed.wait(_AWAITING_S)
            if not self._parts:
                return None
            part = self._parts.popleft()
            self._bytes -= _bytes_of(part)
            self._changed.notify_all()
        if isinstance(part, BaseException):
            raise part
        return part

    def close(self) -> None:
        """What the thread waits for has been interrupted by its owner. One that is in a call which nobody can interrupt, such as
        for the addresses of a name, ends by itself."""
        self.is_closed.set()
        if self._thread.ident is not None:
            self._thread.join(_ENDING_S)
        with self._changed:
            for end in (self.fileno, self._woken):
                if end >= 0:
                    os.close(end)
            self.fileno = self._woken = -1


def _bytes_of(part: Received | BaseException) -> int:
    return part.messages.nbytes if isinstance(part, Received) else 0


class ReceivingReader(ABC):
    """Emits what a server has sent over the one connection of a table. State: the place behind the last message, where the
    server can go on from one; none when no more will come."""

    def __init__(
        self, spec: SourceSpec, context: ConnectorContext, splits: list[dict[str, Any]], place: str
    ) -> None:
        """Whatever `interrupt` needs is there before. `place`: where messages come from."""
        self._spec, self._context = spec, context
        self._splits = [dict(split) for split in splits]
        self._rows = MessageRows(spec, context, "SS5346", place)
        self._receiver = Receiver(f"{spec.connector}-source", self.receive)
        context.on_cancel(self._abort)

    @abstractmethod
    def receive(self, receiver: Receiver) -> None:
        """In the receiver's thread: hand on what comes until it is closed."""

    @abstractmethod
    def interrupt(self) -> None:
        """End what `receive` waits for."""

    def _abort(self) -> None:
        self._receiver.is_closed.set()
        self.interrupt()

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if not self._splits:
            return SourceStatus.END
        received = self._receiver.take()
        if received is None:
            return SourceStatus.NOTHING_YET
        if received.is_last:
            self._splits = []
            return SourceStatus.END
        self._context.count("numBytesIn", received.messages.nbytes)
        # The format has the other metadata of the table.
        metadata = {
            f.name: received.metadata[f.name] for f in self._spec.metadata if f.name in received.metadata
        }
        batch = self._rows.rows(received.messages, metadata)
        if received.position:
            self._splits[0] = received.position
        return batch if batch.num_rows else SourceStatus.NOTHING_YET

    def next_poll_ms(self) -> int | None:
        return self._context.now_ms() + _AWAITING_MS

    def wait_fileno(self) -> int | None:
        return self._receiver.fileno

    def snapshot(self) -> list[dict[str, Any]]:
        return [dict(split) for split in self._splits]

    def close(self) -> None:
        self._abort()
        self._receiver.close()
        self._rows.close()
