"""`sqlstream run FILE.sql`: every statement of a file and of the command line, one after the other."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING

from sqlstream.client.arguments import (
    add_configuration_arguments,
    add_script_arguments,
    configuration_of,
    count,
)
from sqlstream.client.rendering.live_line import LiveLine
from sqlstream.client.rendering.render import FORMATS
from sqlstream.client.rendering.terminal import columns_of
from sqlstream.client.script_text import parsed, read_script
from sqlstream.errors import UserError, render_error
from sqlstream.terminal_text import shown

if TYPE_CHECKING:
    from sqlstream.client.following.followed_job import JobEnd
    from sqlstream.client.rendering.render import Renderer
    from sqlstream.client.sessions.outcomes import Job, Outcome
    from sqlstream.client.sessions.session import Session
    from sqlstream.planner.dialect.statements import Statement
    from sqlstream.schema import Schema

_MAX_WIDTH = "table.display.max-column-width"

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
    parser.add_argument(
        "--task-managers",
        type=count,
        metavar="N",
        help="start this many child processes for tasks at once (default: as many as jobs need)",
    )
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="no progress and no summary, only rows and warnings of lost rows",
    )


def execute(arguments: argparse.Namespace) -> int:
    """0 when all statements ran, 1 when a job failed or VERIFY has found a difference, 2 for a wrong statement."""
    from sqlstream.client.sessions.target_session import target_session

    if arguments.format == "arrow" and sys.stdout.isatty():
        raise UserError(
            "SS4005",
            "an Arrow stream is not for a terminal",
            hint="redirect it, as in: sqlstream run --format arrow FILE.sql > rows.arrow",
        )
    texts = scripts_of(arguments)
    line = LiveLine()

    def print_lines(job_id: str, lines: list[str], is_error: bool) -> None:
        from sqlstream.runtime.cluster_surroundings import print_to_terminal

        with line.cleared(sys.stderr if is_error else sys.stdout):
            print_to_terminal(job_id, lines, is_error)

    configuration = configuration_of(arguments)
    for note in configuration.notes:
        _tell(note, arguments)
    with target_session(configuration.for_target, arguments.task_managers, print_lines) as session:
        return run_scripts(texts, session, arguments, line)


def scripts_of(arguments: argparse.Namespace) -> list[str]:
    """The text of the file, if given, then the text of each -c. UserError SS4001 when there is neither."""
    if arguments.file is None and not arguments.statements:
        raise UserError(
            "SS4001", "there is nothing to run", hint='give a FILE, - for standard input, or -c "SQL"'
        )
    return [*([] if arguments.file is None else [read_script(arguments.file)]), *arguments.statements]


def run_scripts(texts: list[str], session: Session, arguments: argparse.Namespace, line: LiveLine) -> int:
    """Parse all scripts, then run their statements in order; returns the exit code. Errors underline the script's text."""
    scripts = []
    for text in texts:
        try:
            scripts.append((text, parsed(text)))
        except UserError as error:
            print(render_error(error, text), file=sys.stderr)
            return 2
    for text, statements in scripts:
        if code := _run_statements(text, statements, session, arguments, line):
            return code
    return 0


def _run_statements(
    text: str,
    statements: tuple[Statement, ...],
    session: Session,
    arguments: argparse.Namespace,
    line: LiveLine,
) -> int:
    try:
        for statement in statements:
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
    from sqlstream.client.sessions.outcomes import Job, Rows, Text

    match outcome:
        case Text(text=words):
            print(words)
            return 1 if outcome.is_failure else 0
        case Rows(done=done, note=note) if done:
            _tell(note, arguments)
            if sys.stderr.isatty():
                # Off a terminal the exit code is confirmation enough.
                _tell(done, arguments)
        case Rows(schema, batches) if schema.names == ("result",) and arguments.format == "table":
            # SHOW CREATE: a statement is printed whole, not cut to a cell.
            print(*(text for batch in batches for text in batch.column(0).to_pylist()), sep="\n")
        case Rows(schema, batches):
            renderer = _renderer(schema, False, session, arguments, is_answer=True)
            for batch in batches:
                renderer.write(batch)
            renderer.finish()
        case Job():
            return _follow(outcome, text, session, arguments, line)
    return 0


