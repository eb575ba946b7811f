"""The one thread of a process that waits on all streams to other TaskManagers."""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

OnReady = Callable[[bool, bool], None]
"""Called by the loop's thread: whether the socket is readable, and whether it is writable. It handles its own failures."""


class StreamLoop:
    """Calls who has registered a socket when it is ready. Sleeps in between, however many sockets there are.

    Any thread calls `add`, `watch_writes`, `remove` and `close`; they take effect on the loop's thread, in their order.
    State: the sockets, and calls that it has not carried out."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._calls: deque[Callable[[], Any]] = deque()
        self._is_closed = False
        self._has_ended = False
        # Guards the end, so that nobody wakes through a socket that is closed.
        self._lock = threading.Lock()
        self._selector.register(self._woken, selectors.EVENT_READ, self._on_woken)
        self._thread = threading.Thread(target=self._run, name="exchange", daemon=True)
        self._thread.start()

    def add(self, connection: socket.socket, on_ready: OnReady) -> None:
        self.call(lambda: self._selector.register(connection, selectors.EVENT_READ, on_ready))

    def watch_writes(self, connection: socket.socket, is_wanted: bool) -> None:
        """Whether the owner is called when the socket takes more bytes, too."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_wanted else 0)

        def modify() -> None:
            key = self._selector.get_map().get(connection)
            if key is not None:
                self._selector.modify(connection, events, key.data)

        self.call(modify)

    def remove(self, connection: socket.socket, then: Callable[[], None]) -> None:
        """Forget the socket; `then` closes it, on this thread if the loop has ended."""

        def forget() -> None:
            if connection in self._selector.get_map():
                self._selector.unregister(connection)
            then()

        if not self.call(forget):
            then()

    def call(self, function: Callable[[], Any]) -> bool:
        """Call the function on the loop's thread, soon; False when the loop has ended."""
        with self._lock:
            if self._has_ended:
                return False
            self._calls.append(function)
            # A waker that takes no more has woken the loop often enough.
            with contextlib.suppress(BlockingIOError):
                self._waker.send(b"\0")
        return True

    def close(self) -> None:
        """End the thread; sockets belong to those who have registered them."""

        def end() -> None:
            self._is_closed = True

        self.call(end)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            for key, events in self._selector.select():
                key.data(bool(events & selectors.EVENT_READ), bool(events & selectors.EVENT_WRITE))
        while not self._has_ended:
            self._call_all()
            with self._lock:
                self._has_ended = not self._calls
        self._selector.close()
        self._woken.close()
        self._waker.close()

    def _on_woken(self, is_readable: bool, is_writable: bool) -> None:
        self._woken.recv(4096)
        self._call_all()

    def _call_all(self) -> None:
        # Not those that are added meanwhile: sockets have their turn before.
        for _ in range(len(self._calls)):
            try:
                self._calls.popleft()()
            except Exception:  # one stream's failure is not that of the others
                logger.exception("the exchange could not carry out a call")
