"""What a process of this machine uses: CPU, memory, threads."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict

import psutil

from sqlstream.runtime.host.clock import now_ms, steady_s

PROCESSES_MAX = 1024
"""How many processes' last readings are kept."""

_PAUSE_S = 1.0
"""A load is measured over at least this long; an earlier question gets the load before."""


@dataclasses.dataclass(frozen=True)
class ProcessFigures:
    """`cpu_load` is the share of all cores, from 0 to 1, since the reading before (at first since the process started)."""

    cpu_seconds: float
    cpu_load: float
    rss_bytes: int
    threads: int

    def as_metrics(self) -> dict[str, int | float]:
        """Under the names that Flink's dashboards look for. All of a Python process is outside of a Java heap."""
        return {
            "Status.JVM.CPU.Load": self.cpu_load,
            "Status.JVM.CPU.Time": int(self.cpu_seconds * 1e9),
            "Status.JVM.Memory.NonHeap.Used": self.rss_bytes,
            "Status.JVM.Memory.NonHeap.Committed": self.rss_bytes,
            "Status.JVM.Threads.Count": self.threads,
        }


class ProcessReader:
    """Reads processes by id. Thread-safe. State: per process its last CPU time and load, the oldest dropped beyond
    PROCESSES_MAX."""

    def __init__(self) -> None:
        self._last: OrderedDict[int, tuple[float, float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, process_id: int) -> ProcessFigures | None:
        """None when no such process runs on this machine."""
        try:
            process = psutil.Process(process_id)
            with process.oneshot():
                times = process.cpu_times()
                cpu_s = times.user + times.system
                age_s = now_ms() / 1000 - process.create_time()
                return ProcessFigures(
                    cpu_s,
                    self._load(process_id, cpu_s, age_s),
                    process.memory_info().rss,
                    process.num_threads(),
                )
        except psutil.Error:
            return None

    def _load(self, process_id: int, cpu_s: float, age_s: float) -> float:
        cores = psutil.cpu_count() or 1
        now_s = steady_s()
        with self._lock:
            then_s, then_cpu_s, load = self._last.get(process_id, (now_s - age_s, 0.0, -1.0))
            if load >= 0 and now_s - then_s < _PAUSE_S:
                return load
            load = min(1.0, max(0.0, (cpu_s - then_cpu_s) / max(now_s - then_s, 1e-6) / cores))
            self._last[process_id] = (now_s, cpu_s, load)
            self._last.move_to_end(process_id)
            while len(self._last) > PROCESSES_MAX:
                self._last.popitem(last=False)
        return load
