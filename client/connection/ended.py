"""The error of a job that has ended otherwise than by finishing."""

from __future__ import annotations

from sqlstream.errors import ErrorInfo, FailureReason, JobError
from sqlstream.messages.job_state import JobStatus


def ended_error(job_id: str, status: JobStatus, error: ErrorInfo | None) -> JobError:
    """What a reader of the job's rows is told: the cause of a failure, or that the rows are incomplete."""
    if error is not None:
        return error.to_job_error()
    words = {JobStatus.CANCELED: "was cancelled", JobStatus.SUSPENDED: "was suspended with its JobManager"}
    return JobError(
        "SS6023",
        f"job {job_id} {words.get(status, f'ended {status.value.lower()}')}",
        reason=FailureReason.CANCELLED,
        hint="run the statement again for the whole result",
    )
