"""How a job ended that has not finished, as a text and as an error."""

from __future__ import annotations

from sqlstream.errors import FailureReason, JobError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobStatusReply

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
    return JobError(
        "SS6023",
        end_text(reply),
        reason=FailureReason.CANCELLED,
        hint="run the statement again for the whole result",
    )
