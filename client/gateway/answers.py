"""What a statement's outcome is as the answer of an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.client.gateway.operations import OperationResult
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.results import ResultPages
from sqlstream.client.sessions.outcomes import (
    JOB_ID,
    TEXT,
    Job,
    LiteralResults,
    Outcome,
    Rows,
    Text,
    literal_batches,
)

if TYPE_CHECKING:
    from sqlstream.runtime.net.results import JobResults


def answer(outcome: Outcome, time_zone: str, options: GatewayOptions) -> OperationResult:
    """Rows of a statement without a job, the text of EXPLAIN, the rows of a query as they come, or the job id of an INSERT."""
    job = outcome if isinstance(outcome, Job) else None
    read_job: Job | None = None
    rows: JobResults
    match outcome:
        case Rows():
            rows = LiteralResults(outcome.batches)
        case Text(text):
            rows = LiteralResults(literal_batches(TEXT, ((text,),)))
        case Job() if outcome.schema is None:
            rows = LiteralResults(literal_batches(JOB_ID, ((outcome.id,),)))
        case Job():
            rows, read_job = outcome.results(), outcome
    pages = ResultPages(rows, options.page_rows_max, options.page_bytes_max, read_job)
    return OperationResult(outcome.facts, pages, time_zone, job)
