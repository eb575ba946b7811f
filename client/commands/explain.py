"""`sqlstream explain [FILE.sql] [-c SQL]`: the plans of queries, without running them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sqlstream.client.arguments import add_configuration_arguments, add_script_arguments, configuration_of
from sqlstream.errors import UserError, line_and_column, render_error

if TYPE_CHECKING:
    from sqlstream.client.sessions.session import Session

EPILOG = """\
examples:
  sqlstream explain queries/getting_started.sql
  sqlstream explain --set parallelism.default=2 queries/nexmark/q5.sql
  sqlstream explain tables.sql -c "SELECT COUNT(*) FROM clicks"
  sqlstream explain --state queries/nexmark/q18.sql

Prints every stage down to the JobGraph for each query and INSERT, with the changelog mode, distribution, watermark and
state of every operator. With --state: what each operator keeps, for how long, its bytes and what bounds it. DDL and SET
statements take effect; jobs do not run, so VERIFY is left out, and so is STOP JOB.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_script_arguments(parser, "to explain")
    parser.add_argument(
        "--state", action="store_true", help="print what operators keep, as EXPLAIN STATE does"
    )
    add_configuration_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0, or 2 for a wrong statement."""
    from sqlstream.client.script_text import scripts_of
    from sqlstream.client.sessions.target_session import local_session

    texts = scripts_of(arguments)
    with local_session(configuration_of(arguments).for_jobs) as session:
        for text in texts:
            try:
                _explain(text, session, arguments.state)
            except UserError as error:
                print(render_error(error, text), file=sys.stderr)
                return 2
    return 0


def _explain(text: str, session: Session, is_of_state: bool) -> None:
    from sqlstream.client.script_text import parsed
    from sqlstream.client.sessions.outcomes import Rows, Text
    from sqlstream.client.statements.explain import explain_plan_of, explain_state_of
    from sqlstream.planner.dialect.statements import (
        AnalyzeTable,
        CallProcedure,
        CompilePlan,
        ExecutePlan,
        Explain,
        StopJob,
        Verify,
        VerifyJob,
        WritingStatement,
    )

    for statement in parsed(text):
        if isinstance(statement, WritingStatement):
            line, _ = line_and_column(text, statement.span.start)
            explained = (explain_state_of if is_of_state else explain_plan_of)(statement, session)
            print(f"-- statement at line {line}\n{explained}\n")
            continue
        is_run = isinstance(statement, CompilePlan | ExecutePlan) and not (
            isinstance(statement, ExecutePlan) and statement.is_explained
        )
        is_run = is_run or isinstance(statement, CallProcedure | AnalyzeTable)
        if is_run or isinstance(statement, Verify | VerifyJob | StopJob):
            # It would run jobs or write a plan, or end one.
            continue
        outcome = session.execute(statement)
        if isinstance(outcome, Text) and isinstance(statement, Explain):
            print(outcome.text)
        elif isinstance(outcome, Rows) and outcome.note:
            print(outcome.note, file=sys.stderr)
