"""Results as Arrow IPC streams: what `rowFormat=ARROW` returns."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from sqlstream.arrow import is_changelog, to_arrow_schema, with_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.client.gateway.operations import OperationResult
from sqlstream.client.gateway.pages_json import head_json
from sqlstream.client.gateway.results import Page
from sqlstream.client.http_api.types_json import METADATA_KEY, columns_json
from sqlstream.client.sessions.outcomes import ResultKind


class ArrowStream:
    """Writes batches as one Arrow IPC stream, piece by piece: each call returns the bytes to send. State: the bytes that were
    not returned.

    The batches of an updating query end with the row-kind column. The schema's metadata describes the result as the members
    of a page in JSON do, with `columns`, and `statement` for what Flink's protocol does not tell.
    """

    def __init__(self, result: OperationResult, head: dict[str, Any]) -> None:
        mode = ChangelogMode.RETRACT if result.facts.is_updating else ChangelogMode.INSERT_ONLY
        described = {**head, **head_json(result), **_statement_json(result)}
        if result.facts.job_id is None:
            # The cluster knows no such job; Flink has one for every query.
            described.pop("jobID", None)
        metadata = {METADATA_KEY: msgspec.json.encode(described)}
        self._schema = to_arrow_schema(result.schema, mode).with_metadata(metadata)
        self._is_updating = result.facts.is_updating
        self._buffer = io.BytesIO()
        self._writer = pa.ipc.new_stream(self._buffer, self._schema)

    def empty(self) -> bytes:
        """A batch without rows, after the schema if that was not sent: a reader knows the columns before there is a row."""
        self._writer.write_batch(self._empty())
        return self._taken()

    def batches(self, batches: Sequence[pa.RecordBatch]) -> bytes:
        for batch in batches:
            self._writer.write_batch(self._conforming(batch))
        return self._taken()

    def ending(self, described: dict[str, Any]) -> bytes:
        """A batch without rows whose metadata says how the result ended, under METADATA_KEY."""
        text = msgspec.json.encode(described).decode()
        self._writer.write_batch(self._empty(), custom_metadata={METADATA_KEY.decode(): text})
        return self._taken()

    def _empty(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], self._schema)

    def end(self) -> bytes:
        """The mark that the stream is complete."""
        self._writer.close()
        return self._taken()

    def _conforming(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._is_updating and not is_changelog(batch):
            batch = with_row_kinds(batch, RowKind.INSERT)
        return batch if batch.schema.equals(self._schema) else batch.cast(self._schema)

    def _taken(self) -> bytes:
        taken = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return taken


def page_arrow(result: OperationResult, page: Page, next_uri: str) -> bytes:
    """One page as a stream of its own."""
    head = {"resultType": "EOS" if page.is_end else "PAYLOAD"}
    if not page.is_end:
        head["nextResultUri"] = next_uri
    stream = ArrowStream(result, head)
    return stream.batches(page.batches) + stream.end()


def not_ready_arrow(next_uri: str) -> bytes:
    """A stream without columns whose metadata says NOT_READY."""
    described = msgspec.json.encode({"resultType": "NOT_READY", "nextResultUri": next_uri})
    buffer = io.BytesIO()
    pa.ipc.new_stream(buffer, pa.schema([], metadata={METADATA_KEY: described})).close()
    return buffer.getvalue()


def _statement_json(result: OperationResult) -> dict[str, Any]:
    info = result.facts
    # A TEXT is the row of its result.
    text = info.text if info.kind is ResultKind.CONFIRMATION else ""
    statement = {"kind": info.kind.value, "label": info.label, "text": text, "note": info.note}
    bounds = {"isBounded": info.is_bounded, "isUpdating": info.is_updating}
    if info.is_failure:
        bounds["isFailure"] = True
    return {"columns": columns_json(result.schema), "statement": {**statement, **bounds}}
