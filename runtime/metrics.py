"""What a cluster costs: CPU time and peak memory, summed over its processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from sqlstream.runtime.host import process


class ProcessUsage:
    """CPU time since it was made, and peak memory, of this process and its children. Thread-safe.

    `children` names those that run. A child that ends counts as far as it was measured: `measure` is called before one is
    released. State: the latest figures of each process, also of those that have ended.
    """

    def __init__(self, children: Callable[[], tuple[int, ...]]) -> None:
        self._children = children
        self._used_before_s = process.cpu_seconds(os.getpid())
        self._cpu_s: dict[int, float] = {}
        self._peak_rss_bytes: dict[int, int] = {}
        self._lock = threading.Lock()

    def cpu_seconds(self) -> float:
        self.measure()
        with self._lock:
            return sum(self._cpu_s.values()) - self._used_before_s

    def peak_rss_bytes(self) -> int:
        self.measure()
        with self._lock:
            return sum(self._peak_rss_bytes.values())

    def measure(self) -> None:
        for process_id in (os.getpid(), *self._children()):
            cpu_s, peak = process.cpu_seconds(process_id), process.peak_rss_bytes(process_id)
            with self._lock:
                self._cpu_s[process_id] = max(cpu_s, self._cpu_s.get(process_id, 0.0))
                self._peak_rss_bytes[process_id] = max(peak, self._peak_rss_bytes.get(process_id, 0))
