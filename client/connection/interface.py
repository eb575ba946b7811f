"""What the shell, the command line and Python see of a session, be it in this process or behind HTTP."""

from __future__ import annotations

import abc
import atexit
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from sqlstream.client.sessions.outcomes import ResultFacts, ResultKind
from sqlstream.errors import UserError

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from sqlstream.client.completion import Candidate
    from sqlstream.client.following.remarks import Remark
    from sqlstream.messages.rpc import JobMetrics, JobOverviewEntry, JobStatusReply
    from sqlstream.planner.dialect.statements import Statement
    from sqlstream.schema import Schema


def closed_error() -> UserError:
    """The error of a connection that was closed on this side."""
    return UserError("SS4042", "the connection is closed", hint="open another one")


class StatementResult(abc.ABC):
    """The answer to one statement: its `facts`, its rows and its job.

    `cancel`, `metrics` and `close` may be called on any thread, also while another one iterates over `batches`. Errors are
    SqlStreamError; their spans point into the text that was given to `Connection.execute`.
    """

    @property
    @abc.abstractmethod
    def facts(self) -> ResultFacts: ...

    @property
    def kind(self) -> ResultKind:
        return self.facts.kind

    @property
    def schema(self) -> Schema | None:
        return self.facts.schema

    @property
    def text(self) -> str:
        return self.facts.text

    @property
    def label(self) -> str:
        return self.facts.label

    @property
    def job_id(self) -> str | None:
        return self.facts.job_id

    @property
    def is_bounded(self) -> bool:
        return self.facts.is_bounded

    @property
    def is_updating(self) -> bool:
        return self.facts.is_updating

    @abc.abstractmethod
    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of ROWS and QUERY as they come, each row once, for one reader; nothing for other kinds.

        A batch of an updating query ends with the row-kind column (sqlstream.changelog). The iterator waits for rows. The job
        waits for the reader when a few MiB are unread. At the end it raises JobError unless the job has finished; the reason
        is CANCELLED for a job that was cancelled.
        """

    @abc.abstractmethod
    def wait(self, timeout_s: float | None = None) -> JobStatusReply:
        """Wait for the end of the job; FINISHED at once where no job runs. TimeoutError after `timeout_s`."""

    @abc.abstractmethod
    def metrics(self) -> JobMetrics:
        """The present figures of the job, the final ones once it has ended; empty where no job runs."""

    @abc.abstractmethod
    def remarks(self) -> list[Remark]:
        """What is to be told of a job that has ended: lost rows, expired state, restarts (following/lost_rows.py)."""

    @abc.abstractmethod
    def cancel(self) -> None:
        """Cancel the job; harmless when it has ended."""

    @abc.abstractmethod
    def close(self) -> None:
        """The answer is of no more interest: the job of a QUERY is cancelled, a JOB runs on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Connection(Protocol):
    """A session: its settings, current database, temporary objects, and its statements one after the other.

    Thread-safe: statements of several threads run in the order in which they arrive. Jobs of INSERT statements go on after
    `close` where their cluster does; those of queries are cancelled.
    """

    @property
    def name(self) -> str:
        """What a user calls it: `embedded`, or the server's URL without its token."""

    @property
    def owns_cluster(self) -> bool:
        """Whether the cluster ends with this connection, and with it every job that still runs."""

    def execute(self, text: str) -> StatementResult:
        """Run one statement, with or without its semicolon, and return as soon as its kind is known: a job has been
        submitted then. SqlStreamError otherwise."""

    def run(self, statement: Statement) -> StatementResult:
        """`execute` for a statement of a script, into which the spans of errors point."""

    def complete(self, text: str, position: int) -> tuple[Candidate, ...]:
        """What may be written at `position` of an unfinished statement, the best first; empty when the server does not
        answer."""

    def config(self) -> Mapping[str, str]:
        """The settings of the session, by key; defaults are left out."""

    def jobs(self) -> tuple[JobOverviewEntry, ...]:
        """The jobs of the cluster, of all its sessions, the latest first."""

    def cancel_job(self, job_id: str) -> None:
        """Cancel any job of the cluster. UserError SS6009 when there is none of that id."""

    def close(self) -> None:
        """End the session; harmless when repeated."""

    def __enter__(self) -> Connection: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


# Closes at the end of the process what its user has left open.


_open: dict[int, Callable[[], None]] = {}


def close_at_exit(owner: object, close: Callable[[], None]) -> None:
    """Call `close` before the interpreter shuts down, unless `forget` comes first. It may start threads and wait for them."""
    _open[id(owner)] = close


def forget(owner: object) -> None:
    """`owner` is closed already."""
    _open.pop(id(owner), None)


def _close_all() -> None:
    for close in list(_open.values()):
        close()


# Functions registered with atexit run when thread pools accept no more work, and a cluster ends its jobs with them.
_register: Any = getattr(threading, "_register_atexit", atexit.register)
_register(_close_all)
