"""A page of results as the body of a response (Flink: FetchResultsResponseBodySerializer)."""

from __future__ import annotations

from typing import Any

import msgspec

from sqlstream.client.gateway.operations import OperationResult
from sqlstream.client.gateway.results import Page
from sqlstream.client.gateway.rows_json import RowFormat, rows_json
from sqlstream.client.http_api.types_json import columns_json
from sqlstream.client.sessions.outcomes import ResultKind


def not_ready_json(next_uri: str) -> bytes:
    return msgspec.json.encode({"resultType": "NOT_READY", "nextResultUri": next_uri})


def page_json(result: OperationResult, page: Page, row_format: RowFormat, next_uri: str) -> bytes:
    """PAYLOAD, or EOS for the end, which has no next page."""
    head = {"resultType": "EOS" if page.is_end else "PAYLOAD", **head_json(result)}
    results = {"columns": columns_json(result.schema), "rowFormat": row_format.value}
    rows = rows_json(page.batches, result.schema, row_format, result.time_zone)
    text = msgspec.json.encode(head)[:-1]
    text += b',"results":' + msgspec.json.encode(results)[:-1] + b',"data":' + rows + b"}"
    if not page.is_end:
        text += b',"nextResultUri":' + msgspec.json.encode(next_uri)
    return text + b"}"


def head_json(result: OperationResult) -> dict[str, Any]:
    """What a page says of the whole result; `jobID` only where there is a job. The only row of a SUCCESS says OK."""
    head: dict[str, Any] = {"isQueryResult": result.is_query}
    if result.job_id is not None:
        head["jobID"] = result.job_id
    is_confirmation = result.facts.kind is ResultKind.CONFIRMATION
    return {**head, "resultKind": "SUCCESS" if is_confirmation else "SUCCESS_WITH_CONTENT"}
