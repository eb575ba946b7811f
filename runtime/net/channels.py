"""Queues between two tasks: one producer thread, one consumer thread, bytes counted."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from sqlstream.elements import CheckpointBarrier, EndOfInput
from sqlstream.runtime.kernels.keys.hashing import KeyHashes

ELEMENT_BYTES = 64
"""The bytes that an element counts in a channel's bound."""

StreamItem = Any
"""A pyarrow.RecordBatch or an Element."""


class ChannelClosed(Exception):
    """The channel was closed by the other end, or because its own task ends; the caller stops using it."""


class QueuedItem:
    """An item of a channel with the bytes that it counts there; 0 for an element that came from another process. `key_hashes` are
    the hashes by which a batch was split in this process: the consumer need not hash its keys again. `passed` is what an item
    that was put first has passed, where the consumer has to know."""

    __slots__ = ("item", "key_hashes", "passed", "size")

    def __init__(self, item: StreamItem, size: int, key_hashes: KeyHashes | None = None) -> None:
        self.item = item
        self.size = size
        self.key_hashes = key_hashes
        self.passed: tuple[QueuedItem, ...] = ()


class Channel:
    """What one subtask sends to another, in order.

    `put` never waits. The producer asks for room (`has_room`) before it takes input, and what one input produces may go
    beyond `capacity_bytes`: by as much again, from where on it waits (`is_overdrawn`, `wait_for_room`). A full channel has room
    again once half of it has been read, so that a producer is not woken for each batch.

    Nor is a consumer: it is called once `wake_bytes` are queued, for the end of input, or when the producer calls `flush`
    because it waits itself or has not done so for a while. A consumer that has nothing else to do looks for what is queued
    before it waits (`flush` too).

    Within a process the batch itself is passed. Between processes there is one channel on each side: the
    sender's holds what waits for credit, the receiver's holds items that have arrived and calls `on_read` with the bytes
    taken out, and `on_timed` with a barrier that does not wait for ever. State: the queued items, until they are read."""

    def __init__(self, capacity_bytes: int, wake_bytes: int = 0) -> None:
        self._capacity_bytes = capacity_bytes
        self._wake_bytes = wake_bytes
        self._items: deque[QueuedItem] = deque()
        self._queued_bytes = 0
        # How many of the items, at the head, were put first.
        self._firsts = 0
        self._has_room = True
        # Whether the consumer has been called since the channel was last empty.
        self._is_announced = False
        self._is_closed = False
        self._is_connected = False
        self._on_readable: Callable[[], None] | None = None
        self._on_first: Callable[[], None] | None = None
        self._on_room: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self.on_read: Callable[[int], None] | None = None
        self.on_timed: Callable[[CheckpointBarrier], None] | None = None

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # --- the producer's side

    @property
    def has_room(self) -> bool:
        """Whether the producer may take further input. True of a closed channel, whose next `put` raises."""
        return self._has_room

    @property
    def is_overdrawn(self) -> bool:
        """Whether twice the bound is queued, so that the producer waits even within an operator."""
        return self._queued_bytes >= 2 * self._capacity_bytes

    def put(self, item: StreamItem, size: int, key_hashes: KeyHashes | None = None) -> None:
        """Append an item, however many are queued. ChannelClosed when it will not be read."""
        with self._lock:
            self._insert(len(self._items), QueuedItem(item, size, key_hashes))
            announces = not self._is_announced and (
                self._queued_bytes >= self._wake_bytes or not self._has_room or isinstance(item, EndOfInput)
            )
            if announces:
                self._is_announced = True
        if announces and self._on_readable is not None:
            self._on_readable()

    def flush(self) -> None:
        """Call the consumer if anything is queued of which it has not been told."""
        with self._lock:
            announces = not self._is_announced and bool(self._items)
            if announces:
                self._is_announced = True
        if announces and self._on_readable is not None:
            self._on_readable()

    def put_first(self, item: StreamItem, size: int, *, keeps_passed: bool = False) -> tuple[QueuedItem, ...]:
        """Put an item before all that are queued, but behind those that were put first before; returns what it passes, in
        order, and with `keeps_passed` leaves that with the item. ChannelClosed when it will not be read."""
        with self._lock:
            passed = tuple(self._items)[self._firsts :]
            queued = QueuedItem(item, size)
            queued.passed = passed if keeps_passed else ()
            self._insert(self._firsts, queued)
            self._firsts += 1
            self._is_announced = True
        if self._on_first is not None:
            self._on_first()
        return passed

    def holds(self, checkpoint_id: int) -> bool:
        """Whether the barrier of this checkpoint is queued behind items that it may pass."""
        with self._lock:
            return self._place_of(checkpoint_id) is not None

    def overtake(self, checkpoint_id: int, *, keeps_passed: bool = False) -> tuple[QueuedItem, ...]:
        """Have a barrier pass the items that it is queued behind, as if it were put first at this moment; returns them as
        `put_first` does, and nothing when the barrier is not queued any more."""
        with self._lock:
            place = self._place_of(checkpoint_id)
            if place is None:
                return ()
            queued = self._items[place]
            del self._items[place]
            passed = tuple(itertools.islice(self._items, self._firsts, place))
            moved = QueuedItem(msgspec.structs.replace(queued.item, is_unaligned=True), queued.size)
            moved.passed = passed if keeps_passed else ()
            self._items.insert(self._firsts, moved)
            self._firsts += 1
            self._is_announced = True
        if self._on_first is not None:
            self._on_first()
        return passed

    def _place_of(self, checkpoint_id: int) -> int | None:
        for place, queued in enumerate(self._items):
            item = queued.item
            if isinstance(item, CheckpointBarrier) and item.checkpoint_id == checkpoint_id:
                return None if item.is_unaligned else place
        return None

    def _insert(self, place: int, queued: QueuedItem) -> None:
        if self._is_closed:
            raise ChannelClosed
        self._items.insert(place, queued)
        self._queued_bytes += queued.size
        if self._queued_bytes >= self._capacity_bytes:
            self._has_room = False

    def when_room(self, on_room: Callable[[], None]) -> None:
        """Call `on_room`, on the consumer's thread, each time the full channel has room again or is closed."""
        self._on_room = on_room

    def wait_for_room(self) -> None:
        """Wait until the channel has room, or is closed."""
        self._wait_until(lambda: self._has_room)

    # --- the consumer's side

    def take(self, with_rows: bool = True) -> tuple[QueuedItem | None, bool]:
        """The next item (None: there is none) and whether more are queued; never waits.

        Without `with_rows` a batch stays where it is: a sender without credit sends elements only, and an item that is put
        first passes the batch that waits for credit."""
        with self._lock:
            if not self._items or (not with_rows and isinstance(self._items[0].item, pa.RecordBatch)):
                return None, bool(self._items)
            queued = self._items.popleft()
            self._firsts = max(0, self._firsts - 1)
            self._queued_bytes -= queued.size
            has_more = self._is_announced = bool(self._items)
            gets_room = self._gets_room()
        if gets_room and self._on_room is not None:
            self._on_room()
        if self.on_read is not None:
            self.on_read(queued.size)
        return queued, has_more

    def take_first(self) -> tuple[QueuedItem | None, bool]:
        """As `take`, but nothing except an item that was put first."""
        # Only the consumer, which calls this, makes them fewer; a closed channel has none.
        return self.take() if self._firsts else (None, False)

    def _gets_room(self) -> bool:
        """Whether the channel was full and has room again."""
        if self._has_room or (2 * self._queued_bytes > self._capacity_bytes and not self._is_closed):
            return False
        self._has_room = True
        if self._waiting:
            self._changed.notify_all()
        return True

    def listen(self, on_readable: Callable[[], None], on_first: Callable[[], None] | None = None) -> None:
        """Call `on_readable`, on the producer's thread, each time that there is something to read after the channel was empty, at
        once when it is readable or closed already; call `on_first` for an item that is put first, instead."""
        with self._lock:
            self._on_readable = on_readable
            self._on_first = on_first or on_readable
            is_readable = self._is_announced = bool(self._items) or self._is_closed
        if is_readable:
            on_readable()

    # --- both sides

    def resize(self, capacity_bytes: int) -> None:
        """Set the bound; what is queued already stays."""
        with self._lock:
            self._capacity_bytes = capacity_bytes
            gets_room = self._gets_room()
        if gets_room and self._on_room is not None:
            self._on_room()

    def limit(self, capacity_bytes: int) -> None:
        """The consumer asks that no more than this be under way, on both sides of the channel."""
        self.resize(capacity_bytes)

    def connect(self) -> None:
        """Mark the channel as opened by both ends."""
        with self._lock:
            self._is_connected = True
            self._changed.notify_all()

    def wait_connected(self) -> None:
        """Wait until both ends have opened the channel, so that the queued items will be read. ChannelClosed when they
        will not."""
        self._wait_until(lambda: self._is_connected)

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        with self._lock:
            self._waiting += 1
            try:
                while not is_so() and not self._is_closed:
                    self._changed.wait()
            finally:
                self._waiting -= 1
            if not is_so():
                raise ChannelClosed

    def close(self) -> None:
        """Drop the queued items and wake both ends; who listens finds the channel closed."""
        with self._lock:
            self._is_closed = True
            self._items.clear()
            self._firsts = 0
            self._queued_bytes = 0
            gets_room = self._gets_room()
            self._changed.notify_all()
            on_readable = self._on_readable
        if gets_room and self._on_room is not None:
            self._on_room()
        if on_readable is not None:
            on_readable()
