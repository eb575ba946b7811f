"""What is remembered of a job's checkpoints for those who ask (Flink: CheckpointStatsTracker)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from sqlstream.messages.checkpoint_statistics import (
    HISTORY_MAX,
    CheckpointCounts,
    CheckpointRecord,
    CheckpointStatistics,
    RestoredCheckpoint,
)
from sqlstream.runtime.jobmanager.checkpoints.pending_checkpoint import PendingCheckpoint


class CheckpointHistory:
    """State: counts over the life of the job, the last HISTORY_MAX ended checkpoints, and the latest of each kind for ever."""

    def __init__(self) -> None:
        self.counts = CheckpointCounts()
        self.latest_completed: CheckpointRecord | None = None
        self._latest_savepoint: CheckpointRecord | None = None
        self._latest_failed: CheckpointRecord | None = None
        self._latest_restored: RestoredCheckpoint | None = None
        self._ended: deque[CheckpointRecord] = deque(maxlen=HISTORY_MAX)

    def begun(self) -> None:
        self.counts = replace(self.counts, total=self.counts.total + 1)

    def completed(self, record: CheckpointRecord) -> None:
        self.counts = replace(self.counts, completed=self.counts.completed + 1)
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
