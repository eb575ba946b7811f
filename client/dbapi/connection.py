"""PEP 249's connection and cursor."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.client.connection.interface import StatementResult
from sqlstream.client.dbapi import errors
from sqlstream.client.dbapi.errors import (
    InterfaceError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    translated,
    translating,
)
from sqlstream.client.dbapi.parameters import bulk_inserts, with_parameters
from sqlstream.client.dbapi.python_values import Description, Row, description, python_rows
from sqlstream.client.following.remarks import Remark, lines_of
from sqlstream.client.sessions.outcomes import ResultFacts, ResultKind
from sqlstream.errors import SqlStreamError
from sqlstream.messages.job_state import JobStatus
from sqlstream.schema import Schema
from sqlstream.secrets import without_secrets
from sqlstream.types import STRING

if TYPE_CHECKING:
    from sqlstream.client.connection import Connection as SessionConnection
    from sqlstream.client.dbapi.parameters import Parameters
    from sqlstream.client.dbapi.tables.batches import Feed
    from sqlstream.client.dbapi.tables.inserts import Insert
    from sqlstream.client.dbapi.tables.table import Table
    from sqlstream.client.dbapi.tables.text import Duration
    from sqlstream.client.dbapi.tables.user_functions import Function
    from sqlstream.messages.rpc import JobMetrics, JobStatusReply
    from sqlstream.runtime.state.tables.row_multiset import RowMultiset


def connect(url: str, *, token: str = "", config: Mapping[str, str] | None = None) -> Connection:
    """Open a session: `embedded://` for a cluster in this process, `http://host:8083` for a server.

    `token` opens a server that asks for one; `config` are settings, as SET would make them. Parameters of the URL do the
    same: `http://host:8083?token_file=~/token&parallelism.default=2`. InterfaceError for a wrong URL, OperationalError when
    the server does not answer.
    """
    from sqlstream.client.connection import connect as connect_session

    with translating():
        return Connection(connect_session(url, token=token, config=config))


class Connection:
    """A session, in which cursors run statements. Each statement takes effect at once: there are no transactions.

    Threads may share a connection, but not a cursor. `close` cancels the queries of all its cursors; with `embedded://` it
    ends the cluster, and every job with it. As a context manager it closes itself.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, session: SessionConnection) -> None:
        self.session = session
        self.functions: dict[Any, Function] = {}
        """What `map_batches` and `process` have made functions of."""
        self.directories: list[tempfile.TemporaryDirectory[str]] = []
        """Those of `from_batches` and `feed`, which end with the connection."""
        self.numbers = itertools.count(1)
        """Of tables that have no other name."""
        self._is_closed = False

    def cursor(self) -> Cursor:
        self.check_open()
        return Cursor(self)

    def table(self, *name: str, options: Mapping[str, str] | None = None) -> Table:
        """A table or view, as the beginning of a query in Python (docs/python-api.md): `connection.table("bid")`, or with its
        database, `connection.table("shop", "bid")`. `options` replace some of those that it was declared with."""
        from sqlstream.client.dbapi.tables.table import named_table

        return named_table(self, name, options)

    def sql(self, query: str) -> Table:
        """The rows of a query in SQL, as the beginning of one in Python."""
        from sqlstream.client.dbapi.tables.table import given_query

        return given_query(self, query)

    def create_function(
        self, target: Any, name: str | tuple[str, ...] = "", *, files: Sequence[str] = ()
    ) -> Function:
        """Make a temporary function of what a decorator of sqlstream has made, or of a ProcessTableFunction, under its own name
        in small letters or another. It returns what makes calls of it: `initials(t.name)`.

        The file of its module goes with the jobs, or `files` do; at a server they are the server's.
        """
        from sqlstream.client.dbapi.tables.user_functions import create_function

        return create_function(self, target, name, files)

    def from_batches(
        self,
        batches: pa.Table | pa.RecordBatchReader | Iterable[pa.RecordBatch | pa.Table] | Any,
        *,
        schema: pa.Schema | None = None,
        name: str = "",
        directory: str = "",
        watermark: tuple[str, Duration] | None = None,
        primary_key: Sequence[str] = (),
    ) -> Table:
        """A table of Arrow batches, of a table of Arrow or of a DataFrame of pandas, which are read to their end now.

        They are kept as a Parquet file, so that a job that fails reads them again: below `directory`, or in one of the
        connection's own, which ends with it. `watermark` makes a column the row time: `("ts", "5 s")`.
        """
        from sqlstream.client.dbapi.tables.batches import from_batches

        return from_batches(self, batches, schema, name, directory, watermark, primary_key)

    def feed(
        self,
        name: str,
        schema: pa.Schema,
        *,
        directory: str = "",
        watermark: tuple[str, Duration] | None = None,
        primary_key: Sequence[str] = (),
        look_every: Duration = "200 ms",
    ) -> Feed:
        """A table without an end, to which `Feed.write` adds Arrow batches while queries run. They are kept as files as those of
        `from_batches` are; a job looks for further ones so often."""
        from sqlstream.client.dbapi.tables.batches import feed

        return feed(self, name, schema, directory, watermark, primary_key, look_every)

    def insert_all(self, *inserts: Insert) -> Cursor:
        """Run several INSERTs as one job."""
        from sqlstream.client.dbapi.tables.inserts import insert_set

        return self.cursor().execute(insert_set(inserts))

    def commit(self) -> None:
        """Does nothing: each statement has taken effect already."""
        self.check_open()

    def rollback(self) -> None:
        """NotSupportedError: there are no transactions."""
        self.check_open()
        raise NotSupportedError("there are no transactions to roll back")

    def check_open(self) -> None:
        """InterfaceError after `close`."""
        if self._is_closed:
            raise InterfaceError("the connection is closed", hint="open another one: sqlstream.connect(url)")

    def close(self) -> None:
        """End the session. InterfaceError when the connection is closed already, as PEP 249 has it."""
        self.check_open()
        self._is_closed = True
        with translating():
            self.session.close()
        for directory in self.directories:
            directory.cleanup()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_closed:
            self.close()

    def __del__(self) -> None:
        # Nobody can close it any more: its cluster, or its session at the server, must not stay.
        if not getattr(self, "_is_closed", True):
            with contextlib.suppress(Exception):
                self.session.close()


