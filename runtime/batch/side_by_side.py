"""Several readers of one table side by side, as one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

AHEAD = 2
"""Batches that each reader may be ahead."""

LOOK_S = 0.1
"""How often a reader that waits for room looks whether anybody still wants its rows."""

JOIN_TIMEOUT_S = 5.0

Reading = Callable[[Callable[[], bool]], Iterator[pa.RecordBatch]]
"""Makes the iterator of one reader, which ends soon after the function that it is given returns True."""


def read_side_by_side(readings: Sequence[Reading]) -> Iterator[pa.RecordBatch]:
    """The batches of all readers as they come, each reader on a thread of its own; those of one reader keep their order.

    The first failure of a reader is raised, and ends the others; so does closing the iterator."""
    unread: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(AHEAD * len(readings))
    stopped = threading.Event()

    def put(item: pa.RecordBatch | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                unread.put(item, timeout=LOOK_S)
            except queue.Full:
                continue
            return

    def read(reading: Reading) -> None:
        try:
            for batch in reading(stopped.is_set):
                put(batch)
                if stopped.is_set():
                    return
        except BaseException as error:  # the thread's boundary: the iterator raises it
            put(error)
        else:
            put(None)

    threads = [
        threading.Thread(target=read, args=(reading,), name=f"table reader {n}", daemon=True)
        for n, reading in enumerate(readings)
    ]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            item = unread.get()
            if isinstance(item, BaseException):
                raise item
            if item is None:
                running -= 1
            else:
                yield item
    finally:
        stopped.set()
        for thread in threads:
            thread.join(JOIN_TIMEOUT_S)
