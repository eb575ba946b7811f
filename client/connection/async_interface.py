"""`Connection` and `StatementResult` for callers on an event loop; the words of client/connection/interface.py hold here too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from sqlstream.client.connection.interface import ResultFacts

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.messages.rpc import JobMetrics, JobStatusReply


class AsyncStatementResult(ResultFacts, Protocol):
    """`StatementResult`, whose calls that wait are awaited. All calls come from one event loop."""

    def batches(self) -> AsyncIterator[pa.RecordBatch]: ...
    async def wait(self, timeout_s: float | None = None) -> JobStatusReply: ...
    async def metrics(self) -> JobMetrics: ...
    async def warnings(self) -> list[str]: ...
    async def cancel(self) -> None: ...
    async def close(self) -> None: ...


class AsyncSessionConnection(Protocol):
    """The part of `Connection` that cursors use, awaited."""

    @property
    def name(self) -> str: ...
    async def execute(self, text: str) -> AsyncStatementResult: ...
    async def close(self) -> None: ...
