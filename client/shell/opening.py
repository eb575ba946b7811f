"""A connection that is opened while the user types the first statement."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlstream.client.connection import Connection

_WAIT_S = 0.2


class OpeningConnection:
    """Opens a connection on a thread of its own once `start` is called; `get` waits for it.

    State: the connection or the error, once there is one.
    """

    def __init__(self, open_: Callable[[], Connection]) -> None:
        self._open = open_
        self._connection: Connection | None = None
        self._error: BaseException | None = None
        self._is_opened = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="open-connection", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._connection = self._open()
        except BaseException as error:
            # It belongs to the thread that waits for the connection.
            self._error = error
        self._is_opened.set()

    def get(self) -> Connection:
        """The connection; raises what opening it raised."""
        self.start()
        while not self._is_opened.wait(_WAIT_S):
            # A wait without end would keep a signal from being handled on some systems.
            continue
        if self._error is not None:
            raise self._error
        assert self._connection is not None
        return self._connection

    @property
    def opened(self) -> Connection | None:
        """The connection, if it is there already."""
        return self._connection

    def close(self) -> None:
        """Close the connection, if it was ever begun."""
        if self._thread is None:
            return
        self._is_opened.wait()
        if self._connection is not None:
            self._connection.close()
