"""The connection of a task, which can be cancelled, also while the database does not answer."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future, InvalidStateError

from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.jdbc.database import Database
from sqlstream.runtime.connectors.jdbc.driver import Connection, connect
from sqlstream.spi.files import Files


class Connecting:
    """The connection of one reader, writer or lookup, made anew by `connect` after each `close`. `cancel` may come from another
    thread: it ends what the database is doing, a `connect` at once, and all later ones.

    The driver cannot be interrupted while it connects, so that it connects to a server on a thread of its own. A thread that
    nobody waits for ends with the server's answer or the timeout of the connect, and closes what it got.

    State: the connection, whether it is cancelled, and the connect under way."""

    def __init__(self, database: Database, files: Files) -> None:
        self._database = database
        self._files = files
        self.connection: Connection | None = None
        self._pending: Future[Connection] | None = None
        self.cancelled = threading.Event()

    def connect(self) -> Connection:
        """The errors of `driver.connect`; ExternalError SS5060 when the task is cancelled."""
        pending: Future[Connection] = Future()
        # In this order: `cancel` sets the event before it looks for a connect.
        self._pending = pending
        if self.cancelled.is_set():
            raise self._cancelled()
        if self._database.is_server:
            threading.Thread(target=self._answer, args=(pending,), name="jdbc-connect", daemon=True).start()
            self.connection = pending.result()
        else:
            self.connection = connect(self._database, self._files)
        return self.connection

    def cancel(self) -> None:
        self.cancelled.set()
        if self._pending is not None:
            with contextlib.suppress(InvalidStateError):
                self._pending.set_exception(self._cancelled())
        if (connection := self.connection) is not None:
            connection.cancel()

    def close(self) -> None:
        """Harmless when repeated."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def _answer(self, pending: Future[Connection]) -> None:
        try:
            connection = connect(self._database, self._files)
        except Exception as error:  # the thread's boundary: raised by `connect`, unless it was cancelled
            with contextlib.suppress(InvalidStateError):
                pending.set_exception(error)
            return
        try:
            pending.set_result(connection)
        except InvalidStateError:
            connection.close()

    def _cancelled(self) -> ExternalError:
        return ExternalError(
            "SS5060", f'could not reach the database "{self._database.url}": the task is cancelled'
        )
