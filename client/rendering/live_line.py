"""One line at the bottom of a terminal that is erased while other text is written."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from sqlstream.client.rendering.table_layout import cut
from sqlstream.client.rendering.terminal import columns_of, unescaped

_ERASE = "\r\033[K"
LOCK_TIMEOUT_S = 0.3
"""How long to wait for another thread's output: a terminal that nobody reads may block it for ever."""


class LiveLine:
    """Draws its text on the terminal's last line, cut to its width; off a terminal, or on one without escape codes, it only says
    whole lines.

    Rows and messages are written within `cleared`, which erases the line before and draws it again after, and never in
    between. State: the text that is on the screen. All methods are thread-safe.
    """

    def __init__(self, out: IO[str] | None = None) -> None:
        self._out = unescaped(out or sys.stderr)
        self.is_terminal = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._text = ""

    def draw(self, text: str) -> None:
        """Show `text` instead of what is shown."""
        if not self.is_terminal or not self._lock.acquire(timeout=LOCK_TIMEOUT_S):
            return
        try:
            self._put(text)
        finally:
            self._lock.release()

    def erase(self) -> None:
        """Remove the line until the next `draw`."""
        self.draw("")

    def say(self, text: str) -> None:
        """Write a line that stays, above the live one."""
        if not self._lock.acquire(timeout=LOCK_TIMEOUT_S):
            return
        try:
            shown = self._text
            self._put("")
            self._out.write(text + "\n")
            self._out.flush()
            self._put(shown)
        finally:
            self._lock.release()

    @contextmanager
    def cleared(self, stream: IO[str]) -> Iterator[None]:
        """Erase the line while the caller writes whole lines on `stream` and flushes it; does nothing when it is no terminal."""
        if not self.is_terminal or not stream.isatty():
            yield
            return
        with self._lock:
            text = self._text
            self._put("")
            try:
                yield
            finally:
                self._put(text)

    def _put(self, text: str) -> None:
        if text or self._text:
            # A line that wraps could not be erased: erasing reaches the last of its screen rows only.
            self._out.write(_ERASE + cut(text, self.columns))
            self._out.flush()
        self._text = text

    @property
    def columns(self) -> int:
        """The columns that the line may fill."""
        return (columns_of(self._out) or 80) - 1
