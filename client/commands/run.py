"""`sqlstream run FILE.sql`: every statement of a file, one after the other."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from client.arguments import count
from client.live_line import LiveLine
from client.render import FORMATS
from sqlstream.errors import UserError, render_error

if TYPE_CHECKING:
    from client.render import Renderer
    from client.session import Job, Outcome, Session
    from planner.dialect.statements import Statement
    from sqlstream.schema import Schema

CANCEL_TIMEOUT_S = 5.0

EPILOG = """\
examples:
  sqlstream run queries/getting_started.sql
  sqlstream run --format json report.sql | jq .
  sqlstream run --changelog --set parallelism.default=2 top_auctions.sql
  echo "SELECT 1 + 1;" | sqlstream run -

SELECT over bounded tables prints the final table; over unbounded ones, or with --changelog, each change as it
comes, the first column `op` being +I, -U, +U or -D. INSERT waits until the job has ended. Ctrl-C cancels the job.

Formats: table cuts long values (SET 'table.display.max-column-width' = '100'). csv begins with a line of names; NULL is
an empty field, an empty text is "". json is an object a row. arrow is an IPC stream for each SELECT, to be piped or
redirected. In a changelog that is not a table no other column can be called `op`: rename it with AS.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("file", help="the SQL file, or - for standard input")
    parser.add_argument(
        "--format", choices=FORMATS, default="table", help="how rows are printed (default: table)"
    )
    parser.add_argument(
        "--changelog", action="store_true", help="print changes as they come, not the final table"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting in force before the first statement",
    )
    parser.add_argument(
        "--task-managers", type=count, metavar="N", help="child processes that run tasks (default: cores)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress and no closing words, only rows")


def execute(arguments: argparse.Namespace) -> int:
    """0 when all statements ran, 1 when a job failed, 2 for a wrong statement."""
    from client.session import Session

    if arguments.format == "arrow" and sys.stdout.isatty():
        raise UserError(
            "SS4005",
            "an Arrow stream is not for a terminal",
            hint="redirect it, as in: sqlstream run --format arrow FILE.sql > rows.arrow",
        )
    text = read_script(arguments.file)
    line = LiveLine()

    def print_lines(job_id: str, lines: list[str], is_error: bool) -> None:
        from runtime.embedded import print_to_terminal

        with line.cleared(sys.stderr if is_error else sys.stdout):
            print_to_terminal(job_id, lines, is_error)

    with Session(settings_of(arguments.set), arguments.task_managers, print_lines) as session:
        return run_script(text, session, arguments, line)


def read_script(path: str) -> str:
    """The file's text. UserError SS5001 when it cannot be read."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        return text.removeprefix("\ufeff")  # the mark that some editors put first
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            "SS5001", f'cannot read "{path}": {reason}', hint="give the path of a SQL file"
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(
            "SS5001",
            f'"{path}" is not UTF-8 text: {error.reason} at byte {error.start}',
            hint="give the path of a SQL file, or convert it to UTF-8",
        ) from error


def settings_of(pairs: list[str]) -> dict[str, str]:
    """`key=value` words as settings."""
    settings = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator:
            raise UserError("SS4001", f'"{pair}" is no setting', hint="write --set KEY=VALUE")
        settings[key.strip()] = value.strip()
    return settings


def parsed(text: str) -> tuple[Statement, ...]:
    """The statements of a script, all of them before the first one runs. UserError, also when there is none."""
    from planner.dialect.parser import parse_script

    statements = tuple(parse_script(text))
    if not statements:
        raise UserError("SS1003", "the script holds no statement", hint="write a statement that ends with ;")
    return statements


def run_script(text: str, session: Session, arguments: argparse.Namespace, line: LiveLine) -> int:
    """Run the statements of a script; errors underline its text."""
    try:
        for statement in parsed(text):
            try:
                code = _show(session.execute(statement), text, session, arguments, line)
            except UserError as error:
                raise error.at(statement.span) from None
            if code:
                return code
    except UserError as error:
        print(render_error(error, text), file=sys.stderr)
        return 2
    return 0


def _show(
    outcome: Outcome, text: str, session: Session, arguments: argparse.Namespace, line: LiveLine
) -> int:
    from client.session import Job, Rows, Text

    match outcome:
        case Text(plan):
            print(plan)
        case Rows(is_confirmation=True):
            # OK says nothing that the exit code does not say.
            return 0
        case Rows(schema, batches) if schema.names == ("result",) and arguments.format == "table":
            # SHOW CREATE: a statement's lines, cut to a cell, would be of no use.
            print(*(text for batch in batches for text in batch.column(0).to_pylist()), sep="\n")
        case Rows(schema, batches):
            renderer = _renderer(schema, False, session, arguments, is_cut=False)
            for batch in batches:
                renderer.write(batch)
            renderer.finish()
        case Job():
            return _follow(outcome, text, session, arguments, line)
    return 0


def _renderer(
    schema: Schema,
    with_op: bool,
    session: Session,
    arguments: argparse.Namespace,
    is_cut: bool = True,
) -> Renderer:
    """`is_cut`: whether the cells of a table have a maximal width, as those of unknown rows do."""
    from client.render import make_renderer
    from sqlstream import config

    width = int(config.get(session.config, "table.display.max-column-width")) if is_cut else sys.maxsize
    time_zone = str(config.get(session.config, "table.local-time-zone"))
    return make_renderer(arguments.format, schema, with_op=with_op, max_width=width, time_zone=time_zone)


def _follow(job: Job, text: str, session: Session, arguments: argparse.Namespace, line: LiveLine) -> int:
    """Print a job's rows and progress until it has ended. Ctrl-C cancels it, then interrupts the script."""
    from client.progress import Progress
    from sqlstream.messages.job_state import JobStatus

    started = time.monotonic()
    try:
        with Progress(job.label, job.metrics, line) if not arguments.quiet else contextlib.nullcontext():
            if job.schema is not None:
                _print_rows(job, session, arguments, line)
            status, error = job.wait()
    except KeyboardInterrupt:
        job.cancel()
        with contextlib.suppress(TimeoutError):
            job.wait(CANCEL_TIMEOUT_S)
        raise
    if status is not JobStatus.FINISHED:
        if error is not None:
            print(render_error(error, text), file=sys.stderr)
        else:
            print(f"job {job.id} was {status.value.lower()}", file=sys.stderr)
        return 1
    if not arguments.quiet and job.schema is None:
        from client.progress import closing_text

        print(closing_text(job.label, job.metrics().total, time.monotonic() - started), file=sys.stderr)
    return 0


def _print_rows(job: Job, session: Session, arguments: argparse.Namespace, line: LiveLine) -> None:
    from client.render import final_rows
    from sqlstream.messages.job_state import JobStatus

    assert job.schema is not None
    is_changelog = arguments.changelog or not job.is_bounded
    with line.cleared(sys.stdout):
        renderer = _renderer(job.schema, is_changelog, session, arguments)
    for batch in job.rows() if is_changelog else final_rows(job.schema, job.rows()):
        with line.cleared(sys.stdout):
            renderer.write(batch)
    # A table is printed whole or not at all: half a result looks like a result.
    if is_changelog or job.wait()[0] is JobStatus.FINISHED:
        with line.cleared(sys.stdout):
            renderer.finish()
