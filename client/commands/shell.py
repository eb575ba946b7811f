"""`sqlstream shell`: SQL, statement by statement, on a cluster of its own or on a server."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from sqlstream import __version__
from sqlstream.client.arguments import add_configuration_arguments, configuration_of, count
from sqlstream.client.commands.remote.server_arguments import URL_VARIABLE, server_address
from sqlstream.client.exit_codes import EXIT_SIGNALLED
from sqlstream.client.shell.display import ShellDisplay
from sqlstream.client.shell.shell import Failed, OpeningConnection, Shell
from sqlstream.config_option import Scope

if TYPE_CHECKING:
    from sqlstream.client.configuration import Configuration
    from sqlstream.client.connection import Connection
    from sqlstream.client.shell.prompt import Prompt

EPILOG = """\
examples:
  sqlstream                                      the same as sqlstream shell
  sqlstream shell -f tables.sql                  with the tables of a file
  sqlstream shell --connect http://localhost:8083
  sqlstream shell --embedded --set execution.target=remote
  echo "SELECT 1 + 1;" | sqlstream shell

Statements end with ; or with \\G, which prints one line per column. HELP explains the rest.

The cluster is embedded unless --connect or SQLSTREAM_URL names a server; its jobs end with the shell. With the setting
execution.target=remote the shell plans, and the running server of this machine runs the jobs; those of INSERT go on there. Off a
terminal the shell reads statements from standard input without a prompt, and the first error ends it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--embedded", action="store_true", help="run a cluster of the shell's own, which ends with it"
    )
    where.add_argument(
        "--connect", "--server", metavar="URL", help="run statements on the server at http://HOST:PORT"
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="the file whose first line is the server's token"
    )
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="a script to run before the first prompt",
    )
    parser.add_argument(
        "--task-managers",
        type=count,
        metavar="N",
        help="child processes of the embedded cluster (default: cores)",
    )
    add_configuration_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0 when the user leaves or all statements ran; else 1 when a job failed, 2 for a wrong statement or word."""
    _end_on_hang_up()
    is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
    configuration = configuration_of(arguments)
    display = ShellDisplay(is_interactive)
    opening = OpeningConnection(lambda: _open(arguments, configuration, display))
    shell = Shell(opening, display)
    try:
        if _server(arguments) or _is_remote(configuration):
            # A server that does not answer is told before the first prompt.
            opening.get()
        prompt = _prompt(opening, shell) if is_interactive else None
        if prompt is not None:
            print(_greeting(arguments, configuration))
        for path in arguments.file:
            shell.run_file(path)
        return shell.run_lines(sys.stdin) if prompt is None else shell.run_prompt(prompt)
    except Failed as failed:
        return failed.code
    finally:
        opening.close()


def _server(arguments: argparse.Namespace) -> str:
    """The URL of the server, empty for an embedded cluster."""
    return "" if arguments.embedded else str(arguments.connect or os.environ.get(URL_VARIABLE, ""))


def _is_remote(configuration: Configuration) -> bool:
    return bool(configuration.get("execution.target") == "remote")


def _open(arguments: argparse.Namespace, configuration: Configuration, display: ShellDisplay) -> Connection:
    for note in configuration.notes:
        display.remark(note)
    if url := _server(arguments):
        from sqlstream.client.connection import connect

        address = server_address(argparse.Namespace(server=url, token_file=arguments.token_file))
        session = configuration.of_scopes(Scope.SESSION, Scope.JOB, Scope.CLIENT)
        return connect(url, token=address.token, config=session)
    from sqlstream.client.connection.embedded import embedded_connection

    return embedded_connection(configuration.for_target, arguments.task_managers, display.print_lines)


def _prompt(opening: OpeningConnection, shell: Shell) -> Prompt:
    """The prompt, which once it is on the screen loads what the first statement needs while the user types it."""
    from sqlstream.client.shell.prompt import Prompt

    def load() -> None:
        opening.start()
        prompt.lexer.load()
        # The thread that runs the first statement reports why there is no connection.
        with contextlib.suppress(Exception):
            _warm(opening.get())

    prompt = Prompt(lambda: opening.opened, threading.Thread(target=load, name="load", daemon=True).start)
    shell.history_path = prompt.history_path
    return prompt


def _warm(connection: Connection) -> None:
    import sqlstream.client.shell.shell_answers  # noqa: F401

    connection.complete("SELECT ", len("SELECT "))
    if connection.owns_cluster:
        with connection.execute("SELECT 1") as result:
            list(result.batches())


def _greeting(arguments: argparse.Namespace, configuration: Configuration) -> str:
    where = _server(arguments).partition("?")[0]
    if not where:
        where = "the server of this machine" if _is_remote(configuration) else "an embedded cluster"
    return f"sqlstream {__version__} on {where}. Statements end with ; and HELP explains more."


def _end_on_hang_up() -> None:
    """Let SIGTERM and SIGHUP end the shell also where Ctrl-C only ends a statement."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(EXIT_SIGNALLED + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
