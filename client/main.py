"""The `sqlstream` command: sub-commands, their help, and exit codes (0 done, 1 a job failed, 2 SQL or usage error)."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from sqlstream import __version__

EXIT_OK = 0
EXIT_JOB_FAILED = 1
EXIT_USAGE = 2
EXIT_SIGNALLED = 128
"""Plus the number of the signal, as in a shell."""

FLUSH_TIMEOUT_S = 2.0

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("client.commands.run", "run every statement of a SQL file"),
    "explain": ("client.commands.explain", "print the plans of a SQL file's queries, down to the JobGraph"),
    "bench": ("client.commands.bench", "measure the engine with a standard workload"),
    "version": ("client.commands.version", "print the version"),
}
"""Name to module and one line of help. A module has `add_arguments(parser)` and `execute(arguments) -> exit code`, and is
imported only when its command is asked for."""

EPILOG = """\
examples:
  sqlstream run queries/getting_started.sql
  sqlstream run --format json report.sql > report.jsonl
  sqlstream explain queries/nexmark/q5.sql
  sqlstream bench nexmark --queries q0,q5 --events 10000000 --parallelism 2

`sqlstream COMMAND --help` tells more. Exit codes: 0 done, 1 a job failed, 2 SQL or usage error, 130 interrupted,
143 terminated.
"""


class Terminated(KeyboardInterrupt):
    """A signal asks this process to end: what Ctrl-C would end is ended, then the exit code names the signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def command() -> NoReturn:
    """The whole process of the `sqlstream` command."""
    try:
        code = main()
    except SystemExit as usage:
        code = usage.code if isinstance(usage.code, int) else EXIT_USAGE
    # From here on nothing is left that a signal could ask to be ended.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    flush = threading.Thread(target=_flush, daemon=True)
    flush.start()
    flush.join(FLUSH_TIMEOUT_S)
    # Without the interpreter's orderly end: a thread that prints to a terminal nobody reads would hold it up for ever.
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stderr, sys.stdout):
        try:
            stream.flush()
        except OSError:
            continue


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Never raises for what a user can do wrong, but SystemExit for usage."""
    try:
        with _signals_end_the_command():
            return _run(list(sys.argv[1:] if argv is None else argv))
    except Terminated as signalled:
        print("terminated", file=sys.stderr)
        return EXIT_SIGNALLED + signalled.number
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_SIGNALLED + signal.SIGINT


@contextmanager
def _signals_end_the_command() -> Iterator[None]:
    """SIGTERM and SIGHUP, unless ignored (nohup) or handled, unwind the command as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated(number)

    is_main = threading.current_thread() is threading.main_thread()
    numbers = [
        n for n in (signal.SIGTERM, signal.SIGHUP) if is_main and signal.getsignal(n) is signal.SIG_DFL
    ]
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _run(argv: list[str]) -> int:
    from runtime.host.process import forgo_pandas, open_missing_streams

    open_missing_streams()
    forgo_pandas()
    parser = _parser(argv)
    if not argv:
        parser.print_help(sys.stderr)
        return EXIT_USAGE
    arguments = parser.parse_args(argv)
    from sqlstream.errors import JobError, SqlStreamError, UserError, render_error

    try:
        return int(arguments.execute(arguments))
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing is left to say, not even at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except OSError as error:
        print(
            f"error[SS5001]: could not write the output: {(error.strerror or str(error)).lower()}",
            file=sys.stderr,
        )
        return EXIT_JOB_FAILED
    except SqlStreamError as error:
        print(render_error(error), file=sys.stderr)
        return (
            EXIT_USAGE
            if isinstance(error, UserError) and not isinstance(error, JobError)
            else EXIT_JOB_FAILED
        )


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
            command.set_defaults(execute=loaded.execute)
    return parser


if __name__ == "__main__":
    command()
