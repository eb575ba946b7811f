"""What a cluster costs: CPU time and peak memory, summed over its processes."""

from __future__ import annotations

import os
from collections.abc import Callable

from runtime.host import process


class ProcessUsage:
    """CPU time since it was made, and peak memory, of this process and its children.

    `children` names those that run. State: the latest figures of each process, also of those that have ended.
    """

    def __init__(self, children: Callable[[], tuple[int, ...]]) -> None:
        self._children = children
        self._used_before_s = process.cpu_seconds(os.getpid())
        self._cpu_s: dict[int, float] = {}
        self._peak_rss_bytes: dict[int, int] = {}

    def cpu_seconds(self) -> float:
        self._measure()
        return sum(self._cpu_s.values()) - self._used_before_s

    def peak_rss_bytes(self) -> int:
        self._measure()
        return sum(self._peak_rss_bytes.values())

    def _measure(self) -> None:
        for process_id in (os.getpid(), *self._children()):
            self._cpu_s[process_id] = max(process.cpu_seconds(process_id), self._cpu_s.get(process_id, 0.0))
            peak = process.peak_rss_bytes(process_id)
            self._peak_rss_bytes[process_id] = max(peak, self._peak_rss_bytes.get(process_id, 0))
