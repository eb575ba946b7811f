"""The one queue that a task waits on: mail, and input channels that have become readable."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

Mail = Callable[[], None]
Source = TypeVar("Source")


class Mailbox:
    """Mail before input; input channels in turn, so that none starves another.

    Any thread posts; the task's thread takes. A task that works is not notified, and one that waits for room is not notified of
    input. State: mail not yet run and the channels announced as readable. Both stay small: mail is rare, and a channel is
    announced once until it has been read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._mail: deque[Mail] = deque()
        self._readable: deque[object] = deque()
        self._is_waiting = False
        self._takes_input = False

    def post(self, mail: Mail) -> None:
        """Queue `mail`, which the task's thread calls before it reads more input."""
        with self._lock:
            self._mail.append(mail)
            self._wake()

    def announce(self, channel: object) -> None:
        """Announce that a channel has become readable; `take_readable` returns it once per announcement."""
        with self._lock:
            self._readable.append(channel)
            if self._takes_input:
                self._wake()

    def announce_room(self) -> None:
        """Wake the task if it waits: an output has room again."""
        with self._lock:
            self._wake()

    def _wake(self) -> None:
        if self._is_waiting:
            self._is_waiting = self._takes_input = False
            self._changed.notify()

    @property
    def queue_size(self) -> int:
        """How much mail waits."""
        return len(self._mail)

    def take_mail(self) -> Mail | None:
        """The next mail, None when there is none; never waits."""
        if not self._mail:
            return None
        return self._mail.popleft()

    def wait(self, timeout_s: float | None) -> None:
        """Wait until there is mail or input, or the timeout has passed."""
        with self._lock:
            if not self._mail and not self._readable:
                self._takes_input = True
                self._wait(timeout_s)

    def wait_for_room(self, has_room: Callable[[], bool], timeout_s: float | None) -> None:
        """Wait until there is mail, `has_room` may have changed, or the timeout has passed."""
        with self._lock:
            if not self._mail and not has_room():
                self._wait(timeout_s)

    def _wait(self, timeout_s: float | None) -> None:
        self._is_waiting = True
        self._changed.wait(timeout_s)
        self._is_waiting = self._takes_input = False

    def take_readable(self) -> object | None:
        """The channel whose turn it is, None when none is readable; never waits."""
        if not self._readable:
            return None
        return self._readable.popleft()
