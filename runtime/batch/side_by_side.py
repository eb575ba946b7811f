"""Several readers of one table side by side, as one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa

BYTES_AHEAD_MAX = 16 * 1024 * 1024
"""Rows that all readers may be ahead, and one batch of each."""

BATCH_BYTES = 1024
"""What a batch counts beyond its rows: a table without columns has batches without bytes."""

JOIN_TIMEOUT_S = 5.0

Reading = Callable[[Callable[[], bool]], Iterator[pa.RecordBatch]]
"""Makes the iterator of one reader, which ends soon after the function that it is given returns True."""

_Item: TypeAlias = pa.RecordBatch | BaseException | None
"""A batch, the failure of a reader, or None for the end of one."""


class _Unread:
    """What readers have read and nobody has taken yet, in the order in which it came.

    State: items up to BYTES_AHEAD_MAX and one batch of each reader; thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: deque[_Item] = deque()
        self._held_bytes = 0
        self._is_stopped = False

    def put(self, item: _Item) -> None:
        """Append an item, waiting for room; after `stop` nothing is kept."""
        with self._changed:
            while self._held_bytes >= BYTES_AHEAD_MAX and not self._is_stopped:
                self._changed.wait()
            if not self._is_stopped:
                self._items.append(item)
                self._held_bytes += _size(item)
                self._changed.notify_all()

    def take(self) -> _Item:
        """The next item, waiting for it."""
        with self._changed:
            while not self._items:
                self._changed.wait()
            item = self._items.popleft()
            self._held_bytes -= _size(item)
            self._changed.notify_all()
            return item

    def stop(self) -> None:
        """Nobody takes more items: whoever waits for room goes on."""
        with self._changed:
            self._is_stopped = True
            self._items.clear()
            self._changed.notify_all()

    def is_stopped(self) -> bool:
        return self._is_stopped


def _size(item: _Item) -> int:
    return item.nbytes + BATCH_BYTES if isinstance(item, pa.RecordBatch) else 0


def read_side_by_side(readings: Sequence[Reading]) -> Iterator[pa.RecordBatch]:
    """The batches of all readers as they come, each reader on a thread of its own; those of one reader keep their order.

    The first failure of a reader is raised, and ends the others; so does closing the iterator."""
    unread = _Unread()

    def read(reading: Reading) -> None:
        try:
            for batch in reading(unread.is_stopped):
                unread.put(batch)
                if unread.is_stopped():
                    return
        except BaseException as error:  # the thread's boundary: the iterator raises it
            unread.put(error)
        else:
            unread.put(None)

    threads = [
        threading.Thread(target=read, args=(reading,), name=f"table reader {n}", daemon=True)
        for n, reading in enumerate(readings)
    ]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            item = unread.take()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                running -= 1
            else:
                yield item
    finally:
        unread.stop()
        for thread in threads:
            thread.join(JOIN_TIMEOUT_S)
