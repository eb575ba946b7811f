"""The rows of a result in pages, by token (Flink: ResultFetcher)."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlstream.client.following.followed_job import ended_error
from sqlstream.errors import UserError
from sqlstream.messages.job_state import JobStatus

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.sessions.outcomes import Job
    from sqlstream.messages.rpc import JobStatusReply
    from sqlstream.runtime.net.results import JobResults

Unsubscribe = Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Page:
    """Rows that came together; `is_end`: there are none, and no others come (EOS)."""

    batches: tuple[pa.RecordBatch, ...]
    is_end: bool = False


class ResultPages:
    """Hands out the rows of one result, each page for the current token or, once more, for the one before it. Thread-safe.

    Rows are taken from the job only when a page is asked for, so that a slow reader makes the job wait. State: the page that
    was handed out last, and what was too much for it of the last batch; both go with `close`.
    """

    def __init__(self, rows: JobResults, rows_max: int, bytes_max: int, job: Job | None = None) -> None:
        """`job` is the query whose rows these are: its failure is raised after its last row."""
        self._rows = rows
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._token = 0
        self._last = Page(())
        self._rest: pa.RecordBatch | None = None
        self._waiting: list[Callable[[], None]] = []
        self._is_closed = False
        self._has_told_end = False
        self._final: JobStatusReply | None = None
        self._has_final = job is None
        if job is not None:
            job.when_ended(self._on_end)

    def _on_end(self, reply: JobStatusReply) -> None:
        self._final, self._has_final = reply, True
        self._wake()

    @property
    def token(self) -> int:
        """The token of the next page."""
        return self._token

    @property
    def held_bytes(self) -> int:
        """What the rows take that a client has not read, or may read once more."""
        rest = self._rest
        held = sum(batch.nbytes for batch in self._last.batches) + self._rows.unread_bytes
        return held + (rest.nbytes if rest is not None else 0)

    @property
    def is_ended(self) -> bool:
        """Whether every row was taken, and it is known how the job ended."""
        return self._has_final and self._rest is None and self._rows.is_ended

    @property
    def is_read(self) -> bool:
        """Whether a client has asked for all of it: the end, or every row of a result that has rows and did not fail."""
        has_failed = self._final is not None and self._final.status is not JobStatus.FINISHED
        return self.is_ended and (self._has_told_end or (self._token > 0 and not has_failed))

    def page(self, token: int) -> Page:
        """The page of that token with the rows that are there, maybe none; the token of the next one is higher by one, unless
        this is the end. UserError SS6022 for another token than the current one or the one before; JobError at the end of a
        job that has not finished."""
        with self._lock:
            if self._is_closed:
                raise UserError("SS6021", "the result is closed", hint="run the statement again")
            if token == self._token - 1 >= 0:
                return self._last
            if token != self._token:
                raise self._wrong_token(token)
            batches = self._take()
            if not batches and self.is_ended:
                self._has_told_end = True
                self._require_finished()
                return Page((), is_end=True)
            self._last = Page(batches)
            self._token += 1
            return self._last

    def _wrong_token(self, token: int) -> UserError:
        expected = str(self._token) if self._token == 0 else f"{self._token} or {self._token - 1}"
        return UserError("SS6022", f"expecting token to be {expected}, but found {token}")

    def _require_finished(self) -> None:
        if self._final is not None and self._final.status is not JobStatus.FINISHED:
            raise ended_error(self._final)

    def _take(self) -> tuple[pa.RecordBatch, ...]:
        """The batches of one page."""
        taken: list[pa.RecordBatch] = []
        rows, size = self._rows_max, self._bytes_max
        while rows > 0 and size > 0:
            batch = self._rest if self._rest is not None else self._rows.poll()
            self._rest = None
            if batch is None:
                break
            if batch.num_rows == 0:
                continue
            fitting = min(rows, max(1, size * batch.num_rows // max(1, batch.nbytes)))
            if fitting < batch.num_rows:
                if taken and fitting == 1:
                    self._rest = batch
                    break
                batch, self._rest = _piece(batch, 0, fitting), batch.slice(fitting)
            taken.append(batch)
            rows -= batch.num_rows
            size -= batch.nbytes
        return tuple(taken)

    def when_ready(self, callback: Callable[[], None]) -> Unsubscribe:
        """Call once, from any thread, when the next page has rows, or is the end: at once if so now, or when closed."""
        with self._lock:
            self._waiting.append(callback)
            is_ready = self._is_closed or self._rest is not None
        if is_ready:
            self._wake()
        elif self._rows.is_ended and not self._has_final:
            pass  # the end of the job wakes
        else:
            self._rows.when_ready(self._on_rows)
        return lambda: self._forget(callback)

    def _on_rows(self) -> None:
        # The rows of a job may end a moment before the job: its state says whether they are complete.
        if self._has_final or not self._rows.is_ended:
            self._wake()

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._waiting:
                self._waiting.remove(callback)

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def close(self) -> None:
        """Drop all rows; harmless when repeated. Those who wait are called."""
        with self._lock:
            self._is_closed = True
            self._last, self._rest = Page(()), None
        self._rows.close()
        self._wake()


def _piece(batch: pa.RecordBatch, start: int, count: int) -> pa.RecordBatch:
    """Rows of a batch as a batch of its own: what is written of a slice with lists would grow with the whole batch."""
    import numpy as np

    return batch.take(np.arange(start, start + count))
