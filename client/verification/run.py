"""Runs a job to its end and hands on its rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from client.following.ended_job import ended_error
from sqlstream.cancellation import check_not_given_up
from sqlstream.messages.job_state import JobStatus

if TYPE_CHECKING:
    from client.session import Job
    from runtime.net.results import JobResults
    from sqlstream.messages.rpc import JobMetrics

CHECK_S = 0.1
"""How long the statement waits for rows before it looks whether it was given up."""


def run_to_end(job: Job, take: Callable[[pa.RecordBatch], None]) -> JobMetrics:
    """Call `take` with each batch of a query; returns the final figures. JobError when the job does not finish, or the statement
    is given up; the job is cancelled then, as after any other error."""
    try:
        for batch in _batches(job.results()):
            take(batch)
        ended = threading.Event()
        job.when_ended(lambda reply: ended.set())
        while not ended.wait(CHECK_S):
            check_not_given_up()
        status, error = job.wait()
    except BaseException:
        job.cancel()
        raise
    if status is not JobStatus.FINISHED:
        from sqlstream.messages.rpc import JobStatusReply

        raise ended_error(JobStatusReply(job.id, status, error))
    return job.metrics()


def _batches(results: JobResults) -> Iterator[pa.RecordBatch]:
    while True:
        batch = results.poll()
        if batch is not None:
            yield batch
            check_not_given_up()
            continue
        if results.is_ended:
            return
        ready = threading.Event()
        results.when_ready(ready.set)
        while not ready.wait(CHECK_S):
            check_not_given_up()
