"""Whether, and how soon, the tasks that a failure has hit are restarted (Flink: RestartBackoffTimeStrategy)."""

from __future__ import annotations

from typing import Protocol

from sqlstream.errors import ErrorInfo


class RestartStrategy(Protocol):
    """One for each job; it may count the failures that it is asked about."""

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        """How long to wait before the restart; None when the job fails instead."""


class NoRestart:
    """The first failure of a task fails the job. No state."""

    def restart_after_ms(self, failure: ErrorInfo, now_ms: int) -> int | None:
        return None
