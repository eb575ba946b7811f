"""Passes result rows and printed lines to the client that submitted the job."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from sqlstream.runtime.net.channels import ChannelClosed

ABANDONED_CHECK_S = 0.2

PrintLines = Callable[[str, list[str], bool], None]
"""Called with the job id, the lines and whether they are errors."""

TakeLines = Callable[[str, list[str], bool, Callable[[], bool]], bool]
"""Called as PrintLines, with a function that tells whether the sink has ended meanwhile. True: the lines are taken."""


class JobResults(Protocol):
    """The rows of one job's query, for one reader: a changelog whose batches have the row-kind column unless it only inserts."""

    @property
    def is_ended(self) -> bool:
        """Whether every row was taken and no other comes."""

    @property
    def unread_bytes(self) -> int:
        """What is held in this process until it is taken."""

    def poll(self) -> pa.RecordBatch | None:
        """The next batch, without waiting; None when there is none at the moment, or `is_ended`."""

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call once, from any thread, when `poll` has a batch or `is_ended`: at once if that is so. One callback at a time: a
        second one replaces the first."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All batches as they come; waits for them."""

    def close(self) -> None:
        """The reader takes no more rows; their writers get ChannelClosed. Harmless when repeated."""


class ResultReceiver(Protocol):
    """The client's end: where the result sinks of all subtasks deliver."""

    def put_rows(
        self, job_id: str, operator_id: int, batch: pa.RecordBatch, is_abandoned: Callable[[], bool]
    ) -> None:
        """Deliver rows; waits while the client is behind. ChannelClosed when the job's rows are no longer read, or when
        `is_abandoned`, called while waiting, returns True: their sink has ended."""

    def put_lines(
        self, job_id: str, lines: list[str], is_error: bool, is_abandoned: Callable[[], bool]
    ) -> None:
        """Deliver printed lines; waits, and is left, as `put_rows`."""


class ClientStream(Protocol):
    """A task's end: what the sinks `collect` and `print` of one operator in one subtask write to."""

    def put_rows(self, batch: pa.RecordBatch) -> None: ...

    def put_lines(self, lines: list[str], is_error: bool) -> None: ...

    def finish(self) -> None:
        """Return when the client has received everything."""

    def abort(self) -> None:
        """The task was cancelled or failed: wake a writer that waits. Called by any thread; harmless when repeated."""


class DirectClientStream:
    """A stream to a receiver in the same process. State: whether it was aborted."""

    def __init__(self, receiver: ResultReceiver, job_id: str, operator_id: int) -> None:
        self._receiver = receiver
        self._job_id = job_id
        self._operator_id = operator_id
        self._aborted = threading.Event()

    def put_rows(self, batch: pa.RecordBatch) -> None:
        self._receiver.put_rows(self._job_id, self._operator_id, batch, self._aborted.is_set)

    def put_lines(self, lines: list[str], is_error: bool) -> None:
        self._receiver.put_lines(self._job_id, lines, is_error, self._aborted.is_set)

    def finish(self) -> None:
        return None

    def abort(self) -> None:
        self._aborted.set()


