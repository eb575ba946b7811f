"""A connection to a session of a server, over the gateway's REST."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from sqlstream.client.connection.address import Address
from sqlstream.client.connection.conversation import converse
from sqlstream.client.connection.http import HttpClient, naming_url
from sqlstream.client.connection.http_result import ResultOverHttp
from sqlstream.client.connection.job_calls import OVERVIEW, job_path, overview_of
from sqlstream.client.connection.session_calls import (
    HEARTBEAT_S,
    close_session,
    keep_open,
    open_session,
    submit_statement,
)
from sqlstream.client.connection.wire import closed_error, session_path
from sqlstream.errors import SqlStreamError
from sqlstream.messages.rpc import JobMetrics, JobOverviewEntry, JobStatusReply

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.completion import Candidate

CLOSE_TIMEOUT_S = 5.0


class HttpConnection:
    """Implements `Connection` over a session of a server.

    A heartbeat keeps the session open while this object is. State: the session's handle, and sockets. A session that the
    server has closed stays closed: its settings and temporary objects are lost, and the error says so.
    """

    def __init__(self, address: Address, config: Mapping[str, str], session_name: str = "sqlstream") -> None:
        self._client = HttpClient(address)
        self._is_closed = threading.Event()
        try:
            self._session = converse(self._client, open_session(config, session_name))
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
        operation = converse(self._client, submit_statement(self._session, text))
        return HttpResult(self._client, self._session, operation)

    def complete(self, text: str, position: int) -> tuple[Candidate, ...]:
        from sqlstream.client.connection.completion import candidates_of

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
        converse(self._client, close_session(self._session))
        self._heart.join(CLOSE_TIMEOUT_S)
        self._client.close()

    def _check_open(self) -> None:
        if self._is_closed.is_set():
            raise closed_error()

    def _beat(self) -> None:
        while not self._is_closed.wait(HEARTBEAT_S):
            converse(self._client, keep_open(self._session))

    def __enter__(self) -> HttpConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HttpResult(ResultOverHttp):
    """Implements `StatementResult` over an operation of a server, whose rows it reads as one Arrow stream.

    State: the stream, until its end or `close`; while nobody reads it, the socket pushes back.
    """

    def __init__(self, client: HttpClient, session: str, operation: str) -> None:
        super().__init__(client.url, session, operation)
        self._client = client
        self._response = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._is_waiting = False
        try:
            stream = client.stream(self._stream_path, rowFormat="ARROW")
            self._pieces = self._response.enter_context(stream).iter_raw()
            while not self._has_head(self._next()):
                continue
        except BaseException:
            self.close()
            raise
        if self.schema is None:
            # Read at once, so that its socket is free for others.
            self._keep_text(list(self._all()))

    def _next(self) -> bytes | None:
        with naming_url(self._client.url):
            return next(self._pieces, None)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(()) if self.schema is None else self._all()

    def _all(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._stream.take()
            while (piece := self._next_piece()) is not None:
                self._stream.feed(piece)
                yield from self._stream.take()
            if not self._is_closed:
                self._complete()
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

    def wait(self, timeout_s: float | None = None) -> JobStatusReply:
        return converse(self._client, self._wait_for_end(timeout_s))

    def metrics(self) -> JobMetrics:
        return converse(self._client, self._read_metrics())

    def warnings(self) -> list[str]:
        return converse(self._client, self._read_warnings())

    def cancel(self) -> None:
        converse(self._client, self._cancel_job())

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
        converse(self._client, self._free_once())

    def __enter__(self) -> HttpResult:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
