"""`sqlstream verify [FILE.sql] [-c SQL]`: whether the queries have the same rows as streams and in batch."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sqlstream.client.arguments import (
    add_configuration_arguments,
    add_script_arguments,
    add_task_managers_argument,
    configuration_of,
    count,
)
from sqlstream.client.exit_codes import EXIT_FAILED, EXIT_OK, exit_code_of
from sqlstream.errors import ErrorsAt, SqlStreamError, line_and_column, render_error

if TYPE_CHECKING:
    from sqlstream.client.sessions.outcomes import Rows
    from sqlstream.client.sessions.session import Session
    from sqlstream.client.verification.outcome import Verification
    from sqlstream.planner.dialect.statements import Statement

EPILOG = """\
examples:
  sqlstream verify queries/getting_started.sql
  sqlstream verify --using spark --set parallelism.default=2 report.sql
  sqlstream verify tables.sql -c "SELECT origin, COUNT(*) FROM flights GROUP BY origin"
  sqlstream verify --json report.sql | jq '.[] | select(.is_equal | not)'

Runs each query of the file, that of each INSERT too, as a stream and in batch, and compares the rows. Nothing is written into the
tables of INSERTs. DDL and SET statements take effect, other statements are left out.

Where rows differ it prints the first keys with both rows, the rows of the tables that they were made of, and what may explain it:
late, undecodable, dropped and expired rows, ties, and sums of floats.

Exit code: 0 all are equal, 1 rows differ or a job failed, 2 a statement was refused.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_script_arguments(parser, "to verify")
    parser.add_argument("--using", choices=("duckdb", "spark"), default="", help="the batch engine")
    parser.add_argument("--json", action="store_true", help="print one JSON array with all that was found")
    parser.add_argument(
        "--limit",
        type=count,
        metavar="N",
        help="show this many differing keys (sqlstream.verify.keys-max)",
    )
    parser.add_argument(
        "--tolerance",
        metavar="X",
        help="take floats as equal that differ by no more than X of their value (sqlstream.verify.float-tolerance)",
    )
    add_configuration_arguments(parser)
    add_task_managers_argument(parser)


def execute(arguments: argparse.Namespace) -> int:
    """0 when all queries have equal rows, 1 when one has not or a job failed, 2 for a wrong statement."""
    import msgspec

    from sqlstream.client.script_text import scripts_of

    texts = scripts_of(arguments)
    found: list[Verification] = []
    code = _verify_all(texts, arguments, found)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    return code


def _verify_all(texts: list[str], arguments: argparse.Namespace, found: list[Verification]) -> int:
    """Append to `found` until a statement fails; returns the exit code."""
    from sqlstream import config
    from sqlstream.client.sessions.target_session import target_session

    configuration = configuration_of(arguments)
    for note in configuration.notes:
        print(note, file=sys.stderr)
    with target_session(configuration.for_target, arguments.task_managers) as session:
        for key, value in _settings(arguments).items():
            current, _, note = config.settle(key, value, at_start=True)
            session.config[current] = value
            if note:
                print(note, file=sys.stderr)
        for text in texts:
            try:
                _verify(text, session, arguments, found)
            except SqlStreamError as error:
                print(render_error(error, text), file=sys.stderr)
                return exit_code_of(error)
    return EXIT_OK if all(each.is_equal for each in found) else EXIT_FAILED


def _settings(arguments: argparse.Namespace) -> dict[str, str]:
    given = {
        "sqlstream.verify.keys-max": arguments.limit,
        "sqlstream.verify.float-tolerance": arguments.tolerance,
    }
    return {key: str(value) for key, value in given.items() if value is not None}


def _verify(text: str, session: Session, arguments: argparse.Namespace, found: list[Verification]) -> None:
    from sqlstream.client.script_text import parsed
    from sqlstream.client.sessions.outcomes import Rows

    for statement in parsed(text):
        with ErrorsAt(statement.span):
            verified = _verified(statement, session, arguments.using)
            if verified is None:
                continue
            if isinstance(verified, Rows):
                if verified.note:
                    print(verified.note, file=sys.stderr)
                continue
        found += verified
        if not arguments.json:
            line, _ = line_and_column(text, statement.span.start)
            _print(verified, line)


def _verified(statement: Statement, session: Session, engine: str) -> list[Verification] | Rows | None:
    """What was found of a query, the answer of DDL and SET; None for a statement that is left out."""
    from sqlstream.client.sessions.outcomes import Rows
    from sqlstream.client.verification.statements import verifications
    from sqlstream.planner.dialect import statements as kinds

    match statement:
        case kinds.Query() | kinds.Insert() | kinds.StatementSet():
            return verifications(kinds.Verify(statement.text, statement.span, statement, engine), session)
        case kinds.Verify() | kinds.VerifyJob():
            return verifications(statement, session)
        case (
            kinds.Explain()
            | kinds.ExplainUpgrade()
            | kinds.ExplainWhy()
            # Nothing is written or stopped.
            | kinds.Update()
            | kinds.Delete()
            | kinds.Truncate()
            | kinds.CompilePlan()
            | kinds.ExecutePlan()
            | kinds.CallProcedure()
            | kinds.AnalyzeTable()
            | kinds.Canary()
            | kinds.StopJob()
            | kinds.Show()
            | kinds.ShowCheckpoints()
            | kinds.ShowLedger()
            | kinds.Describe()
            | kinds.DescribeJob()
            | kinds.DiagnoseJob()
        ):
            return None
    outcome = session.execute(statement)
    return outcome if isinstance(outcome, Rows) else None


def _print(verified: list[Verification], line: int) -> None:
    from sqlstream.client.verification.outcome import verification_text

    for each in verified:
        print(f"{each.statement} at line {line}: {verification_text(each)}\n", flush=True)
