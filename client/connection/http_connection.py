"""A connection to a session of a server, over the gateway's REST."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sqlstream.client.connection.address import Address
from sqlstream.client.connection.http import CLOSE_TIMEOUT_S, LOST_CODES, HttpClient, unknown_outcome
from sqlstream.client.connection.http_result import HttpResult
from sqlstream.client.connection.interface import closed_error
from sqlstream.client.connection.wire import (
    OVERVIEW,
    job_path,
    operation_path,
    overview_of,
    session_path,
)
from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.messages.rpc import JobOverviewEntry

if TYPE_CHECKING:
    from sqlstream.client.completion import Candidate
    from sqlstream.planner.dialect.statements import Statement

ATTEMPTS_MAX = 3
"""How often a statement is sent whose server is lost before anything of its answer has come."""

LOST_OPERATION, NO_OPERATION = "SS6093", "SS6021"

_FATES = {
    "FINISHED": "has been executed",
    "ERROR": "has failed",
    "TIMEOUT": "has failed",
    "CANCELED": "was cancelled",
    "CLOSED": "was closed",
    **dict.fromkeys(("INITIALIZED", "PENDING", "RUNNING"), "is being executed"),
    # Of one that this server has taken: it was closed when its answer could not be read.
    NO_OPERATION: "has reached the server",
}

HEARTBEAT_S = 60.0
"""How often a session that may be idle is kept open; the server's default closes it after 10 minutes."""


def _unread(status: str, reason: SqlStreamError) -> ExternalError:
    """Of a statement that a server knows, and whose answer cannot be read a second time."""
    return ExternalError(
        "SS6174",
        f"the statement {_FATES[status]}, but the connection broke before its answer came: {reason.message}",
        hint="run a query again; see what another statement has done first: SHOW JOBS, SHOW TABLES",
    )


class HttpConnection:
    """Implements `Connection` over a session of a server.

    A heartbeat keeps the session open while this object is. With several servers the session goes on at the one that leads next,
    and a statement whose answer was lost is executed once. State: the session's handle, and sockets. A session that the server
    has closed stays closed: its settings and temporary objects are lost, and the error says so.
    """

    def __init__(self, address: Address, config: Mapping[str, str], session_name: str = "sqlstream") -> None:
        self._client = HttpClient(address)
        self._is_closed = threading.Event()
        body = {"sessionName": session_name, "properties": dict(config)}
        try:
            # A second session that nobody uses is closed when it is idle.
            opened = self._client.call("POST", session_path("").rstrip("/"), body, True)
        except BaseException:
            self._client.close()
            raise
        self._session = str(opened["sessionHandle"])
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
        handle, attempts = str(uuid.uuid4()), 0
        while True:
            attempts, is_taken = attempts + 1, False
            try:
                operation = self._submitted(text, handle, attempts > 1)
                is_taken = True
                return HttpResult(self._client, self._session, operation)
            except SqlStreamError as error:
                if not self._client.has_several_servers:
                    raise
                fate = self._fate(handle, error)
                if fate == LOST_OPERATION and attempts < ATTEMPTS_MAX:
                    continue
                if error.code not in LOST_CODES:
                    raise
                if fate in _FATES and (is_taken or fate != NO_OPERATION):
                    raise _unread(fate, error) from error
                raise unknown_outcome(error) from error

    def _submitted(self, text: str, handle: str, is_repeated: bool) -> str:
        """The handle of the statement's operation."""

        def body(is_sent: bool) -> dict[str, Any]:
            # Only servers that share a place know a statement that is sent again: a single one is asked as Flink's is.
            named = {"operationHandle": handle, "isRepeated": is_repeated or is_sent}
            return {"statement": text, **(named if several else {})}

        several = self._client.has_several_servers
        path = session_path(self._session, "/statements")
        submitted = self._client.call("POST", path, body, several)
        return str(submitted["operationHandle"])

    def _fate(self, handle: str, error: SqlStreamError) -> str:
        """What has become of the operation, of whose answer nothing has come but this error: LOST_OPERATION when it is lost with
        its server, its status where a server knows it, else the code of the error that says neither. One that is known is not
        repeated, since its rows may have been sent."""
        if error.code in LOST_CODES:
            try:
                return str(
                    self._client.call("GET", operation_path(self._session, handle, "/status"))["status"]
                )
            except SqlStreamError as found:
                error = found
        return error.code

    def run(self, statement: Statement) -> HttpResult:
        try:
            return self.execute(statement.text)
        except UserError as error:
            if error.span is not None:
                error.span = error.span.shift(statement.span.start)
            raise error.at(statement.span) from None

    def complete(self, text: str, position: int) -> tuple[Candidate, ...]:
        """Flink's protocol names texts alone: their kind is that of words, and they replace the name at the cursor."""
        from sqlstream.client.completion import Candidate, CandidateKind
        from sqlstream.client.completion.cursor import read_cursor

        asked = {"statement": text, "position": position}
        try:
            path = session_path(self._session, "/complete-statement")
            found = self._client.call("GET", path, asked, True, CLOSE_TIMEOUT_S)
        except SqlStreamError:
            # A menu that does not open is better than an error in the middle of a word.
            return ()
        cursor = read_cursor(text, position)
        start = position if cursor is None else cursor.start
        return tuple(Candidate(str(word), CandidateKind.KEYWORD, "", start) for word in found["candidates"])

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
        within_s = 0.0
        # The server may be gone, and closes the session itself when it is idle for too long.
        with contextlib.suppress(SqlStreamError):
            self._client.call("DELETE", session_path(self._session), None, True, CLOSE_TIMEOUT_S)
            # It answers every thread that still waits for a statement of the session, and says what has become of it.
            within_s = CLOSE_TIMEOUT_S
        self._heart.join(CLOSE_TIMEOUT_S)
        self._client.close(within_s)

    def _check_open(self) -> None:
        if self._is_closed.is_set():
            raise closed_error()

    def _beat(self) -> None:
        while not self._is_closed.wait(HEARTBEAT_S):
            # The next statement reports what is wrong; a server that restarts may be back by then.
            with contextlib.suppress(SqlStreamError):
                self._client.call("POST", session_path(self._session, "/heartbeat"), None, True)

    def __enter__(self) -> HttpConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
