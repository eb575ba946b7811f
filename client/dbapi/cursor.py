"""PEP 249's cursor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from sqlstream.changelog import RowKind
from sqlstream.client.connection.interface import StatementResult
from sqlstream.client.dbapi.cursor_state import CursorState, job_end
from sqlstream.client.dbapi.errors import ProgrammingError, translating
from sqlstream.client.dbapi.parameters import bulk_inserts, with_parameters
from sqlstream.client.dbapi.python_values import Row, python_rows
from sqlstream.client.following.remarks import lines_of
from sqlstream.client.sessions.outcomes import ResultKind
from sqlstream.errors import SqlStreamError

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.dbapi.connection import Connection
    from sqlstream.client.dbapi.parameters import Parameters


class Cursor(CursorState):
    """Runs one statement at a time and holds the rows of the last one.

    An INSERT over tables that end is waited for; one over unbounded tables runs on, and `job_id` names its job. State: the
    result of the last statement; the next statement, and `close`, cancel its query. A cursor is for one thread, but `cancel`
    may be called by any.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self._result: StatementResult | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())

    # -- statements --------------------------------------------------------------------------------

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Run one statement, with a literal of a value of `parameters` in the place of each `?`. Returns this cursor."""
        self._restart()
        statement = with_parameters(operation, parameters)
        with translating(statement):
            result = self._result = self.connection.session.execute(statement)
            self._begin(statement, result.facts)
            self._batches = result.batches()
            if result.kind is ResultKind.JOB and result.is_bounded:
                try:
                    self._finish_job(*job_end(result))
                except KeyboardInterrupt:
                    result.cancel()
                    raise
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Cursor:
        """Run a statement without rows once per sequence of parameters. Rows of `INSERT … VALUES (?, …)` are inserted by one
        job per 1,000 of them. Returns this cursor."""
        rows = list(seq_of_parameters)
        statements = bulk_inserts(operation, rows)
        if statements is None:
            statements = (with_parameters(operation, row) for row in rows)
        self._restart()
        written = 0
        for statement in statements:
            self.execute(statement)
            if self.description is not None:
                self._release()
                raise ProgrammingError("executemany is for statements without rows", hint="use execute")
            written = -1 if self.rowcount < 0 or written < 0 else written + self.rowcount
        self.rowcount = written
        return self

    def cancel(self) -> None:
        """Cancel the job of the last statement; a fetch that waits for its rows raises OperationalError."""
        if self._result is not None:
            with translating(self._statement):
                self._result.cancel()

    def close(self) -> None:
        """Cancel the query, if it runs; the cursor cannot be used any more. Harmless when repeated."""
        if not self._is_closed:
            self._release()
            self._is_closed = True

    def _restart(self) -> None:
        self._check_open()
        self.connection.check_open()
        self._release()
        self._forget()

    def _release(self) -> None:
        result, self._result, self._batches = self._result, None, iter(())
        self._buffer = None
        if result is not None:
            with contextlib.suppress(SqlStreamError):
                result.close()

    # -- rows --------------------------------------------------------------------------------------

    def fetchone(self) -> Row | None:
        """The next row, None after the last one. Waits for it."""
        rows = self._taken(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next `size` rows (by default `arraysize`), fewer at the end. For an unbounded query: as many of them as are
        there, at least one."""
        wanted = self._size(size)
        rows = self._taken(wanted)
        while rows and len(rows) < wanted and self._facts is not None and self._facts.is_bounded:
            more = self._taken(wanted - len(rows))
            if not more:
                break
            rows += more
        return rows

    def fetchall(self) -> list[Row]:
        """All remaining rows. NotSupportedError for an unbounded query."""
        self._fetchable(all_rows=True)
        rows: list[Row] = []
        while more := self._taken(1 << 20):
            rows += more
        return rows

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def fetch_arrow_table(self) -> pa.Table:
        """All remaining rows as an Arrow table. NotSupportedError for an unbounded query."""
        import pyarrow as pa

        buffer = self._fetchable(all_rows=True)
        return pa.Table.from_batches(self._record_batches(), buffer.arrow_schema)

    def fetch_record_batch_reader(self) -> pa.RecordBatchReader:
        """All remaining rows as a stream of Arrow batches, which come as they are ready."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._fetchable().arrow_schema, self._record_batches())

    def changelog(self) -> Iterator[tuple[RowKind, Row]]:
        """The changes of a query as they come, each with its kind; every kind is INSERT for a query that only inserts."""
        from sqlstream.arrow import row_kinds

        schema = self._changelog_schema()
        for batch in self._changes():
            kinds = map(RowKind, row_kinds(batch).tolist())
            with translating(self._statement):
                rows = python_rows(batch, schema)
            for kind, row in zip(kinds, rows, strict=True):
                self._count(1)
                yield kind, row

    def changelog_batches(self) -> Iterator[pa.RecordBatch]:
        """The changes of a query as Arrow batches, whose last column `$row_kind` (int8) has the values of `RowKind`."""
        from sqlstream.arrow import row_kinds, with_row_kinds

        self._changelog_schema()
        for batch in self._changes():
            self._count(batch.num_rows)
            yield with_row_kinds(batch, row_kinds(batch))

    def _changes(self) -> Iterator[pa.RecordBatch]:
        assert self._buffer is not None
        if (text := self._buffer.take_batch()) is not None:
            yield text
        while (batch := self._next_batch()) is not None:
            yield batch

    def _record_batches(self) -> Iterator[pa.RecordBatch]:
        while self._pull():
            assert self._buffer is not None
            batch = self._buffer.take_batch()
            assert batch is not None
            self._count(batch.num_rows)
            yield batch

    def _taken(self, count: int) -> list[Row]:
        buffer = self._fetchable()
        if not count or not self._pull():
            return []
        rows = buffer.take(count)
        self._count(len(rows))
        return rows

    def _pull(self) -> bool:
        """Wait until there are rows to fetch; False at the end."""
        buffer = self._fetchable()
        while not buffer.has_rows and not buffer.is_ended:
            batch = self._next_batch()
            with translating(self._statement):
                if batch is None:
                    buffer.end()
                else:
                    buffer.add(batch)
        return buffer.has_rows

    def _next_batch(self) -> pa.RecordBatch | None:
        """The next batch of the result; at its end None, and warnings of lost rows are in `messages`."""
        self._check_open()
        with translating(self._statement):
            batch = next(self._batches, None)
            if batch is None and self._result is not None:
                self._warn(lines_of(self._result.remarks()))
        return batch

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A query that nobody can read any more must not run on.
        if not getattr(self, "_is_closed", True) and self._result is not None:
            with contextlib.suppress(Exception):
                self._result.close()
