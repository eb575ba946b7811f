"""One user's catalog and settings: the only place where the planner's plans meet the runtime's cluster."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from client.catalog.catalogs import memory_catalogs
from client.sessions.outcomes import Job, Outcome, Rows, Text, literal_batches
from client.sessions.submission import submit
from sqlstream import config as options
from sqlstream.catalog import CatalogConflict, SessionCatalog
from sqlstream.errors import ExternalError, UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.spark_keys import refuse_launch_key
from sqlstream.specs.sink import SinkAction
from sqlstream.spi.connector import MeasuresInput

if TYPE_CHECKING:
    from client.clusters.cluster_client import ClusterClient
    from planner.batch import CompiledBatch
    from planner.bind.context import BindContext
    from planner.compile import CompiledPlan
    from planner.dialect.statements import AnalyzeTable, CallProcedure, CreateTable, Show, Statement
    from planner.estimates import TableSizes, TableStatistics
    from planner.relational.nodes import Sink
    from planner.statements.result import DdlResult
    from runtime.host.files import LocalFiles
    from runtime.host.rooted_files import FilePlaces
    from sqlstream.catalog import CatalogManager, ObjectPath
    from sqlstream.function_ref import InspectedFunction
    from sqlstream.spi.function_inspector import FunctionInspector
    from sqlstream.spi.inference import FileInference

_NOT_OF_CHANGES = ("execution.checkpointing.interval", "table.exec.sink.not-null-enforcer")
"""Settings that jobs do not have which replace rows of their tables: these commit once, and drop no row."""

CONFLICTS_MAX = 100
"""How often a DDL statement is planned anew because another session has changed the same object of a catalog."""

STATEMENTS_REMEMBERED_MAX = 100
"""How many of its jobs a session can verify later."""


@dataclasses.dataclass(frozen=True)
class SubmittedStatement:
    """A query, INSERT or statement set as it was bound, and the settings then."""

    sinks: tuple[Sink, ...]
    config: dict[str, str]


@dataclasses.dataclass(frozen=True)
class _Inspector:
    """A FunctionInspector that is made when it is asked: most statements do without its modules."""

    make: Callable[[], FunctionInspector]

    def inspect(self, module: str, attribute: str, files: tuple[str, ...]) -> InspectedFunction:
        return self.make().inspect(module, attribute, files)


class Session:
    """One user's catalog and settings. Runs statements in the order of the calls, which come one at a time.

    The cluster belongs to the caller, and may serve other sessions too. State: catalog, settings,
    the plans of its last jobs and what ANALYZE TABLE has counted; the jobs themselves are the cluster's.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        config: Mapping[str, str] | None = None,
        catalogs: CatalogManager | None = None,
        is_served: bool = False,
        places: FilePlaces | None = None,
        allows_python: bool = True,
    ) -> None:
        """`config` holds the settings that the session starts with, and that RESET returns to; `catalogs` may be shared with
        other sessions, and are kept in memory unless given. `is_served`: it is one of a server's, whose users do not decide how
        Spark starts. `allows_python`: statements may run users' Python functions. `places` are those of the files that
        statements may name by their path, by default all of this machine. UserError SS4001 or SS4002 for a wrong setting."""
        self.cluster = cluster
        self._is_served = is_served
        self._allows_python = allows_python
        self.catalog = SessionCatalog(memory_catalogs() if catalogs is None else catalogs)
        for key, value in (config or {}).items():
            options.option(key).parse(value)
        self._places = places
        self._first_config = dict(config or {})
        self.config: dict[str, str] = dict(self._first_config)
        self._submitted: dict[str, SubmittedStatement] = {}
        self.statistics: dict[ObjectPath, TableStatistics] = {}

    def files(self) -> LocalFiles:
        """The files that statements may name by their path."""
        from runtime.host.rooted_files import files_at

        return files_at(self._places)

    # -- statements --------------------------------------------------------------------------------

    def execute(self, statement: Statement) -> Outcome:
        """Run one parsed statement; a query or INSERT is submitted, and not waited for. UserError with a position."""
        from client.statements.jobs import execute_job_statement, is_job_statement
        from planner.dialect.statements import (
            AnalyzeTable,
            CallProcedure,
            CompilePlan,
            CreateTable,
            ExecutePlan,
            Explain,
            Show,
            Verify,
            VerifyJob,
            WritingStatement,
        )

        if isinstance(statement, AnalyzeTable | CallProcedure | Show) and (answer := self._told(statement)):
            return answer
        if is_job_statement(statement):
            return execute_job_statement(statement, self.cluster, self.config)
        if isinstance(statement, Explain):
            if statement.is_run:
                from client.statements.explain_analyze import explain_analyze

                return Text(explain_analyze(statement.target, self))
            if statement.is_of_state:
                return Text(self.explain_state(statement.target))
            return Text(self.explain(statement.target, statement.details))
        if isinstance(statement, WritingStatement):
            return self._started(self.compile(statement, job_id=secrets.token_hex(16)))
        if isinstance(statement, CreateTable) and statement.query is not None:
            return self._create_filled(statement)
        if isinstance(statement, CompilePlan | ExecutePlan):
            from client.statements.plan_files import compile_plan, execute_plan

            if isinstance(statement, CompilePlan):
                return compile_plan(statement, self)
            return execute_plan(statement, self)
        if isinstance(statement, Verify | VerifyJob):
            from client.verification.statements import execute_verify

            return execute_verify(statement, self)
        return self._apply(statement)

    def _told(self, statement: AnalyzeTable | CallProcedure | Show) -> Rows | None:
        """The answer to a statement that looks at tables or does something with jobs; None for a SHOW of the catalog."""
        from client.statements.procedures import call_procedure, procedure_names
        from client.statements.table_statistics import analyze_table, show_partitions
        from planner.dialect.statements import AnalyzeTable, CallProcedure, ShowKind
        from planner.statements.show import filtered_names

        if isinstance(statement, AnalyzeTable):
            return analyze_table(statement, self)
        if isinstance(statement, CallProcedure):
            return call_procedure(statement, self.cluster, self.config)
        if statement.kind is ShowKind.PARTITIONS:
            return show_partitions(statement, self)
        if statement.kind is ShowKind.PROCEDURES:
            names = procedure_names(statement.name, self.bind_context())
            return self._rows_of(filtered_names(statement, "procedure name", names))
        return None

    def _started(self, plan: CompiledPlan | CompiledBatch) -> Job:
        job = self.submit(plan)
        self._remember(job.id, plan.relational)
        return job

    def _create_filled(self, statement: CreateTable) -> Outcome:
        """CREATE TABLE … AS query: the table is created once the job that fills it is planned."""
        from planner.statements.create_as import create_as

        for _ in range(CONFLICTS_MAX):
            context = self._context_of(statement)
            created = create_as(statement, context)
            if created.sink is None:
                return self._rows_of(created.result)
            plan = self.compile_sinks((created.sink,), context, secrets.token_hex(16))
            try:
                self._make(created.result, statement)
            except CatalogConflict:
                continue
            return self._started(plan)
        raise _too_fast()

    def submitted(self, job_id: str) -> SubmittedStatement | None:
        """The statement of one of the session's last STATEMENTS_REMEMBERED_MAX jobs."""
        return self._submitted.get(job_id)

    def _remember(self, job_id: str, sinks: tuple[Sink, ...]) -> None:
        self._submitted[job_id] = SubmittedStatement(sinks, dict(self.config))
        while len(self._submitted) > STATEMENTS_REMEMBERED_MAX:
            del self._submitted[next(iter(self._submitted))]

    def compile(self, statement: Statement, job_id: str = "") -> CompiledPlan | CompiledBatch:
        """All plans of a query, INSERT or statement set, as a stream or in batch (execution.runtime-mode)."""
        from planner.bind.sink import bind_sinks
        from planner.dialect.statements import CreateTable
        from planner.statements.create_as import create_as

        context = self._context_of(statement)
        if isinstance(statement, CreateTable):
            created = create_as(statement, context)
            if created.sink is not None:
                return self.compile_sinks((created.sink,), context, job_id)
        return self.compile_sinks(bind_sinks(statement, context), context, job_id)

    def _context_of(self, statement: Statement) -> BindContext:
        return dataclasses.replace(self.bind_context(), text=statement.text, text_start=statement.span.start)

    def compile_sinks(
        self, sinks: tuple[Sink, ...], context: BindContext, job_id: str = ""
    ) -> CompiledPlan | CompiledBatch:
        """The same of a bound statement."""
        from planner.compile import compile_statements

        if any(sink.action is not None for sink in sinks):
            # Its commit is all that it leaves, and a row that is left out would be lost.
            kept = {k: v for k, v in context.config.items() if k not in _NOT_OF_CHANGES}
            context = dataclasses.replace(context, config=kept)
        if options.get(self.config, "execution.runtime-mode") == "STREAMING" or not _can_run_in_batch(sinks):
            return self._with_python(compile_statements(sinks, context, job_id), context)
        from client.statements.batch import compile_in_mode

        plan = compile_in_mode(sinks, context, job_id, self.files())
        return self._with_python(plan, context)

    def _with_python(
        self, plan: CompiledPlan | CompiledBatch, context: BindContext
    ) -> CompiledPlan | CompiledBatch:
        """The plan with the modules of the users' functions that it calls."""
        if not context.called:
            return plan
        return dataclasses.replace(plan, job_graph=self.with_python_files(plan.job_graph, context))

    def with_python_files(self, graph: JobGraph, context: BindContext) -> JobGraph:
        """The graph of a statement with the modules of the users' functions that it calls. UserError SS2034 where the server
        runs none."""
        if not context.called:
            return graph
        from runtime.python.packing import pack, split_paths

        self._check_python()
        paths = [path for function in context.called.values() for path in function.files]
        paths += split_paths(options.get(self.config, "python.files"))
        return replace(graph, python=pack(tuple(paths), self.files()))

    def _check_python(self) -> None:
        """UserError SS2034 where the server does not let its users run Python."""
        if not self._allows_python:
            hint = "start the server with -D sqlstream.server.python-functions.enabled=true"
            raise UserError("SS2034", "this server runs no Python functions", hint=hint)

    def _inspector(self) -> FunctionInspector:
        """What imports the modules of CREATE FUNCTION; the process of a server does not."""
        if self._is_served:
            from client.sessions.served_inspection import ServedInspector

            return ServedInspector(self.cluster, self.config, self.files(), self._check_python)
        from runtime.python.inspector import LocalFunctionInspector

        return LocalFunctionInspector(options.get(self.config, "python.files"), self.files())

    def explain(self, statement: Statement, details: tuple[str, ...] = ()) -> str:
        """EXPLAIN of a query, INSERT or statement set: every stage as text."""
        from planner.compile import CompiledPlan, explain

        plan = self.compile(statement)
        if isinstance(plan, CompiledPlan):
            sizes = self._table_sizes(plan.optimised) if "ESTIMATED_COST" in details else None
            return explain(plan, details, sizes)
        from client.statements.batch import explain_batch

        sizes = self._table_sizes(plan.optimised) if "ESTIMATED_COST" in details else None
        return explain_batch(plan, details, self.cluster, self.files(), self._is_served, sizes)

    def _table_sizes(self, sinks: tuple[Sink, ...]) -> TableSizes:
        """The sizes of the tables that a plan reads, where connectors can tell them."""
        from planner.batch import scans_of
        from planner.estimates import TableSizes
        from planner.physical.connectors import find_connector
        from planner.physical.source import scan_spec
        from runtime.connectors import connector, descriptors

        sizes = {}
        for scan in dict.fromkeys(scan for sink in sinks for scan in scans_of(sink)):
            descriptor = find_connector(descriptors(), scan.table, dict(scan.options), scan.span)
            measured = connector(descriptor.identifier)
            if isinstance(measured, MeasuresInput):
                sizes[scan.table.path] = measured.input_bytes(scan_spec(scan, descriptor), self.files())
        return TableSizes(sizes, self.statistics)

    def explain_state(self, statement: Statement) -> str:
        """EXPLAIN STATE of a query, INSERT or statement set: what each operator keeps. UserError SS6240 in batch."""
        from client.statements.state_explanation import explain_state
        from planner.compile import CompiledPlan

        plan = self.compile(statement)
        if isinstance(plan, CompiledPlan):
            return explain_state(plan.job_graph)
        raise UserError(
            "SS6240",
            "a batch query keeps no state",
            span=statement.span,
            hint="SET 'execution.runtime-mode' = 'STREAMING' to see what it keeps as a stream",
        )

    def bind_context(self) -> BindContext:
        from planner.bind.context import BindContext
        from planner.bind.file_definitions import FileDefinitions
        from runtime.connectors import descriptors
        from runtime.formats import descriptors as format_descriptors

        return BindContext(
            self.catalog.snapshot(),
            descriptors(),
            format_descriptors(),
            self.config,
            self.catalog.current_catalog,
            self.catalog.current_database,
            files=FileDefinitions(self._inference()),
            functions=_Inspector(self._inspector),
        )

    def _inference(self) -> FileInference:
        """What tells the columns of files; the process of a server reads no files itself."""
        if self._is_served:
            from client.sessions.served_inference import ServedInference

            return ServedInference(self.cluster, self.config)
        from runtime.inference.file_inference import LocalFileInference

        return LocalFileInference(self.files())

    def _apply(self, statement: Statement) -> Rows:
        from planner.statements.execute import execute_ddl

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
        from planner.statements.result import ResetConfig, SetConfig
        from sqlstream.catalog import PutObject

        for change in result.changes:
            match change:
                case SetConfig(key, value):
                    if self._is_served:
                        refuse_launch_key(key)
                    self._check_place(key, value, statement)
                    self.config[key] = value
                case ResetConfig(key):
                    self._reset(key)
                case _:
                    if isinstance(change, PutObject):
                        self._validate(change.entry, statement)
                    try:
                        self.catalog.apply(change)
                    except UserError as error:
                        raise error.at(statement.span) from None

    def _check_place(self, key: str, value: str, statement: Statement) -> None:
        """UserError for a directory of checkpoints that cannot be one, or that the server does not allow."""
        from runtime.checkpoint.places import PLACE_KEYS, check_places, with_absolute_places

        if key in PLACE_KEYS:
            try:
                check_places(with_absolute_places({key: value}), self.files())
            except UserError as error:
                raise error.at(statement.span) from None

    def _reset(self, key: str | None) -> None:
        """Return one setting, or all, to what it was at the start of the session."""
        keys = set(self.config) | set(self._first_config) if key is None else {key}
        for reset in keys:
            self.config.pop(reset, None)
            if reset in self._first_config:
                self.config[reset] = self._first_config[reset]

    def _validate(self, entry: object, statement: Statement) -> None:
        """Run the connector's own checks, which its descriptor cannot express."""
        from runtime.connectors import connector
        from sqlstream.catalog import CatalogTable

        if not isinstance(entry, CatalogTable):
            return
        try:
            connector(entry.options["connector"]).validate(
                entry.path.name, entry.physical_schema(), entry.options, entry.partition_keys
            )
        except UserError as error:
            raise error.at(statement.span) from None

    # -- jobs --------------------------------------------------------------------------------------

    def submit(self, plan: CompiledPlan | CompiledBatch) -> Job:
        """Start the job of a plan."""
        return self.submit_graph(plan.job_graph)

    def submit_graph(self, graph: JobGraph) -> Job:
        """Start a job. UserError for settings that no job can have."""
        return submit(graph, self.cluster, self.files())


def _can_run_in_batch(sinks: tuple[Sink, ...]) -> bool:
    """Batch engines compute rows that are added, or take the place of all; which rows change is told by a changelog."""
    return all(sink.action in (None, SinkAction.OVERWRITE) for sink in sinks)


def _too_fast() -> ExternalError:
    """To be raised for a statement that is planned again and again, because what it was planned upon changes."""
    return ExternalError(
        "SS5021", "the catalog changes too fast for the statement", hint="run the statement again"
    )
