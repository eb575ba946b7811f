"""`sqlstream run FILE.sql`: every statement of a file and of the command line, one after the other."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sqlstream.client.arguments import (
    FORMATS,
    add_configuration_arguments,
    add_script_arguments,
    add_task_managers_argument,
    configuration_of,
)
from sqlstream.client.exit_codes import EXIT_USAGE
from sqlstream.errors import UserError

if TYPE_CHECKING:
    from sqlstream.client.configuration import Configuration

EPILOG = """\
examples:
  sqlstream run queries/getting_started.sql
  sqlstream run --format json report.sql | jq .
  sqlstream run --changelog --set parallelism.default=2 top_auctions.sql
  sqlstream run tables.sql -c "SELECT COUNT(*) FROM clicks"
  echo "SELECT 1 + 1;" | sqlstream run -
  sqlstream run --set execution.target=remote pipeline.sql

SELECT over bounded tables prints the final table. Over unbounded ones, or with --changelog, it prints each change as it
arrives, with a first column `op` of +I, -U, +U or -D. INSERT waits until the job has ended. Ctrl-C cancels the job.

With execution.target=remote the jobs run on the sqlstream server of this machine and user, and everything else here; with
execution.target=spark and spark.master=MASTER in the executors of a Spark cluster.

After each job standard error reports late, undecodable and dropped rows, also with --quiet. A final table is printed when
its job has finished: a job that fails or is cancelled prints none.

Formats: table is as wide as the terminal and cuts long texts there, never numbers; piped, it cuts nothing. vertical prints
one line per column. csv begins with a line of names; NULL is an empty field, an empty text is "". json prints one object
per row. arrow is one IPC stream per SELECT, to be piped or redirected. In the changelog of csv, json and arrow no other
column can be called `op`: rename it with AS.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_script_arguments(parser, "to run")
    parser.add_argument(
        "--format", choices=FORMATS, default="table", help="how rows are printed (default: table)"
    )
    parser.add_argument(
        "--changelog", action="store_true", help="print changes as they come, not the final table"
    )
    add_configuration_arguments(parser)
    add_task_managers_argument(parser)
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="no progress and no summary, only rows and warnings of lost rows",
    )


def execute(arguments: argparse.Namespace) -> int:
    """0 when all statements ran, 1 when a job failed or VERIFY has found a difference, 2 for a wrong statement."""
    from sqlstream.client.clusters.early_start import early_task_managers
    from sqlstream.client.script_text import scripts_of

    if arguments.format == "arrow" and sys.stdout.isatty():
        raise UserError(
            "SS4005",
            "an Arrow stream is not for a terminal",
            hint="redirect it, as in: sqlstream run --format arrow FILE.sql > rows.arrow",
        )
    texts = scripts_of(arguments)
    configuration = configuration_of(arguments)
    with early_task_managers(texts, configuration, arguments.task_managers):
        return _run(arguments, texts, configuration)


def _run(arguments: argparse.Namespace, texts: list[str], configuration: Configuration) -> int:
    # Here, where processes start beside this one, and not before, is what takes long to load.
    from sqlstream.client.commands.scripts import RunAnswers, parse_scripts, run_scripts
    from sqlstream.client.connection.embedded import embedded_connection
    from sqlstream.client.shell.display import Display

    display = Display(arguments.format, is_quiet=arguments.quiet)
    for note in configuration.notes:
        display.note(note)
    with embedded_connection(
        configuration.for_target, arguments.task_managers, display.print_lines
    ) as connection:
        scripts = parse_scripts(texts)
        if scripts is None:
            return EXIT_USAGE
        return run_scripts(scripts, RunAnswers(connection, display, arguments.changelog))
