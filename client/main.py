"""The `sqlstream` command: sub-commands, their help, and exit codes (0 done, 1 a job failed, 2 SQL or usage error)."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

EXIT_OK = 0
EXIT_JOB_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

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

`sqlstream COMMAND --help` tells more. Exit codes: 0 done, 1 a job failed, 2 SQL or usage error, 130 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Never raises for what a user can do wrong."""
    argv = list(sys.argv[1:] if argv is None else argv)
    arguments = _parser(argv).parse_args(argv)
    from sqlstream.errors import JobError, SqlStreamError, UserError, render_error

    try:
        return int(arguments.execute(arguments))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing is left to say, not even at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
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
    sys.exit(main())
