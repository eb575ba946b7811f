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
from client.connection.http_result import ResultOverHttp
from client.connection.interface import ResultKind
from client.connection.job_calls import (
    metrics_of,
    no_metrics,
    poll_intervals_s,
    status_of,
)
from client.connection.wire import session_path
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobStatusReply

if TYPE_CHECKING:
    import pyarrow as pa


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


class AsyncHttpResult(ResultOverHttp):
    """Implements `AsyncStatementResult` over an operation of a server. State: the stream, until its end or `close`."""

    def __init__(self, client: AsyncHttpClient, session: str, operation: str) -> None:
        super().__init__(client.url, session, operation)
        self._client = client
        self._response = contextlib.AsyncExitStack()
        self._pieces: AsyncIterator[bytes]

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
        stream = self._client.stream(self._stream_path, rowFormat="ARROW")
        self._pieces = (await self._response.enter_async_context(stream)).aiter_raw()
        while not self._has_head(await self._next()):
            continue
        if self.schema is None:
            self._keep_text([batch async for batch in self._all()])

    async def _next(self) -> bytes | None:
        with naming_url(self._client.url):
            return await anext(self._pieces, None)

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        if self.schema is not None:
            async for batch in self._all():
                yield batch

    async def _all(self) -> AsyncIterator[pa.RecordBatch]:
        for batch in self._stream.take():
            yield batch
        try:
            while not self._is_closed:
                piece = await self._next()
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
            self._complete()
            await self._free()
            await self._response.aclose()

    async def wait(self, timeout_s: float | None = None) -> JobStatusReply:
        job_id = self._running_job_id
        if job_id is None:
            return self._finished()
        async with asyncio.timeout(timeout_s):
            for interval_s in poll_intervals_s():
                answer = await self._client.call("GET", self._job_path("/status"))
                reply = status_of(job_id, answer, None)
                if reply.status.is_terminal:
                    break
                await asyncio.sleep(interval_s)
        if reply.status is JobStatus.FAILED:
            exceptions = await self._client.call("GET", self._job_path("/exceptions"))
            return status_of(job_id, answer, exceptions)
        return reply

    async def metrics(self) -> JobMetrics:
        if self.job_id is None:
            return no_metrics()
        return metrics_of(self.job_id, await self._totals())

    async def warnings(self) -> list[str]:
        needs_totals = self.kind is not ResultKind.QUERY and self.job_id is not None
        return self._warnings(await self._totals() if needs_totals else None)

    async def _totals(self) -> dict[str, Any]:
        return dict(await self._client.call("GET", self._job_path("/totals")))

    async def cancel(self) -> None:
        job_id = self._running_job_id
        if job_id is None:
            return
        try:
            await self._client.call("PATCH", self._job_path(), mode="cancel")
        except SqlStreamError:
            answer = await self._client.call("GET", self._job_path("/status"))
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
        path = self._close_path_once()
        if path is not None:
            with contextlib.suppress(SqlStreamError):
                await self._client.call("DELETE", path)
