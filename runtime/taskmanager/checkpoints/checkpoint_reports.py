"""What the tasks of this TaskManager report of checkpoints, repeated until the checkpoint's fate is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from sqlstream.errors import ErrorInfo
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.rpc import CheckpointFigures, SinkCommittables

NO_FIGURES = CheckpointFigures()

REMEMBERED_MAX = 32
"""More than checkpoints of a job may be in progress at once: what is older is decided."""

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
    """Pure. State: for each execution its reports of checkpoints whose fate is not known, and the last checkpoints that it was
    told to take; REMEMBERED_MAX of each."""

    def __init__(self, resend_ms: int) -> None:
        self._resend_ms = resend_ms
        self._pending: dict[str, dict[int, _Pending]] = {}
        self._triggered: dict[str, deque[int]] = {}

    def is_first(self, execution_id: str, checkpoint_id: int) -> bool:
        """Whether the execution is told to take this checkpoint for the first time, and was told of no later one."""
        triggered = self._triggered.setdefault(execution_id, deque(maxlen=REMEMBERED_MAX))
        if triggered and checkpoint_id <= triggered[-1]:
            return False
        triggered.append(checkpoint_id)
        return True

    def is_skipped(self, execution_id: str, checkpoint_id: int) -> bool:
        """Whether the execution was told of a later checkpoint, and not of this one: it cannot take it any more."""
        triggered = self._triggered.get(execution_id)
        if not triggered:
            return False
        return checkpoint_id < triggered[-1] and checkpoint_id not in triggered

    def add(self, report: CheckpointReport, now_ms: int) -> None:
        """To be repeated from here on."""
        pause_ms = self._resend_ms
        reports = self._pending.setdefault(report.execution_id, {})
        reports[report.checkpoint_id] = _Pending(report, pause_ms, now_ms + pause_ms)
        while len(reports) > REMEMBERED_MAX:
            del reports[min(reports)]

    def of(self, execution_id: str, checkpoint_id: int) -> CheckpointReport | None:
        """What the execution has reported of this checkpoint, and nobody has answered."""
        pending = self._pending.get(execution_id, {}).get(checkpoint_id)
        return pending.report if pending is not None else None

    def settle(self, execution_id: str, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        """The fate of a checkpoint is known, and with it that of earlier ones but those that are still pending."""
        reports = self._pending.get(execution_id, {})
        for n in [n for n in reports if n <= checkpoint_id and n not in still_pending]:
            del reports[n]

    def forget(self, execution_id: str) -> None:
        self._pending.pop(execution_id, None)
        self._triggered.pop(execution_id, None)

    def due(self, now_ms: int) -> list[CheckpointReport]:
        """The reports that are to be sent again."""
        found = []
        for pending in (p for reports in self._pending.values() for p in reports.values()):
            if now_ms >= pending.due_ms:
                pending.pause_ms = min(2 * pending.pause_ms, LONGEST_PAUSE_MS)
                pending.due_ms = now_ms + pending.pause_ms
                found.append(pending.report)
        return found
