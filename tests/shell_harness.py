"""The shell on a pseudo-terminal whose screen can be read."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte
from command_harness import ROOT, SQLSTREAM, Process, WholeEnd, children_of, environment
from ptyprocess import PtyProcess

PROMPT = "sqlstream>"
TIMEOUT_S = 60.0
ENTER, TAB, UP, DOWN, RIGHT, END, ESCAPE = "\r", "\t", "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[F", "\x1b"
CTRL_C, CTRL_D, CTRL_R = "\x03", "\x04", "\x12"


class _Screen(pyte.Screen):
    """A screen that answers the questions of programs, as a terminal does. pyte knows no second screen, so it is cleared."""

    answer: Callable[[str], object] = staticmethod(lambda data: None)

    def write_process_input(self, data: str) -> None:
        self.answer(data)

    def set_mode(self, *modes: int, **kwargs: bool) -> None:
        super().set_mode(*modes, **kwargs)
        if kwargs.get("private") and 1049 in modes:
            self.erase_in_display(2)

    def reset_mode(self, *modes: int, **kwargs: bool) -> None:
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and 1049 in modes:
            self.erase_in_display(2)
            self.cursor_position()


def _spawned(words: list[str], variables: dict[str, str], dimensions: tuple[int, int]) -> pexpect.spawn:
    """As pexpect.spawn with a command, which is forked here: it is `Process` that starts it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *dimensions, 0, 0))
    started = Process(
        words, cwd=ROOT, env=variables, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    # pexpect waits for it.
    started.returncode = 0
    process = pexpect.spawn(None, timeout=TIMEOUT_S)
    process.ptyproc = PtyProcess(started.pid, ours)
    process.pid, process.child_fd = started.pid, ours
    process.closed = process.terminated = False
    return process


class ShellOnTerminal:
    """A `sqlstream shell` process. Use as a context manager: leaving it ends the process."""

    def __init__(self, home: Path, *words: str, columns: int = 80, lines: int = 24, **others: str) -> None:
        self.screen = _Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        variables = {"TERM": "xterm-256color", "XDG_STATE_HOME": str(home), "PAGER": "", **others}
        self._end = WholeEnd()
        surroundings = self._end.environment(environment(**variables))
        self.process = _spawned([*SQLSTREAM, "shell", *words], surroundings, (lines, columns))
        self._end.begin()
        self.process.delaybeforesend = None
        # A shell whose terminal is closed ends its cluster before itself.
        self.process.ptyproc.delayafterclose = self.process.ptyproc.delayafterterminate = 1.0
        self.screen.answer = self.process.send

    def __enter__(self) -> ShellOnTerminal:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        children = children_of(self.process.pid) if self.process.isalive() else []
        self.process.close(force=True)
        if error is None:
            status = self.process.exitstatus
            code = -(self.process.signalstatus or 0) if status is None else status
            self._end.check(code, self.written.decode(errors="replace"), children)

    def read(self, seconds: float = 0.05) -> bool:
        """Draw what the process has written; False when it has ended."""
        try:
            data = self.process.read_nonblocking(65536, seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.written += data
        self._stream.feed(data)
        return True

    @property
    def lines(self) -> list[str]:
        """The lines of the screen without blanks at their ends, and without empty lines at the end."""
        found = [line.rstrip() for line in self.screen.display]
        while found and not found[-1]:
            found.pop()
        return found

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def send(self, keys: str) -> None:
        self.process.send(keys)

    def wait(self, condition: Callable[[], object], what: str = "the condition") -> None:
        """Read until the condition holds. AssertionError with the screen when it does not in time."""
        end = time.monotonic() + TIMEOUT_S
        while not condition():
            is_over = not self.read() or time.monotonic() > end
            if is_over and not condition():
                raise AssertionError(f"{what} is not on the screen:\n{self.text}")

    def wait_for(self, text: str) -> None:
        self.wait(lambda: text in self.text, repr(text))

    def press_until(self, key: str, text: str) -> None:
        """Press the key, again and again where it came too early, until the text is there."""

        def is_there() -> bool:
            if text not in self.text:
                self.send(key)
            return text in self.text

        self.wait(is_there, repr(text))

    def wait_for_prompt(self) -> None:
        """Until the last line is an empty prompt."""
        self.wait(lambda: self.lines and self.lines[-1] == PROMPT, "an empty prompt")

    def run(self, text: str) -> list[str]:
        """Type a statement and Enter, wait for the next prompt, and return the lines between."""
        self.send("\x0c")  # Ctrl-L clears the screen.
        self.wait(lambda: self.lines == [PROMPT], "a clear screen")
        self.send(text + ENTER)
        self.wait(lambda: len(self.lines) > 1 and self.lines[-1] == PROMPT, "the next prompt")
        return self.lines[1:-1]

    def end(self) -> int:
        """Wait for the end of the process; its exit code."""
        end = time.monotonic() + TIMEOUT_S
        while self.read() and time.monotonic() < end:
            continue
        self.process.wait()
        return int(
            self.process.exitstatus
            if self.process.exitstatus is not None
            else -os.WTERMSIG(self.process.status)
        )
