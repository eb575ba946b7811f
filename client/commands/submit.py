"""`sqlstream submit FILE.sql`: every statement of a file in one session of a server, where its jobs run on."""

from __future__ import annotations

import argparse
import sys

from sqlstream.client.commands.remote.server_arguments import (
    SERVER_EPILOG,
    add_server_arguments,
    server_address,
)
from sqlstream.client.exit_codes import EXIT_USAGE

EPILOG = f"""\
examples:
  sqlstream submit pipeline.sql
  sqlstream submit --detached --name nightly pipeline.sql
  sqlstream submit --json --detached pipeline.sql | jq -r 'select(.kind == "JOB") | .jid'
  echo "SELECT COUNT(*) FROM orders;" | sqlstream submit -

The jobs of INSERT statements run on the server. Each is followed until it has ended, and then the next statement runs;
with --detached the next one runs at once. Ctrl-C ends the command and leaves the job alone. A SELECT over tables that end
prints its rows. --json prints one object per statement.
{SERVER_EPILOG}"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("file", help="the SQL file, or - for standard input")
    parser.add_argument("--detached", action="store_true", help="do not wait for the ends of jobs")
    parser.add_argument("--name", metavar="NAME", help="the name of the jobs (pipeline.name)")
    add_server_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0 when all statements ran, 1 when a job failed or was cancelled, 2 for a wrong statement."""
    from sqlstream.client.commands.scripts import SubmitAnswers, parse_scripts, run_scripts
    from sqlstream.client.connection.http_connection import HttpConnection
    from sqlstream.client.script_text import read_script
    from sqlstream.client.shell.display import Display
    from sqlstream.errors import UserError, render_error

    text = read_script(arguments.file)
    config = {"pipeline.name": arguments.name} if arguments.name else {}
    # All of them are parsed before the first one runs.
    scripts = parse_scripts([text])
    if scripts is None:
        return EXIT_USAGE
    try:
        connection = HttpConnection(server_address(arguments), config, "sqlstream submit")
    except UserError as error:
        print(render_error(error, text), file=sys.stderr)
        return EXIT_USAGE
    with connection:
        is_json, is_detached = arguments.json, arguments.detached
        return run_scripts(
            scripts, SubmitAnswers(connection, Display(), is_json=is_json, is_detached=is_detached)
        )
