"""What the tasks of this TaskManager report of checkpoints, repeated until the checkpoint's fate is known."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.errors import ErrorInfo
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.rpc import CheckpointFigures, SinkCommittables

NO_FIGURES = CheckpointFigures()

LONGEST_PAUSE_MS = 30_000
"""A checkpoint may take minutes: meanwhile only a lost report would be sent for a reason."""


@dataclass(frozen=True)
class CheckpointTaken:
    """All that a task had to save is in the store. `committables` are those of the attempt that no completed checkpoint has
    covered."""

    execution_id: str
    checkpoint_id: int
    state: SubtaskState
    committables: tuple[SinkCommittables, ...] = ()
    figures: CheckpointFigures = NO_FIGURES


@dataclass(frozen=True)
class CheckpointRefused:
    """A task cannot take this checkpoint."""

    execution_id: str
    checkpoint_id: int
    error: ErrorInfo


CheckpointReport = CheckpointTaken | CheckpointRefused


@dataclass
class _Pending:
    report: CheckpointReport
    pause_ms: int
    due_ms: int


class CheckpointReports:
    """Pure. State: for each execution the report of its latest checkpoint whose fate is not known, and the latest checkpoint that
    it was told to take."""

    def __init__(self, resend_ms: int) -> None:
        self._resend_ms = resend_ms
        self._pending: dict[str, _Pending] = {}
        self._triggered: dict[str, int] = {}

    def is_first(self, execution_id: str, checkpoint_id: int) -> bool:
        """Whether the execution is told to take this checkpoint for the first time, and was told of no later one."""
        if checkpoint_id <= self._triggered.get(execution_id, 0):
            return False
        self._triggered[execution_id] = checkpoint_id
        return True

    def add(self, report: CheckpointReport, now_ms: int) -> None:
        """A report replaces that of an earlier checkpoint, which was decided before this one began."""
        known = self._pending.get(report.execution_id)
        if known is None or known.report.checkpoint_id <= report.checkpoint_id:
            pause_ms = self._resend_ms
            self._pending[report.execution_id] = _Pending(report, pause_ms, now_ms + pause_ms)

    def of(self, execution_id: str) -> CheckpointReport | None:
        """What the execution has reported, and nobody has answered."""
        pending = self._pending.get(execution_id)
        return pending.report if pending is not None else None

    def settle(self, execution_id: str, checkpoint_id: int) -> None:
        """The fate of a checkpoint is known, and with it that of earlier ones."""
        pending = self._pending.get(execution_id)
        if pending is not None and pending.report.checkpoint_id <= checkpoint_id:
            del self._pending[execution_id]

    def forget(self, execution_id: str) -> None:
        self._pending.pop(execution_id, None)
        self._triggered.pop(execution_id, None)

    def due(self, now_ms: int) -> list[CheckpointReport]:
        """The reports that are to be sent again."""
        found = []
        for pending in self._pending.values():
            if now_ms >= pending.due_ms:
                pending.pause_ms = min(2 * pending.pause_ms, LONGEST_PAUSE_MS)
                pending.due_ms = now_ms + pending.pause_ms
                found.append(pending.report)
        return found
