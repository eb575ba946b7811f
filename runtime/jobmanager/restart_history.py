"""The failures after which a job went on."""

from __future__ import annotations

from msgspec.structs import replace

from sqlstream.errors import ErrorInfo
from sqlstream.messages.rpc import RESTARTS_REMEMBERED_MAX, RestartRecord


class RestartHistory:
    """State: how many there were, and the last RESTARTS_REMEMBERED_MAX, newest first."""

    def __init__(self) -> None:
        self.count = 0
        self.records: tuple[RestartRecord, ...] = ()

    def add(self, error: ErrorInfo, task: str, now_ms: int) -> None:
        self.count += 1
        self.records = (RestartRecord(now_ms, error, task), *self.records)[:RESTARTS_REMEMBERED_MAX]

    def went_on(self, checkpoint_id: int) -> None:
        """The tasks of all failures that are not decided go on from this checkpoint; 0 is the beginning."""
        self.records = tuple(
            replace(r, checkpoint_id=checkpoint_id) if r.checkpoint_id < 0 else r for r in self.records
        )
