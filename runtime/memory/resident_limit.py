"""Keeps mapped state from filling the memory: unmaps pages, part after part, once more than a limit are mapped."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from runtime.host.clock import steady_s
from runtime.host.mapped_file import Mapping
from runtime.memory.mapped_memory import Mappings

PART_BYTES = 4 << 20
"""How much is unmapped by one call."""

BUSY_PAUSE_S = 0.01
IDLE_PAUSE_S = 0.5
"""How often the limit is looked at, while there is more state than it allows, and otherwise."""

COUNT_INTERVAL_S = 2.0
"""How often pages are counted one by one. In between, the process's figure of mapped file pages says how many came and went."""

_PARTS_PER_LOOK = 8
_GOAL = 0.75
"""Down to what part of the limit pages are unmapped: pages that are in use come back at once, so this is not done too often."""


class PageFigures(Protocol):
    """What the system says of the pages of this process."""

    def file_bytes(self) -> int:
        """Mapped pages of all files, those of libraries too."""

    def resident_bytes(self, mapping: Mapping) -> int: ...


class ProcessPages:
    """Implements `PageFigures` by /proc. State: a descriptor, for good."""

    def __init__(self) -> None:
        self._status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        self._page_map = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)

    def file_bytes(self) -> int:
        text = os.pread(self._status, 8192, 0)
        return int(text[text.index(b"RssFile:") + 8 :].split(None, 1)[0]) << 10

    def resident_bytes(self, mapping: Mapping) -> int:
        return mapping.resident_pages(self._page_map) * mmap.PAGESIZE

    def close(self) -> None:
        os.close(self._status)
        os.close(self._page_map)


class ResidentLimit:
    """Keeps the mapped pages of all state of a process below `limit_bytes`, by turns: the part that was mapped for longest is
    unmapped first, and a page that is in use is mapped again when it is next read, from the system's cache.

    What the system does with pages that nobody has mapped is its own decision: it keeps them while there is memory, and writes
    them out when there is none. `drop` unmaps a part; a measurement has it write the part out at once.
    State: whose mappings they are; where the next turn begins; how many file pages are not ours. One thread calls `keep`."""

    def __init__(
        self,
        limit_bytes: int,
        pages: PageFigures,
        drop: Callable[[Mapping, int, int], None] = Mapping.drop,
        now_s: Callable[[], float] = steady_s,
    ) -> None:
        self.limit_bytes = limit_bytes
        self._pages = pages
        self._drop = drop
        self._now_s = now_s
        self._owners: list[Mappings] = []
        self._lock = threading.Lock()
        self._hand = 0
        self._others_bytes = 0
        self._counted_s: float | None = None

    def add(self, mappings: Mappings) -> None:
        """Called by any thread."""
        with self._lock:
            self._owners.append(mappings)

    def remove(self, mappings: Mappings) -> None:
        with self._lock:
            self._owners.remove(mappings)

    def keep(self) -> float:
        """Unmap what is too much; returns after how many seconds to look again."""
        with self._lock:
            live = [mapping for owner in self._owners for mapping in owner.live()]
        if sum(mapping.nbytes for mapping in live) <= self.limit_bytes:
            self._counted_s = None
            return IDLE_PAUSE_S
        if self._counted_s is None or self._now_s() - self._counted_s >= COUNT_INTERVAL_S:
            self._count(live)
        if self._resident() > self.limit_bytes:
            self._unmap(live)
        return BUSY_PAUSE_S

    def _resident(self) -> int:
        return self._pages.file_bytes() - self._others_bytes

    def _count(self, live: list[Mapping]) -> None:
        own = sum(self._pages.resident_bytes(mapping) for mapping in live)
        self._others_bytes = self._pages.file_bytes() - own
        self._counted_s = self._now_s()

    def _unmap(self, live: list[Mapping]) -> None:
        goal = int(_GOAL * self.limit_bytes)
        parts = list(_parts(live))
        for count in range(len(parts)):
            mapping, start = parts[(self._hand + count) % len(parts)]
            self._drop(mapping, start, PART_BYTES)
            if count % _PARTS_PER_LOOK == _PARTS_PER_LOOK - 1 and self._resident() <= goal:
                self._hand = (self._hand + count + 1) % len(parts)
                return
        # Each part was unmapped: what is left came back meanwhile, or is not ours.
        self._counted_s = None


def _parts(mappings: list[Mapping]) -> Iterator[tuple[Mapping, int]]:
    for mapping in mappings:
        for start in range(0, mapping.nbytes, PART_BYTES):
            yield mapping, start


class ResidentKeeper:
    """The thread of a `ResidentLimit`. State: the thread, from the first `start` to `stop`."""

    def __init__(self, limit: ResidentLimit) -> None:
        self._limit = limit
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="resident-state", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._limit.keep()):
            pass
