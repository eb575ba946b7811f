"""Runs the enumerators of all sources of a JobManager's jobs, each look on a thread of its own."""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from sqlstream import config as options
from sqlstream.errors import ErrorInfo, ExternalError, Retry, SqlStreamError, UserError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.graph.latency_choice import BATCH_ROWS_MAX, target_ms_of
from sqlstream.runtime.connectors import connector, descriptors
from sqlstream.runtime.host.clock import now_ms, steady_ms
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.logs import of_job
from sqlstream.specs import (
    BackfillSpec,
    BatchQuerySpec,
    InferTableSpec,
    LookupJoinSpec,
    ModelPredictSpec,
    SinkSpec,
    SourceSpec,
)
from sqlstream.spi.connector import (
    Discovery,
    EnumeratesSplits,
    EnumeratorContext,
    NamesPaths,
    NotesEnd,
    SplitEnumerator,
)
from sqlstream.spi.files import Files

logger = logging.getLogger(__name__)

SPLITS_MAX = 1_000_000
"""Splits of one look: a JobManager keeps about 400 bytes of each."""

TRIES_MAX = 5
PAUSE_MS = 500
"""A look that fails for a reason that may pass is repeated, after pauses that double: 7.5 s in all."""

Report = Callable[[events.SplitsDiscovered | events.DiscoveryFailed], None]


class EnumeratedSource:
    """One enumerator, with which one thread at a time looks.

    State: its own, what was last reported of it, the splits returned since the last look, and whether a look is under way. What
    a look finds that came too late is reported when the source is started again."""

    def __init__(self, source: events.StartEnumerator, files: Files, report: Report) -> None:
        self.is_stopped = False
        self.run = source.run
        self._source = source
        self._files = files
        self._report = report
        self._lock = threading.Lock()
        self._enumerator: SplitEnumerator | None = None
        self._held: bool | None = None
        self._failures = 0
        self.looks = 0
        """How many looks were begun."""
        self._is_looking = False
        self._is_overdue = False
        self._late: events.SplitsDiscovered | None = None
        self._returned: deque[tuple[int, list[dict[str, Any]]]] = deque([(0, list(source.returned))])
        self._returns = 0

    def give_back(self, number: int, positions: list[dict[str, Any]]) -> None:
        """The next look takes these into account; one that is under way does not."""
        with self._lock:
            self._returned.append((number, positions))

    def is_begun(self) -> bool:
        """Whether a look is to be made: one that is under way, though it took too long, is waited for again."""
        with self._lock:
            if self.is_stopped:
                return False
            self._is_overdue = False
            is_idle, self._is_looking = not self._is_looking, True
            self.looks += is_idle
            return is_idle

    def on_overdue(self, number: int, timeout_ms: int) -> None:
        """The look of this number should have ended by now."""
        with self._lock:
            if self.is_stopped or not self._is_looking or number != self.looks or self._is_overdue:
                return
            self._is_overdue = True
        error = ExternalError(
            "SS5074",
            f'the look for the files or other parts of table "{self._source.spec.table}" took longer than '
            f"{timeout_ms // 1000} s",
        )
        self._fail(error)

    def look(self) -> int | None:
        """Look, report, and return the time until the next look; None when there is none."""
        try:
            found = self._find()
        except Exception as error:  # a thread's boundary: becomes the job's cause
            return self._on_failure(error)
        assert self._enumerator is not None
        with self._lock:
            self._failures = 0
            self._is_looking = False
            if self._is_overdue or self.is_stopped:
                self._late = found
                return None
        self._tell(found)
        return None if found.discovery.is_last else self._enumerator.interval_ms

    def _find(self) -> events.SplitsDiscovered:
        late, self._late = self._late, None
        if late is not None:
            # Its error was reported instead of it; the next look comes after it.
            return late
        returns = self._give_back()
        assert self._enumerator is not None
        discovery = self._enumerator.discover()
        if len(discovery.splits) > SPLITS_MAX:
            raise self._too_many()
        job_id, vertex_id = self._source.job_id, self._source.vertex_id
        return events.SplitsDiscovered(
            job_id, vertex_id, discovery, self._enumerator.snapshot(), returns, self._source.run
        )

    def _give_back(self) -> int:
        if self._enumerator is None:
            self._enumerator = self._made()
        with self._lock:
            returned, self._returned = self._returned, deque()
        for number, positions in returned:
            self._enumerator.give_back(positions)
            self._returns = max(self._returns, number)
            # Readers wait for what this look says of them, though it may find nothing.
            self._held = None
        return self._returns

    def _made(self) -> SplitEnumerator:
        source = self._source
        made = connector(source.spec.connector)
        assert isinstance(made, EnumeratesSplits)
        context = EnumeratorContext(
            parallelism=source.parallelism,
            batch_rows=options.get(source.config, "execution.batch-rows"),
            now_ms=now_ms,
            files=self._files,
            batch_rows_max=BATCH_ROWS_MAX if target_ms_of(source.config) else 0,
        )
        return made.split_enumerator(source.spec, context, source.state)

    def _tell(self, found: events.SplitsDiscovered) -> None:
        discovery: Discovery = found.discovery
        if discovery.splits or discovery.holds_watermark != self._held:
            self._held = discovery.holds_watermark
            self._report(found)

    def _on_failure(self, error: Exception) -> int | None:
        with self._lock:
            self._is_looking = False
            if self._is_overdue or self.is_stopped:
                return None
        may_pass = isinstance(error, ExternalError) and error.retry is not Retry.NEVER
        if may_pass and self._failures + 1 < TRIES_MAX:
            self._failures += 1
            return PAUSE_MS << (self._failures - 1)
        self._failures = 0
        self._fail(error)
        return None

    def _fail(self, error: Exception) -> None:
        job_id, vertex_id = self._source.job_id, self._source.vertex_id
        if not isinstance(error, SqlStreamError):
            logger.error("an enumerator failed", exc_info=error, extra=of_job(job_id))
        self._report(events.DiscoveryFailed(job_id, vertex_id, ErrorInfo.of(error), self.run))

    def _too_many(self) -> UserError:
        return UserError(
            "SS5073",
            f'table "{self._source.spec.table}" has more than {SPLITS_MAX} files or other parts to read',
        )


