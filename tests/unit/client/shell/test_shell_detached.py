"""The jobs that a shell has submitted and not waited for."""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlstream.client.shell.detached import JOBS_MAX, DetachedJobs
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobStatusReply


@dataclasses.dataclass
class _Entry:
    job_id: str
    end_ms: int


class _Cluster:
    """A connection whose jobs all run but those in `ended`."""

    def __init__(self) -> None:
        self.known: list[str] = []
        self.ended: set[str] = set()

    def jobs(self) -> list[_Entry]:
        return [_Entry(job_id, 1 if job_id in self.ended else -1) for job_id in self.known]


@dataclasses.dataclass
class _Result:
    job_id: str
    label: str = "INSERT INTO t"

    def wait(self, _timeout_s: float) -> Any:
        return JobStatusReply(self.job_id, JobStatus.CANCELED)


def test_a_running_job_is_never_forgotten_and_an_ended_one_is_told_once() -> None:
    cluster = _Cluster()
    detached = DetachedJobs(cluster)  # type: ignore[arg-type]
    for number in range(JOBS_MAX + 20):
        if number == JOBS_MAX:
            cluster.ended.add("job3")
        cluster.known.append(f"job{number}")
        detached.add(_Result(f"job{number}"))  # type: ignore[arg-type]
    running = [result.job_id for result in detached.running()]
    assert (len(running), running[0], "job3" in running) == (JOBS_MAX + 19, "job0", False)
    assert detached.ended() == ["INSERT INTO t: job job3 was cancelled"]
    assert detached.ended() == []
