"""Connects for a task, which can be cancelled while the database does not answer."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future, InvalidStateError

from runtime.connectors.jdbc.database import Database
from runtime.connectors.jdbc.driver import Connection, connect
from sqlstream.errors import ExternalError
from sqlstream.spi.files import Files


class Connecting:
    """Makes the connections of one reader, writer or lookup, one at a time. `cancel` may come from another thread: it ends
    `connect` at once, and all later ones.

    The driver cannot be interrupted while it connects, so that it connects to a server on a thread of its own. A thread that
    nobody waits for ends with the server's answer or the timeout of the connect, and closes what it got.

    State: whether it is cancelled, and the connect under way."""

    def __init__(self, database: Database, files: Files) -> None:
        self._database = database
        self._files = files
        self._pending: Future[Connection] | None = None
        self.cancelled = threading.Event()

    def connect(self) -> Connection:
        """The errors of `driver.connect`; ExternalError SS5060 when the task is cancelled."""
        pending: Future[Connection] = Future()
        # In this order: `cancel` sets the event before it looks for a connect.
        self._pending = pending
        if self.cancelled.is_set():
            raise self._cancelled()
        if not self._database.is_server:
            return connect(self._database, self._files)
        threading.Thread(target=self._answer, args=(pending,), name="jdbc-connect", daemon=True).start()
        return pending.result()

    def cancel(self) -> None:
        self.cancelled.set()
        if self._pending is not None:
            with contextlib.suppress(InvalidStateError):
                self._pending.set_exception(self._cancelled())

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
