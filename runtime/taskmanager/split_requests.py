"""The requests of this TaskManager's readers for splits, repeated until they are answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlstream.messages.rpc import AssignSplits

FIRST_PAUSE_MS = 1_000
LONGEST_PAUSE_MS = 30_000
"""An answer may take long, as for a directory without a further file: then only a lost one would be asked for again."""


@dataclass(frozen=True)
class SplitsRequested:
    """A reader takes further splits: those of assignment `number`. `returned` are those that it could not read, but for the first
    `returned_earlier`."""

    execution_id: str
    number: int
    returned: tuple[dict[str, Any], ...] = ()
    returned_earlier: int = 0


@dataclass
class _Pending:
    request: SplitsRequested
    pause_ms: int
    due_ms: int


class SplitRequests:
    """Pure. State: for each execution the request that is not answered."""

    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}

    def ask(self, request: SplitsRequested, now_ms: int) -> None:
        """A request replaces the one before, which has its number or was answered."""
        self._pending[request.execution_id] = _Pending(request, FIRST_PAUSE_MS, now_ms + FIRST_PAUSE_MS)

    def is_answered_by(self, message: AssignSplits) -> bool:
        """Whether the message is what a reader waits for; it does so no longer then."""
        pending = self._pending.get(message.execution_id)
        if pending is None or pending.request.number != message.number:
            return False
        del self._pending[message.execution_id]
        return True

    def forget(self, execution_id: str) -> None:
        self._pending.pop(execution_id, None)

    def due(self, now_ms: int) -> list[SplitsRequested]:
        """The requests that are to be sent again."""
        found = []
        for pending in self._pending.values():
            if now_ms >= pending.due_ms:
                pending.pause_ms = min(2 * pending.pause_ms, LONGEST_PAUSE_MS)
                pending.due_ms = now_ms + pending.pause_ms
                found.append(pending.request)
        return found
