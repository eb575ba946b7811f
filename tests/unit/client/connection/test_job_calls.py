"""What the answers of the JobManager's REST say of jobs."""

from __future__ import annotations

import itertools
from typing import Any

from sqlstream.client.connection.wire import (
    failure_of,
    job_path,
    metrics_of,
    overview_of,
    poll_intervals_s,
    status_of,
)
from sqlstream.errors import ErrorInfo
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobOverviewEntry, JobStatusReply

CAUSE = "error[SS5102]: cannot cast 'x' to INT\nhint: use TRY_CAST"


def exceptions(*texts: str) -> dict[str, Any]:
    entries = [{"exceptionName": "SS5102", "stacktrace": text} for text in texts]
    return {"exceptionHistory": {"entries": entries}}


def test_a_status_has_the_cause_of_a_failure_when_it_was_asked_for() -> None:
    error = ErrorInfo("SS5102", "cannot cast 'x' to INT", hint="use TRY_CAST")
    failed = {"status": "FAILED"}
    assert status_of("j", failed, None) == JobStatusReply("j", JobStatus.FAILED, None)
    assert status_of("j", failed, exceptions(CAUSE)) == JobStatusReply("j", JobStatus.FAILED, error)
    assert status_of("j", {"status": "FINISHED"}, exceptions()) == JobStatusReply(
        "j", JobStatus.FINISHED, None
    )


def test_the_cause_is_the_latest_failure_and_a_text_of_another_form_is_kept_whole() -> None:
    assert failure_of({}) is None
    assert failure_of(exceptions(CAUSE, "error[SS1]: earlier")) == ErrorInfo(
        "SS5102", "cannot cast 'x' to INT", hint="use TRY_CAST"
    )
    assert failure_of(exceptions("java.lang.Error")) == ErrorInfo("SS5102", "java.lang.Error")
    assert failure_of({"exceptionHistory": {"entries": [{}]}}) == ErrorInfo("SS9001", "")


def test_an_overview_has_the_latest_job_first_and_its_tasks_without_their_sum() -> None:
    def job(job_id: str, start: int, **more: str) -> dict[str, Any]:
        tasks = {"total": 3, "running": 2, "finished": 1}
        return {
            "jid": job_id, "name": "n", "state": "RUNNING", "start-time": start, "end-time": -1, "tasks": tasks
        } | more  # fmt: skip

    found = overview_of(
        {"jobs": [job("a", 1), job("b", 2, jobType="BATCH"), job("c", 0, jobType="STREAMING")]}
    )
    tasks = {"RUNNING": 2, "FINISHED": 1}
    assert found == (
        JobOverviewEntry("b", "n", JobStatus.RUNNING, 2, -1, tasks, True),
        JobOverviewEntry("a", "n", JobStatus.RUNNING, 1, -1, tasks, False),
        JobOverviewEntry("c", "n", JobStatus.RUNNING, 0, -1, tasks, False),
    )


def test_figures_are_by_operator_with_the_cause_of_a_failure() -> None:
    answer = {
        "operators": {"1": {"numRecordsIn": 4}},
        "status": "FAILED",
        "total": {"a": 1},
        "failure": CAUSE,
    }
    found = metrics_of("j", answer)
    assert (found.job_id, found.status, found.total) == ("j", JobStatus.FAILED, {"a": 1})
    assert found.operators == {1: {"numRecordsIn": 4}}
    assert found.failure is not None
    assert (found.failure.code, found.failure.hint) == ("SS5102", "use TRY_CAST")
    over = metrics_of("j", {**answer, "failure": "", "lastFailure": CAUSE})
    assert (over.failure, over.last_failure) == (None, found.failure)


def test_looks_at_a_job_become_rarer_up_to_a_bound() -> None:
    intervals_s = list(itertools.islice(poll_intervals_s(), 20))
    assert intervals_s[:2] == [0.005, 0.0075]
    assert intervals_s == sorted(intervals_s)
    assert intervals_s[-1] == 0.25
    assert (job_path("j"), job_path("j", "/totals")) == ("/jobs/j", "/jobs/j/totals")
