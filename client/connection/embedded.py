"""A connection to a session in this process."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from sqlstream.cancellation import given_up_by
from sqlstream.client.connection.interface import StatementResult, close_at_exit, closed_error, forget
from sqlstream.client.following.followed_job import ended_error
from sqlstream.client.sessions.outcomes import Job, ResultFacts, ResultKind, Rows
from sqlstream.errors import ErrorsAt, UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobOverviewEntry, JobStatusReply

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.completion import Candidate
    from sqlstream.client.following.remarks import Remark
    from sqlstream.client.sessions.outcomes import Outcome
    from sqlstream.client.sessions.session import Session
    from sqlstream.planner.dialect.statements import Statement
    from sqlstream.runtime.net.results import PrintLines

NAME = "embedded"


def embedded_connection(
    config: Mapping[str, str] | None = None,
    task_managers: int | None = None,
    print_lines: PrintLines | None = None,
) -> EmbeddedConnection:
    """A connection with a cluster of its own, which ends with it, or with that of a running server, which it leaves; the
    arguments and errors are those of `target_session`."""
    from sqlstream.client.sessions.target_session import server_of, target_session

    stack = contextlib.ExitStack()
    session = stack.enter_context(target_session(config, task_managers, print_lines))
    connection = EmbeddedConnection(session, stack.close, server_of(config or {}))
    close_at_exit(connection, connection.close)
    return connection


class EmbeddedConnection:
    """Implements `Connection` over a `Session`, whose calls it puts into line. State: the results that are in use, until
    `close` cancels their queries. `close_cluster` ends the session's cluster, or leaves that of `server`, if the connection is to
    do so."""

    def __init__(
        self,
        session: Session,
        close_cluster: Callable[[], None] | None = None,
        server: str = "",
    ) -> None:
        self._session = session
        self._close_cluster = close_cluster
        self._server = server
        self._lock = threading.Lock()
        self._results: weakref.WeakSet[EmbeddedResult] = weakref.WeakSet()
        self._is_closed = False
        self._closing = threading.Event()

    @property
    def name(self) -> str:
        return self._server or NAME

    @property
    def owns_cluster(self) -> bool:
        return self._close_cluster is not None and not self._server

    @property
    def session(self) -> Session:
        """For what only a session in this process has."""
        return self._session

    def execute(self, text: str) -> EmbeddedResult:
        from sqlstream.planner.dialect.parser import parse_statement

        return self._run(lambda: parse_statement(text))

    def run(self, statement: Statement) -> EmbeddedResult:
        return self._run(lambda: statement)

    def _run(self, read: Callable[[], Statement]) -> EmbeddedResult:
        # The statement that is being planned holds the lock: `close` ends it.
        with given_up_by(self._closing):
            statement = read() if not self._is_closed else None
            with self._lock:
                if self._is_closed or statement is None:
                    raise closed_error()
                with ErrorsAt(statement.span):
                    outcome = self._session.execute(statement)
                result = EmbeddedResult(outcome)
                self._results.add(result)
        return result

    def complete(self, text: str, position: int) -> tuple[Candidate, ...]:
        from sqlstream.client.completion import complete
        from sqlstream.client.completion.session_vocabulary import SessionVocabulary

        with self._lock:
            return complete(text, position, SessionVocabulary(self._session))

    def config(self) -> Mapping[str, str]:
        with self._lock:
            return dict(self._session.config)

    def jobs(self) -> tuple[JobOverviewEntry, ...]:
        return tuple(sorted(self._session.cluster.jobs(), key=lambda job: job.start_ms, reverse=True))

    def cancel_job(self, job_id: str) -> None:
        self._session.cluster.cancel(job_id)

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
            results = list(self._results)
        if not is_first:
            return
        forget(self)
        with contextlib.ExitStack() as closing:
            # All of them, also where one fails.
            if self._close_cluster is not None:
                closing.callback(self._close_cluster)
            for result in results:
                closing.callback(result.close)

    def __enter__(self) -> EmbeddedConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextlib.contextmanager
def _naming_close() -> Iterator[None]:
    """Of a job whose cluster another thread has ended meanwhile, with its connection."""
    try:
        yield
    except UserError as error:
        if error.code == "SS6012":
            raise closed_error() from error
        raise


class EmbeddedResult(StatementResult):
    """The outcome of a session. State: whether the end of its job is known."""

    def __init__(self, outcome: Outcome) -> None:
        self._facts = outcome.facts
        self._rows = outcome.batches if isinstance(outcome, Rows) else ()
        self._job = outcome if isinstance(outcome, Job) else None
        self._has_ended = False

    @property
    def facts(self) -> ResultFacts:
        return self._facts

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.kind is ResultKind.ROWS:
            yield from self._rows
        if self._job is None or self.kind is not ResultKind.QUERY:
            return
        for batch in self._job.rows():
            if batch.num_rows:
                yield batch
        reply = self.wait()
        if reply.status is not JobStatus.FINISHED:
            raise ended_error(reply)

    @_naming_close()
    def wait(self, timeout_s: float | None = None) -> JobStatusReply:
        if self._job is None:
            return JobStatusReply("", JobStatus.FINISHED)
        reply = JobStatusReply(self._job.id, *self._job.wait(timeout_s))
        self._has_ended = True
        return reply

    @_naming_close()
    def metrics(self) -> JobMetrics:
        return JobMetrics("", JobStatus.FINISHED, {}, {}) if self._job is None else self._job.metrics()

    @_naming_close()
    def remarks(self) -> list[Remark]:
        return [] if self._job is None else self._job.remarks()

    @_naming_close()
    def cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()

    def close(self) -> None:
        if self.kind is not ResultKind.QUERY or self._has_ended:
            return
        try:
            self.cancel()
        except UserError as error:
            # A cluster forgets jobs that have ended ("jobstore.max-capacity").
            if error.code != "SS6009":
                raise
