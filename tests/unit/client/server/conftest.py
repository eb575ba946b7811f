"""Small jobs, running and ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ErrorInfo
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph, JobVertex
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobDetails, JobMetrics
from sqlstream.runtime.jobmanager.events import EndedJob
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec

EMPTY = Schema(())
MODE = ChangelogMode.INSERT_ONLY


@pytest.fixture
def make_job() -> Callable[..., JobGraph]:
    """One vertex with a sink: `make_job("j1", "collect")`."""

    def make(job_id: str = "j1", connector: str = "filesystem") -> JobGraph:
        spec = SinkSpec("out", connector, {"path": "/t"}, EMPTY)
        operator = ChainedOperator(0, "uid", "out", spec, NETWORK_INPUT, (EMPTY,), (MODE,), EMPTY, MODE)
        return JobGraph(job_id, f"insert {job_id}", (JobVertex("0" * 32, "out", (operator,), 1, 128),), ())

    return make


@pytest.fixture
def make_ended(make_job: Callable[..., JobGraph]) -> Callable[..., EndedJob]:
    def make(job_id: str, status: JobStatus = JobStatus.FINISHED, error: ErrorInfo | None = None) -> EndedJob:
        details = JobDetails(job_id, "n", status, 1000, 2000, {"RUNNING": 1500}, (), error)
        return EndedJob(make_job(job_id), details, JobMetrics(job_id, status, {"numRecordsIn": 3}, {}))

    return make
