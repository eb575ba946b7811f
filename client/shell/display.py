"""How this shell shows answers: what its commands have switched on, and the terminal it has."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from sqlstream.client.rendering.terminal import columns_of
from sqlstream.client.shell.pager import paged, pager_command
from sqlstream.terminal_text import NULL_TEXT, shown

if TYPE_CHECKING:
    from sqlstream.client.rendering.live_line import LiveLine

MODES = ("auto", "table", "vertical", "json", "csv")
"""How rows are shown. `auto` is a table, or vertical blocks where a table would be wider than the screen."""


@dataclasses.dataclass
class Display:
    """`is_interactive`: a user types on a terminal and reads on one. `file` receives the rows of the next query. `mode`: one of
    MODES. `null`: what stands for NULL in tables and vertical blocks."""

    is_interactive: bool
    is_timed: bool = False
    is_paged: bool = True
    file: Path | None = None
    mode: str = ""
    null: str = NULL_TEXT

    def __post_init__(self) -> None:
        self.mode = self.mode or ("auto" if self.is_interactive else "table")

    @property
    def is_vertical(self) -> bool:
        return self.mode == "vertical"

    @is_vertical.setter
    def is_vertical(self, is_on: bool) -> None:
        self.mode = "vertical" if is_on else "table"

    @functools.cached_property
    def line(self) -> LiveLine:
        """The line of progress below the rows."""
        from sqlstream.client.rendering.live_line import LiveLine

        return LiveLine()

    def tell(self, words: str) -> None:
        """A line about what was done, for a person: off a terminal the exit code is confirmation enough."""
        if words and sys.stderr.isatty():
            self.remark(words)

    def remark(self, words: str) -> None:
        """A line that must be seen, on standard error."""
        with self.line.cleared(sys.stderr):
            print(shown(words), file=sys.stderr, flush=True)

    def print_lines(self, job_id: str, lines: list[str], is_error: bool) -> None:
        """The lines of connector `print`, above the prompt or the line of progress."""
        from sqlstream.runtime.cluster_surroundings import print_to_terminal

        stream = sys.stderr if is_error else sys.stdout
        if stream.isatty():
            # While the prompt is shown, the stream is prompt-toolkit's, which escapes less.
            lines = [shown(line) for line in lines]
        with self.line.cleared(stream):
            print_to_terminal(job_id, lines, is_error)

    @property
    def columns(self) -> int | None:
        return columns_of(sys.stdout)

    @property
    def has_full_screen(self) -> bool:
        """Whether a view can take the whole screen."""
        return self.is_interactive and os.environ.get("TERM", "dumb") != "dumb"

    def needs_pager(self, lines: int) -> bool:
        """Whether a text of so many lines is better shown in a pager."""
        if not (self.is_interactive and self.is_paged):
            return False
        try:
            height = os.get_terminal_size(sys.stdout.fileno()).lines
        except OSError:
            return False
        return 0 < height < lines and bool(pager_command())

    @contextmanager
    def text_stream(self, lines: int) -> Iterator[IO[str]]:
        """Standard output, or a pager for a text of more lines than the screen has."""
        if self.needs_pager(lines):
            with paged() as stream:
                yield stream
        else:
            with self.line.cleared(sys.stdout):
                yield sys.stdout

    def print_text(self, text: str) -> None:
        """A text of several lines, in the pager when it is long."""
        with self.text_stream(text.count("\n") + 2) as out:
            # A pager gets the text as a terminal does: without control characters of data.
            print("\n".join(shown_line for shown_line in _shown_lines(text, out)), file=out, flush=True)


def _shown_lines(text: str, out: IO[str]) -> Iterator[str]:
    is_for_people = out is not sys.stdout or out.isatty()
    is_kept: Callable[[str], str] = shown if is_for_people else str
    yield from map(is_kept, text.split("\n"))
