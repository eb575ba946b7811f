"""The jobs of INSERT statements that run on while the shell goes on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlstream.client.following.followed_job import end_text
from sqlstream.client.following.progress import closing_text
from sqlstream.client.following.remarks import lines_of
from sqlstream.errors import SqlStreamError, render_error
from sqlstream.messages.job_state import JobStatus

if TYPE_CHECKING:
    from sqlstream.client.connection import Connection, StatementResult

WAIT_S = 1.0
JOBS_MAX = 100
"""Jobs beyond which an added one makes the ends of the others be looked for, so that those that have ended are let go."""
LINES_MAX = 1_000


class DetachedJobs:
    """State: the jobs that had not ended when they were last looked at, with the time of their submission, and lines about
    ended ones that nobody has read. A job that runs is never forgotten: its user is asked before the cluster ends with it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._jobs: dict[str, tuple[StatementResult, float]] = {}
        self._lines: list[str] = []

    def add(self, result: StatementResult) -> None:
        if result.job_id is None:
            return
        if len(self._jobs) >= JOBS_MAX:
            self._lines = self.ended()[-LINES_MAX:]
        self._jobs[result.job_id] = (result, time.monotonic())

    def running(self) -> list[StatementResult]:
        """The jobs that have not ended."""
        running = self._running_ids()
        return [result for job_id, (result, _) in self._jobs.items() if job_id in running]

    def ended(self) -> list[str]:
        """Lines about the jobs that have ended since the last call, which are forgotten."""
        running = self._running_ids()
        lines, self._lines = self._lines, []
        for job_id in [job_id for job_id in self._jobs if job_id not in running]:
            result, started = self._jobs.pop(job_id)
            lines += _report(result, time.monotonic() - started)
        return lines

    def _running_ids(self) -> set[str]:
        """All of the cluster are looked at in one call, since there may be many. While it does not answer, none has ended."""
        if not self._jobs:
            return set()
        try:
            return {job.job_id for job in self._connection.jobs() if job.end_ms < 0}
        except SqlStreamError:
            return set(self._jobs)


def _report(result: StatementResult, seconds: float) -> list[str]:
    job = f"job {result.job_id}"
    try:
        reply = result.wait(WAIT_S)
    except (TimeoutError, OSError, SqlStreamError) as error:
        # Lines of connector `print` that could not be printed, or a server that is gone.
        return [f"{result.label}: the end of {job} is not known: {error}"]
    if reply.status is not JobStatus.FINISHED:
        lines = [f"{result.label}: {end_text(reply)}"]
        return lines if reply.error is None else [*lines, *render_error(reply.error).split("\n")]
    try:
        return [
            f"{job}: {closing_text(result.label, result.metrics().total, seconds)}",
            *lines_of(result.remarks()),
        ]
    except SqlStreamError:
        # Its cluster has forgotten the figures.
        return [f"{result.label}: {job} has finished"]
