"""One user's session: what becomes of each statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlstream.catalog import CatalogConflict, CatalogTable, PutObject
from sqlstream.client.sessions.effects import changes_effects, job_effects
from sqlstream.client.sessions.outcomes import Job, Outcome, Rows, Text, literal_batches
from sqlstream.client.sessions.planning import PlanningSession, check_table
from sqlstream.client.sessions.submission import refuse_shared_weights
from sqlstream.errors import ErrorsAt, ExternalError, UserError
from sqlstream.models import WEIGHTS_PATH
from sqlstream.spark import refuse_launch_key

if TYPE_CHECKING:
    from sqlstream.planner.batch import CompiledBatch
    from sqlstream.planner.compile import CompiledPlan
    from sqlstream.planner.dialect.statements import (
        AnalyzeTable,
        CallProcedure,
        CreateModel,
        CreateTable,
        Show,
        Statement,
    )
    from sqlstream.planner.statements.result import DdlResult

SET_INSERTS_MAX = 1000
"""How many INSERTs a statement set may have that is sent one by one."""

CONFLICTS_MAX = 100
"""How often a DDL statement is planned anew because another session has changed the same object of a catalog."""


class Session(PlanningSession):
    """One user's session. Runs statements in the order of the calls, which come one at a time. State beside that of its base: the
    texts of the INSERTs of a statement set that has begun and not ended, or None."""

    _statement_set: list[str] | None = None

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + sum(map(len, self._statement_set or ()))

    @property
    def statement_set(self) -> tuple[str, ...] | None:
        """The INSERTs of the statement set that has begun, None while there is none."""
        return None if self._statement_set is None else tuple(self._statement_set)

    def go_on_with(self, statement_set: Sequence[str] | None) -> None:
        """Have begun a statement set with these INSERTs, in a session that another process has opened."""
        self._statement_set = None if statement_set is None else list(statement_set)

    def execute(self, statement: Statement) -> Outcome:
        """Run one parsed statement; a query or INSERT is submitted, and not waited for. UserError with a position."""
        from sqlstream.client.statements.jobs import execute_job_statement, is_job_statement
        from sqlstream.planner.dialect.statements import (
            AnalyzeTable,
            CallProcedure,
            Canary,
            CompilePlan,
            CreateModel,
            CreateTable,
            ExecutePlan,
            Explain,
            ExplainUpgrade,
            ExplainWhy,
            Show,
            Verify,
            VerifyJob,
            WritingStatement,
        )

        if (kept := self._of_statement_set(statement)) is not None:
            return kept
        if isinstance(statement, AnalyzeTable | CallProcedure | Show) and (answer := self._told(statement)):
            return answer
        if is_job_statement(statement):
            return execute_job_statement(statement, self)
        if isinstance(statement, Explain):
            from sqlstream.client.statements.explain import execute_explain

            return execute_explain(statement, self)
        if isinstance(statement, ExplainWhy):
            from sqlstream.client.statements.why import execute_explain_why

            return execute_explain_why(statement, self)
        if isinstance(statement, ExplainUpgrade):
            from sqlstream.client.statements.upgrade import explain_upgrade

            return Text(explain_upgrade(statement, self))
        if isinstance(statement, Canary):
            from sqlstream.client.statements.canary import execute_canary

            return execute_canary(statement, self)
        if isinstance(statement, WritingStatement):
            return self._started(self.compile(statement, job_id=self.new_job_id()), statement)
        if isinstance(statement, CreateTable | CreateModel) and statement.query is not None:
            return self._create_filled(statement)
        if isinstance(statement, CompilePlan | ExecutePlan):
            from sqlstream.client.statements.plan_files import compile_plan, execute_plan

            if isinstance(statement, CompilePlan):
                return compile_plan(statement, self)
            return execute_plan(statement, self)
        if isinstance(statement, Verify | VerifyJob):
            from sqlstream.client.verification.statements import execute_verify

            return execute_verify(statement, self)
        return self._apply(statement)

    def _of_statement_set(self, statement: Statement) -> Outcome | None:
        """The answer to what concerns the statement set that the session has begun: each INSERT is bound, so that it is refused
        at its place, and waits for END. None for every other statement while there is no set. UserError SS2038 for what has no
        place in a set, or no set."""
        from sqlstream.planner.bind.sink import bind_sinks
        from sqlstream.planner.dialect.statements import BeginStatementSet, EndStatementSet, Insert

        waiting = self._statement_set
        if isinstance(statement, EndStatementSet):
            return self._end_statement_set(statement)
        if isinstance(statement, BeginStatementSet):
            if waiting is not None:
                hint = "add an INSERT INTO, or END the set"
                raise UserError("SS2038", "a statement set has begun already", span=statement.span, hint=hint)
            self._statement_set = []
            return self._rows_of(_ok("statement set begun: END runs it"))
        if waiting is None:
            return None
        if not isinstance(statement, Insert) or len(waiting) >= SET_INSERTS_MAX:
            said = "a statement set holds INSERT INTO statements alone"
            if isinstance(statement, Insert):
                said = f"a statement set holds at most {SET_INSERTS_MAX} INSERTs"
            raise UserError("SS2038", said, span=statement.span, hint="END the set first")
        bind_sinks(statement, self.context_of(statement))
        waiting.append(statement.text)
        return self._rows_of(_ok("added to the statement set"))

    def _end_statement_set(self, statement: Statement) -> Outcome:
        """Run the INSERTs that wait as one job. The set is over also when that fails."""
        from sqlstream.planner.dialect.parser import parse_statement

        waiting, self._statement_set = self._statement_set, None
        if waiting is None:
            hint = "begin one: BEGIN STATEMENT SET"
            raise UserError("SS2038", "no statement set has begun", span=statement.span, hint=hint)
        if not waiting:
            return self._rows_of(_ok("the statement set is empty: nothing runs"))
        try:
            return self.execute(parse_statement(f"EXECUTE STATEMENT SET BEGIN {'; '.join(waiting)}; END"))
        except UserError as error:
            # Its place is one in the text of the whole set.
            error.span = statement.span
            raise

    def _told(self, statement: AnalyzeTable | CallProcedure | Show) -> Rows | None:
        """The answer to a statement that looks at tables or does something with jobs; None for a SHOW of the catalog."""
        from sqlstream.client.statements.procedures import call_procedure, procedure_names
        from sqlstream.client.statements.table_statistics import analyze_table, show_partitions
        from sqlstream.planner.dialect.statements import AnalyzeTable, CallProcedure, ShowKind
        from sqlstream.planner.statements.show import filtered_names

        if isinstance(statement, AnalyzeTable):
            return analyze_table(statement, self)
        if isinstance(statement, CallProcedure):
            return call_procedure(statement, self)
        if statement.kind is ShowKind.PARTITIONS:
            return show_partitions(statement, self)
        if statement.kind is ShowKind.PROCEDURES:
            names = procedure_names(statement.name, self.bind_context())
            return self._rows_of(filtered_names(statement, "procedure name", names))
        return None

    def _started(self, plan: CompiledPlan | CompiledBatch, statement: Statement) -> Job:
        job = self.submit(plan)
        self.remember(job.id, plan.relational, len(statement.text))
        return job

    def _create_filled(self, statement: CreateTable | CreateModel) -> Outcome:
        """CREATE TABLE or MODEL … AS query: it is created once the job that fills or trains it is planned."""
        from sqlstream.planner.statements.create_as import created_by

        job_id = self.new_job_id()
        for _ in range(CONFLICTS_MAX):
            context = self.context_of(statement)
            created = created_by(statement, context)
            if created.sink is None:
                return self._rows_of(created.result)
            plan = self.compile_sinks((created.sink,), context, job_id)
            # Both, before the first of them happens.
            self.permit.require(changes_effects(created.result.changes) | job_effects(plan.job_graph))
            at_path = next((o.value_span for o in statement.options if o.key == WEIGHTS_PATH), None)
            refuse_shared_weights(plan.job_graph, self.cluster, at_path)
            try:
                self._make(created.result, statement)
            except CatalogConflict:
                continue
            return self._started(plan, statement)
        raise _too_fast()

    def _apply(self, statement: Statement) -> Rows:
        from sqlstream.planner.statements.execute import execute_ddl

        for _ in range(CONFLICTS_MAX):
            result = execute_ddl(statement, self.bind_context())
            try:
                self._make(result, statement)
            except CatalogConflict:
                # Another session was faster: the statement is planned upon what it left.
                continue
            return self._rows_of(result)
        raise _too_fast()

    @staticmethod
    def _rows_of(result: DdlResult) -> Rows:
        return Rows(result.schema, literal_batches(result.schema, result.rows), result.done, result.note)

    def _make(self, result: DdlResult, statement: Statement) -> None:
        """Make the changes of a statement, of which at most one is of a catalog."""
        from sqlstream.planner.statements.result import ResetConfig, SetConfig

        self.permit.require(changes_effects(result.changes), statement.span)
        for change in result.changes:
            match change:
                case SetConfig(key, value):
                    if self.is_served:
                        refuse_launch_key(key)
                    self._check_place(key, value, statement)
                    self.config[key] = value
                case ResetConfig(key):
                    self._reset(key)
                case _:
                    if isinstance(change, PutObject):
                        self._validate(change.entry, statement)
                    with ErrorsAt(statement.span):
                        self.catalog.apply(change)

    def _check_place(self, key: str, value: str, statement: Statement) -> None:
        """UserError for a directory of checkpoints that cannot be one, or that the server does not allow."""
        from sqlstream.runtime.checkpoint.places import PLACE_KEYS, check_places, with_absolute_places

        if key in PLACE_KEYS:
            with ErrorsAt(statement.span):
                check_places(with_absolute_places({key: value}), self.files())

    def _reset(self, key: str | None) -> None:
        """Return one setting, or all, to what it was at the start of the session."""
        keys = set(self.config) | set(self._first_config) if key is None else {key}
        for reset in keys:
            self.config.pop(reset, None)
            if reset in self._first_config:
                self.config[reset] = self._first_config[reset]

    def _validate(self, entry: object, statement: Statement) -> None:
        """Run the connector's own checks, which its descriptor cannot express."""
        from sqlstream.planner.dialect.statements import column_spans, option_places

        if not isinstance(entry, CatalogTable):
            return
        with option_places(statement).errors():
            try:
                check_table(entry)
            except UserError as error:
                error.at(column_spans(statement).get(error.column))
                raise


def _ok(done: str) -> DdlResult:
    from sqlstream.planner.statements.result import DdlResult

    return DdlResult.ok(done=done)


def _too_fast() -> ExternalError:
    """To be raised for a statement that is planned again and again, because what it was planned upon changes."""
    return ExternalError("SS5021", "the catalog changes too fast for the statement")