class ResultStore:
    """Holds result rows until the client takes them: at most `capacity_bytes`, and one batch per writer, for each job.

    State: a queue per job, from `open` until `forget`, or until `close` when it is empty; thread-safe. Lines that `take_lines`
    does not take go to `print_lines` at once, one call at a time, so that lines of two subtasks never mix; when they cannot be
    printed, `on_unprinted` is called, and the sink gets ChannelClosed."""

    def __init__(
        self,
        capacity_bytes: int,
        print_lines: PrintLines,
        on_unprinted: Callable[[str, OSError], None] = lambda job_id, error: None,
        take_lines: TakeLines = lambda job_id, lines, is_error, is_abandoned: False,
    ) -> None:
        self._take_lines = take_lines
        self._capacity_bytes = capacity_bytes
        self._print_lines = print_lines
        self._on_unprinted = on_unprinted
        self._printing = threading.Lock()
        self._changed = threading.Condition()
        self._queues: dict[str, deque[pa.RecordBatch]] = {}
        self._queued_bytes: dict[str, int] = {}
        self._closed: set[str] = set()
        self._callbacks: dict[str, Callable[[], None]] = {}

    def open(self, job_id: str) -> bool:
        """Accept rows of a job; called before the job is submitted. False when it was open before."""
        with self._changed:
            is_new = job_id not in self._queues
            self._queues.setdefault(job_id, deque())
            self._queued_bytes.setdefault(job_id, 0)
            return is_new

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs that have a queue."""
        with self._changed:
            return tuple(self._queues)

    def put_rows(
        self, job_id: str, operator_id: int, batch: pa.RecordBatch, is_abandoned: Callable[[], bool]
    ) -> None:
        with self._changed:
            while self._is_wanted(job_id) and self._queued_bytes[job_id] >= self._capacity_bytes:
                self._changed.wait(ABANDONED_CHECK_S)
                # Also after a wake-up: rows of other jobs may come so often that no wait reaches its end.
                if is_abandoned():
                    raise ChannelClosed
            if not self._is_wanted(job_id):
                raise ChannelClosed
            self._queues[job_id].append(batch)
            self._queued_bytes[job_id] += batch.nbytes
            callback = self._changes(job_id)
        _call(callback)

    def _is_wanted(self, job_id: str) -> bool:
        return job_id in self._queues and job_id not in self._closed

    def put_lines(
        self, job_id: str, lines: list[str], is_error: bool, is_abandoned: Callable[[], bool]
    ) -> None:
        if self._take_lines(job_id, lines, is_error, is_abandoned):
            return
        with self._printing:
            try:
                self._print_lines(job_id, lines, is_error)
            except OSError as error:
                self._on_unprinted(job_id, error)
                raise ChannelClosed from error

    def unread_bytes(self, job_id: str) -> int:
        return self._queued_bytes.get(job_id, 0)

    def reader(self, job_id: str) -> JobResults:
        """The reader of a job's rows; rows that came before `close` are still returned."""
        return _StoredResults(self, job_id)

    def poll(self, job_id: str) -> pa.RecordBatch | None:
        """The next batch of a job, None when there is none at the moment."""
        with self._changed:
            return self._take(job_id)

    def take(self, job_id: str) -> pa.RecordBatch | None:
        """The next batch of a job, waiting for it; None after the last one."""
        with self._changed:
            while self._is_wanted(job_id) and not self._queues[job_id]:
                self._changed.wait()
            return self._take(job_id)

    def _take(self, job_id: str) -> pa.RecordBatch | None:
        queue = self._queues.get(job_id)
        if not queue:
            return None
        batch = queue.popleft()
        self._queued_bytes[job_id] -= batch.nbytes
        if not queue and job_id in self._closed:
            self._drop(job_id)
        self._changed.notify_all()
        return batch

    def is_ended(self, job_id: str) -> bool:
        with self._changed:
            return not self._is_wanted(job_id) and not self._queues.get(job_id)

    def when_ready(self, job_id: str, callback: Callable[[], None]) -> None:
        with self._changed:
            is_ready = not self._is_wanted(job_id) or bool(self._queues[job_id])
            if not is_ready:
                self._callbacks[job_id] = callback
        if is_ready:
            callback()

    def close(self, job_id: str) -> None:
        """Accept no more rows: the job has ended, or its client reads no further."""
        with self._changed:
            if self._queues.get(job_id):
                self._closed.add(job_id)
            else:
                self._drop(job_id)
            callback = self._changes(job_id)
        _call(callback)

    def forget(self, job_id: str) -> None:
        """Drop the remaining rows of a job."""
        with self._changed:
            self._drop(job_id)
            callback = self._changes(job_id)
        _call(callback)

    def _changes(self, job_id: str) -> Callable[[], None] | None:
        """Wake the threads that wait; returns the callback that is due, to be called without the lock."""
        self._changed.notify_all()
        return self._callbacks.pop(job_id, None)

    def _drop(self, job_id: str) -> None:
        self._queues.pop(job_id, None)
        self._queued_bytes.pop(job_id, None)
        self._closed.discard(job_id)

    def close_all(self) -> None:
        for job_id in self.jobs:
            self.close(job_id)


class _StoredResults:
    """The rows of one job in a ResultStore."""

    def __init__(self, store: ResultStore, job_id: str) -> None:
        self._store = store
        self._job_id = job_id

    @property
    def is_ended(self) -> bool:
        return self._store.is_ended(self._job_id)

    @property
    def unread_bytes(self) -> int:
        return self._store.unread_bytes(self._job_id)

    def poll(self) -> pa.RecordBatch | None:
        return self._store.poll(self._job_id)

    def when_ready(self, callback: Callable[[], None]) -> None:
        self._store.when_ready(self._job_id, callback)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._store.take(self._job_id)) is not None:
            yield batch

    def close(self) -> None:
        self._store.forget(self._job_id)


def _call(callback: Callable[[], None] | None) -> None:
    if callback is not None:
        callback()