LOOK_TIMEOUT_MS = 300_000
"""A look that takes longer fails its job: a file system may hang for ever."""


def enumerates_splits(identifier: str) -> bool:
    """Whether readers of this connector are assigned their splits."""
    return identifier in descriptors() and isinstance(connector(identifier), EnumeratesSplits)


class ConnectorEnumerators:
    """Makes enumerators by their connectors, and calls each from one thread at a time. Implements the JobManager shell's
    `SplitEnumerators`, whose methods one thread calls, but for `on_finished`.

    A file system that is slow or hangs delays the looks of its own source at most. State: the enumerators of the jobs that run,
    and when each looks next."""

    def __init__(self, files: Files, look_timeout_ms: int = LOOK_TIMEOUT_MS) -> None:
        self._files = files
        self._look_timeout_ms = look_timeout_ms
        self._sources: dict[tuple[str, str], EnumeratedSource] = {}
        self._timer = Timer("split-enumerator-timer")
        self._threads = LookThreads(self._timer)

    def start(self, source: events.StartEnumerator, report: Report) -> None:
        key = (source.job_id, source.vertex_id)
        started = self._sources.get(key)
        if started is None or started.run != source.run:
            if started is not None:
                started.is_stopped = True
            started = self._sources[key] = EnumeratedSource(source, self._files, report)
        self._look(started)

    def give_back(self, returned: events.GiveBackSplits) -> None:
        source = self._sources.get((returned.job_id, returned.vertex_id))
        if source is not None:
            source.give_back(returned.number, returned.positions)

    def on_finished(self, job_id: str, read: tuple[events.ReadTable, ...]) -> None:
        for table in read:
            made = connector(table.spec.connector)
            if not isinstance(made, NotesEnd):
                continue
            try:
                made.on_job_finished(table.spec, table.state, table.config)
            except Exception as error:  # whatever it is: the job has finished
                logger.warning(
                    'table "%s" was not told how far it is read: %s',
                    table.spec.table,
                    error,
                    extra=of_job(job_id),
                )

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


# Calls functions when they are due.


class Timer:
    """One thread, which starts with the first function. Functions must return at once. State: what is due, and when."""

    def __init__(self, name: str) -> None:
        self._name = name
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
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._is_closed = True
            self._due.clear()
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


# Tables of a JobGraph that another process runs, whose paths do not depend on where that process was started.


Table = TypeVar("Table", bound=SourceSpec | SinkSpec)


def with_absolute_paths(graph: JobGraph) -> JobGraph:
    """The graph with the relative paths of its tables below the present directory of this process."""
    directory = os.getcwd()

    def changed(operator: ChainedOperator) -> ChainedOperator:
        spec = operator.spec
        if isinstance(spec, SourceSpec | SinkSpec):
            return replace(operator, spec=_in_directory(spec, directory))
        if isinstance(spec, InferTableSpec):
            return replace(
                operator,
                spec=replace(spec, options=_options_in(spec.options["connector"], spec.options, directory)),
            )
        if isinstance(spec, LookupJoinSpec):
            return replace(operator, spec=replace(spec, source=_in_directory(spec.source, directory)))
        if isinstance(spec, ModelPredictSpec) and spec.weights is not None:
            return replace(operator, spec=replace(spec, weights=_in_directory(spec.weights, directory)))
        if isinstance(spec, BackfillSpec):
            sources = tuple(_in_directory(source, directory) for source in spec.sources)
            return replace(operator, spec=replace(spec, sources=sources))
        return operator

    vertices = tuple(replace(v, operators=tuple(map(changed, v.operators))) for v in graph.vertices)
    return replace(graph, vertices=vertices)


def is_of_spark(graph: JobGraph) -> bool:
    """Whether Spark computes the job, whose executors run in directories of their own."""
    specs = (o.spec for v in graph.vertices for o in v.operators)
    return any(isinstance(spec, BatchQuerySpec) and spec.engine == "spark" for spec in specs)


def _in_directory(spec: Table, directory: str) -> Table:
    return replace(spec, options=_options_in(spec.connector, spec.options, directory))


def _options_in(connector_name: str, options: dict[str, str], directory: str) -> dict[str, str]:
    named = connector(connector_name)
    return dict(named.with_absolute_paths(options, directory)) if isinstance(named, NamesPaths) else options
