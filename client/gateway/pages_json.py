"""Rows, and pages of them, in the JSON of Flink's gateway (Flink: FetchResultsResponseBodySerializer)."""

from __future__ import annotations

import enum
import io
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import kind_texts, without_row_kinds
from sqlstream.client.gateway.operations import OperationResult
from sqlstream.client.gateway.results import Page
from sqlstream.client.http_api.types_json import columns_json
from sqlstream.client.rendering.sql_text import sql_texts
from sqlstream.client.sessions.outcomes import ResultKind
from sqlstream.runtime.formats.json_writer import JsonWriter, quote
from sqlstream.runtime.formats.text_values import joined_lines
from sqlstream.schema import Schema
from sqlstream.types import LogicalType

_ISO = {"timestamp-format.standard": "ISO-8601"}


class RowFormat(enum.Enum):
    """How values are written.

    JSON: numbers, booleans, arrays and objects; times in ISO-8601, binary in base64, intervals as milliseconds or months.
    PLAIN_TEXT: each value as CAST to STRING gives it, NULL as null. ARROW: an Arrow IPC stream, which is no part of Flink's
    protocol.
    """

    JSON = "JSON"
    PLAIN_TEXT = "PLAIN_TEXT"
    ARROW = "ARROW"


def rows_json(
    batches: Sequence[pa.RecordBatch], schema: Schema, row_format: RowFormat, time_zone: str
) -> bytes:
    """The rows of the batches as one JSON array, with row kinds. `time_zone` applies to PLAIN_TEXT."""
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return b"[]"
    # To encode a batch costs as much as some hundred rows: those of a page are encoded as one.
    lines = _lines(pa.concat_batches(filled), schema, row_format, time_zone)
    # Every row ends with a comma, the last one's is cut.
    return b"[" + bytes(lines)[:-1] + b"]"


def _lines(batch: pa.RecordBatch, schema: Schema, row_format: RowFormat, time_zone: str) -> memoryview:
    openings = kind_texts(batch, lambda kind: f'{{"kind":"{kind.name}","fields":[')
    columns = zip(without_row_kinds(batch).columns, schema.types, strict=True)
    if row_format is RowFormat.PLAIN_TEXT:
        values = [pc.fill_null(quote(_text(c, t, time_zone)), "null") for c, t in columns]
    else:
        writer = JsonWriter(io.BytesIO(), schema, _ISO)
        values = [pc.fill_null(writer.value_texts(c, t), "null") for c, t in columns]
    fields = pc.binary_join_element_wise(*values, ",") if values else ""
    return joined_lines(pc.binary_join_element_wise(openings, fields, pa.scalar("]}"), ""), b",")


def _text(column: pa.Array, t: LogicalType, time_zone: str) -> pa.Array:
    return sql_texts(column, t, time_zone).cast(pa.string())


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
