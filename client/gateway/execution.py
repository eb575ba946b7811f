"""How a statement of a gateway's session is executed, and what its outcome is as the answer of an operation."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlstream import config as settings
from sqlstream.cancellation import PlanningWatch
from sqlstream.client.following.followed_job import ended_error
from sqlstream.client.gateway.operations import Operation, OperationResult
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.results import ResultPages
from sqlstream.client.sessions.effects import job_effects
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
from sqlstream.client.sessions.submission import id_of_another, known_job
from sqlstream.errors import ErrorsAt, ExternalError, JobError, UserError
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

    def __init__(
        self,
        session: Session,
        options: GatewayOptions,
        keep: Callable[[Operation], None] = lambda operation: None,
        last_change: str = "",
    ) -> None:
        """`keep` is called when an operation may have changed the session, before anybody is answered; `last_change` is the
        handle of the operation that was the last to do so."""
        self._session = session
        self._options = options
        self._keep = keep
        self._last_change = last_change

    def execute(self, operation: Operation, done: Callable[[], None]) -> bool:
        """Run one statement. An INSERT is answered at once, or with `table.dml-sync` when its job has ended."""
        from sqlstream.planner.dialect.parser import parse_statement

        statement = parse_statement(operation.text)
        if operation.is_repeated:
            outcome = self._repeated(statement, operation)
        else:
            outcome = self._named(statement, operation.job_id, self._started_job(statement, operation))
        self._keep(operation)
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
        outcome = self._run(statement)
        self._keep(operation)
        operation.finish(self._answer(outcome))
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

    def _started_job(self, statement: Statement, operation: Operation) -> Job | None:
        """The job of the operation's id, which a statement that starts one may have started; None when there is none. UserError
        SS6008 for one that no statement of the session's user can have started."""
        if not operation.job_id or not _starts_job(statement):
            return None
        with ErrorsAt(statement.span):
            return known_job(operation.job_id, self._session.cluster, self._session.owner)

    def _named(self, statement: Statement, job_id: str, known: Job | None) -> Outcome:
        """Run a statement whose job, if it starts one, has this id. UserError SS6008 when a job has it."""
        if known is not None:
            raise id_of_another(job_id).at(statement.span)
        with self._session.naming_job(job_id if _starts_job(statement) else ""):
            return self._run(statement)

    def _repeated(self, statement: Statement, operation: Operation) -> Outcome:
        """Run a statement that an earlier server may have executed. Its job has the id of the operation: one that this cluster
        knows is the answer. Its change of the session was kept with the operation. ExternalError SS6091 for a statement that can
        not be run twice."""
        from sqlstream.planner.dialect import statements as kinds

        if operation.handle == self._last_change:
            return Rows(TEXT, literal_batches(TEXT, (("OK",),)), "OK")
        if isinstance(statement, kinds.Query):
            # Its rows are lost with its job. A query changes nothing.
            return self._run(statement)
        job = self._started_job(statement, operation)
        if job is not None:
            self._session.permit.require(job_effects(self._session.cluster.job_graph(job.id)), statement.span)
            if isinstance(statement, kinds.EndStatementSet):
                self._session.go_on_with(None)
            return job
        if isinstance(statement, kinds.CallProcedure | kinds.StopJob | kinds.CompilePlan):
            raise ExternalError(
                "SS6091",
                "the statement was sent before, and its answer was lost with the server: it may have had its effect",
                hint="look whether it had before you send it again",
            )
        try:
            return self._named(statement, operation.job_id, None)
        except UserError as error:
            said = "the statement was sent before, and its answer was lost with the server: it may have taken effect"
            error.detail = f"{error.detail}; {said}" if error.detail else said
            raise

    def _run(self, statement: Statement) -> Outcome:
        with ErrorsAt(statement.span):
            return self._session.execute(statement)

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


def _starts_job(statement: Statement) -> bool:
    from sqlstream.planner.dialect import statements as kinds

    if isinstance(statement, kinds.CreateTable | kinds.CreateModel):
        return statement.query is not None
    of_plan = kinds.CompilePlan | kinds.ExecutePlan
    return isinstance(statement, kinds.WritingStatement | of_plan | kinds.EndStatementSet)


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


# Who plans next: the long statements of one user take turns, so that they leave most of the processor to others.
#
# Threads share one interpreter, which gives each that is busy an equal part. A user who starts fifty statements that
# take minutes to plan would have fifty parts. Here each has as many as the option allows; statements that are planned
# quickly never wait.


SHORT_S = 0.1
"""A statement that has taken less CPU time than this waits for no turn."""

CHECKS_PER_LOOK = 64
"""How often the planner asks between two looks at the clock."""

WAIT_S = 0.1
"""How soon a statement that waits for its turn notices that it was given up."""


class PlanningTurns:
    """Gives turns to long statements, `per_user_max` at a time to each user, of whom `waiting_max` may wait. Thread-safe.
    State: who has how many, and how many of each wait."""

    def __init__(self, per_user_max: int, cpu_max_s: float, waiting_max: int = 100) -> None:
        self._per_user_max = per_user_max
        self._waiting_max = waiting_max
        self._waiting: Counter[str] = Counter()
        self.cpu_max_s = cpu_max_s
        self._changed = threading.Condition()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def planning(self, user: str, given_up: threading.Event) -> Iterator[Planning]:
        """For the time in which the calling thread executes a statement of the user."""
        planning = Planning(self, user, given_up)
        try:
            yield planning
        finally:
            planning.release()

    def take(self, user: str, given_up: threading.Event) -> bool:
        """Wait for a turn; False when the statement is given up before. JobError SS6042 when too many of the user wait: each
        holds a thread of the gateway."""
        with self._changed:
            if self._waiting[user] >= self._waiting_max:
                raise JobError("SS6042", f"{self._waiting_max} statements of the user wait to be planned")
            self._waiting[user] += 1
            try:
                while not given_up.is_set():
                    if self._changed.wait_for(lambda: self._taken[user] < self._per_user_max, WAIT_S):
                        self._taken[user] += 1
                        return True
                return False
            finally:
                self._waiting[user] -= 1
                if not self._waiting[user]:
                    del self._waiting[user]

    def give_back(self, user: str) -> None:
        with self._changed:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]
            self._changed.notify_all()


class Planning(PlanningWatch):
    """One statement that is planned, on one thread. State: the CPU time that it had at its start, and whether it has a turn."""

    def __init__(self, turns: PlanningTurns, user: str, given_up: threading.Event) -> None:
        self._turns = turns
        self._user = user
        self._given_up = given_up
        self._begun_s = time.thread_time()
        self._checks = 0
        self._has_turn = False

    def is_set(self) -> bool:
        return self._given_up.is_set()

    def look(self) -> None:
        """Called by the planner again and again. JobError SS6041 when the statement has taken too much time."""
        self._checks += 1
        if self._checks % CHECKS_PER_LOOK:
            return
        cpu_s = time.thread_time() - self._begun_s
        if cpu_s > self._turns.cpu_max_s:
            raise JobError("SS6041", f"the statement was planned for more than {self._turns.cpu_max_s:g} s")
        if cpu_s > SHORT_S and not self._has_turn:
            self._has_turn = self._turns.take(self._user, self._given_up)

    def on_planned(self) -> None:
        self.release()
        self._begun_s = time.thread_time()

    def release(self) -> None:
        """Let another statement of the user be planned; harmless when repeated."""
        if self._has_turn:
            self._has_turn = False
            self._turns.give_back(self._user)
