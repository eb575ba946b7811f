"""How a statement of a gateway's session is executed, and what its outcome is as the answer of an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlstream import config as settings
from sqlstream.client.following.followed_job import ended_error
from sqlstream.client.gateway.operations import Operation, OperationResult
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.results import ResultPages
from sqlstream.client.sessions.outcomes import (
    JOB_ID,
    TEXT,
    Job,
    LiteralResults,
    Outcome,
    Rows,
    Text,
    literal_batches,
)
from sqlstream.errors import UserError
from sqlstream.messages.job_state import JobStatus

if TYPE_CHECKING:
    from sqlstream.client.sessions.session import Session
    from sqlstream.messages.rpc import JobStatusReply
    from sqlstream.planner.dialect.statements import Statement
    from sqlstream.runtime.net.results import JobResults


def answer(outcome: Outcome, time_zone: str, options: GatewayOptions) -> OperationResult:
    """Rows of a statement without a job, the text of EXPLAIN, the rows of a query as they come, or the job id of an INSERT."""
    job = outcome if isinstance(outcome, Job) else None
    read_job: Job | None = None
    rows: JobResults
    match outcome:
        case Rows():
            rows = LiteralResults(outcome.batches)
        case Text(text):
            rows = LiteralResults(literal_batches(TEXT, ((text,),)))
        case Job() if outcome.schema is None:
            rows = LiteralResults(literal_batches(JOB_ID, ((outcome.id,),)))
        case Job():
            rows, read_job = outcome.results(), outcome
    pages = ResultPages(rows, options.page_rows_max, options.page_bytes_max, read_job)
    return OperationResult(outcome.facts, pages, time_zone, job)


Execute = Callable[[Operation, Callable[[], None]], bool]
"""Executes an operation; True when it settles later, and `done` is called then."""


class Execution:
    """Executes operations in one session of the engine, on the thread that calls. State: none but the session's."""

    def __init__(self, session: Session, options: GatewayOptions) -> None:
        self._session = session
        self._options = options

    def execute(self, operation: Operation, done: Callable[[], None]) -> bool:
        """Run one statement. An INSERT is answered at once, or with `table.dml-sync` when its job has ended."""
        from sqlstream.client.sessions.outcomes import Job
        from sqlstream.planner.dialect.parser import parse_statement

        outcome = self._run(parse_statement(operation.text))
        if isinstance(outcome, Job) and outcome.schema is None and self._is_synchronous():
            self._settle_with(outcome, operation, done)
            return True
        operation.finish(self._answer(outcome))
        return False

    def configure(self, operation: Operation, done: Callable[[], None]) -> bool:
        """Run a statement that changes the session or its catalog. UserError SS6027 for any other."""
        from sqlstream.planner.dialect.parser import parse_statement

        statement = parse_statement(operation.text)
        if not _is_configuration(statement):
            raise UserError(
                "SS6027",
                "a session is configured by CREATE, DROP, ALTER, USE, SET and RESET alone",
                span=statement.span,
            )
        operation.finish(self._answer(self._run(statement)))
        return False

    def run_script(self, operation: Operation, done: Callable[[], None]) -> bool:
        """Run all statements of a script, without waiting for its jobs. UserError SS6028 for a query, before any runs."""
        from sqlstream.planner.dialect.parser import parse_script
        from sqlstream.planner.dialect.statements import Query

        statements = parse_script(operation.text)
        if not statements:
            hint = "write a statement that ends with ;"
            raise UserError("SS1003", "the script holds no statement", hint=hint)
        for statement in statements:
            if isinstance(statement, Query):
                raise UserError(
                    "SS6028", "nobody reads the rows of a query in a deployed script", span=statement.span
                )
        outcomes = [self._run(statement) for statement in statements]
        operation.finish(self._answer(outcomes[-1]))
        return False

    def _run(self, statement: Statement) -> Outcome:
        try:
            return self._session.execute(statement)
        except UserError as error:
            raise error.at(statement.span) from None

    def _answer(self, outcome: Outcome) -> OperationResult:
        time_zone = str(settings.get(self._session.config, "table.local-time-zone"))
        return answer(outcome, time_zone, self._options)

    def _is_synchronous(self) -> bool:
        return bool(settings.get(self._session.config, "table.dml-sync"))

    def _settle_with(self, job: Job, operation: Operation, done: Callable[[], None]) -> None:
        """Settle the operation when the job has ended; no thread waits for that. One that is cancelled or closed before holds
        back its session no longer than that."""

        def ended(reply: JobStatusReply) -> None:
            if reply.status is JobStatus.FINISHED:
                operation.finish(self._answer(job))
            else:
                operation.fail(ended_error(reply))

        operation.when_settled(done)
        operation.wait_for(job)
        job.when_ended(ended)


def _is_configuration(statement: Statement) -> bool:
    from sqlstream.planner.dialect import statements as kinds

    creating = (kinds.CreateTable, kinds.CreateView, kinds.CreateDatabase, kinds.CreateCatalog)
    altering = (
        kinds.AlterTable,
        kinds.AlterTableOptions,
        kinds.AlterView,
        kinds.AlterDatabase,
        kinds.AlterCatalog,
        kinds.RenameObject,
    )
    dropping = (kinds.DropObject, kinds.DropDatabase, kinds.DropCatalog)
    if isinstance(statement, kinds.SetOption):
        return statement.option is not None
    if isinstance(statement, kinds.CreateTable) and statement.query is not None:
        return False
    return isinstance(statement, (*creating, *altering, *dropping, kinds.Use, kinds.ResetOption))
