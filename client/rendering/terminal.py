"""Text on its way to a terminal: control characters from data are escaped, so that data cannot control the terminal."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import IO, TextIO, cast

from sqlstream.terminal_text import shown_lines


class EscapedTerminal(io.TextIOBase):
    """A terminal that shows control characters instead of obeying them, except line breaks and tabs. No state."""

    def __init__(self, terminal: TextIO) -> None:
        self.unescaped = terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.unescaped.encoding

    def write(self, text: str) -> int:
        self.unescaped.write(shown_lines(text))
        return len(text)

    def flush(self) -> None:
        self.unescaped.flush()

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.unescaped.fileno()

    def writable(self) -> bool:
        return True


def escape_terminals() -> None:
    """Escape what this process prints to a terminal from now on; files and pipes receive the text unchanged."""
    sys.stdout, sys.stderr = _escaped(sys.stdout), _escaped(sys.stderr)


def _escaped(stream: TextIO) -> TextIO:
    if isinstance(stream, EscapedTerminal) or not stream.isatty():
        return stream
    return cast(TextIO, EscapedTerminal(stream))


def columns_of(stream: IO[str]) -> int | None:
    """The width of a terminal; None for any other stream."""
    if not stream.isatty():
        return None
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        columns = 0
    # A terminal without a size reports 0.
    return columns or 80


def unescaped(stream: IO[str]) -> IO[str]:
    """The terminal itself, for callers that draw on it with escape codes."""
    return stream.unescaped if isinstance(stream, EscapedTerminal) else stream


@contextlib.contextmanager
def kept_output(is_echoed: bool = True) -> Iterator[None]:
    """Ctrl-C leaves what is printed whole: a terminal by default drops all that it has not shown yet, rows and the half of an
    escape sequence too, which then swallows the text behind it.

    With `is_echoed` False, what is typed meanwhile is not shown either; it waits for the next prompt. Does nothing when standard
    input is no terminal, or one that this process is in the background of.
    """
    import termios

    try:
        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
        is_ours = _is_in_foreground(number)
    except (termios.error, OSError, ValueError):
        is_ours = False
    if not is_ours:
        yield
        return
    modes = [*before]
    modes[3] |= termios.NOFLSH
    if not is_echoed:
        modes[3] &= ~termios.ECHO
    termios.tcsetattr(number, termios.TCSANOW, modes)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error, OSError, ValueError):
            # Whoever sent this process to the background has given the terminal modes of its own.
            if _is_in_foreground(number):
                termios.tcsetattr(number, termios.TCSANOW, before)


def _is_in_foreground(terminal: int) -> bool:
    """Whether this process may set the terminal's modes; one in the background is stopped when it tries."""
    return os.tcgetpgrp(terminal) == os.getpgrp()
