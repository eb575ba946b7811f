"""What the shell, the command line and Python see of a session, be it in this process or behind HTTP."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

    from sqlstream.client.completion import Candidate
    from sqlstream.messages.rpc import JobMetrics, JobOverviewEntry, JobStatusReply
    from sqlstream.schema import Schema


class ResultKind(enum.Enum):
    """What a statement answered with."""

    ROWS = "ROWS"
    """The whole answer is there: SHOW, DESCRIBE, SET without a key. No job runs."""
    QUERY = "QUERY"
    """The rows of a SELECT or VALUES, as its job emits them."""
    JOB = "JOB"
    """An INSERT or a statement set: its job was submitted, and its rows go into tables."""
    CONFIRMATION = "CONFIRMATION"
    """The statement took effect and has no answer in rows: CREATE, DROP, USE, SET, RESET."""
    TEXT = "TEXT"
    """A text to be printed as it is: EXPLAIN, SHOW CREATE."""


class ResultFacts(Protocol):
    """What is known of the answer to a statement before its rows come."""

    @property
    def kind(self) -> ResultKind: ...

    @property
    def schema(self) -> Schema | None:
        """The columns of ROWS and QUERY, else None."""

    @property
    def text(self) -> str:
        """The text of TEXT and CONFIRMATION (`OK` where the server says no more), else empty."""

    @property
    def note(self) -> str:
        """A remark for the user that comes with any kind of answer, or empty."""

    @property
    def label(self) -> str:
        """What a user calls the job: `SELECT`, `INSERT INTO clicks`. Empty where no job runs."""

    @property
    def job_id(self) -> str | None:
        """The id of the job of QUERY and JOB. None for a query over literal rows, which needs no job."""

    @property
    def is_bounded(self) -> bool:
        """Whether the job ends by itself, since all its tables end. True where no job runs."""

    @property
    def is_updating(self) -> bool:
        """Whether the batches carry row kinds: the query updates and retracts rows that it emitted."""

    @property
    def is_failure(self) -> bool:
        """Whether the statement is VERIFY, and has found a difference."""


class StatementResult(ResultFacts, Protocol):
    """The answer to one statement.

    `cancel`, `metrics` and `close` may be called on any thread, also while another one iterates over `batches`. Errors are
    SqlStreamError; their spans point into the text that was given to `Connection.execute`.
    """

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of ROWS and QUERY as they come, each row once, for one reader; nothing for other kinds.

        A batch of an updating query ends with the row-kind column (sqlstream.changelog). The iterator waits for rows. The job
        waits for the reader when a few MiB are unread. At the end it raises JobError unless the job has finished; the reason
        is CANCELLED for a job that was cancelled.
        """

    def wait(self, timeout_s: float | None = None) -> JobStatusReply:
        """Wait for the end of the job; FINISHED at once where no job runs. TimeoutError after `timeout_s`."""

    def metrics(self) -> JobMetrics:
        """The present figures of the job, the final ones once it has ended; empty where no job runs."""

    def warnings(self) -> list[str]:
        """Lines on late, undecodable and dropped rows and on expired state, for a job that has ended (following/lost_rows.py)."""

    def cancel(self) -> None:
        """Cancel the job; harmless when it has ended."""

    def close(self) -> None:
        """The answer is of no more interest: the job of a QUERY is cancelled, a JOB runs on."""

    def __enter__(self) -> StatementResult: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


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
