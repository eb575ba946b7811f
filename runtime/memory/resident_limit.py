"""Keeps mapped state from filling the memory: unmaps the parts that are used least, once more than a limit are mapped."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.mapped_file import PART_BYTES, Mapping
from sqlstream.runtime.memory.mapped_memory import Mappings

logger = logging.getLogger(__name__)

BUSY_PAUSE_S = 0.01
IDLE_PAUSE_S = 0.5
"""How often the limit is looked at, while there is more state than it allows, and otherwise."""

COUNT_INTERVAL_S = 2.0
"""How often pages are counted one by one, at least. In between, the process's figure of mapped file pages says how many came."""

_GOAL = 0.75
"""Down to what part of the limit pages are unmapped: counting all pages takes time."""

_READ_MOSTLY_COST = 1 / 32
"""What a part that is only read counts, of one that is written: the file system is told of the first write to a page and of its
end, which takes eight times the CPU, and what was written has to go to the disk."""

_HALF_LIFE_S = 10.0
"""By when the rate of a part from before it was last unmapped counts half."""

Array = np.ndarray[Any, Any]


class PageFigures(Protocol):
    """What the system says of the pages of this process."""

    def file_bytes(self) -> int:
        """Mapped pages of all files, those of libraries too."""

    def resident_bytes(self, mapping: Mapping) -> Array:
        """int64: mapped bytes of each part."""


class ProcessPages:
    """Implements `PageFigures` by /proc; OSError where it cannot. State: two descriptors, until `close`."""

    def __init__(self) -> None:
        self._status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._page_map = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(self._status)
            raise

    def file_bytes(self) -> int:
        text = os.pread(self._status, 8192, 0)
        return int(text[text.index(b"RssFile:") + 8 :].split(None, 1)[0]) << 10

    def resident_bytes(self, mapping: Mapping) -> Array:
        return mapping.resident_bytes(self._page_map, PART_BYTES)

    def close(self) -> None:
        os.close(self._status)
        os.close(self._page_map)


class _Parts:
    """The parts of one mapping: when each was last unmapped, and how many of its bytes per second were mapped before that, in
    bytes of pages that are mapped one by one."""

    def __init__(self, count: int, now_s: float, *, is_read_mostly: bool) -> None:
        self._weight = _READ_MOSTLY_COST if is_read_mostly else 1.0
        self.since_s = np.full(count, now_s)
        self.rates = np.zeros(count)

    def current_rates(self, resident: Array, now_s: float) -> Array:
        passed_s = now_s - self.since_s
        found: Array = np.maximum(
            self._weight * resident / (passed_s + BUSY_PAUSE_S), self.rates * 0.5 ** (passed_s / _HALF_LIFE_S)
        )
        return found


class ResidentLimit:
    """Keeps the mapped pages of all state of a process below `limit_bytes`. The system does not say which pages are in use. But
    a part that is unmapped is mapped again page by page as it is used: the parts of which the fewest bytes per second come back
    are unmapped first, a part in use seldom, and a page in use is mapped again from the system's cache.

    What the system does with pages that nobody has mapped is its own decision: it keeps them while there is memory, and writes
    them out when there is none. `drop` unmaps a part; a measurement has it write the part out at once.
    State: whose mappings they are; of each part how fast it comes back; how many file pages are not ours. One thread calls
    `keep`."""

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
        self._parts: dict[int, _Parts] = {}
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
            is_scarce = sum(mapping.nbytes for mapping in live) > self.limit_bytes
            for owner in self._owners:
                owner.is_scarce = is_scarce
        if not is_scarce:
            self._counted_s = None
            return IDLE_PAUSE_S
        is_due = self._counted_s is None or self._now_s() - self._counted_s >= COUNT_INTERVAL_S
        if is_due or self._pages.file_bytes() - self._others_bytes > self.limit_bytes:
            self._count(live)
        return BUSY_PAUSE_S

    def _count(self, live: list[Mapping]) -> None:
        """Count the mapped pages of state, and unmap what is too much."""
        now_s = self._now_s()
        residents = [self._pages.resident_bytes(mapping) for mapping in live]
        own_bytes = sum(int(resident.sum()) for resident in residents)
        self._others_bytes = self._pages.file_bytes() - own_bytes
        self._counted_s = now_s
        self._parts = {
            mapping.address: self._known(mapping, len(resident), now_s)
            for mapping, resident in zip(live, residents, strict=True)
        }
        if own_bytes > self.limit_bytes:
            self._unmap(live, residents, own_bytes - int(_GOAL * self.limit_bytes), now_s)

    def _known(self, mapping: Mapping, count: int, now_s: float) -> _Parts:
        known = self._parts.get(mapping.address)
        if known is not None and len(known.rates) == count:
            return known
        return _Parts(count, now_s, is_read_mostly=mapping.is_read_mostly)

    def _unmap(self, live: list[Mapping], residents: list[Array], excess_bytes: int, now_s: float) -> None:
        """Unmap the parts with the least rates, until so many bytes are unmapped: those that lie together by one call, as each
        call waits for the interpreter."""
        parts = [self._parts[mapping.address] for mapping in live]
        found = [p.current_rates(resident, now_s) for p, resident in zip(parts, residents, strict=True)]
        rates, resident = np.concatenate(found), np.concatenate(residents)
        owners = np.repeat(np.arange(len(live)), [len(r) for r in residents])
        numbers = np.concatenate([np.arange(len(r)) for r in residents])
        order = np.argsort(rates, kind="stable")
        order = order[resident[order] > 0]
        count = int(np.searchsorted(np.cumsum(resident[order]), excess_bytes)) + 1
        chosen = np.sort(order[:count])
        is_next = (np.diff(chosen) == 1) & (np.diff(owners[chosen]) == 0)
        for run in np.split(chosen, np.flatnonzero(~is_next) + 1):
            owner, first = int(owners[run[0]]), int(numbers[run[0]])
            self._drop(live[owner], first * PART_BYTES, len(run) * PART_BYTES)
            places = slice(first, first + len(run))
            parts[owner].rates[places], parts[owner].since_s[places] = rates[run], now_s


class ResidentKeeper:
    """The thread of a `ResidentLimit`. A failure is logged, and it goes on. State: the thread, from the first `start` to `stop`;
    whether the limit could not be kept last."""

    def __init__(self, limit: ResidentLimit) -> None:
        self._limit = limit
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_failing = False

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="resident-state", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._keep()):
            pass

    def _keep(self) -> float:
        try:
            pause_s = self._limit.keep()
        except Exception as error:  # the thread's boundary: without it nothing would keep the limit
            if not self._is_failing:
                logger.warning("could not keep mapped state below its limit, and try again: %s", error)
            self._is_failing = True
            return IDLE_PAUSE_S
        self._is_failing = False
        return pause_s
