"""Keeps the latency of a job at its `latency.target` by the size of its batches, as few more as that needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlstream.graph.job_graph import JobGraph
from sqlstream.graph.latency_choice import BATCH_ROWS, BATCH_ROWS_MAX, BATCH_ROWS_MIN, target_ms_of
from sqlstream.messages.latency import DECISIONS_REMEMBERED_MAX, BatchDecision, LatencyStatus
from sqlstream.messages.rpc import BATCH_LIMIT, LARGEST_BATCH, LimitBatches
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.runtime.jobmanager.job_parts import JobParts
from sqlstream.runtime.jobmanager.job_phase import JobPhase
from sqlstream.specs import SinkSpec, SourceSpec

MARKERS = 128
"""The percentile is that of so many markers of each source at each sink; all of them are to be of the present size."""

PATIENCE, PATIENCE_MAX = 30, 480
"""After how many measurements a size that was too large, or a target that was missed by all, is tried again: twice as many each
time that it turns out so again."""

_FULL = 0.75
"""From this part of the limit on a batch is one that the limit has made small."""

_AIM = 0.8
"""The part of the target that a smaller size aims at."""

MISSES = 2
"""So many measurements in a row decide: one may be for a pause of the process."""

_HELPED = 0.8
"""To this part of what it was a latency is to go when batches are made smaller, if it is for their size."""


@dataclass(frozen=True)
class Measured:
    """`largest` are the rows of the largest batch of a source meanwhile."""

    p99_ms: float
    largest: int


@dataclass(frozen=True)
class Sizing:
    """`rows` is the size of a batch, `first` the one of the plan, `bound` one that was too large (0: none). `quiet` counts the
    measurements since the bound was found, or the target was given up, and `patience` how many it takes to try again.

    `misses` counts measurements above the target in a row, `unhelped` those of them at which a smaller size had not helped, and
    `p99_before_ms` is what a size had before it was made smaller. `reason` says what was seen last."""

    rows: int
    first: int
    bound: int = 0
    is_given_up: bool = False
    quiet: int = 0
    patience: int = PATIENCE
    misses: int = 0
    unhelped: int = 0
    p99_before_ms: float = 0.0
    reason: str = ""


def resize(sizing: Sizing, measured: Measured, target_ms: int) -> Sizing:
    """The sizing after a measurement. A pure function.

    Where latency grows with the size of batches, the size stays between a quarter of the largest one that keeps the target and
    that one. Where no size keeps it, it is the one of the highest throughput; where latency does not follow the size, the one of
    the plan; and where batches are smaller than they might be, it is left as it is."""
    sizing = replace(sizing, quiet=sizing.quiet + 1)
    text = f"99 % of markers take {measured.p99_ms:.0f} ms of {target_ms} ms"
    is_full = measured.largest >= _FULL * sizing.rows
    if measured.p99_ms > target_ms:
        return _missed(sizing, measured, target_ms, is_full, text)
    sizing = replace(sizing, misses=0, unhelped=0, p99_before_ms=0.0)
    if sizing.is_given_up:
        sizing = replace(sizing, is_given_up=False, quiet=0)
    if sizing.bound and sizing.quiet > sizing.patience:
        sizing = replace(sizing, bound=0, quiet=0)
    doubled = 2 * sizing.rows
    if not is_full:
        return replace(sizing, reason=f"{text}; batches have {measured.largest} rows, as they come")
    if measured.p99_ms > target_ms / 2 or doubled > BATCH_ROWS_MAX:
        return replace(sizing, reason=text)
    if sizing.bound and doubled >= sizing.bound:
        return replace(sizing, reason=f"{text}; batches of {sizing.bound} rows took longer")
    return replace(sizing, rows=doubled, reason=f"{text}, which leaves room for larger batches")


def _missed(sizing: Sizing, measured: Measured, target_ms: int, is_full: bool, text: str) -> Sizing:
    if sizing.is_given_up:
        if sizing.quiet <= sizing.patience:
            return replace(
                sizing, reason=f"{text}, as with smaller batches: more is asked of it than it can do"
            )
        return replace(
            sizing,
            rows=sizing.first,
            is_given_up=False,
            misses=0,
            reason=f"{text}; smaller batches are tried again",
        )
    if not is_full:
        return replace(sizing, reason=f"{text}; not for its batches, which have {measured.largest} rows")
    sizing = replace(sizing, misses=sizing.misses + 1)
    if sizing.misses < MISSES:
        return replace(sizing, reason=f"{text}, for the first time")
    # What was found again is waited for longer.
    patience = min(2 * sizing.patience, PATIENCE_MAX) if sizing.quiet > MISSES else sizing.patience
    has_helped = not sizing.p99_before_ms or measured.p99_ms < _HELPED * sizing.p99_before_ms
    unhelped = 0 if has_helped else sizing.unhelped + 1
    given_up = Sizing(sizing.first, sizing.first, is_given_up=True, patience=patience)
    if unhelped >= MISSES:
        return replace(given_up, reason=f"{text}, as with larger batches: it is not for their size")
    if sizing.rows <= BATCH_ROWS_MIN:
        reason = f"{text} with the smallest batches: more is asked of it than it can do, and large ones get most through"
        return replace(given_up, rows=BATCH_ROWS_MAX, reason=reason)
    wanted = sizing.rows * max(1 / 8, min(1 / 2, _AIM * target_ms / measured.p99_ms))
    return replace(
        sizing,
        rows=max(BATCH_ROWS_MIN, 1 << (int(wanted).bit_length() - 1)),
        bound=sizing.rows,
        quiet=0,
        patience=patience,
        misses=0,
        unhelped=unhelped,
        p99_before_ms=measured.p99_ms,
        reason=f"{text}: smaller batches pass sooner",
    )


class LatencyControl:
    """Measures a job that runs, and tells its sources how large batches are to be, as often as markers of the present size have
    come. A source that says another limit than that in its report is told again.

    State: the sizing, the last measurement, how many markers there were at the last decision and which tasks they were of, and
    the last DECISIONS_REMEMBERED_MAX decisions. Nothing of it is saved: another JobManager begins with the choice of the plan."""

    def __init__(self, parts: JobParts, target_ms: int) -> None:
        self._parts = parts
        self._target_ms = target_ms
        rows = int(parts.job_graph.config[BATCH_ROWS])
        self._is_tuned = BATCH_ROWS in parts.job_graph.chosen
        self._sizing = Sizing(rows, rows)
        self._p99_ms: int | None = None
        self._seen = 0
        self._largest = 0
        self._measured_tasks: frozenset[str] = frozenset()
        self._decisions: tuple[BatchDecision, ...] = ()

    def status(self) -> LatencyStatus:
        """Newest decision first."""
        sizing = self._sizing
        return LatencyStatus(
            self._target_ms, sizing.rows, self._is_tuned, self._p99_ms, sizing.reason, self._decisions
        )

    def advance(self, now_ms: int) -> None:
        """To be called while the job is active."""
        if self._parts.progress.phase is not JobPhase.RUNNING:
            self._measured_tasks = frozenset()
            return
        self._tell_sources()
        found = _markers(self._parts.graph)
        if found is None:
            return
        tasks, count, wanted, p99_ms = found
        if tasks != self._measured_tasks:
            self._measured_tasks, self._seen, self._largest = tasks, count, 0
            return
        self._largest = max(self._largest, _largest_batch(self._parts.graph))
        if count - self._seen < wanted:
            return
        measured = Measured(p99_ms, self._largest)
        self._seen, self._largest, self._p99_ms = count, 0, round(p99_ms)
        self._decide(resize(self._sizing, measured, self._target_ms), now_ms)

    def _decide(self, sizing: Sizing, now_ms: int) -> None:
        if not self._is_tuned:
            self._sizing = replace(self._sizing, reason=sizing.reason)
            return
        before, self._sizing = self._sizing, sizing
        if sizing.rows == before.rows:
            return
        assert self._p99_ms is not None
        decision = BatchDecision(now_ms, before.rows, sizing.rows, self._p99_ms, sizing.reason)
        self._decisions = (decision, *self._decisions)[:DECISIONS_REMEMBERED_MAX]
        text = f"latency.target: batches of {before.rows} -> {sizing.rows} rows, since {sizing.reason}"
        self._parts.emit(events.Noted(text, self._parts.progress.job_id, is_warning=False))
        self._tell_sources()

    def _tell_sources(self) -> None:
        for subtask in _sources(self._parts.graph):
            execution = subtask.execution
            said = _figure(subtask, subtask.vertex.operators[0].id, BATCH_LIMIT)
            if said and said != self._sizing.rows:
                message = LimitBatches(execution.task_manager_id, execution.execution_id, self._sizing.rows)
                self._parts.tasks.send(execution.address, message)


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
        for subtask in subtasks
        if isinstance(subtask.vertex.operators[0].spec, SourceSpec) and not subtask.execution.is_terminal
    ]


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
    for subtask in graph.subtasks():
        for operator in subtask.vertex.operators:
            if not isinstance(operator.spec, SinkSpec) or subtask.execution.is_terminal:
                continue
            seen = int(_figure(subtask, operator.id, "endToEndLatency.count"))
            if not seen:
                return None
            tasks.add(subtask.execution.execution_id)
            count += seen
            p99_ms = max(p99_ms, _figure(subtask, operator.id, "endToEndLatency_p99"))
    sources = sum(1 for v in graph.vertices if not graph.job_graph.inputs_of(v))
    return (frozenset(tasks), count, MARKERS * sources * len(tasks), p99_ms) if tasks else None
