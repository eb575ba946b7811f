"""PEP 249's connection."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from sqlstream.client.dbapi import errors
from sqlstream.client.dbapi.cursor import Cursor
from sqlstream.client.dbapi.errors import InterfaceError, NotSupportedError, translating

if TYPE_CHECKING:
    from sqlstream.client.connection import Connection as SessionConnection


def connect(url: str, *, token: str = "", config: Mapping[str, str] | None = None) -> Connection:
    """Open a session: `embedded://` for a cluster in this process, `http://host:8083` for a server.

    `token` opens a server that asks for one; `config` are settings, as SET would make them. Parameters of the URL do the
    same: `http://host:8083?token_file=~/token&parallelism.default=2`. InterfaceError for a wrong URL, OperationalError when
    the server does not answer.
    """
    from sqlstream.client.connection import connect as connect_session

    with translating():
        return Connection(connect_session(url, token=token, config=config))


class Connection:
    """A session, in which cursors run statements. Each statement takes effect at once: there are no transactions.

    Threads may share a connection, but not a cursor. `close` cancels the queries of all its cursors; with `embedded://` it
    ends the cluster, and every job with it. As a context manager it closes itself.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, session: SessionConnection) -> None:
        self.session = session
        self._is_closed = False

    def cursor(self) -> Cursor:
        self.check_open()
        return Cursor(self)

    def commit(self) -> None:
        """Does nothing: each statement has taken effect already."""
        self.check_open()

    def rollback(self) -> None:
        """NotSupportedError: there are no transactions."""
        self.check_open()
        raise NotSupportedError("there are no transactions to roll back")

    def check_open(self) -> None:
        """InterfaceError after `close`."""
        if self._is_closed:
            raise InterfaceError("the connection is closed", hint="open another one: sqlstream.connect(url)")

    def close(self) -> None:
        """End the session. InterfaceError when the connection is closed already, as PEP 249 has it."""
        self.check_open()
        self._is_closed = True
        with translating():
            self.session.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_closed:
            self.close()

    def __del__(self) -> None:
        # Nobody can close it any more: its cluster, or its session at the server, must not stay.
        if not getattr(self, "_is_closed", True):
            with contextlib.suppress(Exception):
                self.session.close()
