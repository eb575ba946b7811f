"""The result of a statement that comes over HTTP: its rows as one Arrow stream, its job by the JobManager's REST."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.client.connection.http import HttpClient, naming_url
from sqlstream.client.connection.interface import StatementResult
from sqlstream.client.connection.result_stream import ResultStream
from sqlstream.client.connection.wire import (
    job_path,
    metrics_of,
    no_metrics,
    operation_path,
    poll_intervals_s,
    status_of,
)
from sqlstream.client.following.remarks import Remark, read_remarks
from sqlstream.client.sessions.outcomes import ResultFacts, ResultKind, text_of
from sqlstream.errors import SqlStreamError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobStatusReply

if TYPE_CHECKING:
    import pyarrow as pa


class HttpResult(StatementResult):
    """Implements `StatementResult` over an operation of a server.

    State: the stream, until its end or `close`; while nobody reads it, the socket pushes back. Whether the result is closed, was
    read to its end (`_is_whole`), and was freed on the server.
    """

    def __init__(self, client: HttpClient, session: str, operation: str) -> None:
        self._client = client
        self._session = session
        self._operation = operation
        self._stream = ResultStream(client.url)
        self._response = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._is_waiting = False
        self._is_closed = False
        self._is_whole = False
        self._is_freed = False
        try:
            stream = client.stream(operation_path(session, operation, "/result/stream"), rowFormat="ARROW")
            self._pieces = self._response.enter_context(stream).iter_raw()
            self._facts = self._read_head()
        except BaseException:
            self.close()
            raise
        if self.schema is None:
            # Read at once, so that its socket is free for others.
            batches = list(self._all())
            if self.kind is ResultKind.TEXT:
                self._facts = dataclasses.replace(self._facts, text=text_of(batches))

    @property
    def facts(self) -> ResultFacts:
        return self._facts

    # -- the stream --------------------------------------------------------------------------------

    def _read_head(self) -> ResultFacts:
        """SqlStreamError for a stream that ends before its head."""
        while self._stream.head is None:
            piece = self._next()
            if piece is None:
                self._stream.finish()
                raise AssertionError("a finished stream has a head")
            self._stream.feed(piece)
        return self._stream.head

    def _next(self) -> bytes | None:
        with naming_url(self._client.url):
            return next(self._pieces, None)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(()) if self.schema is None else self._all()

    def _all(self) -> Iterator[pa.RecordBatch]:
        """JobError at the end of a job that has not finished, ExternalError for a stream that is not whole."""
        try:
            yield from self._stream.take()
            while (piece := self._next_piece()) is not None:
                self._stream.feed(piece)
                yield from self._stream.take()
            if not self._is_closed:
                self._stream.finish()
                self._is_whole = self.kind is ResultKind.QUERY
                self._free()
        finally:
            self._response.close()

    def _next_piece(self) -> bytes | None:
        """Wait for more bytes; None at the end, and after `close`."""
        with self._lock:
            if self._is_closed:
                return None
            self._is_waiting = True
        try:
            return self._next()
        except SqlStreamError:
            if self._is_closed:
                return None
            self._stream.read_ending()
            raise
        finally:
            with self._lock:
                self._is_waiting = False

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            is_waiting = self._is_waiting
        self._free()
        # A reader that waits is woken by the server, which has closed the operation, and closes the response itself.
        if not is_waiting:
            self._response.close()

    def _free(self) -> None:
        """Let the server forget the operation; it cancels the job of a query. It does so itself when it cannot be reached."""
        if self._is_freed:
            return
        self._is_freed = True
        with contextlib.suppress(SqlStreamError):
            self._client.call("DELETE", operation_path(self._session, self._operation, "/close"))

    # -- the job -----------------------------------------------------------------------------------

    @property
    def _running_job_id(self) -> str | None:
        """The job that may still run."""
        return None if self._is_whole else self.job_id

    def wait(self, timeout_s: float | None = None) -> JobStatusReply:
        """TimeoutError when the next look would come after `timeout_s`."""
        job_id = self._running_job_id
        if job_id is None:
            return JobStatusReply(self.job_id or "", JobStatus.FINISHED)
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        for interval_s in poll_intervals_s():
            answer = self._client.call("GET", job_path(job_id, "/status"))
            reply = status_of(job_id, answer, None)
            if reply.status.is_terminal:
                break
            if deadline_s is not None and time.monotonic() + interval_s > deadline_s:
                raise TimeoutError(f"job {job_id} has not ended")
            time.sleep(interval_s)
        if reply.status is JobStatus.FAILED:
            return status_of(job_id, answer, self._client.call("GET", job_path(job_id, "/exceptions")))
        return reply

    def metrics(self) -> JobMetrics:
        if self.job_id is None:
            return no_metrics()
        return metrics_of(self.job_id, self._client.call("GET", job_path(self.job_id, "/totals")))

    def remarks(self) -> list[Remark]:
        """Those of a query come with its rows, those of another job with its totals."""
        if self.kind is ResultKind.QUERY:
            return self._stream.remarks
        if self.job_id is None:
            return []
        return read_remarks(self._client.call("GET", job_path(self.job_id, "/totals"))["warnings"])

    def cancel(self) -> None:
        job_id = self._running_job_id
        if job_id is None:
            return
        try:
            self._client.call("PATCH", job_path(job_id), mode="cancel")
        except SqlStreamError:
            # A job that has ended cannot be cancelled, which is no error here.
            answer = self._client.call("GET", job_path(job_id, "/status"))
            if not status_of(job_id, answer, None).status.is_terminal:
                raise
