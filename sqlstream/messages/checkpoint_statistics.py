"""What clients are told of a job's checkpoints and savepoints."""

from __future__ import annotations

import enum

import msgspec

from sqlstream.bounds import Count, Millis
from sqlstream.errors import ErrorInfo
from sqlstream.messages.ledger import JobLedger
from sqlstream.messages.rpc import CheckpointFigures

HISTORY_MAX = 10
"""How many checkpoints of a job are remembered (Flink: web.checkpoints.history)."""


class CheckpointKind(enum.Enum):
    """SYNC_SAVEPOINT is the savepoint with which a job stops."""

    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"
    SYNC_SAVEPOINT = "SYNC_SAVEPOINT"

    @property
    def is_savepoint(self) -> bool:
        return self is not CheckpointKind.CHECKPOINT


class CheckpointStatus(enum.Enum):
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class SubtaskCheckpoint(msgspec.Struct, frozen=True):
    """The part of one subtask; `acknowledged_ms` is -1 while it is awaited."""

    subtask: Count
    acknowledged_ms: Millis = -1
    figures: CheckpointFigures = CheckpointFigures()


class VertexCheckpoint(msgspec.Struct, frozen=True):
    """The subtasks of one vertex that take part; those that had finished do not."""

    vertex_id: str
    name: str
    parallelism: Count
    subtasks: tuple[SubtaskCheckpoint, ...]


class CheckpointRecord(msgspec.Struct, frozen=True):
    """One checkpoint. `ended_ms` is -1 while it is in progress. `path` is that of its directory once it is completed.

    Of one that has failed, `error` is the reason and `failed_task` the subtask that it waited for or that declined it (`window
    (1/2)`), empty when that is none's fault. `is_discarded`: its files are removed."""

    id: Count
    kind: CheckpointKind
    status: CheckpointStatus
    triggered_ms: Millis
    ended_ms: Millis
    vertices: tuple[VertexCheckpoint, ...]
    path: str = ""
    error: ErrorInfo | None = None
    failed_task: str = ""
    is_discarded: bool = False

    @property
    def state_bytes(self) -> int:
        """The size of all state that it refers to."""
        return sum(s.figures.state_bytes for v in self.vertices for s in v.subtasks)

    @property
    def written_bytes(self) -> int:
        """What was written for it: less than its state where files of earlier ones are used again."""
        return sum(s.figures.written_bytes for v in self.vertices for s in v.subtasks)

    @property
    def has_in_flight(self) -> bool:
        """Whether it stores what was under way between tasks: then it goes on with the same parallelism only."""
        return any(s.figures.in_flight_items for v in self.vertices for s in v.subtasks)

    @property
    def in_flight_rows(self) -> int:
        return sum(s.figures.in_flight_rows for v in self.vertices for s in v.subtasks)


class RestoredCheckpoint(msgspec.Struct, frozen=True):
    """The checkpoint that the job, or a region of it, last went on from. `local_bytes` and `store_bytes` are what its attempts
    have reported to have read, of copies on their local disks and of the store; attempts that have none report later."""

    id: Count
    kind: CheckpointKind
    restored_ms: Millis
    path: str
    local_bytes: Count = 0
    store_bytes: Count = 0


class CheckpointCounts(msgspec.Struct, frozen=True):
    """Since the job began, under every JobManager."""

    restored: Count = 0
    total: Count = 0
    in_progress: Count = 0
    completed: Count = 0
    failed: Count = 0


class CheckpointStatistics(msgspec.Struct, frozen=True):
    """`interval_ms` is 0 for a job that takes no checkpoints by itself. `history` holds the newest HISTORY_MAX, newest first; the
    latest of each kind are kept beside it for ever. Of a job that began with the state of another one, `left_out` names the
    operators of that whose state it does not take, and `begun_empty` its own for which there was none;
    `is_drained` when time had passed to its end in it. `ledger` is the latest: of a completed checkpoint, or of the job's end."""

    job_id: str
    interval_ms: Millis = 0
    counts: CheckpointCounts = CheckpointCounts()
    latest_completed: CheckpointRecord | None = None
    latest_savepoint: CheckpointRecord | None = None
    latest_failed: CheckpointRecord | None = None
    latest_restored: RestoredCheckpoint | None = None
    history: tuple[CheckpointRecord, ...] = ()
    left_out: tuple[str, ...] = ()
    begun_empty: tuple[str, ...] = ()
    is_drained: bool = False
    ledger: JobLedger | None = None
