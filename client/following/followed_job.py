"""Follows a job to its end, with its progress on a terminal, and tells how it ended."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Protocol

from sqlstream.client.following.progress import closing_text
from sqlstream.client.following.remarks import Remark
from sqlstream.client.rendering.terminal import kept_output
from sqlstream.errors import JobError, SqlStreamError, render_error
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobStatusReply, Metrics

_WORDS = {
    JobStatus.CANCELED: "was cancelled",
    JobStatus.FAILED: "has failed",
    JobStatus.SUSPENDED: "was suspended with its JobManager",
}


def end_text(reply: JobStatusReply) -> str:
    """
    >>> end_text(JobStatusReply("e3", JobStatus.CANCELED))
    'job e3 was cancelled'
    """
    return f"job {reply.job_id} {_WORDS.get(reply.status, f'ended {reply.status.value.lower()}')}"


def ended_error(reply: JobStatusReply) -> JobError:
    """What a reader of the job's rows is told: the cause of a failure, or that the rows are incomplete."""
    if reply.error is not None:
        return reply.error.to_job_error()
    return JobError("SS6023", end_text(reply), hint="run the statement again for the whole result")


CANCEL_TIMEOUT_S = 5.0
"""How long Ctrl-C waits for the end of the job that it cancels."""


class FollowedJob(Protocol):
    """The job of a statement (StatementResult)."""

    @property
    def label(self) -> str: ...
    def wait(self, timeout_s: float | None = None) -> JobStatusReply: ...
    def metrics(self) -> JobMetrics: ...
    def remarks(self) -> list[Remark]: ...
    def cancel(self) -> None: ...


@dataclasses.dataclass(frozen=True)
class JobEnd:
    """How a job ended. `total` and `remarks` are its final figures and what is to be told of them; they are empty when the job
    has failed with its cluster, which took the figures with it."""

    label: str
    reply: JobStatusReply
    total: Metrics
    remarks: list[Remark]
    seconds: float

    @property
    def is_finished(self) -> bool:
        return self.reply.status is JobStatus.FINISHED

    @property
    def closing(self) -> str:
        """What a finished job read and wrote; empty for any other."""
        return closing_text(self.label, self.total, self.seconds) if self.is_finished else ""

    def failure(self, statement: str) -> str:
        """Why the job has not finished, with its place in the statement; empty when it has."""
        if self.reply.error is not None:
            return render_error(self.reply.error, statement)
        return "" if self.is_finished else end_text(self.reply)


def follow(
    job: FollowedJob,
    progress: contextlib.AbstractContextManager[object],
    read_rows: Callable[[], None] | None = None,
) -> JobEnd:
    """Wait for the end of a job while `progress` is shown; `read_rows` takes the rows of a query meanwhile. KeyboardInterrupt
    leaves the job as it is."""
    started = time.monotonic()
    with kept_output(), progress:
        if read_rows is not None:
            read_rows()
        reply = job.wait()
    return _end_of(job, reply, time.monotonic() - started)


def cancel_and_wait(job: FollowedJob) -> JobEnd | None:
    """Cancel a job; None when it does not end within CANCEL_TIMEOUT_S."""
    started = time.monotonic()
    job.cancel()
    try:
        return _end_of(job, job.wait(CANCEL_TIMEOUT_S), time.monotonic() - started)
    except TimeoutError:
        return None


def _end_of(job: FollowedJob, reply: JobStatusReply, seconds: float) -> JobEnd:
    try:
        return JobEnd(job.label, reply, job.metrics().total, job.remarks(), seconds)
    except SqlStreamError:
        if reply.status is JobStatus.FINISHED:
            raise
        # The cluster failed; the job's error has the cause.
        return JobEnd(job.label, reply, {}, [], seconds)
