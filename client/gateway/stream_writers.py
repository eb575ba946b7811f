"""The bytes of a stream of results: what is sent first, for each page, in silence, and at the end."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from fastapi.sse import format_sse_event

from sqlstream.client.gateway.arrow_stream import ArrowStream
from sqlstream.client.gateway.operations import OperationResult
from sqlstream.client.gateway.pages_json import head_json
from sqlstream.client.gateway.results import Page
from sqlstream.client.gateway.rows_json import RowFormat, rows_json
from sqlstream.client.http_api.types_json import columns_json


class StreamWriter(Protocol):
    def opening(self) -> bytes:
        """The columns."""

    def rows(self, page: Page) -> bytes: ...

    def heartbeat(self) -> bytes:
        """What says that the stream goes on."""

    def failure(self, body: dict[str, Any]) -> bytes:
        """The last bytes of a result that failed; `body` is that of the error's response."""

    def end(self, status: str, warnings: list[str]) -> bytes:
        """The last bytes of a result that is complete."""


class EventWriter:
    """Server-sent events `columns`, `rows`, `end` and `error`, each with an object or array in JSON; comments in silence.
    No state."""

    def __init__(self, result: OperationResult, row_format: RowFormat) -> None:
        self._result = result
        self._row_format = row_format

    def opening(self) -> bytes:
        columns = columns_json(self._result.schema)
        info = self._result.facts
        flags = {"isBounded": info.is_bounded, "isUpdating": info.is_updating}
        return event("columns", {**head_json(self._result), **flags, "columns": columns})

    def rows(self, page: Page) -> bytes:
        result = self._result
        text = rows_json(page.batches, result.schema, self._row_format, result.time_zone)
        return b"event: rows\ndata: " + text + b"\n\n"

    def heartbeat(self) -> bytes:
        return HEARTBEAT

    def failure(self, body: dict[str, Any]) -> bytes:
        return event("error", body)

    def end(self, status: str, warnings: list[str]) -> bytes:
        return event("end", {"status": status, "warnings": warnings})


HEARTBEAT = format_sse_event(comment="heartbeat")


def event(name: str, data: dict[str, Any]) -> bytes:
    """One server-sent event with an object."""
    return format_sse_event(event=name, data_str=msgspec.json.encode(data).decode())


class ArrowWriter:
    """One Arrow IPC stream; batches without rows in silence. The last batch has no rows either, and its metadata the members
    that the events `end` and `error` have."""

    def __init__(self, result: OperationResult) -> None:
        self._stream = ArrowStream(result, {})

    def opening(self) -> bytes:
        return self._stream.empty()

    def rows(self, page: Page) -> bytes:
        return self._stream.batches(page.batches)

    def heartbeat(self) -> bytes:
        return self._stream.empty()

    def failure(self, body: dict[str, Any]) -> bytes:
        return self._stream.ending(body)

    def end(self, status: str, warnings: list[str]) -> bytes:
        return self._stream.ending({"status": status, "warnings": warnings}) + self._stream.end()
