"""The output of a child process: kept while the child starts, passed on afterwards."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable

LINES_KEPT = 12
LINE_BYTES_MAX = 65536
"""More than the longest record of a log (sqlstream.runtime.logs)."""


PassOn = Callable[[str], None]
"""Takes lines of a child's output, each with its end. Called from threads that watch children."""


class ChildOutput:
    """Keeps the last lines of a child until it is up, as the cause when it dies before; printed, the same lines would
    repeat for each replacement. Lines of a child that is up are passed on as they come.

    State: LINES_KEPT lines until `release`."""

    def __init__(self, pass_on: PassOn) -> None:
        self._pass_on = pass_on
        self._kept: deque[str] = deque(maxlen=LINES_KEPT)
        self._is_released = False
        self._lock = threading.Lock()

    def add(self, line: bytes) -> None:
        """One line with its end, or LINE_BYTES_MAX of a longer one."""
        text = line.decode("utf-8", "replace")
        with self._lock:
            if not self._is_released:
                self._kept.append(text)
                return
        self._pass_on(text)

    def release(self) -> None:
        """The child is up: pass its lines on from here."""
        with self._lock:
            self._is_released = True
            text = "".join(self._kept)
            self._kept.clear()
        if text:
            self._pass_on(text)

    def last_words(self) -> str:
        """The kept lines, without the line end of the last one."""
        with self._lock:
            return "".join(self._kept).rstrip()


def print_errors(text: str) -> None:
    """Where the output of children goes unless the process has a log: its standard error."""
    sys.stderr.write(text)
    sys.stderr.flush()
