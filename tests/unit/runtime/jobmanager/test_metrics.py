"""Figures of a whole job."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.rpc import TaskMetrics
from sqlstream.runtime.jobmanager.metrics import combine, combine_operators, job_totals


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
        "numInvalidOperations": 0,
        "numEventsPassedOver": 0,
        "numTruncationsPassedOver": 0,
        "numUnknownValues": 0,
        "numArithmeticOverflows": 0,
        "stateBytes": 4,
        "currentOutputWatermark": 60,
    }


def test_what_nobody_counted_is_zero_and_the_watermark_is_the_slowest(
    make_job: Callable[..., JobGraph],
) -> None:
    nothing = job_totals(make_job("j", 1, 1), {0: {}, 1: {}})
    assert {name: value for name, value in nothing.items() if value} == {}
    assert "currentOutputWatermark" not in nothing
    two = job_totals(
        make_job("j", 1, 1), {0: {"currentOutputWatermark": 7}, 1: {"currentOutputWatermark": 5}}
    )
    assert two["currentOutputWatermark"] == 5
    engine = job_totals(make_job("j", 1, 1), {0: {"batchTasksDone": 1, "batchTasksTotal": 3}, 1: {}})
    assert (engine["batchTasksDone"], engine["batchTasksTotal"]) == (1, 3)
    assert "batchEngineStarting" not in engine


def test_shares_of_a_second_are_averaged_and_watermarks_the_least() -> None:
    parts = [{"idleTimeMsPerSecond": 100, "currentInputWatermark": 9, "n": 1}, {"idleTimeMsPerSecond": 200}]
    assert combine([*parts, {"currentInputWatermark": 4}]) == {
        "idleTimeMsPerSecond": 150,
        "currentInputWatermark": 4,
        "n": 1,
    }
