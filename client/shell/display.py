"""Where answers go, and how they look there: standard output of a script, or the terminal of a shell."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO, cast

from sqlstream.client.following.remarks import Remark, Severity
from sqlstream.client.rendering.terminal import columns_of, unescaped
from sqlstream.terminal_text import NULL_TEXT, shown

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from sqlstream.client.rendering.live_line import LiveLine


MODES = ("auto", "table", "vertical", "json", "csv")
"""How rows are shown. `auto` is a table, or vertical blocks where a table would be wider than the screen."""


class Display:
    """Where answers go when no user types: rows to standard output, everything else to standard error. `mode`: how rows are
    shown. `null`: what stands for NULL in tables and vertical blocks. `is_quiet`: nothing is told but warnings. `blocks_word`:
    what to type for one line per column."""

    def __init__(
        self, mode: str = "table", null: str = NULL_TEXT, is_quiet: bool = False, blocks_word: str = ""
    ) -> None:
        self.mode = mode
        self.null = null
        self.is_quiet = is_quiet
        self.blocks_word = blocks_word

    @functools.cached_property
    def line(self) -> LiveLine:
        """The line of progress below the rows."""
        from sqlstream.client.rendering.live_line import LiveLine

        return LiveLine()

    @property
    def columns(self) -> int | None:
        return columns_of(sys.stdout)

    def tell(self, words: str) -> None:
        """A line about what was done, for a person: off a terminal the exit code is confirmation enough."""
        if sys.stderr.isatty():
            self.note(words)

    def note(self, words: str) -> None:
        """A line beside the answer."""
        if words and not self.is_quiet:
            self.remark(words)

    def warn(self, remarks: Iterable[Remark]) -> None:
        """What is to be told of a job that has ended: of lost rows in any case."""
        for remark in remarks:
            if remark.severity is Severity.WARNING or not self.is_quiet:
                for line in remark.lines:
                    self.remark(line)

    def remark(self, words: str) -> None:
        """A line that must be seen, on standard error."""
        with self.line.cleared(sys.stderr):
            print(shown(words), file=sys.stderr, flush=True)

    def print_lines(self, job_id: str, lines: list[str], is_error: bool) -> None:
        """The lines of connector `print`, above the line of progress."""
        from sqlstream.runtime.cluster_surroundings import print_to_terminal

        with self.line.cleared(sys.stderr if is_error else sys.stdout):
            print_to_terminal(job_id, lines, is_error)

    @contextmanager
    def text_stream(self, lines: int) -> Iterator[IO[str]]:
        """Standard output for a text of so many lines."""
        with self.line.cleared(sys.stdout):
            yield sys.stdout

    def print_text(self, text: str) -> None:
        print(text, flush=True)


class ShellDisplay(Display):
    """What the commands of a shell have switched on, and the terminal that it has.

    `is_interactive`: a user types on a terminal and reads on one. `file` receives the rows of the next query. `mode`: one of
    MODES."""

    def __init__(self, is_interactive: bool) -> None:
        super().__init__("auto" if is_interactive else "table", blocks_word=r"\x")
        self.is_interactive = is_interactive
        self.is_timed = False
        self.is_paged = True
        self.file: Path | None = None

    @property
    def is_vertical(self) -> bool:
        return self.mode == "vertical"

    @is_vertical.setter
    def is_vertical(self, is_on: bool) -> None:
        self.mode = "vertical" if is_on else "table"

    def note(self, words: str) -> None:
        self.tell(words)

    def tell(self, words: str) -> None:
        if words and sys.stderr.isatty():
            self.remark(words)

    def print_lines(self, job_id: str, lines: list[str], is_error: bool) -> None:
        """The lines of connector `print`, above the prompt or the line of progress."""
        stream = sys.stderr if is_error else sys.stdout
        if stream.isatty():
            # While the prompt is shown, the stream is prompt-toolkit's, which escapes less.
            lines = [shown(line) for line in lines]
        super().print_lines(job_id, lines, is_error)

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
            with super().text_stream(lines) as stream:
                yield stream

    def print_text(self, text: str) -> None:
        """A text of several lines, in the pager when it is long."""
        with self.text_stream(text.count("\n") + 2) as out:
            # A pager gets the text as a terminal does: without control characters of data.
            print("\n".join(shown_line for shown_line in _shown_lines(text, out)), file=out, flush=True)


def _shown_lines(text: str, out: IO[str]) -> Iterator[str]:
    is_for_people = out is not sys.stdout or out.isatty()
    is_kept: Callable[[str], str] = shown if is_for_people else str
    yield from map(is_kept, text.split("\n"))


# A pager for text that is longer than the screen.


def pager_command() -> list[str]:
    """The user's $PAGER, else less when there is one; empty for none (`PAGER=` or `PAGER=cat`)."""
    if (named := os.environ.get("PAGER")) is not None:
        try:
            words = shlex.split(named)
        except ValueError:
            return []
        return words if words and words != ["cat"] and shutil.which(words[0]) else []
    found = shutil.which("less")
    return [found] if found else []


@contextlib.contextmanager
def paged() -> Iterator[IO[str]]:
    """A stream whose text the pager shows; the block ends when the user leaves the pager, which may be before all is written.

    Long lines are cut and can be scrolled to, unless $LESS says otherwise. Ctrl-C is the pager's while it runs.
    """
    environment = {**os.environ, "LESS": os.environ.get("LESS", "-SFX"), "LESSSECURE": "1"}
    # A handler, and not SIG_IGN, which the pager would inherit.
    previous = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        process = subprocess.Popen(
            pager_command(),
            stdin=subprocess.PIPE,
            env=environment,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            try:
                yield process.stdin
            finally:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
        process.wait()
    finally:
        signal.signal(signal.SIGINT, previous)


# prompt-toolkit's input and output on the terminal of this process, without the escaping that printed data gets.


@functools.cache
def terminal_input() -> Input:
    from prompt_toolkit.input import create_input

    return create_input(sys.stdin)


def terminal_output() -> Output:
    """The output to the real terminal, also while standard output is replaced by one that prints above the prompt. It is the one
    of prompt-toolkit's session, where its replacement of standard output looks for it."""
    from prompt_toolkit.application.current import get_app_session

    with contextlib.redirect_stdout(cast(TextIO, unescaped(sys.__stdout__ or sys.stdout))):
        return get_app_session().output
