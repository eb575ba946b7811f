"""Conversations about a session of a server."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from sqlstream.client.connection.conversation import Call, Conversation
from sqlstream.client.connection.wire import session_path
from sqlstream.errors import SqlStreamError

HEARTBEAT_S = 60.0
"""How often a session that may be idle is kept open; the server's default closes it after 10 minutes."""


def open_session(config: Mapping[str, str], name: str) -> Conversation[str]:
    """The handle of a session with these settings."""
    body = {"sessionName": name, "properties": dict(config)}
    answer = yield Call("POST", session_path("").rstrip("/"), body)
    return str(answer["sessionHandle"])


def submit_statement(session: str, text: str) -> Conversation[str]:
    """The handle of the operation that runs a statement."""
    answer = yield Call("POST", session_path(session, "/statements"), {"statement": text})
    return str(answer["operationHandle"])


def keep_open(session: str) -> Conversation[None]:
    # The next statement reports what is wrong; a server that restarts may be back by then.
    with contextlib.suppress(SqlStreamError):
        yield Call("POST", session_path(session, "/heartbeat"))


def close_session(session: str) -> Conversation[None]:
    # The server may be gone, and closes the session itself when it is idle for too long.
    with contextlib.suppress(SqlStreamError):
        yield Call("DELETE", session_path(session))
