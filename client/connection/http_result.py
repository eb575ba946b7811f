"""What is known of a result that comes over HTTP, and the conversations about it. Nothing is sent here."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from sqlstream.client.connection.conversation import Call, Conversation, Pause
from sqlstream.client.connection.interface import ResultKind
from sqlstream.client.connection.job_calls import (
    job_path,
    metrics_of,
    no_metrics,
    poll_intervals_s,
    status_of,
)
from sqlstream.client.connection.result_stream import ResultStream
from sqlstream.client.connection.wire import ResultHead, operation_path
from sqlstream.errors import SqlStreamError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobStatusReply

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.schema import Schema


class ResultOverHttp:
    """The part of `HttpResult` and `AsyncHttpResult` without I/O; implements `ResultFacts` once the head has come.

    State: the stream's pieces that were not taken; whether the result is closed, was read to its end (`is_whole`), and was
    freed on the server.
    """

    def __init__(self, url: str, session: str, operation: str) -> None:
        self._stream = ResultStream(url)
        self._session = session
        self._operation = operation
        self._text = ""
        self._is_closed = False
        self._is_whole = False
        self._is_freed = False

    # -- facts -------------------------------------------------------------------------------------

    @property
    def _head(self) -> ResultHead:
        assert self._stream.head is not None
        return self._stream.head

    @property
    def kind(self) -> ResultKind:
        return self._head.kind

    @property
    def schema(self) -> Schema | None:
        return self._head.schema

    @property
    def text(self) -> str:
        return self._text or self._head.text

    @property
    def note(self) -> str:
        return self._head.note

    @property
    def label(self) -> str:
        return self._head.label

    @property
    def job_id(self) -> str | None:
        return self._head.job_id

    @property
    def is_bounded(self) -> bool:
        return self._head.is_bounded

    @property
    def is_updating(self) -> bool:
        return self._head.is_updating

    @property
    def is_failure(self) -> bool:
        return self._head.is_failure

    # -- the stream --------------------------------------------------------------------------------

    @property
    def _stream_path(self) -> str:
        return operation_path(self._session, self._operation, "/result/stream")

    def _has_head(self, piece: bytes | None) -> bool:
        """Accept a piece, None at the end; whether the head has come. SqlStreamError for a stream that ends before it."""
        if piece is None:
            self._stream.finish()
            raise AssertionError("a finished stream has a head")
        self._stream.feed(piece)
        return self._stream.head is not None

    def _keep_text(self, batches: list[pa.RecordBatch]) -> None:
        """The rows of a result without a schema are its text: a few bytes."""
        if self.kind is ResultKind.TEXT:
            self._text = "\n".join(value for batch in batches for value in batch.column(0).to_pylist())

    def _complete(self) -> None:
        """All pieces have come. JobError when the job has not finished, ExternalError when the stream is not whole."""
        self._stream.finish()
        self._is_whole = self.kind is ResultKind.QUERY

    def _free_once(self) -> Conversation[None]:
        """Let the server forget the operation; it cancels the job of a query. It does so itself when it cannot be reached."""
        if self._is_freed:
            return
        self._is_freed = True
        with contextlib.suppress(SqlStreamError):
            yield Call("DELETE", operation_path(self._session, self._operation, "/close"))

    # -- the job -----------------------------------------------------------------------------------

    @property
    def _running_job_id(self) -> str | None:
        """The job that may still run."""
        return None if self._is_whole else self.job_id

    def _wait_for_end(self, timeout_s: float | None = None) -> Conversation[JobStatusReply]:
        """The final status of the job. TimeoutError when the next look would come after `timeout_s`."""
        job_id = self._running_job_id
        if job_id is None:
            return JobStatusReply(self.job_id or "", JobStatus.FINISHED)
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        for interval_s in poll_intervals_s():
            answer = yield Call("GET", job_path(job_id, "/status"))
            reply = status_of(job_id, answer, None)
            if reply.status.is_terminal:
                break
            if deadline_s is not None and time.monotonic() + interval_s > deadline_s:
                raise TimeoutError(f"job {job_id} has not ended")
            yield Pause(interval_s)
        if reply.status is JobStatus.FAILED:
            exceptions = yield Call("GET", job_path(job_id, "/exceptions"))
            return status_of(job_id, answer, exceptions)
        return reply

    def _read_metrics(self) -> Conversation[JobMetrics]:
        if self.job_id is None:
            return no_metrics()
        totals = yield Call("GET", job_path(self.job_id, "/totals"))
        return metrics_of(self.job_id, totals)

    def _read_warnings(self) -> Conversation[list[str]]:
        """Those of a query come with its rows, those of another job with its totals."""
        if self.kind is ResultKind.QUERY:
            return list(self._stream.warnings)
        if self.job_id is None:
            return []
        totals = yield Call("GET", job_path(self.job_id, "/totals"))
        return list(totals["warnings"])

    def _cancel_job(self) -> Conversation[None]:
        job_id = self._running_job_id
        if job_id is None:
            return
        try:
            yield Call("PATCH", job_path(job_id), parameters={"mode": "cancel"})
        except SqlStreamError:
            # A job that has ended cannot be cancelled, which is no error here.
            answer = yield Call("GET", job_path(job_id, "/status"))
            if not status_of(job_id, answer, None).status.is_terminal:
                raise
