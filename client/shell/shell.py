"""The loop of the shell: what the user gives, statement by statement, and what becomes of it."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.client.exit_codes import EXIT_FAILED, exit_code_of
from sqlstream.client.rendering.terminal import kept_output
from sqlstream.client.shell.commands import Leave, run_command
from sqlstream.client.shell.display import ShellDisplay
from sqlstream.client.shell.input_text import VERTICAL_END, Input, is_command, is_complete, split_input
from sqlstream.errors import Span, SqlStreamError, UserError, render_error

if TYPE_CHECKING:
    from sqlstream.client.connection import Connection
    from sqlstream.client.shell.detached import DetachedJobs
    from sqlstream.client.shell.prompt import Prompt


SOURCE_DEPTH_MAX = 10
CANCEL_WORD = "cancelled"


class Failed(Exception):
    """A statement failed, and its error was shown. `code` is the exit code of a script that ends with it."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Shell:
    """Runs inputs one after the other. State: the display's switches, the detached jobs, and how deep SOURCE is nested.

    An error ends the text that it is in: a line of the prompt, or a script with the scripts that run it.
    """

    def __init__(self, opening: OpeningConnection, display: ShellDisplay) -> None:
        self._opening = opening
        self.display = display
        self.history_path: Path | None = None
        self._depth = 0

    @functools.cached_property
    def detached(self) -> DetachedJobs:
        """The jobs that run on while the shell goes on."""
        from sqlstream.client.shell.detached import DetachedJobs

        return DetachedJobs(self.connection)

    @property
    def connection(self) -> Connection:
        return self._opening.get()

    # -- where inputs come from ---------------------------------------------------------------------

    def run_prompt(self, prompt: Prompt) -> int:
        """Ask until the user leaves; returns the exit code."""
        with kept_output(is_echoed=False):
            return self._run_prompt(prompt)

    def _run_prompt(self, prompt: Prompt) -> int:
        while True:
            try:
                self._tell_ended()
                text = self._asked(prompt)
                self.run_text(text)
            except Leave:
                if self._may_leave(prompt):
                    return 0
            except Failed:
                continue
            except KeyboardInterrupt:
                self.display.remark(CANCEL_WORD)

    def _asked(self, prompt: Prompt) -> str:
        """The next text; Ctrl-C drops what was typed, and Ctrl-D leaves."""
        while True:
            try:
                return prompt.ask()
            except KeyboardInterrupt:
                continue
            except EOFError:
                raise Leave from None

    def _tell_ended(self) -> None:
        # No job can have been detached before the first connection.
        for line in self.detached.ended() if self._opening.opened is not None else ():
            self.display.remark(line)

    def run_lines(self, lines: Iterable[str]) -> int:
        """Run statements as they come, as `psql` does with a pipe; the first error ends all. Returns the exit code."""
        text = ""
        try:
            for line in lines:
                text += line
                # Completeness is looked at where a statement can end, so that a long one is not read with every line.
                may_end = line.rstrip().endswith((";", VERTICAL_END)) or is_command(text)
                if may_end and is_complete(text):
                    self.run_text(text)
                    text = ""
            self.run_text(text)
        except Leave:
            return 0
        except Failed as failed:
            return failed.code
        return 0

    def run_file(self, path: str) -> None:
        """The statements of a file. UserError SS5001 when it cannot be read."""
        from sqlstream.client.script_text import read_script

        if self._depth == SOURCE_DEPTH_MAX:
            raise UserError(
                "SS4051",
                f"scripts run scripts more than {SOURCE_DEPTH_MAX} deep",
                hint="look for a circle of SOURCE",
            )
        self._depth += 1
        try:
            self.run_text(read_script(str(Path(path).expanduser())))
        finally:
            self._depth -= 1

    # -- statements ---------------------------------------------------------------------------------

    def run_text(self, text: str) -> None:
        """All statements and commands of a text. Failed after the first error, which is shown; Leave for QUIT."""
        try:
            for found in split_input(text):
                self._run(found, text)
        except SqlStreamError as error:
            self._fail(error, text)

    def run_sql(self, sql: str) -> None:
        """A statement that a command stands for."""
        self._run(Input(sql, Span(0, len(sql))), sql)

    def try_sql(self, sql: str) -> None:
        """The same for a statement whose error the caller takes."""
        self._execute(Input(sql, Span(0, len(sql))))

    def _run(self, found: Input, text: str) -> None:
        started = time.monotonic()
        try:
            if found.is_command:
                run_command(self, found.text)
            else:
                self._execute(found)
        except SqlStreamError as error:
            span = getattr(error, "span", None)
            if span is not None and not found.is_command:
                error.span = span.shift(found.span.start)  # type: ignore[attr-defined]
            self._fail(error, text if not found.is_command else None)
        if self.display.is_timed and not found.is_command:
            self.display.remark(f"time: {time.monotonic() - started:.3f} s")

    def _execute(self, found: Input) -> None:
        from sqlstream.client.shell.shell_answers import ShellAnswers

        connection = self.connection
        answers = ShellAnswers(connection, self.display, self.detached)
        with connection.execute(found.text) as result:
            try:
                answers.show(result, "vertical" if found.is_vertical else self.display.mode)
            except KeyboardInterrupt:
                answers.cancel(result)
                if self.display.is_interactive:
                    raise Failed(EXIT_FAILED) from None
                raise
            if result.facts.is_failure:
                # VERIFY has found a difference, and has shown it.
                raise Failed(EXIT_FAILED)

    def _fail(self, error: SqlStreamError, text: str | None) -> None:
        with self.display.line.cleared(sys.stderr):
            print(render_error(error, text), file=sys.stderr, flush=True)
        raise Failed(exit_code_of(error)) from None

    # -- the end ------------------------------------------------------------------------------------

    def _may_leave(self, prompt: Prompt) -> bool:
        """Whether nothing is lost by leaving, or the user says so: a cluster of this shell ends with it, and so do its jobs."""
        connection = self._opening.opened
        if connection is None or not connection.owns_cluster:
            return True
        running = self.detached.running()
        if not running:
            return True
        names = ", ".join(f"{result.label} ({result.job_id})" for result in running)
        self.display.remark(f"still running, and ended by leaving: {names}")
        answer = prompt.choose("[w]ait for them, [c]ancel them and leave, or [s]tay? ", "wcs")
        if answer == "c":
            for result in running:
                result.cancel()
            return True
        if answer == "w":
            with contextlib.suppress(KeyboardInterrupt):
                for result in running:
                    result.wait()
                self._tell_ended()
                return True
        return False


# A connection that is opened while the user types the first statement.


_WAIT_S = 0.2


class OpeningConnection:
    """Opens a connection on a thread of its own once `start` is called; `get` waits for it.

    State: the connection or the error, once there is one.
    """

    def __init__(self, open_: Callable[[], Connection]) -> None:
        self._open = open_
        self._connection: Connection | None = None
        self._error: BaseException | None = None
        self._is_opened = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="open-connection", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._connection = self._open()
        except BaseException as error:
            # It belongs to the thread that waits for the connection.
            self._error = error
        self._is_opened.set()

    def get(self) -> Connection:
        """The connection; raises what opening it raised."""
        self.start()
        while not self._is_opened.wait(_WAIT_S):
            # A wait without end would keep a signal from being handled on some systems.
            continue
        if self._error is not None:
            raise self._error
        assert self._connection is not None
        return self._connection

    @property
    def opened(self) -> Connection | None:
        """The connection, if it is there already."""
        return self._connection

    def close(self) -> None:
        """Close the connection, if it was ever begun."""
        if self._thread is None:
            return
        self._is_opened.wait()
        if self._connection is not None:
            self._connection.close()
