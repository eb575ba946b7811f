"""The output of a child process: kept while the child starts, passed on afterwards."""

from __future__ import annotations

import sys
import threading
from collections import deque

LINES_KEPT = 12
LINE_BYTES_MAX = 4096


class ChildOutput:
    """Keeps the last lines of a child until it is up, as the cause when it dies before; printed, the same lines would
    repeat for each replacement. Lines of a child that is up go to this process's standard error.

    State: LINES_KEPT lines until `release`."""

    def __init__(self) -> None:
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
        _pass_on(text)

    def release(self) -> None:
        """The child is up: pass its lines on from here."""
        with self._lock:
            self._is_released = True
            text = "".join(self._kept)
            self._kept.clear()
        _pass_on(text)

    def last_words(self) -> str:
        """The kept lines, without the line end of the last one."""
        with self._lock:
            return "".join(self._kept).rstrip()


def _pass_on(text: str) -> None:
    if text:
        sys.stderr.write(text)
        sys.stderr.flush()
