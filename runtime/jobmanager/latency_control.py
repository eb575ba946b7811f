"""Keeps the latency of a job at its `latency.target`: what is measured, and what its tasks are told."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.latency_choice import BATCH_ROWS, DEBLOATING, target_ms_of
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.latency import DECISIONS_REMEMBERED_MAX, BatchDecision, LatencyMode, LatencyStatus
from sqlstream.messages.rpc import BATCH_LIMIT, DEBLOATED, LARGEST_BATCH, LimitBatches, TaskMetrics
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.runtime.jobmanager.job_parts import JobParts
from sqlstream.runtime.jobmanager.job_phase import JobPhase
from sqlstream.runtime.jobmanager.latency_sizing import Measured, Sizing, resize
from sqlstream.specs import SinkSpec, SourceSpec

MARKERS = 128
"""The percentile is that of so many markers of each source at each sink; all of them are to be of the present size."""


class LatencyControl:
    """Measures a job that runs, and tells its sources how large batches are to be, as often as markers of the present size have
    come, and its other tasks whether time bounds what is under way to them. A task that says another limit than that in its
    report is told again.

    State: whether tasks have reported since it looked, the sizing, what each task was told since its last report, the last
    measurement, how many markers there were at the last decision, which tasks they were of and what the sources had read by then,
    and the last DECISIONS_REMEMBERED_MAX decisions. Nothing of it is saved: another JobManager begins with the choice of the
    plan."""

    def __init__(self, parts: JobParts, target_ms: int) -> None:
        self._parts = parts
        self._target_ms = target_ms
        rows = int(parts.job_graph.config[BATCH_ROWS])
        self._is_tuned = BATCH_ROWS in parts.job_graph.chosen
        self._bounds_waits = DEBLOATING in parts.job_graph.chosen
        self._sizing = Sizing(rows, rows, is_fixed=not self._is_tuned)
        self._p99_ms: int | None = None
        self._seen = 0
        self._largest = 0
        self._measured_tasks: frozenset[str] = frozenset()
        self._read: Mapping[str, _Read] = {}
        self._decisions: tuple[BatchDecision, ...] = ()
        self._told: dict[str, tuple[LimitBatches, TaskMetrics | None]] = {}
        self._has_news = True

    def status(self) -> LatencyStatus:
        """Newest decision first."""
        sizing = self._sizing
        return LatencyStatus(
            self._target_ms,
            sizing.rows,
            self._is_tuned,
            self._p99_ms,
            sizing.reason,
            self._decisions,
            sizing.mode,
        )

    def on_report(self) -> None:
        """Figures or the state of tasks may be others."""
        self._has_news = True

    def advance(self, now_ms: int) -> None:
        """To be called while the job is active."""
        if self._parts.progress.phase is not JobPhase.RUNNING:
            self._measured_tasks = frozenset()
            return
        # A look at all tasks, and other events come far more often.
        if not self._has_news:
            return
        self._has_news = False
        self._tell_tasks()
        found = _markers(self._parts.graph)
        if found is None:
            return
        tasks, count, wanted, p99_ms = found
        if tasks != self._measured_tasks:
            self._measured_tasks, self._seen, self._largest = tasks, count, 0
            self._read = _read(self._parts.graph)
            return
        self._largest = max(self._largest, _largest_batch(self._parts.graph))
        if count - self._seen < wanted:
            return
        before, self._read = self._read, _read(self._parts.graph)
        measured = Measured(p99_ms, self._largest, *_load(before, self._read))
        self._seen, self._largest, self._p99_ms = count, 0, round(p99_ms)
        self._decide(resize(self._sizing, measured, self._target_ms), now_ms)

    def _decide(self, sizing: Sizing, now_ms: int) -> None:
        before, self._sizing = self._sizing, sizing
        if (sizing.rows, sizing.mode) == (before.rows, before.mode):
            return
        assert self._p99_ms is not None
        decision = BatchDecision(now_ms, before.rows, sizing.rows, self._p99_ms, sizing.reason, sizing.mode)
        self._decisions = (decision, *self._decisions)[:DECISIONS_REMEMBERED_MAX]
        rows = f"{before.rows} -> {sizing.rows}" if sizing.rows != before.rows else f"{sizing.rows}"
        text = f"latency.target: batches of {rows} rows, since {sizing.reason}"
        is_given_up = sizing.mode is LatencyMode.THROUGHPUT
        self._parts.emit(events.Noted(text, self._parts.progress.job_id, is_warning=is_given_up))
        self._tell_tasks()

    def _tell_tasks(self) -> None:
        rows, is_debloating = self._sizing.rows, self._sizing.mode is not LatencyMode.THROUGHPUT
        before, self._told = self._told, {}
        for subtask in self._to_be_told(rows, is_debloating):
            execution = subtask.execution
            message = LimitBatches(execution.task_manager_id, execution.execution_id, rows, is_debloating)
            last = before.get(execution.execution_id)
            self._told[execution.execution_id] = (message, execution.metrics)
            # Events come far more often than reports, of which the next one says whether the message has come.
            if last is None or last[0] != message or last[1] is not execution.metrics:
                self._parts.tasks.send(execution.address, message)

    def _to_be_told(self, rows: int, is_debloating: bool) -> Iterator[ExecutionVertex]:
        """The subtasks whose last reports say another limit."""
        for subtasks in self._parts.graph.vertices.values():
            first = subtasks[0].vertex.operators[0]
            # A task without channels, such as that of VALUES or of a history, bounds nothing, and its reports never say that it
            # does.
            bounds_waits = self._bounds_waits and bool(first.input_schemas)
            if isinstance(first.spec, SourceSpec):
                said = ((s, _figure(s, first.id, BATCH_LIMIT)) for s in _living(subtasks))
                yield from (subtask for subtask, limit in said if limit and limit != rows)
            elif bounds_waits:
                running = (s for s in subtasks if s.execution.state is ExecutionState.RUNNING)
                reported = ((s, s.execution.metrics) for s in running)
                yield from (
                    s for s, m in reported if m is not None and (DEBLOATED in m.task) != is_debloating
                )


def latency_control(parts: JobParts) -> LatencyControl | None:
    """None for a job without a target."""
    job: JobGraph = parts.job_graph
    target_ms = target_ms_of(job.config)
    return (
        LatencyControl(parts, target_ms)
        if target_ms and BATCH_ROWS in job.config and not job.is_batch
        else None
    )


def _sources(graph: ExecutionGraph) -> list[ExecutionVertex]:
    return [
        subtask
        for subtasks in graph.vertices.values()
        if isinstance(subtasks[0].vertex.operators[0].spec, SourceSpec)
        for subtask in _living(subtasks)
    ]


def _living(subtasks: Iterable[ExecutionVertex]) -> Iterator[ExecutionVertex]:
    return (subtask for subtask in subtasks if not subtask.execution.is_terminal)


class _Read(NamedTuple):
    """What a subtask of a source has said: for how long it has waited for rows, how long it has lived, how many rows it has
    emitted, and how many are left to read, where that is known."""

    idle_ms: float
    lived_ms: float
    rows: float
    pending: float | None


def _read(graph: ExecutionGraph) -> dict[str, _Read]:
    found = {}
    for subtask in _sources(graph):
        metrics = subtask.execution.metrics
        if metrics is not None and "accumulateIdleTimeMs" in metrics.task:
            spent = [metrics.task.get(f"accumulate{kind}TimeMs", 0) for kind in ("Busy", "BackPressured")]
            idle_ms = metrics.task["accumulateIdleTimeMs"]
            figures = metrics.operators.get(subtask.vertex.operators[0].id, {})
            found[subtask.execution.execution_id] = _Read(
                idle_ms, idle_ms + sum(spent), figures.get("numRecordsOut", 0), figures.get("pendingRecords")
            )
    return found


def _load(before: Mapping[str, _Read], now: Mapping[str, _Read]) -> tuple[float, float]:
    """For which part of its time the busiest source has waited for rows, and for how many milliseconds the slowest has rows left
    to read. A source that has ended, or has not lived on meanwhile, counts for nothing; without any, nothing waits."""
    idle, backlog_ms = 1.0, 0.0
    for id_, last in now.items():
        first = before.get(id_)
        if first is None or last.lived_ms <= first.lived_ms:
            continue
        lived_ms = last.lived_ms - first.lived_ms
        idle = min(idle, (last.idle_ms - first.idle_ms) / lived_ms)
        if last.pending and last.rows > first.rows:
            backlog_ms = max(backlog_ms, last.pending * lived_ms / (last.rows - first.rows))
    return idle, backlog_ms


def _figure(subtask: ExecutionVertex, operator: int, name: str) -> float:
    metrics = subtask.execution.metrics
    return 0 if metrics is None else metrics.operators.get(operator, {}).get(name, 0)


def _largest_batch(graph: ExecutionGraph) -> int:
    sizes = (_figure(s, s.vertex.operators[0].id, LARGEST_BATCH) for s in _sources(graph))
    return int(max(sizes, default=0))


def _markers(graph: ExecutionGraph) -> tuple[frozenset[str], int, int, float] | None:
    """The tasks with sinks, how many markers they have seen, how many make a new measurement, and the slowest one's 99th
    percentile in milliseconds. None while one of them has seen none."""
    tasks, count, p99_ms = set(), 0, 0.0
    for subtasks in graph.vertices.values():
        sinks = [o.id for o in subtasks[0].vertex.operators if isinstance(o.spec, SinkSpec)]
        for subtask, sink in itertools.product(_living(subtasks) if sinks else (), sinks):
            seen = int(_figure(subtask, sink, "endToEndLatency.count"))
            if not seen:
                return None
            tasks.add(subtask.execution.execution_id)
            count += seen
            p99_ms = max(p99_ms, _figure(subtask, sink, "endToEndLatency_p99"))
    sources = sum(1 for v in graph.vertices if not graph.job_graph.inputs_of(v))
    return (frozenset(tasks), count, MARKERS * sources * len(tasks), p99_ms) if tasks else None
