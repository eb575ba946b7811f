"""Operations: the statements of a session, executed apart from the requests that ask for them (Flink: OperationManager)."""

from __future__ import annotations

import dataclasses
import enum
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlstream.client.sessions.outcomes import ResultFacts, ResultKind
from sqlstream.errors import SqlStreamError, UserError

if TYPE_CHECKING:
    from sqlstream.client.gateway.results import ResultPages, Unsubscribe
    from sqlstream.client.sessions.outcomes import Job
    from sqlstream.schema import Schema


class OperationStatus(enum.Enum):
    """Where an operation is (Flink: OperationStatus).

        INITIALIZED ─► PENDING ─► RUNNING ─► FINISHED ─► CLOSED
             │            │          │
             └────────────┴──────────┴─► CANCELED | ERROR | TIMEOUT ─► CLOSED

    FINISHED: the answer is there, or the job of a query has been submitted and its rows can be fetched. No operation becomes
    TIMEOUT, since no request can ask for it.
    """

    INITIALIZED = "INITIALIZED"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    CLOSED = "CLOSED"
    ERROR = "ERROR"
    TIMEOUT = "TIMEOUT"

    @property
    def is_unsettled(self) -> bool:
        return self in (OperationStatus.INITIALIZED, OperationStatus.PENDING, OperationStatus.RUNNING)


_WITHOUT_TEXT = (OperationStatus.FINISHED, OperationStatus.CANCELED, OperationStatus.CLOSED)


@dataclasses.dataclass(frozen=True)
class OperationResult:
    """The answer to a statement. `job` is that of a query or INSERT."""

    facts: ResultFacts
    pages: ResultPages
    time_zone: str
    job: Job | None = None

    @property
    def schema(self) -> Schema:
        return self.facts.columns

    @property
    def is_query(self) -> bool:
        return self.facts.kind is ResultKind.QUERY

    @property
    def job_id(self) -> str | None:
        """Flink has a job for every query, also for one whose `facts` have none."""
        return self.job.id if self.job is not None else None

    def close(self) -> None:
        """Drop the rows; the job of a query is cancelled, that of an INSERT goes on."""
        self.pages.close()
        if self.is_query and self.job is not None:
            self.job.cancel()


def without_frames(error: SqlStreamError) -> SqlStreamError:
    """The same error without the calls that it went through and its causes: a kept one would keep their variables, a whole
    syntax tree among them, and each time it is raised it would gather more."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class Operation:
    """One statement of a session. Thread-safe.

    State: its status, and its answer or its error (`error`) until it is closed. Its text while an error may point into it:
    until it has finished, and that of a query until it is closed.
    """

    def __init__(self, text: str, handle: str = "", is_repeated: bool = False) -> None:
        """`handle`: one that the client has made, which is that of the statement's job, too; by default one is made here.
        `is_repeated`: the client has sent the statement before, and does not know whether it was executed."""
        self.job_id = handle.replace("-", "")
        self.is_repeated = is_repeated
        self.handle = handle or str(uuid.uuid4())
        self.text = text
        self.given_up = threading.Event()
        """Set once nobody awaits its answer: it was cancelled or closed."""
        self._status = OperationStatus.INITIALIZED
        self._lock = threading.Lock()
        self._result: OperationResult | None = None
        self.error: SqlStreamError | None = None
        self._has_told_error = False
        self._waited_job: Job | None = None
        self._waiting: list[Callable[[], None]] = []

    @property
    def status(self) -> OperationStatus:
        return self._status

    @property
    def is_over(self) -> bool:
        """Whether a client has learned all there is of it: it was cancelled, or its error or every row of its answer was
        read."""
        with self._lock:
            result, has_told = self._result, self.error is None or self._has_told_error
        return not self._status.is_unsettled and has_told and (result is None or result.pages.is_read)

    @property
    def held_bytes(self) -> int:
        """What its text and its rows take, in about."""
        with self._lock:
            result = self._result
        return len(self.text) + (result.pages.held_bytes if result is not None else 0)

    # -- for the one who executes it ---------------------------------------------------------------

    def accept(self) -> None:
        """It is in the queue of its session."""
        self._move((OperationStatus.INITIALIZED,), OperationStatus.PENDING)

    def start(self) -> bool:
        """Whether it is to be executed: False when it was cancelled or closed before."""
        return self._move((OperationStatus.PENDING,), OperationStatus.RUNNING)

    def wait_for(self, job: Job) -> None:
        """It ends with this job, which is cancelled when the operation is."""
        with self._lock:
            self._waited_job = job
            is_canceled = self._status is OperationStatus.CANCELED
        if is_canceled:
            job.cancel()

    def finish(self, result: OperationResult) -> None:
        if self._move((OperationStatus.RUNNING,), OperationStatus.FINISHED, result=result):
            return
        # Nobody reads the answer of an operation that was cancelled or closed meanwhile.
        result.close()
        if result.job is not None and self._status is OperationStatus.CANCELED:
            result.job.cancel()

    def fail(self, error: SqlStreamError) -> None:
        self._move((OperationStatus.RUNNING,), OperationStatus.ERROR, error=without_frames(error))

    # -- for clients -------------------------------------------------------------------------------

    def result(self) -> OperationResult:
        """The answer, once the operation is settled. SqlStreamError when it failed; UserError SS6021 when it was cancelled or
        closed."""
        with self._lock:
            result, error, status = self._result, self.error, self._status
            self._has_told_error = error is not None
        if error is not None:
            raise without_frames(error)
        if result is None or status is not OperationStatus.FINISHED:
            raise UserError(
                "SS6021", f"cannot fetch results from the operation {self.handle} in {status.value} status"
            )
        return result

    def when_settled(self, callback: Callable[[], None]) -> Unsubscribe:
        """Call once, from any thread, when the operation is no longer waiting or running: at once if so now."""
        with self._lock:
            is_settled = not self._status.is_unsettled
            if not is_settled:
                self._waiting.append(callback)
        if is_settled:
            callback()
        return lambda: self._forget(callback)

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._waiting:
                self._waiting.remove(callback)

    def cancel(self) -> None:
        """Give up an operation that has not finished. UserError SS6024 for one that has."""
        unsettled = tuple(s for s in OperationStatus if s.is_unsettled)
        if not self._move(unsettled, OperationStatus.CANCELED):
            raise UserError(
                "SS6024",
                f"failed to convert the operation status from {self._status.value} to CANCELED for {self.handle}",
            )
        with self._lock:
            job = self._waited_job
        if job is not None:
            job.cancel()

    def close(self) -> None:
        """Drop the answer and cancel the query, if it is one; the job of an INSERT goes on. Harmless when repeated."""
        others = tuple(s for s in OperationStatus if s is not OperationStatus.CLOSED)
        if not self._move(others, OperationStatus.CLOSED):
            return
        with self._lock:
            result, self._result, self.error = self._result, None, None
        if result is not None:
            result.close()

    def _move(
        self,
        sources: tuple[OperationStatus, ...],
        target: OperationStatus,
        result: OperationResult | None = None,
        error: SqlStreamError | None = None,
    ) -> bool:
        """Enter a state with what belongs to it; False when the operation is in none of `sources`."""
        with self._lock:
            if self._status not in sources:
                return False
            self._status = target
            if target in (OperationStatus.CANCELED, OperationStatus.CLOSED):
                self.given_up.set()
            self._result = result or self._result
            self.error = error or self.error
            if target in _WITHOUT_TEXT and not (result is not None and result.is_query):
                self.text = ""
            waiting: list[Callable[[], None]] = []
            if not target.is_unsettled:
                waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
        return True
