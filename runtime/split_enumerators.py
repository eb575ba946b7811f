"""Runs the enumerators of all sources of a JobManager's jobs, each look on a thread of its own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from sqlstream.runtime.connectors import connector, descriptors
from sqlstream.runtime.enumerated_source import EnumeratedSource, Report
from sqlstream.runtime.host.timer import Timer
from sqlstream.runtime.jobmanager.events import GiveBackSplits, StartEnumerator
from sqlstream.spi.connector import EnumeratesSplits
from sqlstream.spi.files import Files

LOOK_TIMEOUT_MS = 300_000
"""A look that takes longer fails its job: a file system may hang for ever."""


def enumerates_splits(identifier: str) -> bool:
    """Whether readers of this connector are assigned their splits."""
    return identifier in descriptors() and isinstance(connector(identifier), EnumeratesSplits)


class ConnectorEnumerators:
    """Makes enumerators by their connectors, and calls each from one thread at a time. Implements the JobManager shell's
    `SplitEnumerators`, whose methods one thread calls.

    A file system that is slow or hangs delays the looks of its own source at most. State: the enumerators of the jobs that run,
    and when each looks next."""

    def __init__(self, files: Files, look_timeout_ms: int = LOOK_TIMEOUT_MS) -> None:
        self._files = files
        self._look_timeout_ms = look_timeout_ms
        self._sources: dict[tuple[str, str], EnumeratedSource] = {}
        self._timer = Timer("split-enumerator-timer")
        self._threads = LookThreads(self._timer)

    def start(self, source: StartEnumerator, report: Report) -> None:
        key = (source.job_id, source.vertex_id)
        started = self._sources.get(key)
        if started is None or started.run != source.run:
            if started is not None:
                started.is_stopped = True
            started = self._sources[key] = EnumeratedSource(source, self._files, report)
        self._look(started)

    def give_back(self, returned: GiveBackSplits) -> None:
        source = self._sources.get((returned.job_id, returned.vertex_id))
        if source is not None:
            source.give_back(returned.number, returned.positions)

    def stop_job(self, job_id: str) -> None:
        for key in [key for key in self._sources if key[0] == job_id]:
            self._sources.pop(key).is_stopped = True

    def close(self) -> None:
        for source in self._sources.values():
            source.is_stopped = True
        self._sources.clear()
        self._timer.close()
        self._threads.close()

    def _look(self, source: EnumeratedSource) -> None:
        if not source.is_begun():
            self._watch(source)
            return

        def look() -> None:
            self._watch(source)
            pause_ms = source.look()
            if pause_ms is not None:
                self._timer.call(pause_ms, lambda: self._look(source))

        self._threads.start(look)

    def _watch(self, source: EnumeratedSource) -> None:
        number = source.looks
        self._timer.call(self._look_timeout_ms, lambda: source.on_overdue(number, self._look_timeout_ms))


# Threads for calls that may hang: a slow one does not take the place of others.


LOOKS_MAX = 8
"""Calls at once, but for those that take longer than SLOW_MS."""
SLOW_MS = 5_000


class LookThreads:
    """Each call has a thread, which does not hold up the end of the process. Safe from any thread.

    State: how many calls count as quick, and those that wait for their turn."""

    def __init__(self, timer: Timer, slow_ms: int = SLOW_MS) -> None:
        self._timer = timer
        self._slow_ms = slow_ms
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._quick = 0
        self._is_closed = False

    def start(self, call: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_closed:
                self._waiting.append(call)
        self._start_next()

    def close(self) -> None:
        """Calls that wait are dropped; those under way go on."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()

    def _start_next(self) -> None:
        with self._lock:
            if not self._waiting or self._quick >= LOOKS_MAX:
                return
            call = self._waiting.popleft()
            self._quick += 1
        threading.Thread(target=self._run, args=(call,), name="split-enumerator", daemon=True).start()

    def _run(self, call: Callable[[], None]) -> None:
        is_counted = True

        def count_out() -> None:
            nonlocal is_counted
            with self._lock:
                if not is_counted:
                    return
                is_counted = False
                self._quick -= 1
            self._start_next()

        self._timer.call(self._slow_ms, count_out)
        try:
            call()
        finally:
            count_out()
