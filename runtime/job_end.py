"""The end of a job, told to who follows it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from sqlstream.errors import ErrorInfo
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobStatusReply


def tell_end(end: Future[JobStatusReply], job_id: str, callback: Callable[[JobStatusReply], None]) -> None:
    """Call back once with the job's final status: SUSPENDED when its JobManager ended first, or could not be asked."""

    def call(end: Future[JobStatusReply]) -> None:
        error = end.exception()
        if error is None:
            callback(end.result())
        else:
            callback(JobStatusReply(job_id, JobStatus.SUSPENDED, ErrorInfo.of(error)))

    end.add_done_callback(call)