# What cursors that wait and those that are awaited have in common: PEP 249's attributes, and the rows not yet
# fetched.


SLICE_ROWS = 8192
"""Rows that become Python objects at once."""


class FetchBuffer:
    """Batches in, rows or batches out, in order.

    Rows of a query that only inserts come out as they come in. A changelog is folded, and comes out as the table that it
    describes when `end` has been called. State: the batches that were not fetched, or the folded table. The caller adds a batch
    only when nothing is left to fetch, so an insert-only result of any length takes the memory of one batch.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.arrow_schema = to_arrow_schema(schema)
        self.is_ended = False
        self._batches: deque[pa.RecordBatch] = deque()
        self._slice: pa.RecordBatch | None = None
        self._rows: list[Row] = []
        self._fetched = 0
        self._folded: RowMultiset | None = None

    @property
    def has_rows(self) -> bool:
        return self._fetched < len(self._rows) or bool(self._batches)

    def add(self, batch: pa.RecordBatch) -> None:
        """Accept a batch of the result."""
        if self._folded is None and not is_changelog(batch):
            if batch.num_rows:
                self._batches.append(batch)
            return
        if self._folded is None:
            from sqlstream.runtime.state.tables.row_multiset import RowMultiset

            self._folded = RowMultiset(self.arrow_schema)
        self._folded.sweep(self._folded.apply(batch)[0])

    def end(self) -> None:
        """The result is complete."""
        self.is_ended = True
        if self._folded is not None:
            rows, self._folded = self._folded.rows(), None
            if rows.num_rows:
                self._batches.append(rows)

    def take(self, count: int) -> list[Row]:
        """Up to `count` rows of those that are there."""
        taken: list[Row] = []
        while len(taken) < count and self.has_rows:
            if self._fetched == len(self._rows):
                self._open_next()
            rows = self._rows[self._fetched : self._fetched + count - len(taken)]
            self._fetched += len(rows)
            taken += rows
        return taken

    def take_batch(self) -> pa.RecordBatch | None:
        """The next rows as a batch: the rest of the one that `take` began, or a whole one. None when there is none."""
        if self._fetched < len(self._rows):
            assert self._slice is not None
            rest = self._slice.slice(self._fetched)
            self._fetched = len(self._rows)
            return rest
        return self._batches.popleft() if self._batches else None

    def _open_next(self) -> None:
        batch = self._batches.popleft()
        if batch.num_rows > SLICE_ROWS:
            self._batches.appendleft(batch.slice(SLICE_ROWS))
            batch = batch.slice(0, SLICE_ROWS)
        self._slice, self._rows, self._fetched = batch, python_rows(batch, self.schema), 0


TEXT_SCHEMA = Schema.of(("result", STRING.not_null()))

UNKNOWN_ROWS = -1
SHOWN_CHARACTERS = 60
"""Of a statement in the text of its cursor."""


class CursorState:
    """PEP 249's attributes, and the rows between the last statement's result and the caller.

    `description`: seven items per column, or None when the statement has no rows. `rowcount`: the rows that a finished INSERT
    wrote, else -1. `rownumber`: how many rows were fetched, or None. `messages`: warnings of the last statement, such as lost
    rows. `arraysize`: the rows of `fetchmany` without a size. `job_id`: the id of the statement's job, or None.
    """

    arraysize: int = 1

    def __init__(self) -> None:
        self.description: list[Description] | None = None
        self.rowcount = UNKNOWN_ROWS
        self.rownumber: int | None = None
        self.messages: list[tuple[type[Warning], Warning]] = []
        self.job_id: str | None = None
        self._statement = ""
        self._facts: ResultFacts | None = None
        self._buffer: FetchBuffer | None = None
        self._is_closed = False
        self._takes_changes = False

    def __repr__(self) -> str:
        text = without_secrets(self._statement)
        shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
        return f'<sqlstream.{type(self).__name__} "{shown}">'

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def callproc(self, procname: str, parameters: Parameters = ()) -> None:
        """NotSupportedError: there are no stored procedures."""
        raise NotSupportedError("there are no stored procedures", hint="write the statement itself")

    def nextset(self) -> None:
        """NotSupportedError: a statement has one result."""
        raise NotSupportedError("a statement has one result", hint="execute the statements one by one")

    # -- the steps of execute ----------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed", hint="make another one: connection.cursor()")

    def _forget(self) -> None:
        """Be as if no statement had run."""
        self.description, self.rowcount, self.rownumber = None, UNKNOWN_ROWS, None
        self.messages, self.job_id = [], None
        self._facts, self._takes_changes = None, False

    def _begin(self, statement: str, facts: ResultFacts) -> None:
        self._statement, self._facts, self.job_id = statement, facts, facts.job_id
        if facts.note:
            self._warn([facts.note])
        schema = TEXT_SCHEMA if facts.kind is ResultKind.TEXT else facts.schema
        if schema is None or facts.kind in (ResultKind.JOB, ResultKind.CONFIRMATION):
            return
        self.description = [description(f.name, f.type) for f in schema.fields]
        self.rownumber = 0
        self._buffer = FetchBuffer(schema)
        if facts.kind is ResultKind.TEXT:
            self._buffer.add(_text_batch(facts.text))

    def _finish_job(self, reply: JobStatusReply, metrics: JobMetrics, remarks: list[Remark]) -> None:
        """Take note of an INSERT that has ended. An exception when it has not finished."""
        if reply.error is not None:
            raise translated(reply.error.to_job_error(), self._statement)
        if reply.status is not JobStatus.FINISHED:
            raise OperationalError(f"job {reply.job_id} ended {reply.status.value.lower()}", code="SS6023")
        self.rowcount = int(
            metrics.total.get("numRowsChanged", metrics.total.get("numRecordsWritten", UNKNOWN_ROWS))
        )
        self._warn(lines_of(remarks))

    def _warn(self, lines: list[str]) -> None:
        self.messages += [(Warning, Warning(line)) for line in lines]

    # -- the steps of fetching ---------------------------------------------------------------------

    def _fetchable(self, *, all_rows: bool = False) -> FetchBuffer:
        """The buffer to fetch rows from. An exception when the last statement has no rows, or no final ones."""
        self._check_open()
        if self._buffer is None or self._facts is None:
            raise ProgrammingError(
                "there are no rows to fetch: the last statement was no query"
                if self._facts is not None
                else "there are no rows to fetch: no statement was executed",
                hint="execute a SELECT first",
            )
        if self._takes_changes:
            raise ProgrammingError(
                "the rows of this query are already taken as a changelog", hint="execute the query again"
            )
        if not self._facts.is_bounded and (all_rows or self._facts.is_updating):
            what = "is never complete" if all_rows else "has no final rows"
            raise NotSupportedError(
                f"the result of this unbounded query {what}",
                hint="iterate over cursor.changelog()"
                if self._facts.is_updating
                else "iterate over the cursor",
            )
        return self._buffer

    def _changelog_schema(self) -> Schema:
        """The columns of the changes to come. An exception when rows were fetched already."""
        buffer = None if self._takes_changes else self._buffer
        if self.rownumber or (buffer is not None and buffer.is_ended):
            raise ProgrammingError("rows of this query were fetched already", hint="execute the query again")
        self._check_open()
        if buffer is None:
            buffer = self._fetchable()
        self._takes_changes = True
        return buffer.schema

    def _size(self, size: int | None) -> int:
        wanted = self.arraysize if size is None else size
        if wanted < 0:
            raise ProgrammingError(f"fetchmany takes a size from 0, not {wanted}")
        return wanted

    def _count(self, rows: int) -> None:
        self.rownumber = (self.rownumber or 0) + rows


def job_end(result: StatementResult) -> tuple[JobStatusReply, JobMetrics, list[Remark]]:
    """Wait for the job of an INSERT."""
    return result.wait(), result.metrics(), result.remarks()


def _text_batch(text: str) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], names=["result"])


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
