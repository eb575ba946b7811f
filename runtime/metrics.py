"""What a cluster costs: CPU time and peak memory, summed over its processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from sqlstream.runtime.host import process


class ProcessUsage:
    """CPU time since it was made, and peak memory, of this process and its children. Thread-safe.

    `children` names those that run. A child that ends counts as far as it was measured: `measure` is called before one is
    released. State: the latest figures of each process that runs, and the sums of those that have ended.
    """

    def __init__(self, children: Callable[[], tuple[int, ...]]) -> None:
        self._children = children
        self._used_before_s = process.cpu_seconds(os.getpid())
        self._figures: dict[int, tuple[float, int]] = {}
        self._ended_cpu_s, self._ended_peak_bytes = 0.0, 0
        self._lock = threading.Lock()

    def cpu_seconds(self) -> float:
        with self._lock:
            self._measure()
            return self._ended_cpu_s + sum(cpu_s for cpu_s, _ in self._figures.values()) - self._used_before_s

    def peak_rss_bytes(self) -> int:
        with self._lock:
            self._measure()
            return self._ended_peak_bytes + sum(peak for _, peak in self._figures.values())

    def measure(self) -> None:
        with self._lock:
            self._measure()

    def _measure(self) -> None:
        running = (os.getpid(), *self._children())
        for process_id in self._figures.keys() - set(running):
            # Its number may become that of another one.
            cpu_s, peak = self._figures.pop(process_id)
            self._ended_cpu_s, self._ended_peak_bytes = (
                self._ended_cpu_s + cpu_s,
                self._ended_peak_bytes + peak,
            )
        for process_id in running:
            cpu_s, peak = self._figures.get(process_id, (0.0, 0))
            self._figures[process_id] = (
                max(cpu_s, process.cpu_seconds(process_id)),
                max(peak, process.peak_rss_bytes(process_id)),
            )
