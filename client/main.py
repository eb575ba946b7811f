"""The `sqlstream` command: sub-commands, their help, and how it ends."""

from __future__ import annotations

import _thread
import argparse
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

from sqlstream import __version__
from sqlstream.client.exit_codes import (
    EXIT_BROKEN_PIPE,
    EXIT_FAILED,
    EXIT_OK,
    EXIT_SIGNALLED,
    EXIT_USAGE,
    exit_code_of,
)

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

FLUSH_TIMEOUT_S = 2.0
DELIVER_AGAIN_S = 0.05

_LIBRARY = os.path.dirname(threading.__file__)
_LOCKING_FILES = frozenset(
    os.path.join(_LIBRARY, name) for name in ("threading.py", "queue.py", "concurrent/futures/_base.py")
)
_WAITS = frozenset(("wait", "join", "_wait_for_tstate_lock"))
"""Their functions that wait, and give back what they hold when they are broken off."""

PUT_OFF_S = 0.001
PUT_OFF_MAX = 1_000
"""How often a signal is put off before it is raised nevertheless: a lock that nobody gives back must not hold up the end."""

COMMANDS: dict[str, tuple[str, str]] = {
    "shell": ("sqlstream.client.commands.shell", "type SQL and see the answer; the command without words"),
    "demo": (
        "sqlstream.client.commands.demo",
        "copy the example queries and their data to a folder, and run the first of them",
    ),
    "run": ("sqlstream.client.commands.run", "run every statement of a SQL file"),
    "explain": (
        "sqlstream.client.commands.explain",
        "print the plans of a SQL file's queries, down to the JobGraph",
    ),
    "verify": (
        "sqlstream.client.commands.verify",
        "compare the rows of a SQL file's queries as streams and in batch",
    ),
    "submit": ("sqlstream.client.commands.submit", "run every statement of a SQL file on a server"),
    "jobs": ("sqlstream.client.commands.remote.jobs", "list the jobs of a server"),
    "job": ("sqlstream.client.commands.remote.job", "show one job of a server"),
    "diagnose": ("sqlstream.client.commands.remote.diagnose", "say what holds a job of a server back"),
    "cancel": ("sqlstream.client.commands.remote.cancel", "end jobs of a server"),
    "stop": (
        "sqlstream.client.commands.remote.stop",
        "end a job of a server with a savepoint, from which it can go on",
    ),
    "rescale": (
        "sqlstream.client.commands.remote.rescale",
        "take a running job of a server to another parallelism",
    ),
    "savepoint": (
        "sqlstream.client.commands.remote.savepoint",
        "take a savepoint of a job of a server, or remove one",
    ),
    "upload": (
        "sqlstream.client.commands.remote.upload",
        "bring a file to a server, so that it goes with jobs",
    ),
    "checkpoints": (
        "sqlstream.client.commands.remote.checkpoints",
        "list the checkpoints of a job of a server",
    ),
    "ledger": (
        "sqlstream.client.commands.remote.ledger",
        "say what became of the rows of a job of a server",
    ),
    "logs": ("sqlstream.client.commands.remote.logs", "print what a server's log says of a job"),
    "log-level": (
        "sqlstream.client.commands.remote.log_level",
        "change what a running server and its TaskManagers log",
    ),
    "tables": ("sqlstream.client.commands.remote.tables", "list the tables and views of a server"),
    "status": ("sqlstream.client.commands.remote.status", "say whether a server answers, and what it does"),
    "state": (
        "sqlstream.client.commands.state.actions",
        "look into the state that a checkpoint or savepoint holds",
    ),
    "server": ("sqlstream.client.commands.server", "run jobs and answer clients until it is stopped"),
    "jobmanager": (
        "sqlstream.client.commands.jobmanager",
        "run jobs on the hosts that join, without taking SQL",
    ),
    "gateway": (
        "sqlstream.client.commands.gateway",
        "take SQL of clients, for a JobManager elsewhere",
    ),
    "taskmanager": (
        "sqlstream.client.commands.taskmanager",
        "offer slots of this host to a server elsewhere",
    ),
    "cluster": ("sqlstream.client.commands.cluster", "let other hosts join a server"),
    "token": ("sqlstream.client.commands.token", "say who may use a server, and in which role"),
    "backup": ("sqlstream.client.commands.backup", "copy all that a server keeps, while it runs or not"),
    "restore": ("sqlstream.client.commands.restore", "make a data directory of a backup"),
    "upgrade": (
        "sqlstream.client.commands.upgrade",
        "say what of a data directory this release takes over, and take it over",
    ),
    "config": (
        "sqlstream.client.commands.config",
        "show every option with its value and where it comes from",
    ),
    "explain-error": (
        "sqlstream.client.commands.explain_error",
        "say what an error code means and what to do about it",
    ),
    "bench": ("sqlstream.client.commands.bench", "measure the engine on the Nexmark queries or with Kafka"),
    "completion": (
        "sqlstream.client.commands.completion",
        "print a script that completes words in bash, zsh or fish",
    ),
    "version": ("sqlstream.client.commands.version", "print the version"),
}
"""Command name to (module, one line of help). A module has `add_arguments(parser)` and `execute(arguments) -> exit code`, and
is imported only when its command runs."""

