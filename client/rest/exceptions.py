"""A job's failures in Flink's exception history."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from sqlstream.client.rest.messages import ExceptionInfo, RootException
from sqlstream.client.rest.parameters import bad_query
from sqlstream.client.rest.vertex_view import endpoint_of
from sqlstream.errors import ErrorInfo, render_error
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobDetails, RestartRecord, SubtaskDetails

ENTRIES_MAX = 20
CONCURRENT_MAX = 20


def exception_history(job: JobDetails, most: int | None, label_filter: str | None) -> dict[str, Any]:
    """The cause of the job's failure, with the failures that its other tasks reported, and those that it was restarted after;
    newest first."""
    entries = [e for e in (*_entries(job), *map(_survived, job.restarts)) if _has_labels(e, label_filter)]
    kept = entries[: ENTRIES_MAX if most is None else most]
    return {"exceptionHistory": {"entries": kept, "truncated": len(kept) < len(entries)}}


def _entries(job: JobDetails) -> list[RootException]:
    failed = [
        (f"{vertex.name} ({subtask.subtask + 1}/{vertex.parallelism})", subtask)
        for vertex in job.vertices
        for subtask in vertex.subtasks
        if subtask.error is not None
    ]
    if job.error is None:
        return []
    # The job's cause is the error of the task that failed first, unless it is the JobManager's own.
    failed.sort(key=lambda task: (task[1].error != job.error, _failed_ms(task[1])))
    if failed and failed[0][1].error == job.error:
        root, others = _task_exception(*failed[0]), failed[1:]
    else:
        at_ms = job.timestamps_ms.get(JobStatus.FAILING.value, max(job.start_ms, job.end_ms))
        root, others = _exception(job.error, at_ms), failed
    concurrent = [_task_exception(*task) for task in others[:CONCURRENT_MAX]]
    return [RootException(**asdict(root), concurrent_exceptions=concurrent)]


def _survived(restart: RestartRecord) -> RootException:
    root = _exception(restart.error, restart.failed_ms)
    root.task_name = restart.task or None
    return RootException(**asdict(root), concurrent_exceptions=[])


def _failed_ms(subtask: SubtaskDetails) -> int:
    return subtask.timestamps_ms.get("FAILED", max(subtask.timestamps_ms.values(), default=0))


def _task_exception(task_name: str, subtask: SubtaskDetails) -> ExceptionInfo:
    assert subtask.error is not None
    found = _exception(subtask.error, _failed_ms(subtask))
    found.task_name = task_name
    found.endpoint = found.task_manager_id = endpoint_of(subtask)
    return found


def _exception(error: ErrorInfo, at_ms: int) -> ExceptionInfo:
    labels = {"code": error.code, "reason": error.reason.value}
    return ExceptionInfo(error.code, render_error(error), at_ms, labels, None, None, None)


def _has_labels(entry: RootException, label_filter: str | None) -> bool:
    for pair in (label_filter or "").split(","):
        if not pair:
            continue
        label, colon, value = pair.partition(":")
        if not colon:
            raise bad_query("failureLabelFilter", pair)
        if entry.failure_labels.get(label) != value:
            return False
    return True
