"""Calls about jobs to the JobManager's REST, and what their answers say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlstream.client.connection.wire import rendered_error
from sqlstream.errors import ErrorInfo
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobOverviewEntry, JobStatusReply

OVERVIEW = "/jobs/overview"
CLUSTER = "/overview"

_FIRST_POLL_S = 0.005
_POLL_S_MAX = 0.25


def job_path(job_id: str, rest: str = "") -> str:
    return f"/jobs/{job_id}{rest}"


def poll_intervals_s() -> Iterator[float]:
    """How long to wait between two looks at a job: short at first, since many jobs are."""
    interval_s = _FIRST_POLL_S
    while True:
        yield interval_s
        interval_s = min(interval_s * 1.5, _POLL_S_MAX)


def overview_of(answer: Mapping[str, Any]) -> tuple[JobOverviewEntry, ...]:
    """The jobs of /jobs/overview, the latest first."""
    jobs = [
        JobOverviewEntry(
            job["jid"],
            job["name"],
            JobStatus(job["state"]),
            job["start-time"],
            job["end-time"],
            {state.upper(): count for state, count in job["tasks"].items() if state != "total"},
            job.get("jobType") == "BATCH",
        )
        for job in answer["jobs"]
    ]
    return tuple(sorted(jobs, key=lambda job: job.start_ms, reverse=True))


def status_of(job_id: str, answer: Mapping[str, Any], exceptions: Mapping[str, Any] | None) -> JobStatusReply:
    """The status of /jobs/ID/status, with the cause of a failure from /jobs/ID/exceptions."""
    status = JobStatus(answer["status"])
    error = failure_of(exceptions) if exceptions is not None else None
    return JobStatusReply(job_id, status, error)


def failure_of(exceptions: Mapping[str, Any]) -> ErrorInfo | None:
    """The cause of a job's failure, None when there is none."""
    entries = exceptions.get("exceptionHistory", {}).get("entries", [])
    if not entries:
        return None
    text = str(entries[0].get("stacktrace", ""))
    error = rendered_error(text)
    if error is None:
        return ErrorInfo(str(entries[0].get("exceptionName", "SS9001")), text)
    return ErrorInfo(error.code, error.message, detail=error.detail, hint=error.hint)


def no_metrics() -> JobMetrics:
    """The figures where no job runs."""
    return JobMetrics("", JobStatus.FINISHED, {}, {})


def metrics_of(job_id: str, answer: Mapping[str, Any]) -> JobMetrics:
    """The figures of /jobs/ID/totals."""
    operators = {int(id): figures for id, figures in answer["operators"].items()}
    failure = rendered_error(answer["failure"])
    cause = ErrorInfo.of(failure) if failure is not None else None
    return JobMetrics(job_id, JobStatus(answer["status"]), answer["total"], operators, cause)
