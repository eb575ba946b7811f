"""A connection that waits, for callers on an event loop: each call runs on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.connection.interface import Connection, ResultKind, StatementResult
    from sqlstream.messages.rpc import JobMetrics, JobStatusReply
    from sqlstream.schema import Schema

P = ParamSpec("P")
R = TypeVar("R")

THREADS_MAX = 64
"""Calls that may wait at once, for example for the next rows of as many queries."""


class ThreadedConnection:
    """Implements `AsyncSessionConnection` over a `Connection`. State: threads, which end with `close`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._threads = ThreadPoolExecutor(THREADS_MAX, "connection")

    @staticmethod
    async def open(open_connection: Callable[[], Connection]) -> ThreadedConnection:
        """Open the connection on a thread, too."""
        return ThreadedConnection(await asyncio.to_thread(open_connection))

    @property
    def name(self) -> str:
        return self._connection.name

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: function(*args, **kwargs)
        )

    async def execute(self, text: str) -> ThreadedResult:
        return ThreadedResult(self, await self.call(self._connection.execute, text))

    async def close(self) -> None:
        # On a thread of its own: all others may be waiting for rows, which this call ends.
        await asyncio.to_thread(self._connection.close)
        self._threads.shutdown(wait=False)


class ThreadedResult:
    """Implements `AsyncStatementResult`."""

    def __init__(self, connection: ThreadedConnection, result: StatementResult) -> None:
        self._connection = connection
        self._result = result

    @property
    def kind(self) -> ResultKind:
        return self._result.kind

    @property
    def schema(self) -> Schema | None:
        return self._result.schema

    @property
    def text(self) -> str:
        return self._result.text

    @property
    def note(self) -> str:
        return self._result.note

    @property
    def label(self) -> str:
        return self._result.label

    @property
    def job_id(self) -> str | None:
        return self._result.job_id

    @property
    def is_bounded(self) -> bool:
        return self._result.is_bounded

    @property
    def is_updating(self) -> bool:
        return self._result.is_updating

    @property
    def is_failure(self) -> bool:
        return self._result.is_failure

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        batches = self._result.batches()
        while (batch := await self._connection.call(next, batches, None)) is not None:
            yield batch

    async def wait(self, timeout_s: float | None = None) -> JobStatusReply:
        return await self._connection.call(self._result.wait, timeout_s)

    async def metrics(self) -> JobMetrics:
        return await self._connection.call(self._result.metrics)

    async def warnings(self) -> list[str]:
        return await self._connection.call(self._result.warnings)

    async def cancel(self) -> None:
        await asyncio.to_thread(self._result.cancel)

    async def close(self) -> None:
        await asyncio.to_thread(self._result.close)
