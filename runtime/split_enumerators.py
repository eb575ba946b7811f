"""Runs the enumerators of all sources of a JobManager's jobs, on a few threads."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runtime.connectors import CONNECTORS, connector
from runtime.host.clock import now_ms, steady_ms
from runtime.jobmanager.events import DiscoveryFailed, GiveBackSplits, SplitsDiscovered, StartEnumerator
from runtime.logs import of_job
from sqlstream import config as options
from sqlstream.errors import ErrorInfo, SqlStreamError, UserError
from sqlstream.spi.connector import Discovery, EnumeratesSplits, EnumeratorContext, SplitEnumerator
from sqlstream.spi.files import Files

logger = logging.getLogger(__name__)

THREADS = 4
SPLITS_MAX = 1_000_000
"""Splits of one source: a JobManager keeps about 400 bytes of each."""

Report = Callable[[SplitsDiscovered | DiscoveryFailed], None]


def enumerates_splits(identifier: str) -> bool:
    """Whether readers of this connector are assigned their splits."""
    return identifier in CONNECTORS and isinstance(connector(identifier), EnumeratesSplits)


class ConnectorEnumerators:
    """Makes enumerators by their connectors, and calls each from one thread at a time. Implements the JobManager shell's
    `SplitEnumerators`.

    A slow file system delays other looks at most, never the JobManager. State: the enumerators of the jobs that run, and when
    each looks next."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._sources: dict[tuple[str, str], _Source] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, "split-enumerator")
        self._timer = _Timer()

    def start(self, source: StartEnumerator, report: Report) -> None:
        key = (source.job_id, source.vertex_id)
        with self._lock:
            started = self._sources.get(key)
            if started is None:
                started = self._sources[key] = _Source(source, self._files, report)
        self._submit(lambda: self._look(started))

    def give_back(self, returned: GiveBackSplits) -> None:
        with self._lock:
            source = self._sources.get((returned.job_id, returned.vertex_id))
        if source is not None:
            self._submit(lambda: source.give_back(returned.positions))

    def stop_job(self, job_id: str) -> None:
        with self._lock:
            for key in [key for key in self._sources if key[0] == job_id]:
                self._sources.pop(key).is_stopped = True

    def close(self) -> None:
        with self._lock:
            for source in self._sources.values():
                source.is_stopped = True
            self._sources.clear()
        self._timer.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _submit(self, call: Callable[[], None]) -> None:
        try:
            self._threads.submit(call)
        except RuntimeError:
            # Closed between two steps of its caller.
            logger.debug("a look came after the end")

    def _look(self, source: _Source) -> None:
        interval_ms = source.look()
        if interval_ms is not None:
            self._timer.call(interval_ms, lambda: self._submit(lambda: self._look(source)))


class _Source:
    """One enumerator. State: its own, and what was last reported of it."""

    def __init__(self, source: StartEnumerator, files: Files, report: Report) -> None:
        self.is_stopped = False
        self._source = source
        self._files = files
        self._report = report
        self._lock = threading.Lock()
        self._enumerator: SplitEnumerator | None = None
        self._found = 0
        self._held: bool | None = None

    def look(self) -> int | None:
        """Look, report, and return the time until the next look; None when there is none."""
        job_id, vertex_id = self._source.job_id, self._source.vertex_id
        with self._lock:
            if self.is_stopped:
                return None
            try:
                discovery = self._discover()
            except Exception as error:  # a thread's boundary: becomes the job's cause
                if not isinstance(error, SqlStreamError):
                    logger.error("an enumerator failed", exc_info=error, extra=of_job(job_id))
                self._report(DiscoveryFailed(job_id, vertex_id, ErrorInfo.of(error)))
                return None
            if discovery.splits or discovery.holds_watermark != self._held:
                self._held = discovery.holds_watermark
                self._report(SplitsDiscovered(job_id, vertex_id, discovery))
            assert self._enumerator is not None
            return None if discovery.is_last else self._enumerator.interval_ms

    def give_back(self, positions: list[dict[str, Any]]) -> None:
        with self._lock:
            if self._enumerator is not None:
                self._enumerator.give_back(positions)
                # Readers wait for what the next look says of them, though it may find nothing.
                self._held = None

    def _discover(self) -> Discovery:
        source = self._source
        if self._enumerator is None:
            made = connector(source.spec.connector)
            assert isinstance(made, EnumeratesSplits)
            context = EnumeratorContext(
                parallelism=source.parallelism,
                batch_rows=options.get(source.config, "execution.batch-rows"),
                now_ms=now_ms,
                files=self._files,
            )
            self._enumerator = made.split_enumerator(source.spec, context, None)
        discovery = self._enumerator.discover()
        self._found += len(discovery.splits)
        if self._found > SPLITS_MAX:
            raise UserError(
                "SS5073",
                f'table "{source.spec.table}" has more than {SPLITS_MAX} files or other parts to read',
                hint="read it by several statements, or put its rows into fewer files",
            )
        return discovery


class _Timer:
    """Calls functions when they are due, on one thread, which starts with the first. They must return at once."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._places = itertools.count()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def call(self, after_ms: int, function: Callable[[], None]) -> None:
        with self._condition:
            if self._is_closed:
                return
            heapq.heappush(self._due, (steady_ms() + after_ms, next(self._places), function))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="split-enumerator-timer", daemon=True)
                self._thread.start()
            self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._is_closed and not (self._due and self._due[0][0] <= steady_ms()):
                    pause_s = (self._due[0][0] - steady_ms()) / 1000 if self._due else None
                    self._condition.wait(pause_s)
                if self._is_closed:
                    return
                function = heapq.heappop(self._due)[2]
            function()
