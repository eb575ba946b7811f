"""`HttpConnection` on an event loop: nothing waits on a thread."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from sqlstream.client.connection.address import Address
from sqlstream.client.connection.conversation import converse_async
from sqlstream.client.connection.http import AsyncHttpClient, naming_url
from sqlstream.client.connection.http_result import ResultOverHttp
from sqlstream.client.connection.session_calls import (
    HEARTBEAT_S,
    close_session,
    keep_open,
    open_session,
    submit_statement,
)
from sqlstream.client.connection.wire import closed_error
from sqlstream.errors import SqlStreamError
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
        try:
            session = await converse_async(client, open_session(config, "sqlstream"))
        except BaseException:
            await client.close()
            raise
        return AsyncHttpConnection(client, session)

    @property
    def name(self) -> str:
        return self._client.url

    async def execute(self, text: str) -> AsyncHttpResult:
        if self._is_closed:
            raise closed_error()
        operation = await converse_async(self._client, submit_statement(self._session, text))
        result = await AsyncHttpResult.open(self._client, self._session, operation)
        self._results.add(result)
        return result

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._heart.cancel()
        for result in list(self._results):
            await result.close()
        await converse_async(self._client, close_session(self._session))
        await self._client.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await converse_async(self._client, keep_open(self._session))


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
        async with asyncio.timeout(timeout_s):
            return await converse_async(self._client, self._wait_for_end())

    async def metrics(self) -> JobMetrics:
        return await converse_async(self._client, self._read_metrics())

    async def warnings(self) -> list[str]:
        return await converse_async(self._client, self._read_warnings())

    async def cancel(self) -> None:
        await converse_async(self._client, self._cancel_job())

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        # The server ends the stream, which wakes a reader that waits for rows.
        await self._free()
        await self._response.aclose()

    async def _free(self) -> None:
        await converse_async(self._client, self._free_once())
