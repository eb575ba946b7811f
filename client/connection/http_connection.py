"""A connection to a session of a server, over the gateway's REST."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from client.connection.address import Address
from client.connection.http import HttpClient, naming_url
from client.connection.interface import ResultKind
from client.connection.job_calls import (
    OVERVIEW,
    job_path,
    metrics_of,
    no_metrics,
    overview_of,
    poll_intervals_s,
    status_of,
)
from client.connection.result_stream import ResultStream
from client.connection.wire import operation_path, session_path
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobMetrics, JobOverviewEntry, JobStatusReply

if TYPE_CHECKING:
    import pyarrow as pa

    from client.completion import Candidate
    from client.connection.wire import ResultHead
    from sqlstream.schema import Schema

HEARTBEAT_S = 60.0
"""How often a session that may be idle is kept open; the server's default closes it after 10 minutes."""

CLOSE_TIMEOUT_S = 5.0


class HttpConnection:
    """Implements `Connection` over a session of a server.

    A heartbeat keeps the session open while this object is. State: the session's handle, and sockets. A session that the
    server has closed stays closed: its settings and temporary objects are lost, and the error says so.
    """

    def __init__(self, address: Address, config: Mapping[str, str], session_name: str = "sqlstream") -> None:
        self._client = HttpClient(address)
        self._is_closed = threading.Event()
        body = {"sessionName": session_name, "properties": dict(config)}
        try:
            self._session = str(
                self._client.call("POST", session_path("").rstrip("/"), body)["sessionHandle"]
            )
        except BaseException:
            self._client.close()
            raise
        self._heart = threading.Thread(target=self._beat, name="session-heartbeat", daemon=True)
        self._heart.start()

    @property
    def name(self) -> str:
        return self._client.url

    @property
    def owns_cluster(self) -> bool:
        return False

    def execute(self, text: str) -> HttpResult:
        self._check_open()
        path = session_path(self._session, "/statements")
        operation = self._client.call("POST", path, {"statement": text})["operationHandle"]
        return HttpResult(self._client, self._session, operation)

    def complete(self, text: str, position: int) -> tuple[Candidate, ...]:
        from client.connection.completion import candidates_of

        try:
            found = self._client.call(
                "GET",
                session_path(self._session, "/complete-statement"),
                {"statement": text, "position": position},
            )
        except SqlStreamError:
            # A menu that does not open is better than an error in the middle of a word.
            return ()
        return candidates_of(found, text, position)

    def config(self) -> Mapping[str, str]:
        self._check_open()
        properties: dict[str, str] = self._client.call("GET", session_path(self._session))["properties"]
        return properties

    def jobs(self) -> tuple[JobOverviewEntry, ...]:
        return overview_of(self._client.call("GET", OVERVIEW))

    def cancel_job(self, job_id: str) -> None:
        self._client.call("PATCH", job_path(job_id), mode="cancel")

    def close(self) -> None:
        if self._is_closed.is_set():
            return
        self._is_closed.set()
        # The server may be gone, and closes the session itself when it is idle for too long.
        with contextlib.suppress(SqlStreamError):
            self._client.call("DELETE", session_path(self._session))
        self._heart.join(CLOSE_TIMEOUT_S)
        self._client.close()

    def _check_open(self) -> None:
        if self._is_closed.is_set():
            raise UserError("SS4042", "the connection is closed", hint="open another one")

    def _beat(self) -> None:
        while not self._is_closed.wait(HEARTBEAT_S):
            # The next statement reports what is wrong; a server that restarts may be back by then.
            with contextlib.suppress(SqlStreamError):
                self._client.call("POST", session_path(self._session, "/heartbeat"))

    def __enter__(self) -> HttpConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HttpResult:
    """Implements `StatementResult` over an operation of a server, whose rows it reads as one Arrow stream.

    State: the stream, until its end or `close`; while nobody reads it, the socket pushes back.
    """

    def __init__(self, client: HttpClient, session: str, operation: str) -> None:
        self._client = client
        self._session = session
        self._operation = operation
        self._response = contextlib.ExitStack()
        self._stream = ResultStream(client.url)
        self._lock = threading.Lock()
        self._is_waiting = False
        self._is_closed = False
        self._is_whole = False
        self._is_freed = False
        try:
            self._pieces = self._open()
            head = self._head = self._read_head()
        except BaseException:
            self.close()
            raise
        self.kind = head.kind
        self.schema: Schema | None = head.schema
        self.text = head.text
        self.note = head.note
        self.label = head.label
        self.job_id = head.job_id
        self.is_bounded = head.is_bounded
        self.is_updating = head.is_updating
        if self.schema is None:
            # A few bytes, whose socket is free for others once they are read.
            values = [value for batch in self._all() for value in batch.column(0).to_pylist()]
            self.text = "\n".join(values) if self.kind is ResultKind.TEXT else self.text

    def _open(self) -> Iterator[bytes]:
        path = operation_path(self._session, self._operation, "/result/stream")
        return self._response.enter_context(self._client.stream(path, rowFormat="ARROW")).iter_raw()

    def _read_head(self) -> ResultHead:
        while self._stream.head is None:
            with naming_url(self._client.url):
                piece = next(self._pieces, None)
            if piece is None:
                self._stream.finish()
                raise AssertionError("a finished stream has a head")
            self._stream.feed(piece)
        return self._stream.head

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(()) if self.schema is None else self._all()

    def _all(self) -> Iterator[pa.RecordBatch]:
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
            with naming_url(self._client.url):
                return next(self._pieces, None)
        except SqlStreamError:
            if self._is_closed:
                return None
            self._stream.read_ending()
            raise
        finally:
            with self._lock:
                self._is_waiting = False

    def wait(self, timeout_s: float | None = None) -> JobStatusReply:
        if self._is_whole or self.job_id is None:
            return JobStatusReply(self.job_id or "", JobStatus.FINISHED)
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        for interval_s in poll_intervals_s():
            answer = self._client.call("GET", job_path(self.job_id, "/status"))
            reply = status_of(self.job_id, answer, None)
            if reply.status.is_terminal:
                break
            if deadline_s is not None and time.monotonic() + interval_s > deadline_s:
                raise TimeoutError(f"job {self.job_id} has not ended")
            time.sleep(interval_s)
        if reply.status is JobStatus.FAILED:
            exceptions = self._client.call("GET", job_path(self.job_id, "/exceptions"))
            return status_of(self.job_id, answer, exceptions)
        return reply

    def metrics(self) -> JobMetrics:
        return no_metrics() if self.job_id is None else metrics_of(self.job_id, self._totals())

    def warnings(self) -> list[str]:
        if self.kind is ResultKind.QUERY:
            return list(self._stream.warnings)
        return [] if self.job_id is None else list(self._totals()["warnings"])

    def _totals(self) -> dict[str, Any]:
        totals: dict[str, Any] = self._client.call("GET", job_path(str(self.job_id), "/totals"))
        return totals

    def cancel(self) -> None:
        if self._is_whole or self.job_id is None:
            return
        try:
            self._client.call("PATCH", job_path(self.job_id), mode="cancel")
        except SqlStreamError:
            # A job that has ended cannot be cancelled, which is no error here.
            if not self.wait(0).status.is_terminal:
                raise

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

    def __enter__(self) -> HttpResult:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
