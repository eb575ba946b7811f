"""Bounded queues between two tasks: one producer thread, one consumer thread, bytes counted."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

ELEMENT_BYTES = 64
"""The bytes that an element counts in a channel's bound."""

ABANDONED_CHECK_S = 1.0

StreamItem = Any
"""A pyarrow.RecordBatch or an Element."""


class ChannelClosed(Exception):
    """The channel was closed by the other end, or because its own task ends; the caller stops using it."""


class Channel:
    """What one subtask sends to another, in order, at most `capacity_bytes` (and one batch) ahead of the
    reader.

    Within a process the batch itself is passed. Between processes there is one channel on each side: the
    sender's holds items without credit, the receiver's holds items that have arrived and calls `on_read` with the bytes
    taken out. State: the queued items, until they are read."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._items: deque[tuple[Any, int]] = deque()
        self._queued_bytes = 0
        self._is_closed = False
        self._is_connected = False
        self._on_readable: Callable[[], None] | None = None
        self._changed = threading.Condition()
        self.on_read: Callable[[int], None] | None = None

    @property
    def queued_bytes(self) -> int:
        return self._queued_bytes

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def put_if_room(self, item: StreamItem, size: int) -> bool:
        """Append an item unless the channel is full; never waits. ChannelClosed when it will not be read."""
        with self._changed:
            if self._is_closed:
                raise ChannelClosed
            if self._queued_bytes >= self._capacity_bytes:
                return False
            is_first = self._append(item, size)
        if is_first and self._on_readable is not None:
            self._on_readable()
        return True

    def put(self, item: StreamItem, size: int) -> None:
        """Append an item, waiting while the channel is full. ChannelClosed when it will not be read."""
        with self._changed:
            while self._queued_bytes >= self._capacity_bytes and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                raise ChannelClosed
            is_first = self._append(item, size)
        if is_first and self._on_readable is not None:
            self._on_readable()

    def _append(self, item: StreamItem, size: int) -> bool:
        self._items.append((item, size))
        self._queued_bytes += size
        is_first = len(self._items) == 1
        if is_first:
            self._changed.notify_all()
        return is_first

    def take(self) -> tuple[StreamItem | None, bool]:
        """The next item (None: the channel is empty) and whether more are queued; never waits."""
        with self._changed:
            if not self._items:
                return None, False
            item, size = self._items.popleft()
            was_full = self._queued_bytes >= self._capacity_bytes
            self._queued_bytes -= size
            if was_full:
                self._changed.notify_all()
            has_more = bool(self._items)
        if self.on_read is not None:
            self.on_read(size)
        return item, has_more

    def take_waiting(self, is_abandoned: Callable[[], bool]) -> tuple[StreamItem, int, int]:
        """Wait for the next item; returns it, its size and the bytes still queued. ChannelClosed when none will come,
        or when `is_abandoned`, called once per second, returns True: the reader's peer no longer waits."""
        with self._changed:
            while not self._items and not self._is_closed:
                if not self._changed.wait(ABANDONED_CHECK_S) and is_abandoned():
                    raise ChannelClosed
            if self._is_closed:
                raise ChannelClosed
            item, size = self._items.popleft()
            was_full = self._queued_bytes >= self._capacity_bytes
            self._queued_bytes -= size
            if was_full:
                self._changed.notify_all()
            return item, size, self._queued_bytes

    def listen(self, on_readable: Callable[[], None]) -> None:
        """Call `on_readable` each time the channel turns from empty to readable, at once when it is readable
        already."""
        with self._changed:
            self._on_readable = on_readable
            is_readable = bool(self._items)
        if is_readable:
            on_readable()

    def resize(self, capacity_bytes: int) -> None:
        """Set the bound; what is queued already stays."""
        with self._changed:
            self._capacity_bytes = capacity_bytes
            self._changed.notify_all()

    def connect(self) -> None:
        """Mark the channel as opened by both ends."""
        with self._changed:
            self._is_connected = True
            self._changed.notify_all()

    def wait_connected(self) -> None:
        """Wait until both ends have opened the channel, so that the queued items will be read. ChannelClosed when they
        will not."""
        with self._changed:
            while not self._is_connected and not self._is_closed:
                self._changed.wait()
            if self._is_closed and not self._is_connected:
                raise ChannelClosed

    def close(self) -> None:
        """Drop the queued items and wake both ends."""
        with self._changed:
            self._is_closed = True
            self._items.clear()
            self._queued_bytes = 0
            self._changed.notify_all()
