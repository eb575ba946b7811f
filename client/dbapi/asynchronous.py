"""PEP 249's connection and cursor for callers on an event loop: each call that waits does so on a thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from sqlstream.changelog import RowKind
from sqlstream.client.connection.interface import StatementResult, close_at_exit, forget
from sqlstream.client.dbapi.connection import Connection, CursorState, connect, job_end
from sqlstream.client.dbapi.errors import InterfaceError, ProgrammingError, translating
from sqlstream.client.dbapi.parameters import bulk_inserts, with_parameters
from sqlstream.client.dbapi.python_values import Row, python_rows
from sqlstream.client.following.remarks import lines_of
from sqlstream.client.sessions.outcomes import ResultKind
from sqlstream.errors import SqlStreamError

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.connection import Connection as SessionConnection
    from sqlstream.client.dbapi.parameters import Parameters

P = ParamSpec("P")
R = TypeVar("R")

THREADS_MAX = 200
"""Calls of one connection that may wait at once, for example for the next rows of as many queries: as many as it has sockets."""


async def connect_async(
    url: str, *, token: str = "", config: Mapping[str, str] | None = None
) -> AsyncConnection:
    """Open a session; see `connect`. What waits, for rows or the end of a job, waits on threads."""
    return AsyncConnection(await asyncio.to_thread(connect, url, token=token, config=config))


class AsyncConnection:
    """`Connection`, awaited, for one event loop. As an asynchronous context manager it closes itself. State: threads, which end
    with `close`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._threads = ThreadPoolExecutor(THREADS_MAX, "connection")
        self._is_closed = False
        # Threads that wait for rows would keep a process that closes nothing from its end.
        close_at_exit(self, self.session.close)

    @property
    def session(self) -> SessionConnection:
        return self._connection.session

    def cursor(self) -> AsyncCursor:
        self.check_open()
        return AsyncCursor(self)

    async def commit(self) -> None:
        """Does nothing: each statement has taken effect already."""
        self.check_open()

    async def rollback(self) -> None:
        """NotSupportedError: there are no transactions."""
        self.check_open()
        self._connection.rollback()

    def check_open(self) -> None:
        """InterfaceError after `close`."""
        if self._is_closed:
            raise InterfaceError(
                "the connection is closed", hint="open another one: sqlstream.connect_async(url)"
            )

    async def close(self) -> None:
        """End the session. InterfaceError when the connection is closed already."""
        self.check_open()
        self._is_closed = True
        forget(self)
        # On a thread of its own: all others may be waiting for rows, which this call ends.
        await asyncio.to_thread(self._connection.close)
        self._threads.shutdown(wait=False)

    def start(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """A call on a thread, which outlives a coroutine that is cancelled while it awaits it. InterfaceError after `close`."""
        self.check_open()
        return self._threads.submit(function, *args, **kwargs)

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """`start`, awaited."""
        return await asyncio.wrap_future(self.start(function, *args, **kwargs))

    def __del__(self) -> None:
        forget(self)

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_closed:
            await self.close()


class AsyncCursor(CursorState):
    """`Cursor`, awaited: the same attributes, and the same methods as coroutines or asynchronous iterators.

    `fetch_record_batches` takes the place of `fetch_record_batch_reader`, since Arrow's reader cannot be awaited. A coroutine
    that is cancelled while it fetches leaves the cursor as it was.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__()
        self.connection = connection
        self._result: StatementResult | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._pending: Future[pa.RecordBatch | None] | None = None

    # -- statements --------------------------------------------------------------------------------

    async def execute(self, operation: str, parameters: Parameters | None = None) -> AsyncCursor:
        """See `Cursor.execute`."""
        await self._restart()
        statement = with_parameters(operation, parameters)
        with translating(statement):
            result = self._result = await self.connection.call(self.connection.session.execute, statement)
            self._begin(statement, result.facts)
            self._batches = result.batches()
            if result.kind is ResultKind.JOB and result.is_bounded:
                self._finish_job(*await self.connection.call(job_end, result))
        return self

    async def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> AsyncCursor:
        """See `Cursor.executemany`."""
        rows = list(seq_of_parameters)
        statements = bulk_inserts(operation, rows)
        if statements is None:
            statements = (with_parameters(operation, row) for row in rows)
        await self._restart()
        written = 0
        for statement in statements:
            await self.execute(statement)
            if self.description is not None:
                await self._release()
                raise ProgrammingError("executemany is for statements without rows", hint="use execute")
            written = -1 if self.rowcount < 0 or written < 0 else written + self.rowcount
        self.rowcount = written
        return self

    async def cancel(self) -> None:
        """See `Cursor.cancel`."""
        if self._result is not None:
            with translating(self._statement):
                await asyncio.to_thread(self._result.cancel)

    async def close(self) -> None:
        """See `Cursor.close`."""
        if not self._is_closed:
            await self._release()
            self._is_closed = True

    async def _restart(self) -> None:
        self._check_open()
        self.connection.check_open()
        await self._release()
        self._forget()

    async def _release(self) -> None:
        result, self._result, self._batches = self._result, None, iter(())
        pending, self._pending = self._pending, None
        self._buffer = None
        if result is not None:
            with contextlib.suppress(SqlStreamError):
                await asyncio.to_thread(result.close)
        if pending is not None and not pending.cancelled():
            with contextlib.suppress(SqlStreamError):
                await asyncio.wrap_future(pending)

    # -- rows --------------------------------------------------------------------------------------

    async def fetchone(self) -> Row | None:
        """See `Cursor.fetchone`."""
        rows = await self._taken(1)
        return rows[0] if rows else None

    async def fetchmany(self, size: int | None = None) -> list[Row]:
        """See `Cursor.fetchmany`."""
        wanted = self._size(size)
        rows = await self._taken(wanted)
        while rows and len(rows) < wanted and self._facts is not None and self._facts.is_bounded:
            more = await self._taken(wanted - len(rows))
            if not more:
                break
            rows += more
        return rows

    async def fetchall(self) -> list[Row]:
        """See `Cursor.fetchall`."""
        self._fetchable(all_rows=True)
        rows: list[Row] = []
        while more := await self._taken(1 << 20):
            rows += more
        return rows

    def __aiter__(self) -> AsyncIterator[Row]:
        return self

    async def __anext__(self) -> Row:
        row = await self.fetchone()
        if row is None:
            raise StopAsyncIteration
        return row

    async def fetch_arrow_table(self) -> pa.Table:
        """See `Cursor.fetch_arrow_table`."""
        import pyarrow as pa

        buffer = self._fetchable(all_rows=True)
        batches = [batch async for batch in self.fetch_record_batches()]
        return pa.Table.from_batches(batches, buffer.arrow_schema)

    async def fetch_record_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """All remaining rows as Arrow batches, which come as they are ready."""
        while await self._pull():
            assert self._buffer is not None
            batch = self._buffer.take_batch()
            assert batch is not None
            self._count(batch.num_rows)
            yield batch

    async def changelog(self) -> AsyncIterator[tuple[RowKind, Row]]:
        """See `Cursor.changelog`."""
        from sqlstream.arrow import row_kinds

        schema = self._changelog_schema()
        async for batch in self._changes():
            kinds = map(RowKind, row_kinds(batch).tolist())
            for kind, row in zip(kinds, python_rows(batch, schema), strict=True):
                self._count(1)
                yield kind, row

    async def changelog_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """See `Cursor.changelog_batches`."""
        from sqlstream.arrow import row_kinds, with_row_kinds

        self._changelog_schema()
        async for batch in self._changes():
            self._count(batch.num_rows)
            yield with_row_kinds(batch, row_kinds(batch))

    async def _changes(self) -> AsyncIterator[pa.RecordBatch]:
        assert self._buffer is not None
        if (text := self._buffer.take_batch()) is not None:
            yield text
        while (batch := await self._next_batch()) is not None:
            yield batch

    async def _taken(self, count: int) -> list[Row]:
        buffer = self._fetchable()
        if not count or not await self._pull():
            return []
        rows = buffer.take(count)
        self._count(len(rows))
        return rows

    async def _pull(self) -> bool:
        """Wait until there are rows to fetch; False at the end."""
        buffer = self._fetchable()
        while not buffer.has_rows and not buffer.is_ended:
            batch = await self._next_batch()
            with translating(self._statement):
                if batch is None:
                    buffer.end()
                else:
                    buffer.add(batch)
        return buffer.has_rows

    async def _next_batch(self) -> pa.RecordBatch | None:
        """The next batch of the result; at its end None, and warnings of lost rows are in `messages`."""
        self._check_open()
        if self._result is None:
            return None
        # A call on a thread outlives a cancelled fetch, and its batch goes to the next one: no row is lost.
        if self._pending is None or self._pending.cancelled():
            self._pending = self.connection.start(next, self._batches, None)
        with translating(self._statement):
            try:
                batch = await asyncio.wrap_future(self._pending)
            except asyncio.CancelledError:
                raise
            except BaseException:
                self._pending = None
                raise
            self._pending = None
            if batch is None and self._result is not None:
                self._warn(lines_of(await self.connection.call(self._result.remarks)))
        return batch

    async def __aenter__(self) -> AsyncCursor:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
