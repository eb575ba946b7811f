"""What this process and everything below it cost: CPU time and peak memory, whatever has started the processes."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.runtime.host.process import peak_rss_bytes

if TYPE_CHECKING:
    import psutil

WORKERS_LOOK_S = 0.1


def tree_cpu_seconds() -> float:
    """User and system time of the tree, also of processes that have ended and whose parent is in it."""
    return cpu_seconds_of(os.getpid())


def cpu_seconds_of(root: int) -> float:
    """As `tree_cpu_seconds`, of another process and what is below it."""
    import psutil

    total = 0.0
    for process_id in _tree(root):
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(process_id).cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


class SparkWorkers:
    """The CPU time of PySpark's workers below a process, which their parent leaves to the system to reap: nobody else counts it.

    State: what each one has taken when it was last seen, until `stop`."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[tuple[int, float], float] = {}
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Seconds of all workers so far."""
        self._has_ended.set()
        self._thread.join()
        return sum(self._seen.values())

    def _look(self) -> None:
        import psutil

        while not self._has_ended.wait(WORKERS_LOOK_S):
            with suppress(psutil.NoSuchProcess):
                for process in psutil.Process(self._root).children(recursive=True):
                    if "pyspark.daemon" in process.cmdline():
                        self._note(process)

    def _note(self, daemon: psutil.Process) -> None:
        for worker in daemon.children():
            times = worker.cpu_times()
            self._seen[worker.pid, worker.create_time()] = times.user + times.system


def tree_peak_rss_bytes() -> int:
    """Peak memory since `forget_tree_peak`, summed over the processes that run; a page that they share counts in each."""
    return sum(peak_rss_bytes(process_id) for process_id in _tree(os.getpid()))


def forget_tree_peak() -> bool:
    """Let peaks begin at what each process holds. False where the system cannot: peaks are then those since the start of each."""
    try:
        for process_id in _tree(os.getpid()):
            with suppress(FileNotFoundError, ProcessLookupError):
                Path(f"/proc/{process_id}/clear_refs").write_text("5")
    except OSError:
        return False
    return Path("/proc/self/clear_refs").exists()


def _tree(root: int) -> list[int]:
    import psutil

    return [root, *(child.pid for child in psutil.Process(root).children(recursive=True))]