DEFAULT_COMMAND = "shell"

EPILOG = """\
examples:
  sqlstream
  sqlstream demo trial
  sqlstream run queries/getting_started.sql
  sqlstream run --format json report.sql > report.jsonl
  sqlstream explain queries/nexmark/q5.sql
  sqlstream submit --detached pipeline.sql
  sqlstream jobs --server http://localhost:8083
  sqlstream bench nexmark --queries q0,q5 --events 10000000 --parallelism 2

`sqlstream COMMAND --help` has the details. Exit codes: 0 done, 1 something that ran failed, 2 refused before it ran
(wrong SQL, setting or usage), 130 interrupted, 141 whoever read the output closed it, 143 terminated.
"""


def command() -> NoReturn:
    """The whole process of the `sqlstream` command."""
    try:
        code = main()
    except SystemExit as usage:
        code = usage.code if isinstance(usage.code, int) else EXIT_USAGE
    # From here on a signal has nothing left to end.
    for number in END_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    flushed: list[bool] = []
    flush = threading.Thread(target=lambda: flushed.append(_flush()), daemon=True)
    flush.start()
    flush.join(FLUSH_TIMEOUT_S)
    if code == EXIT_OK and flushed == [False]:
        code = EXIT_BROKEN_PIPE
    from sqlstream.runtime.host.process_end import leave

    # Skip the interpreter's orderly shutdown: a thread that prints to a terminal nobody reads would block it for ever.
    leave(code)


def _flush() -> bool:
    """Whether there was a reader for all of the output."""
    is_read = True
    for stream in (sys.stderr, sys.stdout):
        try:
            stream.flush()
        except BrokenPipeError:
            is_read = False
        except OSError:
            continue
    return is_read


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. SystemExit for wrong usage; a user's other mistakes raise nothing."""
    signals = EndSignals()
    try:
        with signals:
            code = _run(list(sys.argv[1:] if argv is None else argv))
    except BaseException as error:
        # A library that a signal interrupts while it loads may raise an error of its own instead of KeyboardInterrupt.
        if signals.number is None and not isinstance(error, KeyboardInterrupt):
            raise
        return _exit_signalled(signals.number or signal.SIGINT)
    return code if code == EXIT_OK or signals.number is None else _exit_signalled(signals.number)


def _exit_signalled(number: int) -> int:
    print("interrupted" if number == signal.SIGINT else "terminated", file=sys.stderr)
    return EXIT_SIGNALLED + number


