"""`sqlstream submit FILE.sql`: every statement of a file in one session of a server, where its jobs run on."""

from __future__ import annotations

import argparse
import io
import json
import sys
from typing import TYPE_CHECKING, Any

from sqlstream.client.commands.server_arguments import SERVER_EPILOG, add_server_arguments, server_address
from sqlstream.errors import UserError

if TYPE_CHECKING:
    from sqlstream.client.connection import Connection, StatementResult
    from sqlstream.planner.dialect.statements import Statement

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
    from sqlstream.client.connection.http_connection import HttpConnection
    from sqlstream.client.script_text import parsed, read_script
    from sqlstream.errors import render_error

    text = read_script(arguments.file)
    config = {"pipeline.name": arguments.name} if arguments.name else {}
    try:
        # All of them are parsed before the first one runs.
        statements = parsed(text)
        with HttpConnection(server_address(arguments), config, "sqlstream submit") as connection:
            for statement in statements:
                if code := _run(statement, text, connection, arguments):
                    return code
    except UserError as error:
        print(render_error(error, text), file=sys.stderr)
        return 2
    return 0


def _run(statement: Statement, text: str, connection: Connection, arguments: argparse.Namespace) -> int:
    """Run one statement and show its answer. UserError with its place in the script."""
    from sqlstream.client.connection import ResultKind
    from sqlstream.errors import line_and_column

    try:
        with connection.execute(statement.text) as result:
            show = _Shown(line_and_column(text, statement.span.start)[0], result, arguments.json)
            if result.note:
                print(result.note, file=sys.stderr)
            match result.kind:
                case ResultKind.JOB:
                    return show.job(text, arguments.detached)
                case ResultKind.CONFIRMATION | ResultKind.TEXT:
                    show.text()
                    return 1 if result.is_failure else 0
                case _:
                    show.rows()
    except UserError as error:
        if error.span is not None:
            error.span = error.span.shift(statement.span.start)
        raise error.at(statement.span) from None
    return 0


class _Shown:
    """Shows the answer to the statement that begins in `line` of the script."""

    def __init__(self, line: int, result: StatementResult, is_json: bool) -> None:
        self._line = line
        self._result = result
        self._is_json = is_json

    def _print_json(self, **members: Any) -> None:
        said = {"line": self._line, "kind": self._result.kind.value, **members}
        print(json.dumps(said, ensure_ascii=False), flush=True)

    def _print_rows(self, objects: list[str]) -> None:
        """The rows as the renderer wrote them: to read them again would lose digits of DECIMAL and BIGINT."""
        said = json.dumps({"line": self._line, "kind": self._result.kind.value}, ensure_ascii=False)
        print(f'{said[:-1]}, "rows": [{", ".join(filter(None, objects))}]}}', flush=True)

    def text(self) -> None:
        from sqlstream.client.connection import ResultKind

        if self._is_json:
            self._print_json(text=self._result.text)
        elif self._result.kind is ResultKind.TEXT:
            print(self._result.text)
        elif sys.stderr.isatty():
            print(self._result.text, file=sys.stderr)

    def rows(self) -> None:
        """Print the final rows. UserError SS4045 for a query that has none."""
        from sqlstream.client.held_rows import held_final_rows
        from sqlstream.client.rendering.render import make_renderer
        from sqlstream.client.rendering.terminal import columns_of

        result, schema = self._result, self._result.schema
        assert schema is not None
        if not result.is_bounded:
            raise UserError(
                "SS4045",
                "the rows of an unbounded query never end, and this command prints final rows",
                hint="write them into a table with INSERT INTO, or use: sqlstream shell --connect URL",
            )
        with held_final_rows(schema, result.batches()) as held:
            out = io.StringIO() if self._is_json else sys.stdout
            renderer = make_renderer(
                "json" if self._is_json else "table",
                schema,
                with_op=False,
                columns=columns_of(sys.stdout),
                out=out,
            )
            for batch in held:
                renderer.write(batch)
            renderer.finish()
        if isinstance(out, io.StringIO):
            self._print_rows(out.getvalue().removesuffix("\n").split("\n"))
        self._warn(result.warnings())

    def job(self, text: str, is_detached: bool) -> int:
        """Name the job, and follow it unless it is detached."""
        result = self._result
        if is_detached:
            if self._is_json:
                self._print_json(jid=result.job_id, label=result.label)
            else:
                print(f"job {result.job_id}: {result.label}")
            return 0
        return self._follow(text)

    def _follow(self, text: str) -> int:
        from sqlstream.client.following.followed_job import follow
        from sqlstream.client.following.progress import Progress
        from sqlstream.client.rendering.live_line import LiveLine

        result = self._result
        try:
            if not self._is_json:
                print(f"job {result.job_id}: {result.label}", file=sys.stderr)
            end = follow(result, Progress(result.label, result.metrics, LiveLine()))
        except KeyboardInterrupt:
            print(
                f"job {result.job_id} runs on; end it with: sqlstream cancel {result.job_id}", file=sys.stderr
            )
            raise
        if self._is_json:
            self._print_json(
                jid=result.job_id,
                label=result.label,
                state=end.reply.status.value,
                totals=end.total,
                warnings=end.warnings,
            )
        elif end.closing:
            print(end.closing, file=sys.stderr)
        self._warn(end.warnings)
        if not end.is_finished:
            print(end.failure(text), file=sys.stderr)
        return 0 if end.is_finished else 1

    def _warn(self, lines: list[str]) -> None:
        from sqlstream.terminal_text import shown

        for line in lines if not self._is_json else ():
            print(shown(line), file=sys.stderr)
