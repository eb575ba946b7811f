"""Runs the enumerators of all sources of a JobManager's jobs, each look on a thread of its own."""

from __future__ import annotations

from sqlstream.runtime.connectors import connector, descriptors
from sqlstream.runtime.enumerated_source import EnumeratedSource, Report
from sqlstream.runtime.host.timer import Timer
from sqlstream.runtime.jobmanager.events import GiveBackSplits, StartEnumerator
from sqlstream.runtime.look_threads import LookThreads
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
