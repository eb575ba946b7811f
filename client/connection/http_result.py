"""What is known of a result that comes over HTTP, and what its client may ask next. Nothing is sent here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from client.connection.interface import ResultKind
from client.connection.job_calls import job_path
from client.connection.result_stream import ResultStream
from client.connection.wire import ResultHead, operation_path
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobStatusReply

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

    def _close_path_once(self) -> str | None:
        """The path to DELETE so that the server forgets the operation; None when that was done."""
        if self._is_freed:
            return None
        self._is_freed = True
        return operation_path(self._session, self._operation, "/close")

    # -- the job -----------------------------------------------------------------------------------

    @property
    def _running_job_id(self) -> str | None:
        """The job that may still run."""
        return None if self._is_whole else self.job_id

    def _finished(self) -> JobStatusReply:
        return JobStatusReply(self.job_id or "", JobStatus.FINISHED)

    def _job_path(self, rest: str = "") -> str:
        assert self.job_id is not None
        return job_path(self.job_id, rest)

    def _warnings(self, totals: dict[str, Any] | None) -> list[str]:
        """Those of a query come with its rows, those of another job with its totals."""
        if self.kind is ResultKind.QUERY:
            return list(self._stream.warnings)
        return [] if totals is None else list(totals["warnings"])
