"""Figures of a whole job."""

from __future__ import annotations

from collections.abc import Callable

from runtime.jobmanager.metrics import combine_operators, job_totals
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.rpc import TaskMetrics


def test_a_job_counts_what_sources_read_and_sinks_took(make_job: Callable[..., JobGraph]) -> None:
    job = make_job("j", 2, 1)
    tasks = [
        TaskMetrics("a", {}, {0: {"numRecordsOut": 10, "numBytesIn": 100, "currentOutputWatermark": 70}}),
        TaskMetrics(
            "b", {}, {0: {"numRecordsOut": 5, "numRecordsRejected": 2, "currentOutputWatermark": 60}}
        ),
        TaskMetrics(
            "c", {}, {1: {"numRecordsIn": 9, "numNullRecordsDropped": 3, "numBytesOut": 50, "stateBytes": 4}}
        ),
    ]
    operators = combine_operators(tasks)
    assert operators[0]["numRecordsOut"] == 15
    assert job_totals(job, operators) == {
        "numRecordsRead": 15,
        "numBytesRead": 100,
        "numRecordsWritten": 6,
        "numBytesWritten": 50,
        "numRecordsRejected": 2,
        "numLateRecordsDropped": 0,
        "numNullRecordsDropped": 3,
        "numStateEntriesExpired": 0,
        "stateBytes": 4,
        "currentOutputWatermark": 60,
    }
