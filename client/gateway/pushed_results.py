"""A response that pushes rows as they come: server-sent events, or an endless Arrow IPC stream."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from fastapi.sse import format_sse_event
from starlette.responses import StreamingResponse

from sqlstream.client.following.remarks import lines_of
from sqlstream.client.gateway.arrow_stream import ArrowStream
from sqlstream.client.gateway.http_context import HttpContext, called_within, operation_failed
from sqlstream.client.gateway.operations import Operation, OperationResult
from sqlstream.client.gateway.pages_json import RowFormat, head_json, rows_json
from sqlstream.client.gateway.results import Page
from sqlstream.client.http_api.types_json import ARROW_STREAM, columns_json
from sqlstream.errors import InternalError, SqlStreamError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


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


FAILURE = "Failed to fetchResults."

CUT_OFF = "is_cut_off"
"""What is True in the state of a request whose response ends before it is complete, on purpose."""

_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

_log = logging.getLogger(__name__)


class PushedResults(StreamingResponse):
    """Sends the rows of an operation's result until its end. The socket pushes back: rows are taken from the job when those
    before have been sent. A client that goes away closes the operation, which cancels the job of a query.

    Server-sent events end with an event `end` or `error`. An Arrow stream that fails is cut off, so that no reader takes it for
    a whole one.
    """

    def __init__(
        self, context: HttpContext, session_handle: str, operation: Operation, row_format: RowFormat
    ) -> None:
        self._context = context
        self._session_handle = session_handle
        self._operation = operation
        self._row_format = row_format
        self._is_complete = False
        self._is_cut_off = False
        media_type = ARROW_STREAM if row_format is RowFormat.ARROW else "text/event-stream"
        super().__init__(self._pieces(), headers=_HEADERS, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
            if self._is_cut_off:
                scope.setdefault("state", {})[CUT_OFF] = True
                _log.info("the stream of operation %s was cut off, as it has failed", self._operation.handle)
        finally:
            if not self._is_complete:
                self._context.threads.submit(self._give_up)

    def _give_up(self) -> None:
        """Close the operation, unless its session is closed already."""
        with contextlib.suppress(SqlStreamError):
            self._context.service.close_operation(self._session_handle, self._operation.handle)

    async def stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for piece in self.body_iterator:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            # A client that takes what is sent uses its session.
            with contextlib.suppress(SqlStreamError):
                self._context.service.session(self._session_handle)
        self._is_complete = True
        if not self._is_cut_off:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pieces(self) -> AsyncIterator[bytes]:
        while not await called_within(self._operation.when_settled, self._silence_s()):
            yield HEARTBEAT
        try:
            result = self._operation.result()
        except SqlStreamError as error:
            yield event("error", self._error_body(error))
            return
        writer = self._writer(result)
        yield writer.opening()
        try:
            async for piece in self._rows(result, writer):
                yield piece
        except SqlStreamError as error:
            yield writer.failure(self._error_body(error))
            self._is_cut_off = self._row_format is RowFormat.ARROW
        except Exception as error:
            _log.exception("the results of operation %s cannot be sent", self._operation.handle)
            bug = InternalError(f"{type(error).__name__}: {error}")
            yield writer.failure(self._error_body(bug))
            self._is_cut_off = self._row_format is RowFormat.ARROW

    async def _rows(self, result: OperationResult, writer: StreamWriter) -> AsyncIterator[bytes]:
        token = result.pages.token
        while not (page := result.pages.page(token)).is_end:
            token += 1
            if page.batches:
                yield await self._context.encoded(page, functools.partial(writer.rows, page))
            elif not await called_within(result.pages.when_ready, self._silence_s()):
                yield writer.heartbeat()
        yield writer.end(*await self._context.call(functools.partial(_ending, result)))

    def _writer(self, result: OperationResult) -> StreamWriter:
        if self._row_format is RowFormat.ARROW:
            return ArrowWriter(result)
        return EventWriter(result, self._row_format)

    def _silence_s(self) -> float:
        return self._context.service.options.heartbeat_ms / 1000

    def _error_body(self, error: SqlStreamError) -> dict[str, object]:
        return operation_failed(self._operation, FAILURE, error).body(is_detailed=True)


def _ending(result: OperationResult) -> tuple[str, list[str]]:
    """The final status of the query's job, and warnings of rows that it lost; a statement without a job is FINISHED."""
    job = result.job if result.is_query else None
    if job is None:
        return "FINISHED", []
    try:
        return "FINISHED", lines_of(job.remarks())
    except SqlStreamError:
        # The rows are complete; only the figures of their job are gone.
        return "FINISHED", []
