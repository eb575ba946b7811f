"""The measurements behind `main.py checkpoint`."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlstream.client.benches.script import EVENT_TIME_SPAN_S, nexmark_options, nexmark_text, redirect_tables
from sqlstream.errors import ErrorInfo, FailureReason, JobError
from sqlstream.messages.checkpoint_statistics import CheckpointRecord, CheckpointStatus, RestoredCheckpoint
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.runtime.checkpoint.local_copies import local_copy_directories

if TYPE_CHECKING:
    from sqlstream.client.sessions.outcomes import Job
    from sqlstream.client.sessions.session import Session
    from sqlstream.messages.rpc import CheckpointFigures, SubtaskDetails
    from sqlstream.runtime.embedded import EmbeddedCluster

POLL_S = 0.5
FILL_TIMEOUT_S = 1200.0
STEP_TIMEOUT_S = 300.0
INCREMENTS = 10
RESTARTS = 3
CHANGED_PART = 100
"""One in so many keys changes between two checkpoints."""

_ON_REQUEST = {"execution.checkpointing.interval": "1 d", "execution.state-recovery.from-local": "true"}
"""Checkpoints are taken when the measurement asks for them, and have local copies."""

_VALUES = 12
"""Numbers that are kept per key beside their count."""
_KEY_BYTES = 24 + 8 * (1 + _VALUES)
"""What a checkpoint has of a key: what finds it again, the key, the count and the other numbers."""

_BUSY_MS_MAX = 500
"""A task that is busy for less of each second has caught up: the changes take a tenth of it."""

_FILL = """
CREATE TABLE filled (k BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{keys}', 'rows-per-second' = '1000000000',
  'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '{keys}');
CREATE TABLE changed (k BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}',
  'fields.k.min' = '1', 'fields.k.max' = '{few}');
