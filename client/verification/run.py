"""Runs a job to its end and hands on its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.client.following.followed_job import ended_error
from sqlstream.client.statements.short_job import JobEnd, awaited_batches
from sqlstream.messages.job_state import JobStatus

if TYPE_CHECKING:
    from sqlstream.client.sessions.outcomes import Job
    from sqlstream.messages.rpc import JobMetrics


def run_to_end(job: Job, take: Callable[[pa.RecordBatch], None]) -> JobMetrics:
    """Call `take` with each batch of a query; returns the final figures. JobError when the job does not finish, or the statement
    is given up; the job is cancelled then, as after any other error."""
    try:
        for batch in awaited_batches(job.results()):
            take(batch)
        end = JobEnd()
        job.when_ended(end.tell)
        end.awaited()
        status, error = job.wait()
    except BaseException:
        job.cancel()
        raise
    if status is not JobStatus.FINISHED:
        from sqlstream.messages.rpc import JobStatusReply

        raise ended_error(JobStatusReply(job.id, status, error))
    return job.metrics()
