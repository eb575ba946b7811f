"""What is told of the restarts of a job."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sqlstream.client.following.lost_rows import job_remarks, restarts_remark
from sqlstream.errors import ErrorInfo
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, RestartRecord

LOST = ErrorInfo("SS6006", "the TaskManager is lost")


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def restart(second: int, checkpoint_id: int, task: str = "") -> RestartRecord:
    return RestartRecord(second * 1000, LOST, task, checkpoint_id)


def test_each_restart_says_when_why_and_from_where() -> None:
    newest_first = [restart(7200, 3, "join (1/2)"), restart(3600, 0), restart(60, -1)]
    assert restarts_remark(newest_first, 3).lines == (
        "note: the job was restarted 3 times",
        "  failed at 00:01:00: error[SS6006]: the TaskManager is lost",
        "  failed at 01:00:00, began again: error[SS6006]: the TaskManager is lost",
        "  failed at 02:00:00, went on from checkpoint 3: join (1/2): error[SS6006]: the TaskManager is lost",
    )
    assert len(restarts_remark([restart(1, 1)] * 16, 40).lines) == 4
    assert (
        restarts_remark([restart(1, 1)] * 16, 40).lines[0]
        == "note: the job was restarted 40 times; the last 3:"
    )


def test_restarts_are_read_only_when_there_were_any() -> None:
    def never() -> list[RestartRecord]:
        raise AssertionError

    assert job_remarks(JobMetrics("j", JobStatus.FINISHED, {}, {}), {}, never) == []
    restarted = JobMetrics("j", JobStatus.FINISHED, {"numRestarts": 1}, {})
    assert (
        job_remarks(restarted, {}, lambda: [restart(60, 1)])[0].lines[0] == "note: the job was restarted once"
    )
