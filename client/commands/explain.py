"""`sqlstream explain [FILE.sql] [-c SQL]`: the plans of queries, without running them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sqlstream.client.arguments import add_configuration_arguments, add_script_arguments, configuration_of
from sqlstream.errors import UserError, line_and_column, render_error

if TYPE_CHECKING:
    from sqlstream.client.sessions.session import Session
    from sqlstream.planner.dialect.statements import WritingStatement

EPILOG = """\
examples:
  sqlstream explain queries/getting_started.sql
  sqlstream explain --set parallelism.default=2 queries/nexmark/q5.sql
  sqlstream explain tables.sql -c "SELECT COUNT(*) FROM clicks"
  sqlstream explain --state queries/nexmark/q18.sql
  sqlstream explain --savepoint /data/savepoints/savepoint-1f2e3d-0123456789ab changed.sql
  sqlstream explain --savepoint /data/savepoints/savepoint-1f2e3d-0123456789ab --json changed.sql

Prints every stage down to the JobGraph for each query and INSERT, with the changelog mode, distribution, watermark and
state of every operator. With --state: what each operator keeps, for how long, its bytes and what bounds it. With --savepoint:
what of the savepoint's state each statement would go on with, as EXPLAIN UPGRADE says it of a job; exit code 1 when one would be
refused. DDL and SET statements take effect; jobs do not run, so VERIFY, CANARY and STOP JOB are left out.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_script_arguments(parser, "to explain")
    parser.add_argument(
        "--state", action="store_true", help="print what operators keep, as EXPLAIN STATE does"
    )
    parser.add_argument(
        "--savepoint",
        metavar="PATH",
        help="print what each statement would go on with of this savepoint or checkpoint, as EXPLAIN UPGRADE does",
    )
    parser.add_argument("--json", action="store_true", help="with --savepoint: print an object per statement")
    add_configuration_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0; 1 when a statement would be refused by the savepoint, 2 for a wrong statement."""
    from sqlstream.client.script_text import scripts_of
    from sqlstream.client.sessions.target_session import local_session

    texts = scripts_of(arguments)
    if (arguments.json and not arguments.savepoint) or (arguments.state and arguments.savepoint):
        words = (
            "--json goes with --savepoint" if arguments.json else "--state and --savepoint are two questions"
        )
        raise UserError("SS4001", words, hint="sqlstream explain --help has examples")
    is_refused = False
    with local_session(configuration_of(arguments).for_jobs) as session:
        explained = _Explained(session, arguments)
        for text in texts:
            try:
                _explain(text, session, explained)
            except UserError as error:
                print(render_error(error, text), file=sys.stderr)
                return 2
        is_refused = explained.is_refused
    return 1 if is_refused else 0


class _Explained:
    """What is printed of each statement, as the arguments say. `is_refused`: one would not start from the savepoint."""

    def __init__(self, session: Session, arguments: argparse.Namespace) -> None:
        self._session = session
        self._arguments = arguments
        self.is_refused = False

    def __call__(self, statement: WritingStatement, line: int) -> str:
        from sqlstream.client.statements.explain import explain_plan_of, explain_state_of

        if not self._arguments.savepoint:
            explain = explain_state_of if self._arguments.state else explain_plan_of
            return f"-- statement at line {line}\n{explain(statement, self._session)}\n"
        import msgspec

        from sqlstream.client.statements.upgrade import upgrade_from_savepoint, upgrade_text

        found = upgrade_from_savepoint(self._arguments.savepoint, statement, self._session)
        self.is_refused |= found.is_refused
        if self._arguments.json:
            return msgspec.json.encode({"line": line, **msgspec.to_builtins(found)}).decode()
        return f"-- statement at line {line}\n{upgrade_text(found)}"


def _explain(text: str, session: Session, explained: _Explained) -> None:
    from sqlstream.client.script_text import parsed
    from sqlstream.client.sessions.outcomes import Rows, Text
    from sqlstream.planner.dialect.statements import (
        AnalyzeTable,
        CallProcedure,
        Canary,
        CompilePlan,
        ExecutePlan,
        Explain,
        ExplainUpgrade,
        StopJob,
        Verify,
        VerifyJob,
        WritingStatement,
    )

    for statement in parsed(text):
        if isinstance(statement, WritingStatement):
            line, _ = line_and_column(text, statement.span.start)
            print(explained(statement, line))
            continue
        is_run = isinstance(statement, CompilePlan | ExecutePlan) and not (
            isinstance(statement, ExecutePlan) and statement.is_explained
        )
        is_run = is_run or isinstance(statement, CallProcedure | AnalyzeTable)
        if is_run or isinstance(statement, Canary | Verify | VerifyJob | StopJob):
            # It would run jobs or write a plan, or end one.
            continue
        outcome = session.execute(statement)
        if isinstance(outcome, Text) and isinstance(statement, Explain | ExplainUpgrade):
            print(outcome.text)
        elif isinstance(outcome, Rows) and outcome.note:
            print(outcome.note, file=sys.stderr)
