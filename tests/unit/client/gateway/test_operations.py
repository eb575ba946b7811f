"""What one operation does with an answer that comes too late."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from sqlstream import types as sql
from sqlstream.client.gateway.operations import (
    Operation,
    OperationResult,
    OperationStatus,
)
from sqlstream.client.gateway.results import ResultPages
from sqlstream.client.sessions.outcomes import LiteralResults, ResultFacts, ResultKind, literal_batches
from sqlstream.schema import Schema

if TYPE_CHECKING:
    from sqlstream.client.sessions.outcomes import Job

JOB_ID = Schema.of(("job id", sql.STRING))


class JobOnRecord:
    """State: how often it was cancelled."""

    id = "a" * 32

    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


@pytest.mark.parametrize(
    ("end", "cancelled"),
    [
        ("cancel", 1),
        # Flink: the job of an INSERT goes on without the session that submitted it.
        ("close", 0),
    ],
)
def test_the_job_of_an_insert_that_was_submitted_meanwhile_ends_with_a_cancel_alone(
    end: str, cancelled: int
) -> None:
    operation = Operation("INSERT INTO t SELECT 1")
    operation.accept()
    assert operation.start()
    getattr(operation, end)()
    job = JobOnRecord()
    rows = LiteralResults(literal_batches(JOB_ID, ((job.id,),)))
    operation.finish(
        OperationResult(
            ResultFacts(ResultKind.JOB, JOB_ID),
            ResultPages(rows, rows_max=10, bytes_max=1000),
            "UTC",
            cast("Job", job),
        )
    )
    assert job.cancelled == cancelled
    assert operation.status is {"cancel": OperationStatus.CANCELED, "close": OperationStatus.CLOSED}[end]
