"""What a statement's outcome is as the answer of an operation."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.client.gateway.operations import OperationResult, ResultKind, StatementInfo
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.results import ResultPages
from sqlstream.client.sessions.outcomes import Job, LiteralResults, Outcome, Rows, Text, literal_batches
from sqlstream.schema import Schema

RESULT = Schema.of(("result", sql.STRING))
JOB_ID = Schema.of(("job id", sql.STRING))


def answer(outcome: Outcome, time_zone: str, options: GatewayOptions) -> OperationResult:
    """Rows of a statement without a job, the text of EXPLAIN, the rows of a query as they come, or the job id of an INSERT."""
    match outcome:
        case Rows():
            return _rows(outcome, time_zone, options)
        case Text(text, is_failure):
            info = StatementInfo("TEXT", is_failure=is_failure)
            return _listed(RESULT, text, ResultKind.SUCCESS_WITH_CONTENT, info, time_zone, options)
        case Job() if outcome.schema is None:
            info = StatementInfo("JOB", outcome.label, is_bounded=outcome.is_bounded, note=outcome.note)
            kind = ResultKind.SUCCESS_WITH_CONTENT
            return _listed(JOB_ID, outcome.id, kind, info, time_zone, options, job=outcome)
        case Job():
            return _query(outcome, outcome.schema, time_zone, options)


def _rows(rows: Rows, time_zone: str, options: GatewayOptions) -> OperationResult:
    if rows.done:
        kind, info = ResultKind.SUCCESS, StatementInfo("CONFIRMATION", text=rows.done, note=rows.note)
    else:
        what = "TEXT" if rows.schema.names == RESULT.names else "ROWS"
        kind, info = ResultKind.SUCCESS_WITH_CONTENT, StatementInfo(what, note=rows.note)
    pages = ResultPages(LiteralResults(rows.batches), options.page_rows_max, options.page_bytes_max)
    return OperationResult(rows.schema, pages, kind, info, time_zone)


def _listed(
    schema: Schema,
    value: str,
    kind: ResultKind,
    info: StatementInfo,
    time_zone: str,
    options: GatewayOptions,
    job: Job | None = None,
) -> OperationResult:
    """An answer of one text."""
    rows = LiteralResults(literal_batches(schema, ((value,),)))
    pages = ResultPages(rows, options.page_rows_max, options.page_bytes_max)
    return OperationResult(schema, pages, kind, info, time_zone, job)


def _query(job: Job, schema: Schema, time_zone: str, options: GatewayOptions) -> OperationResult:
    info = StatementInfo(
        "QUERY", job.label, is_bounded=job.is_bounded, is_updating=job.is_updating, note=job.note
    )
    pages = ResultPages(job.results(), options.page_rows_max, options.page_bytes_max, job)
    return OperationResult(
        schema, pages, ResultKind.SUCCESS_WITH_CONTENT, info, time_zone, job, is_query=True
    )
