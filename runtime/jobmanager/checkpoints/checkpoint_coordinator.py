"""When a job takes a checkpoint, and what becomes of it (Flink: CheckpointCoordinator, CheckpointFailureManager)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from sqlstream.errors import ErrorInfo, FailureReason, error_info
from sqlstream.messages.checkpoint_statistics import (
    HISTORY_MAX,
    CheckpointCounts,
    CheckpointKind,
    CheckpointRecord,
    CheckpointStatistics,
    CheckpointStatus,
    RestoredCheckpoint,
    SubtaskCheckpoint,
    VertexCheckpoint,
)
from sqlstream.messages.histogram import DurationHistogram
from sqlstream.messages.manifest import paths_of
from sqlstream.messages.rpc import AcknowledgeCheckpoint
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_settings import CheckpointSettings
from sqlstream.runtime.jobmanager.execution_graph import ExecutionVertex


@dataclass
class PendingCheckpoint:
    """A checkpoint of which not every subtask has acknowledged its part.

    `awaited` are the subtasks whose acknowledgements are missing, by execution id; those that had finished take no part.
    `directory` is that of a savepoint. `is_last`: its job ends, or all its tasks do, and sources read nothing behind it.
    `is_storing` once the manifest is being written."""

    checkpoint_id: int
    kind: CheckpointKind
    started_ms: int
    awaited: dict[str, ExecutionVertex]
    directory: str = ""
    trigger_id: str = ""
    is_drain: bool = False
    is_last: bool = False
    is_storing: bool = False
    sent_ms: int = 0
    acknowledged: dict[str, AcknowledgeCheckpoint] = field(default_factory=dict)
    acknowledged_ms: dict[str, int] = field(default_factory=dict)
    subtasks: tuple[ExecutionVertex, ...] = ()
    execution_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.subtasks, self.execution_ids = tuple(self.awaited.values()), tuple(self.awaited)

    def acknowledge(self, acknowledgement: AcknowledgeCheckpoint, now_ms: int) -> bool:
        """Whether it was the last one that was missing; False for a repetition and for a stranger."""
        execution_id = acknowledgement.execution_id
        if self.awaited.pop(execution_id, None) is None:
            return False
        self.acknowledged[execution_id] = acknowledgement
        self.acknowledged_ms[execution_id] = now_ms
        return self.is_acknowledged

    @property
    def is_acknowledged(self) -> bool:
        """Whether no acknowledgement is missing."""
        return not self.awaited

    def assignment_of(self, execution_id: str) -> int | None:
        """The last assignment that a reader had got; None for a task that had finished."""
        acknowledged = self.acknowledged.get(execution_id)
        return acknowledged.state.assignment if acknowledged is not None else None

    def paths(self) -> frozenset[str]:
        """The files of state that the acknowledgements so far refer to."""
        return paths_of(ack.state for ack in self.acknowledged.values())

    def first_missing(self) -> str:
        """The subtask that has not acknowledged, the first by the job's order; empty when none is missing."""
        return task_name(next(iter(self.awaited.values()))) if self.awaited else ""

    def record(
        self,
        status: CheckpointStatus = CheckpointStatus.IN_PROGRESS,
        ended_ms: int = -1,
        path: str = "",
        error: ErrorInfo | None = None,
        failed_task: str = "",
    ) -> CheckpointRecord:
        return CheckpointRecord(
            self.checkpoint_id,
            self.kind,
            status,
            self.started_ms,
            ended_ms,
            tuple(self._vertices()),
            path,
            error,
            failed_task,
        )

    def _vertices(self) -> Iterator[VertexCheckpoint]:
        parts: dict[str, list[SubtaskCheckpoint]] = {}
        for execution_id, subtask in zip(self.execution_ids, self.subtasks, strict=True):
            ack = self.acknowledged.get(execution_id)
            part = SubtaskCheckpoint(subtask.subtask)
            if ack is not None:
                part = SubtaskCheckpoint(subtask.subtask, self.acknowledged_ms[execution_id], ack.figures)
            parts.setdefault(subtask.vertex.id, []).append(part)
        vertices = {s.vertex.id: s.vertex for s in self.subtasks}
        for vertex_id, found in parts.items():
            vertex = vertices[vertex_id]
            yield VertexCheckpoint(vertex_id, vertex.name, vertex.parallelism, tuple(found))


def task_name(subtask: ExecutionVertex) -> str:
    """As `SHOW CHECKPOINTS` gives it: `window (1/2)`."""
    return f"{subtask.vertex.name} ({subtask.subtask + 1}/{subtask.vertex.parallelism})"


IDS_OF_A_SERVER = 1_000_000
"""So many checkpoints of a job in a row may fail before a server could use an id of one that comes after it."""