CREATE TABLE totals (k BIGINT, n BIGINT, {columns}, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
INSERT INTO totals SELECT k, COUNT(*), {values}
FROM (SELECT k FROM filled UNION ALL SELECT {changed_part} * k FROM changed) GROUP BY k;
"""


@dataclass(frozen=True)
class QueryFigure:
    """One query without checkpoints and with them, in turn. `cpu_ratio` and `wall_ratio` are medians over the pairs of the
    throughput with to that without; the rest is of all checkpoints of all runs."""

    query: str
    events: int
    events_per_s: int
    cpu_ratio: float
    wall_ratio: float
    checkpoints: int
    failed: int
    stopped_ms_p50: float
    stopped_ms_p99: float
    flush_ms_p99: float
    duration_ms_p50: float
    state_bytes: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class StateFigure:
    """One checkpoint of all state, those after it while one key in CHANGED_PART changes, and how long all tasks take to run
    again: `local_recovery_s` after a failure that ends no process, from local copies, `store_recovery_s` likewise from the store,
    and `recovery_s` from the kill of a TaskManager on."""

    keys: int
    state_bytes: int
    whole_ms: int
    whole_bytes: int
    increment_ms_p50: float
    increment_bytes_p50: float
    stopped_ms_p50: float
    stopped_ms_p99: float
    local_recovery_s: float
    store_recovery_s: float
    recovery_s: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class CheckpointBench:
    """Measures on a cluster of child processes. State: the cluster, until `close`."""

    def __init__(self, parallelism: int, interval_ms: int, settings: dict[str, str]) -> None:
        from sqlstream.client.clusters.local_cluster import LocalClusterClient
        from sqlstream.client.sessions.session import Session

        self._copies_directory = tempfile.mkdtemp(prefix="sqlstream-bench-")
        self._settings = {
            "execution.checkpointing.local-backup.dirs": self._copies_directory,
            **settings,
            "parallelism.default": str(parallelism),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "0 s",
            "restart-strategy.fixed-delay.attempts": "100",
        }
        self._interval = {"execution.checkpointing.interval": f"{interval_ms} ms"}
        self._clusters = LocalClusterClient(self._settings, task_managers=parallelism)
        self._session: Session = Session(self._clusters, self._settings)
        self._cluster: EmbeddedCluster = self._clusters.cluster()

    def __enter__(self) -> CheckpointBench:
        return self

    def __exit__(self, *ignored: object) -> None:
        self._clusters.close()
        # Those of a killed TaskManager stay for the one that takes its place.
        shutil.rmtree(self._copies_directory, ignore_errors=True)

    # --- throughput

    def query(self, query: str, events: int, runs: int) -> QueryFigure:
        """Pairs of runs, each first once without being measured. JobError when a job does not finish."""
        records: dict[tuple[str, int], CheckpointRecord] = {}
        self._run(query, max(1, events // 10), {}, records)
        pairs = []
        for _ in range(runs):
            pairs.append(
                (self._run(query, events, {}, records), self._run(query, events, self._interval, records))
            )
        wall = [without[0] / taking[0] for without, taking in pairs]
        cpu = [without[1] / max(taking[1], 1e-9) for without, taking in pairs]
        completed = [r for r in records.values() if r.status is CheckpointStatus.COMPLETED]
        stopped = _stopped_ms(completed)
        return QueryFigure(
            query=query,
            events=events,
            events_per_s=round(events / statistics.median(without[0] for without, _ in pairs)),
            cpu_ratio=round(statistics.median(cpu), 3),
            wall_ratio=round(statistics.median(wall), 3),
            checkpoints=len(completed),
            failed=sum(r.status is CheckpointStatus.FAILED for r in records.values()),
            stopped_ms_p50=_quantile(stopped, 0.5),
            stopped_ms_p99=_quantile(stopped, 0.99),
            flush_ms_p99=_quantile([f.flush_ms for f in _figures(completed)], 0.99),
            duration_ms_p50=_quantile([r.ended_ms - r.triggered_ms for r in completed], 0.5),
            state_bytes=max((r.state_bytes for r in completed), default=0),
        )

    def _run(
        self,
        query: str,
        events: int,
        settings: dict[str, str],
        records: dict[tuple[str, int], CheckpointRecord],
    ) -> tuple[float, float]:
        """(elapsed seconds, CPU seconds) of one run into `blackhole`; its checkpoints go into `records`."""
        rate = max(1, events // EVENT_TIME_SPAN_S)
        with self._configured(settings):
            cpu, started = self._cluster.cpu_seconds(), time.perf_counter()
            job = self._submit(
                nexmark_text(query), lambda table: nexmark_options(table, events, rate, "blackhole")
            )
            self._follow(job, records)
            return time.perf_counter() - started, self._cluster.cpu_seconds() - cpu

    def _follow(self, job: Job, records: dict[tuple[str, int], CheckpointRecord]) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                status, error = job.wait(POLL_S)
                break
            # Only the newest are remembered.
            self._collect(job, records)
        self._collect(job, records)
        if status is not JobStatus.FINISHED:
            raise (error or ErrorInfo("SS6054", f"the job ended {status.value.lower()}")).to_job_error()

    def _collect(self, job: Job, records: dict[tuple[str, int], CheckpointRecord]) -> None:
        for record in self._cluster.checkpoints(job.id).history:
            if record.ended_ms >= 0:
                records[job.id, record.id] = record

    # --- much state

    def state(self, state_bytes: int) -> StateFigure:
        """About so much state. JobError when the job fails or a step takes minutes."""
        keys = max(CHANGED_PART, state_bytes // _KEY_BYTES)
        job = self._filled(keys)
        whole, *increments = self._checkpoints(job)
        local_s = statistics.median(self._restart(job) for _ in range(RESTARTS))
        store_s = statistics.median(self._restart(job, reads_copies=False) for _ in range(RESTARTS))
        recovery_s = self._recover(job)
        job.cancel()
        job.wait(STEP_TIMEOUT_S)
        stopped = _stopped_ms([whole, *increments])
        return StateFigure(
            keys=keys,
            state_bytes=whole.state_bytes,
            whole_ms=whole.ended_ms - whole.triggered_ms,
            whole_bytes=whole.written_bytes,
            increment_ms_p50=_quantile([r.ended_ms - r.triggered_ms for r in increments], 0.5),
            increment_bytes_p50=_quantile([r.written_bytes for r in increments], 0.5),
            stopped_ms_p50=_quantile(stopped, 0.5),
            stopped_ms_p99=_quantile(stopped, 0.99),
            local_recovery_s=round(local_s, 2),
            store_recovery_s=round(store_s, 2),
            recovery_s=round(recovery_s, 2),
        )

    def _filled(self, keys: int) -> Job:
        """A job that has a row of numbers for each of so many keys, and changes one key in CHANGED_PART."""
        few = keys // CHANGED_PART
        numbers = range(_VALUES)
        text = _FILL.format(
            keys=keys,
            few=few,
            # Three rows per key and second: 95 % of these keys change between two checkpoints.
            rate=3 * few,
            changed_part=CHANGED_PART,
            columns=", ".join(f"v{n} BIGINT" for n in numbers),
            values=", ".join(f"MAX(k + {n})" for n in numbers),
        )
        with self._configured(_ON_REQUEST):
            job = self._submit(text, lambda table: dict(table.options))
        self._wait(lambda: self._is_filled(job), FILL_TIMEOUT_S, "the state was not filled")
        return job

    def _checkpoints(self, job: Job) -> list[CheckpointRecord]:
        """A whole checkpoint, and increments a second apart."""
        found = [self._checkpoint(job, 0)]
        for number in range(1, INCREMENTS + 1):
            time.sleep(1.0)
            found.append(self._checkpoint(job, number))
        return found

    def _is_filled(self, job: Job) -> bool:
        """Whether the bounded source has ended, and the tasks behind it have caught up: a checkpoint waits for all rows before
        it, and the table does not hold them yet."""
        vertices = self._cluster.details(job.id).vertices
        sources = [v for v in vertices if "filled" in v.name]
        has_ended = all(s.state is ExecutionState.FINISHED for v in sources for s in v.subtasks)
        running = [s for v in vertices for s in v.subtasks if s.state is ExecutionState.RUNNING]
        return bool(sources) and has_ended and all(_busy_ms_per_s(s) < _BUSY_MS_MAX for s in running)

    def _checkpoint(self, job: Job, number: int) -> CheckpointRecord:
        """Take a checkpoint now. JobError when it fails."""
        before = {r.id for r in self._cluster.checkpoints(job.id).history}
        self._cluster.take_checkpoint(job.id, f"{number:032x}")

        def taken() -> list[CheckpointRecord]:
            found = self._cluster.checkpoints(job.id).history
            return [r for r in found if r.id not in before and r.ended_ms >= 0]

        self._wait(lambda: bool(taken()), STEP_TIMEOUT_S, "a checkpoint did not end")
        (record,) = taken()
        if record.status is not CheckpointStatus.COMPLETED:
            raise (record.error or ErrorInfo("SS6054", "a checkpoint failed")).to_job_error()
        return record

    def _restart(self, job: Job, *, reads_copies: bool = True) -> float:
        """Have all tasks go on from a checkpoint, while all processes live on; the seconds from the failure until all run."""
        newest = self._checkpoint(job, secrets.randbits(127))
        if not reads_copies:
            for path in self._copies(job):
                # A copy that this checkpoint does not need is being removed.
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
        # No manifest can be stored at the name of a directory: the next checkpoint fails, and so does the job.
        os.makedirs(f"{os.path.dirname(newest.path)}/chk-{newest.id + 1}/_metadata")
        failures = len(self._cluster.details(job.id).restarts)
        self._cluster.take_checkpoint(job.id, secrets.token_hex(16))
        self._wait(lambda: self._has_restarted(job, failures), STEP_TIMEOUT_S, "the job did not recover")
        details = self._cluster.details(job.id)
        self._check_read(job, newest, reads_copies)
        name = ExecutionState.RUNNING.value
        running = [
            s.timestamps_ms[name] for v in details.vertices for s in v.subtasks if name in s.timestamps_ms
        ]
        return (max(running) - details.restarts[0].failed_ms) / 1000

    def _check_read(self, job: Job, newest: CheckpointRecord, reads_copies: bool) -> None:
        """JobError when the tasks have not gone on from this checkpoint, or have read it elsewhere."""

        def read() -> RestoredCheckpoint | None:
            found = self._cluster.checkpoints(job.id).latest_restored
            return found if found is not None and found.local_bytes + found.store_bytes > 0 else None

        self._wait(lambda: read() is not None, STEP_TIMEOUT_S, "no task has said what it went on from")
        found = read()
        is_right = found is not None and found.id == newest.id and bool(found.local_bytes) is reads_copies
        if not is_right:
            raise JobError("SS6054", f"the tasks went on from {found}", reason=FailureReason.INTERNAL)

    def _has_restarted(self, job: Job, failures: int) -> bool:
        return len(self._cluster.details(job.id).restarts) > failures and self._runs(job)

    def _copies(self, job: Job) -> list[str]:
        found = [glob.glob(f"{root}/*/{job.id}/*") for root in local_copy_directories(self._settings)]
        return [path for paths in found for path in paths]

    def _recover(self, job: Job) -> float:
        """Kill a TaskManager; the seconds until all tasks run again."""
        started = time.perf_counter()
        os.kill(self._cluster.process_ids[0], signal.SIGKILL)
        self._wait(lambda: not self._runs(job), STEP_TIMEOUT_S, "the job has not lost a task")
        self._wait(lambda: self._runs(job), STEP_TIMEOUT_S, "the job did not recover")
        return time.perf_counter() - started

    def _runs(self, job: Job) -> bool:
        details = self._cluster.details(job.id)
        running = (ExecutionState.RUNNING, ExecutionState.FINISHED)
        return details.status is JobStatus.RUNNING and all(
            s.state in running for v in details.vertices for s in v.subtasks
        )

    def _wait(self, condition: Callable[[], bool], timeout_s: float, problem: str) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline_s:
                raise JobError("SS6054", f"{problem} within {timeout_s:g} s", reason=FailureReason.INTERNAL)
            time.sleep(0.005)

    # --- the session

    def _submit(self, text: str, options_of: Callable[[Any], dict[str, str]]) -> Job:
        """Run a script whose last statement is an INSERT; returns its job."""
        from sqlstream.client.sessions.outcomes import Job
        from sqlstream.planner.dialect.parser import parse_script

        self._session.catalog = type(self._session.catalog)()
        outcome: object = None
        for statement in parse_script(text):
            outcome = self._session.execute(statement)
            redirect_tables(self._session, options_of)
        assert isinstance(outcome, Job)
        return outcome

    @contextlib.contextmanager
    def _configured(self, settings: dict[str, str]) -> Iterator[None]:
        before = dict(self._session.config)
        self._session.config |= settings
        try:
            yield
        finally:
            self._session.config.clear()
            self._session.config |= before


def _busy_ms_per_s(subtask: SubtaskDetails) -> float:
    return subtask.metrics.task["busyTimeMsPerSecond"] if subtask.metrics is not None else 1000.0


def _stopped_ms(records: list[CheckpointRecord]) -> list[int]:
    """How long each task took no input for each checkpoint, without what it would have emitted a little later."""
    return [f.sync_ms - f.flush_ms for f in _figures(records)]


def _figures(records: list[CheckpointRecord]) -> list[CheckpointFigures]:
    return [s.figures for r in records for v in r.vertices for s in v.subtasks]


def _quantile(values: list[int], part: float) -> float:
    """The nearest of the values; 0 without any.

    >>> _quantile([4, 1, 3, 2], 0.5), _quantile([], 0.5)
    (2, 0)
    """
    ordered = sorted(values)
    return ordered[max(0, round(part * len(ordered)) - 1)] if ordered else 0
