"""`HttpConnection` on an event loop: nothing waits on a thread."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from client.connection.address import Address
from client.connection.http import AsyncHttpClient, naming_url
from client.connection.http_connection import HEARTBEAT_S
from client.connection.interface import ResultKind
from client.connection.job_calls import (
    job_path,
    metrics_of,
    no_metrics,
    poll_intervals_s,
    status_of,
)
from client.connection.result_stream import ResultStream
from client.connection.wire import ResultHead, operation_path, session_path
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobStatusReply

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.schema import Schema


class AsyncHttpConnection:
    """Implements `AsyncSessionConnection` over a session of a server. State: the session's handle, sockets, and the task that
    keeps the session open."""

    def __init__(self, client: AsyncHttpClient, session: str) -> None:
        self._client = client
        self._session = session
        self._is_closed = False
        self._results: weakref.WeakSet[AsyncHttpResult] = weakref.WeakSet()
        self._heart = asyncio.get_running_loop().create_task(self._beat())

    @staticmethod
    async def open(address: Address, config: Mapping[str, str]) -> AsyncHttpConnection:
        client = AsyncHttpClient(address)
        body = {"sessionName": "sqlstream", "properties": dict(config)}
        try:
            answer = await client.call("POST", session_path("").rstrip("/"), body)
        except BaseException:
            await client.close()
            raise
        return AsyncHttpConnection(client, str(answer["sessionHandle"]))

    @property
    def name(self) -> str:
        return self._client.url

    async def execute(self, text: str) -> AsyncHttpResult:
        if self._is_closed:
            raise UserError("SS4042", "the connection is closed", hint="open another one")
        path = session_path(self._session, "/statements")
        answer = await self._client.call("POST", path, {"statement": text})
        result = await AsyncHttpResult.open(self._client, self._session, str(answer["operationHandle"]))
        self._results.add(result)
        return result

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._heart.cancel()
        for result in list(self._results):
            await result.close()
        with contextlib.suppress(SqlStreamError):
            await self._client.call("DELETE", session_path(self._session))
        await self._client.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            with contextlib.suppress(SqlStreamError):
                await self._client.call("POST", session_path(self._session, "/heartbeat"))


class AsyncHttpResult:
    """Implements `AsyncStatementResult` over an operation of a server. State: the stream, until its end or `close`."""

    def __init__(self, client: AsyncHttpClient, session: str, operation: str) -> None:
        self._client = client
        self._session = session
        self._operation = operation
        self._response = contextlib.AsyncExitStack()
        self._stream = ResultStream(client.url)
        self._pieces: AsyncIterator[bytes]
        self._head: ResultHead
        self._text = ""
        self._is_closed = False
        self._is_whole = False
        self._is_freed = False

    @staticmethod
    async def open(client: AsyncHttpClient, session: str, operation: str) -> AsyncHttpResult:
        """Open the stream of an operation and read up to its head."""
        result = AsyncHttpResult(client, session, operation)
        try:
            await result._open()
        except BaseException:
            await result.close()
            raise
        return result

    async def _open(self) -> None:
        path = operation_path(self._session, self._operation, "/result/stream")
        stream = self._client.stream(path, rowFormat="ARROW")
        self._pieces = (await self._response.enter_async_context(stream)).aiter_raw()
        while self._stream.head is None:
            with naming_url(self._client.url):
                piece = await anext(self._pieces, None)
            if piece is None:
                self._stream.finish()
                raise AssertionError("a finished stream has a head")
            self._stream.feed(piece)
        self._head = self._stream.head
        self._text = self._head.text
        if self._head.schema is None:
            values = [value async for batch in self._all() for value in batch.column(0).to_pylist()]
            self._text = "\n".join(values) if self.kind is ResultKind.TEXT else self._text

    @property
    def kind(self) -> ResultKind:
        return self._head.kind

    @property
    def schema(self) -> Schema | None:
        return self._head.schema

    @property
    def text(self) -> str:
        return self._text

    @property
    def note(self) -> str:
        return self._head.note

    @property
    def label(self) -> str:
        return self._head.label

    @property
    def job_id(self) -> str | None:
        return self._head.job_id

    @property
    def is_bounded(self) -> bool:
        return self._head.is_bounded

    @property
    def is_updating(self) -> bool:
        return self._head.is_updating

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        if self._head.schema is not None:
            async for batch in self._all():
                yield batch

    async def _all(self) -> AsyncIterator[pa.RecordBatch]:
        for batch in self._stream.take():
            yield batch
        try:
            while not self._is_closed:
                with naming_url(self._client.url):
                    piece = await anext(self._pieces, None)
                if piece is None:
                    break
                self._stream.feed(piece)
                for batch in self._stream.take():
                    yield batch
        except SqlStreamError:
            if not self._is_closed:
                self._stream.read_ending()
                raise
        if not self._is_closed:
            self._stream.finish()
            self._is_whole = self.kind is ResultKind.QUERY
            await self._free()
            await self._response.aclose()

    async def wait(self, timeout_s: float | None = None) -> JobStatusReply:
        job_id = self.job_id
        if self._is_whole or job_id is None:
            return JobStatusReply(job_id or "", JobStatus.FINISHED)
        async with asyncio.timeout(timeout_s):
            for interval_s in poll_intervals_s():
                answer = await self._client.call("GET", job_path(job_id, "/status"))
                reply = status_of(job_id, answer, None)
                if reply.status.is_terminal:
                    break
                await asyncio.sleep(interval_s)
        if reply.status is JobStatus.FAILED:
            exceptions = await self._client.call("GET", job_path(job_id, "/exceptions"))
            return status_of(job_id, answer, exceptions)
        return reply

    async def metrics(self) -> JobMetrics:
        if self.job_id is None:
            return no_metrics()
        return metrics_of(self.job_id, await self._totals())

    async def warnings(self) -> list[str]:
        if self.kind is ResultKind.QUERY:
            return list(self._stream.warnings)
        return [] if self.job_id is None else list((await self._totals())["warnings"])

    async def _totals(self) -> dict[str, Any]:
        totals: dict[str, Any] = await self._client.call("GET", job_path(str(self.job_id), "/totals"))
        return totals

    async def cancel(self) -> None:
        job_id = self.job_id
        if self._is_whole or job_id is None:
            return
        try:
            await self._client.call("PATCH", job_path(job_id), mode="cancel")
        except SqlStreamError:
            answer = await self._client.call("GET", job_path(job_id, "/status"))
            if not status_of(job_id, answer, None).status.is_terminal:
                raise

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        # The server ends the stream, which wakes a reader that waits for rows.
        await self._free()
        await self._response.aclose()

    async def _free(self) -> None:
        """See HttpResult."""
        if self._is_freed:
            return
        self._is_freed = True
        with contextlib.suppress(SqlStreamError):
            await self._client.call("DELETE", operation_path(self._session, self._operation, "/close"))
