"""The jobs of INSERT statements that run on while the shell goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from client.progress import closing_text
from sqlstream.errors import SqlStreamError, render_error
from sqlstream.messages.job_state import JobStatus

if TYPE_CHECKING:
    from client.connection import StatementResult
    from sqlstream.messages.rpc import JobStatusReply

JOBS_MAX = 100
"""Jobs whose end is told; of more the oldest are no longer looked at."""


class DetachedJobs:
    """State: the jobs that had not ended when they were last looked at, with the time of their submission."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[StatementResult, float]] = {}

    def add(self, result: StatementResult) -> None:
        if result.job_id is not None:
            self._jobs[result.job_id] = (result, time.monotonic())
        while len(self._jobs) > JOBS_MAX:
            del self._jobs[next(iter(self._jobs))]

    def running(self) -> list[StatementResult]:
        """The jobs that have not ended."""
        return [result for result, _ in self._jobs.values() if _reply(result) is None]

    def ended(self) -> list[str]:
        """Lines about the jobs that have ended since the last call, which are forgotten."""
        lines: list[str] = []
        for job_id, (result, started) in list(self._jobs.items()):
            reply = _reply(result)
            if reply is not None:
                del self._jobs[job_id]
                lines += _report(result, reply, time.monotonic() - started)
        return lines


def _reply(result: StatementResult) -> JobStatusReply | None:
    try:
        return result.wait(0)
    except TimeoutError:
        return None


def _report(result: StatementResult, reply: JobStatusReply, seconds: float) -> list[str]:
    job = f"job {result.job_id}"
    if reply.status is not JobStatus.FINISHED:
        lines = [f"{result.label}: {job} was {reply.status.value.lower()}"]
        return lines if reply.error is None else [*lines, *render_error(reply.error).split("\n")]
    try:
        return [f"{job}: {closing_text(result.label, result.metrics().total, seconds)}", *result.warnings()]
    except SqlStreamError:
        # Its cluster has forgotten the figures.
        return [f"{result.label}: {job} has finished"]