class EndSignals:
    """Raise KeyboardInterrupt for SIGINT, SIGTERM and SIGHUP while entered, unless they are ignored (nohup) or handled.

    Between a lock that is taken and the `with` that gives it back an error would leave it taken for ever, and the threads that
    share it would stand still. A signal that comes there is put off until the main thread has gone on.

    State: `number`, the first signal received. On exit the previous handlers are restored."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._times_put_off = 0
        self._handled: list[int] = []
        self._unraisable = sys.unraisablehook

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._handled = [n for n in END_SIGNALS if signal.getsignal(n) is signal.SIG_DFL]
        sys.unraisablehook = self._deliver_again
        for number in self._handled:
            signal.signal(number, self._end)

    def __exit__(self, *ignored: object) -> None:
        for number in self._handled:
            signal.signal(number, signal.SIG_DFL)
        sys.unraisablehook = self._unraisable

    def _end(self, number: int, frame: FrameType | None) -> None:
        if frame is not None and _takes_a_lock(frame) and self._times_put_off < PUT_OFF_MAX:
            self._times_put_off += 1
            _thread.start_new_thread(_signal_later, (number, PUT_OFF_S))
            return
        self._times_put_off = 0
        if self.number is None:
            self.number = number
        raise KeyboardInterrupt

    def _deliver_again(self, lost: Any) -> None:
        """Send a signal again that came in a destructor or callback, where Python drops what the handler raises."""
        if self.number is None or not isinstance(lost.exc_value, KeyboardInterrupt):
            self._unraisable(lost)
            return
        # Not threading.Thread, whose start() blocks: the signal must come after this hook has returned.
        _thread.start_new_thread(_signal_later, (self.number, DELIVER_AGAIN_S))


def _takes_a_lock(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name not in _WAITS and code.co_filename in _LOCKING_FILES


def _signal_later(number: int, after_s: float) -> None:
    time.sleep(after_s)
    os.kill(os.getpid(), number)


def _run(argv: list[str]) -> int:
    from sqlstream.client.commands.completion import answer_words, is_asked, words_of_line
    from sqlstream.client.rendering.terminal import escape_terminals
    from sqlstream.runtime.host.process import forgo_pandas, open_missing_streams

    open_missing_streams()
    escape_terminals()
    forgo_pandas()
    if is_asked():
        answer_words(_parser(words_of_line()))
        return EXIT_OK
    argv = [_with_home(word) for word in argv] or [DEFAULT_COMMAND]
    parser = _parser(argv)
    first = argv[0]
    if first.startswith("-") and not any(own.startswith(first) for own in ("-h", "--help", "--version")):
        parser.error(f"options such as {first} stand behind a command, as in: sqlstream run --quiet FILE")
    arguments = parser.parse_args(argv)
    from sqlstream.errors import ExternalError, SqlStreamError, reason_of_error, render_error

    try:
        return int(arguments.execute(arguments))
    except BrokenPipeError:
        # The reader of our output has closed it (`| head`): nothing more is written, not even at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        # Only the output has no name.
        what = f'use "{error.filename}"' if isinstance(error.filename, str) else "write the output"
        failed = ExternalError("SS5001", f"could not {what}: {reason_of_error(error)}")
        print(render_error(failed), file=sys.stderr)
        return EXIT_FAILED
    except SqlStreamError as error:
        print(render_error(error), file=sys.stderr)
        return exit_code_of(error)


def _with_home(word: str) -> str:
    """`--config=~/x` as `--config ~/x`: shells replace ~ only where a word begins with it."""
    option, separator, value = word.partition("=")
    return f"{option}={os.path.expanduser(value)}" if separator and option.startswith("--") else word


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sqlstream",
        description="Streaming SQL: Flink's dialect on an embedded cluster, without a JVM.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sqlstream {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((word for word in argv if not word.startswith("-")), "")
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(
            name, help=text, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == chosen:
            loaded = importlib.import_module(module)
            loaded.add_arguments(command)
            _repeat_examples(command)
            command.set_defaults(execute=loaded.execute)
    return parser


def _repeat_examples(command: argparse.ArgumentParser) -> None:
    """Each action of a command shows those examples of the command that are its own, where it has no help of its own."""
    lines = (command.epilog or "").splitlines()
    choices = [a.choices for a in command._actions if isinstance(a, argparse._SubParsersAction)]
    for name, action in (pair for found in choices for pair in found.items()):
        if not action.epilog:
            own = [line for line in lines if f"{command.prog} {name}" in line]
            action.epilog = "\n".join(["examples:", *own])
            action.formatter_class = argparse.RawDescriptionHelpFormatter


if __name__ == "__main__":
    command()
