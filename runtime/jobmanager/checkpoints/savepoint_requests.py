"""The checkpoints and savepoints that clients have asked for, by the ids that they chose."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from sqlstream.errors import ErrorInfo, error_info
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.client_rpc import SavepointStatusReply
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager.events import SavepointRequested

REMEMBERED_MAX = 100

OPEN_MAX = 100
"""How many may wait, for their turn or their commit, at a time."""


@dataclass(frozen=True)
class _Waiting:
    request: SavepointRequested
    asked_ms: int


class SavepointRequests:
    """A savepoint is done once what it has to commit is committed: before, the end of its job would remove those rows.
    One that is not done is remembered; when OPEN_MAX are not, others are refused.
    Of one with which the job was to stop, `on_stop_failed` is told when it fails.
    State: those that wait for their turn or for a commit, and how the last REMEMBERED_MAX have ended."""

    def __init__(self, on_stop_failed: Callable[[], None] = lambda: None) -> None:
        self._on_stop_failed = on_stop_failed
        self._stops: set[str] = set()
        self._uncommitted: dict[str, tuple[int, str]] = {}
        self._waiting: deque[_Waiting] = deque()
        self._status: dict[str, SavepointStatusReply] = {}

    def add(self, request: SavepointRequested, now_ms: int) -> None:
        """A repetition changes nothing."""
        if request.trigger_id in self._status:
            return
        is_refused = sum(not status.is_done for status in self._status.values()) >= OPEN_MAX
        self._status[request.trigger_id] = SavepointStatusReply(request.job_id, request.trigger_id, False)
        if is_refused:
            self.failed(request.trigger_id, _too_many())
        else:
            self._waiting.append(_Waiting(request, now_ms))
            if request.kind is CheckpointKind.SYNC_SAVEPOINT:
                self._stops.add(request.trigger_id)
        done = [trigger_id for trigger_id, status in self._status.items() if status.is_done]
        for forgotten in done[:-REMEMBERED_MAX]:
            del self._status[forgotten]

    def withdraw(self, trigger_id: str) -> bool:
        """Nobody awaits this one any more. False when it has begun."""
        waiting = [w for w in self._waiting if w.request.trigger_id != trigger_id]
        is_withdrawn = len(waiting) < len(self._waiting)
        self._waiting = deque(waiting)
        if is_withdrawn:
            self._status.pop(trigger_id, None)
        return is_withdrawn

    def overdue(self, asked_ms: int) -> list[SavepointRequested]:
        """Those that were asked for by then, and wait for their turn no longer."""
        found = []
        while self._waiting and self._waiting[0].asked_ms <= asked_ms:
            found.append(self._waiting.popleft().request)
        return found

    def status(self, trigger_id: str) -> SavepointStatusReply | None:
        return self._status.get(trigger_id)

    def next(self) -> SavepointRequested | None:
        return self._waiting.popleft().request if self._waiting else None

    @property
    def are_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def are_uncommitted(self) -> bool:
        """Whether one is complete but for the commit of its rows."""
        return bool(self._uncommitted)

    def begun(self, trigger_id: str, checkpoint_id: int) -> None:
        self._change(trigger_id, checkpoint_id=checkpoint_id)

    def completed(self, trigger_id: str, path: str) -> None:
        self._change(trigger_id, is_done=True, path=path)

    def stored(self, trigger_id: str, checkpoint_id: int, path: str) -> None:
        """It is complete, and a later commit has to make its rows visible."""
        if trigger_id in self._status:
            self._uncommitted[trigger_id] = (checkpoint_id, path)

    def committed(self, checkpoint_id: int) -> None:
        """All rows up to this checkpoint are visible."""
        for trigger_id, (waits_for, path) in list(self._uncommitted.items()):
            if waits_for <= checkpoint_id:
                del self._uncommitted[trigger_id]
                self.completed(trigger_id, path)

    def discarded(self, checkpoint_id: int, error: ErrorInfo) -> None:
        """What was written after this checkpoint is discarded, and what savepoints after it would have committed."""
        for trigger_id, (waits_for, _) in list(self._uncommitted.items()):
            if waits_for > checkpoint_id:
                del self._uncommitted[trigger_id]
                self.failed(trigger_id, error)

    def failed(self, trigger_id: str, error: ErrorInfo) -> None:
        self._change(trigger_id, is_done=True, error=error)
        if trigger_id in self._stops:
            self._stops.remove(trigger_id)
            self._on_stop_failed()

    def fail_all(self, end: JobStatus) -> None:
        """The job has ended before they were taken."""
        self._waiting.clear()
        for trigger_id, status in self._status.items():
            if not status.is_done:
                self.failed(trigger_id, _ended(end))

    def known(self) -> tuple[SavepointStatusReply, ...]:
        return tuple(self._status.values())

    def _change(self, trigger_id: str, **changes: object) -> None:
        if trigger_id in self._status:
            self._status[trigger_id] = replace(self._status[trigger_id], **changes)


def _too_many() -> ErrorInfo:
    return error_info(
        "SS6215", f"{OPEN_MAX} checkpoints and savepoints of the job are asked for and not complete"
    )


def _ended(end: JobStatus) -> ErrorInfo:
    return error_info("SS6206", f"the job was {end.value} before the savepoint was complete")
