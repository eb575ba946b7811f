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

    Any thread posts; the task's thread takes. State: mail not yet run and the channels announced as readable.
    Both stay small: mail is rare, and a channel is announced once until it has been read."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._mail: deque[Mail] = deque()
        self._readable: deque[object] = deque()

    def post(self, mail: Mail) -> None:
        """Queue `mail`, which the task's thread calls before it reads more input."""
        with self._condition:
            self._mail.append(mail)
            self._condition.notify()

    def announce(self, channel: object) -> None:
        """Announce that a channel has become readable; `take_readable` returns it once per announcement."""
        with self._condition:
            self._readable.append(channel)
            self._condition.notify()

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
        with self._condition:
            if not self._mail and not self._readable:
                self._condition.wait(timeout_s)

    def take_readable(self) -> object | None:
        """The channel whose turn it is, None when none is readable; never waits."""
        if not self._readable:
            return None
        return self._readable.popleft()