def first_id(last_id: int, epoch: int) -> int:
    """The id of the first checkpoint behind `last_id`. A server that stands still may still write under ids that no server before
    it has used: so those of a later epoch begin higher, also when no checkpoint came between.

    >>> first_id(7, 0), first_id(7, 2), first_id(7, 3), first_id(3_000_004, 4)
    (8, 2000000, 3000000, 7000000)
    """
    return last_id + 1 if not epoch else (last_id // IDS_OF_A_SERVER + epoch) * IDS_OF_A_SERVER


class CheckpointCoordinator:
    """Begins checkpoints at their interval and those that clients ask for, collects the acknowledgements, and ends each once:
    completed, or aborted for a reason. Pure.

    A checkpoint that fails counts against `tolerable_failures` unless it is a savepoint, that of a rescale, or was broken off by
    something else; a completed one sets the count to zero. Older checkpoints that are pending when one is completed are subsumed.
    State: the pending checkpoints, the next id, the times of the last beginning and end, since when one is due out of turn, the
    failures in a row, the history."""

    def __init__(self, settings: CheckpointSettings, now_ms: int, last_id: int = 0) -> None:
        self.settings = settings
        self.pending: dict[int, PendingCheckpoint] = {}
        self.history = CheckpointHistory()
        self.newest_completed_id = last_id
        self._next_id = first_id(last_id, settings.epoch)
        self._begun_ms = now_ms
        self._ended_ms: int | None = None
        self._hurried_ms: int | None = None
        self._failures = 0

    # --- when

    def due_ms(self) -> int | None:
        """When the next checkpoint may begin that nobody asks for, were the job ready; None while too many are pending, or one
        that is taken alone, and without an interval until one is due out of turn."""
        settings = self.settings
        is_alone = any(p.kind.is_savepoint or p.is_last for p in self.pending.values())
        if is_alone or len(self.pending) >= settings.concurrent_max:
            return None
        if not settings.is_enabled:
            return self._hurried_ms
        due_ms = self._begun_ms + settings.interval_ms
        if self._ended_ms is not None:
            due_ms = max(due_ms, self._ended_ms + settings.min_pause_ms)
        return due_ms

    def hurry(self, now_ms: int) -> None:
        """The next checkpoint is due at once."""
        self._begun_ms = now_ms - self.settings.interval_ms
        self._hurried_ms = now_ms

    def is_due(self, now_ms: int) -> bool:
        due_ms = self.due_ms()
        return due_ms is not None and now_ms >= due_ms

    def begin(
        self,
        awaited: dict[str, ExecutionVertex],
        now_ms: int,
        kind: CheckpointKind = CheckpointKind.CHECKPOINT,
        trigger_id: str = "",
        directory: str = "",
        is_drain: bool = False,
        is_last: bool = False,
    ) -> PendingCheckpoint:
        """The next checkpoint, which awaits these executions."""
        pending = PendingCheckpoint(
            self._next_id, kind, now_ms, awaited, directory, trigger_id, is_drain, is_last, sent_ms=now_ms
        )
        self._next_id += 1
        if not kind.is_savepoint:
            self._begun_ms = now_ms
            self._hurried_ms = None
        self.pending[pending.checkpoint_id] = pending
        self.history.begun()
        return pending

    # --- what comes of it

    def acknowledge(self, acknowledgement: AcknowledgeCheckpoint, now_ms: int) -> bool:
        """Whether this was the last acknowledgement that the checkpoint lacked."""
        pending = self.pending.get(acknowledgement.checkpoint_id)
        return pending is not None and pending.acknowledge(acknowledgement, now_ms)

    def store_next(self) -> PendingCheckpoint | None:
        """The oldest checkpoint that all have acknowledged: it is being stored from here on. None while another one is, whose
        commits the next one would have to name."""
        if self.is_storing:
            return None
        found = next((p for p in self.pending.values() if p.is_acknowledged), None)
        if found is not None:
            found.is_storing = True
        return found

    def expired(self, now_ms: int) -> list[PendingCheckpoint]:
        """Those that have taken too long. One that is being stored is not given up: its fate is with the store."""
        return [
            p
            for p in self.pending.values()
            if not p.is_storing and now_ms - p.started_ms >= self.settings.timeout_ms
        ]

    def complete(self, checkpoint_id: int, now_ms: int, path: str) -> PendingCheckpoint:
        """It is stored. A savepoint is not what restarts go on from, and subsumes nothing; with a SYNC_SAVEPOINT the job ends."""
        pending = self.pending.pop(checkpoint_id)
        self._ended_ms = now_ms
        if pending.kind is not CheckpointKind.SAVEPOINT:
            self._failures = 0
            self.newest_completed_id = checkpoint_id
        self.history.completed(pending.record(CheckpointStatus.COMPLETED, now_ms, path))
        return pending

    def subsumed(self, checkpoint_id: int) -> list[PendingCheckpoint]:
        """Pending checkpoints that are older than a completed one, and that nobody awaits any more."""
        return [
            p
            for p in self.pending.values()
            if p.checkpoint_id < checkpoint_id and not p.is_storing and not p.kind.is_savepoint
        ]

    def abort(
        self,
        checkpoint_id: int,
        error: ErrorInfo,
        now_ms: int,
        failed_task: str = "",
        is_counted: bool = True,
    ) -> ErrorInfo | None:
        """It has failed. Returns the failure of the job when that was one too many."""
        pending = self.pending.pop(checkpoint_id)
        self._ended_ms = now_ms
        self.history.failed(pending.record(CheckpointStatus.FAILED, now_ms, "", error, failed_task))
        if not is_counted or pending.kind.is_savepoint or pending.is_last:
            return None
        self._failures += 1
        # A store that refuses the keys refuses those of the next checkpoint too.
        is_refused = error.reason is FailureReason.ACCESS_REFUSED
        if self._failures <= self.settings.tolerable_failures and not is_refused:
            return None
        self._failures = 0
        return _too_many(error, failed_task, self.settings.tolerable_failures)

    @property
    def is_storing(self) -> bool:
        return any(p.is_storing for p in self.pending.values())


def _too_many(error: ErrorInfo, failed_task: str, tolerable: int) -> ErrorInfo:
    where = f' in "{failed_task}"' if failed_task else ""
    return error_info(
        "SS6202",
        f"a checkpoint failed{where}: {error.message}",
        reason=error.reason if error.reason is FailureReason.ACCESS_REFUSED else None,
        detail=error.detail,
        hint=error.hint
        or f"see SHOW CHECKPOINTS; 'execution.checkpointing.tolerable-failed-checkpoints' is {tolerable}",
    )


def expired_error(pending: PendingCheckpoint, timeout_ms: int) -> ErrorInfo:
    return error_info(
        "SS6201",
        f"checkpoint {pending.checkpoint_id} was not complete after {timeout_ms / 1000:g} s",
        hint="raise 'execution.checkpointing.timeout', or look for the slow task in SHOW CHECKPOINTS",
    )


def not_begun_error(kind: CheckpointKind, timeout_ms: int, cause: str, hint: str) -> ErrorInfo:
    return error_info(
        "SS6201",
        f"the {'savepoint' if kind.is_savepoint else 'checkpoint'} did not begin within "
        f"{timeout_ms / 1000:g} s: {cause}",
        hint=hint,
    )


def broken_off(cause: str) -> ErrorInfo:
    """The reason of a checkpoint that something else has ended."""
    return error_info("SS6203", cause)


# What is remembered of a job's checkpoints for those who ask (Flink: CheckpointStatsTracker).


class CheckpointHistory:
    """State: counts and durations over the life of the job, the last HISTORY_MAX ended checkpoints, and the latest of each kind
    for ever."""

    def __init__(self) -> None:
        self.counts = CheckpointCounts()
        self.durations = DurationHistogram()
        self.latest_completed: CheckpointRecord | None = None
        self._latest_savepoint: CheckpointRecord | None = None
        self._latest_failed: CheckpointRecord | None = None
        self._latest_restored: RestoredCheckpoint | None = None
        self._ended: deque[CheckpointRecord] = deque(maxlen=HISTORY_MAX)

    def begun(self) -> None:
        self.counts = replace(self.counts, total=self.counts.total + 1)

    def completed(self, record: CheckpointRecord) -> None:
        self.counts = replace(self.counts, completed=self.counts.completed + 1)
        self.durations.add(record.ended_ms - record.triggered_ms)
        if record.kind.is_savepoint:
            self._latest_savepoint = record
        else:
            self.latest_completed = record
        self._ended.append(record)

    def failed(self, record: CheckpointRecord) -> None:
        self.counts = replace(self.counts, failed=self.counts.failed + 1)
        self._latest_failed = record
        self._ended.append(record)

    def restored(self, restored: RestoredCheckpoint) -> None:
        self.counts = replace(self.counts, restored=self.counts.restored + 1)
        self._latest_restored = restored

    def discarded(self, checkpoint_id: int) -> None:
        """Its files are removed."""
        for i, record in enumerate(self._ended):
            if record.id == checkpoint_id:
                self._ended[i] = replace(record, is_discarded=True)

    def unusable(self, checkpoint_id: int, error: object) -> None:
        """A restart has found that it cannot be read."""
        for i, record in enumerate(self._ended):
            if record.id == checkpoint_id:
                self._ended[i] = replace(record, error=error)

    def statistics(
        self, job_id: str, interval_ms: int, pending: Iterable[PendingCheckpoint]
    ) -> CheckpointStatistics:
        present = [p.record() for p in pending]
        newest = sorted([*present, *self._ended], key=lambda r: r.id, reverse=True)
        return CheckpointStatistics(
            job_id,
            interval_ms,
            replace(self.counts, in_progress=len(present)),
            self.latest_completed,
            self._latest_savepoint,
            self._latest_failed,
            self._latest_restored,
            tuple(newest[:HISTORY_MAX]),
        )
