"""Processes for TaskManagers, and those that are started before a cluster asks for them: while statements are planned."""

from __future__ import annotations

import contextlib
import subprocess
import threading

from sqlstream.runtime.host import process

KEEP_FREED_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MIMALLOC_PURGE_DELAY": "60000",
}
"""Environment of a child: glibc and (for 60 s) Arrow's allocator keep the memory of one batch for the next instead of
returning it to the system and faulting it in again, page by page (measured: 0 to 60 % of the CPU time of windows with
millions of keys). glibc uses one arena, because only the main arena grows contiguously and has room for large arrays. An
idle TaskManager returns the memory to the system (sqlstream.runtime.taskmanager.task_manager)."""


KEEP_S = 20.0
"""How long a child waits to be asked for: a job that has not come by then may run for days without one."""


def start_child() -> subprocess.Popen[bytes]:
    """A process that loads what every TaskManager needs and becomes the one whose options it is told, or ends when its input
    does. OSError when the system refuses another process."""
    return process.start_python_module("sqlstream.runtime.taskmanager", [], KEEP_FREED_MEMORY)


class EarlyChildren:
    """Children of this process that nobody has asked for yet. Thread-safe. State: those that wait, until `end`, which comes by
    itself after KEEP_S."""

    def __init__(self) -> None:
        self._waiting: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    def start(self, count: int) -> None:
        """Start so many; fewer where the system refuses more: what then asks for one is told why."""
        with self._lock, contextlib.suppress(OSError):
            for _ in range(count):
                self._waiting.append(start_child())
        if count:
            timer = threading.Timer(KEEP_S, self.end)
            timer.daemon = True
            timer.start()

    def take(self) -> subprocess.Popen[bytes] | None:
        """One that is there to be told its options; None when there is none."""
        with self._lock:
            while self._waiting:
                child = self._waiting.pop(0)
                if child.poll() is None:
                    return child
        return None

    def end(self) -> None:
        """End those that nobody has taken."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for child in waiting:
            child.kill()
        for child in waiting:
            with child:
                """Its pipes are closed, and its end is waited for."""


EARLY_CHILDREN = EarlyChildren()