def _tell(words: str, arguments: argparse.Namespace) -> None:
    """Print a line on standard error, unless it is empty or --quiet is set."""
    if words and not arguments.quiet:
        print(shown(words), file=sys.stderr)


def _renderer(
    schema: Schema,
    with_op: bool,
    session: Session,
    arguments: argparse.Namespace,
    is_answer: bool = False,
) -> Renderer:
    """The renderer of --format. `is_answer`: the rows come from SHOW, DESCRIBE and the like, and nothing of them is cut."""
    from sqlstream import config
    from sqlstream.client.rendering.render import make_renderer

    width = None
    if _MAX_WIDTH in session.config and not is_answer:
        width = int(config.get(session.config, _MAX_WIDTH))
    return make_renderer(
        arguments.format,
        schema,
        with_op=with_op,
        max_width=width,
        columns=columns_of(sys.stdout),
        wraps=is_answer,
        time_zone=str(config.get(session.config, "table.local-time-zone")),
    )


def _follow(job: Job, text: str, session: Session, arguments: argparse.Namespace, line: LiveLine) -> int:
    """Print a job's rows and progress until it has ended. Ctrl-C cancels it, then interrupts the script."""
    from sqlstream.client.connection.embedded import EmbeddedResult
    from sqlstream.client.following.followed_job import cancel_and_wait, follow
    from sqlstream.client.following.progress import Progress

    for note in job.note.splitlines():
        _tell(note, arguments)
    result = EmbeddedResult(job)
    progress = Progress(job.label, job.metrics, line) if not arguments.quiet else contextlib.nullcontext()
    is_query = job.schema is not None
    try:
        end = follow(
            result, progress, (lambda: _print_rows(job, session, arguments, line)) if is_query else None
        )
    except KeyboardInterrupt:
        if (ended := cancel_and_wait(result)) is not None:
            _print_warnings(ended, arguments)
        raise
    if not is_query and end.closing:
        _tell(end.closing, arguments)
    _print_warnings(end, arguments)
    if not end.is_finished:
        print(end.failure(text), file=sys.stderr)
    return 0 if end.is_finished else 1


def _print_warnings(end: JobEnd, arguments: argparse.Namespace) -> None:
    """Lost rows are reported also with --quiet, expired state and restarts are not."""
    is_lost = True
    for words in end.warnings:
        # Each note has lines of its own behind it.
        is_lost = (is_lost or words.startswith("warning:")) and not words.startswith("note:")
        if is_lost or not arguments.quiet:
            print(shown(words), file=sys.stderr)


def _print_rows(job: Job, session: Session, arguments: argparse.Namespace, line: LiveLine) -> None:
    """Print a changelog as it arrives, or a final table once its job has finished: a part of it would look complete."""
    if arguments.changelog or not job.is_bounded:
        _print_changes(job, session, arguments, line)
    else:
        _print_final_rows(job, session, arguments, line)


def _print_changes(job: Job, session: Session, arguments: argparse.Namespace, line: LiveLine) -> None:
    from sqlstream.messages.job_state import JobStatus

    assert job.schema is not None
    with line.cleared(sys.stdout):
        renderer = _renderer(job.schema, True, session, arguments)
    for batch in job.rows():
        with line.cleared(sys.stdout):
            renderer.write(batch)
    # `finish` is left out when the job failed: the missing end shows that the changelog is incomplete.
    if job.wait()[0] is JobStatus.FINISHED:
        with line.cleared(sys.stdout):
            renderer.finish()


def _print_final_rows(job: Job, session: Session, arguments: argparse.Namespace, line: LiveLine) -> None:
    from sqlstream.client.held_rows import held_final_rows
    from sqlstream.messages.job_state import JobStatus

    assert job.schema is not None
    with held_final_rows(job.schema, job.rows()) as held:
        if job.wait()[0] is not JobStatus.FINISHED:
            return
        with line.cleared(sys.stdout):
            renderer = _renderer(job.schema, False, session, arguments)
            for batch in held:
                renderer.write(batch)
            renderer.finish()
