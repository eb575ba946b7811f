"""One user's catalog and settings, and the plans that statements have by them: the only place where the planner's plans meet the
runtime's cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sqlstream import config as options
from sqlstream.cancellation import planned
from sqlstream.catalog import SessionCatalog
from sqlstream.client.catalog.catalogs import catalog_types, memory_catalogs
from sqlstream.client.sessions.effects import job_effects
from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.submission import submit
from sqlstream.effects import ALL, Permit
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.specs.sink import SinkAction

if TYPE_CHECKING:
    from sqlstream.catalog import CatalogManager, CatalogTable, InferredTable, ObjectPath
    from sqlstream.client.clusters.cluster_client import ClusterClient
    from sqlstream.expired_rows import KeptPlace
    from sqlstream.function_ref import InspectedFunction
    from sqlstream.planner.batch import CompiledBatch
    from sqlstream.planner.bind.context import BindContext
    from sqlstream.planner.compile import CompiledPlan
    from sqlstream.planner.dialect.statements import Statement
    from sqlstream.planner.estimates import TableStatistics
    from sqlstream.planner.relational.nodes import Sink
    from sqlstream.runtime.host.files import LocalFiles
    from sqlstream.runtime.host.rooted_files import FilePlaces
    from sqlstream.spi.inspection import FileInference, FunctionInspector

_NOT_OF_CHANGES = ("execution.checkpointing.interval", "table.exec.sink.not-null-enforcer")
"""Settings that jobs do not have which replace rows of their tables: these commit once, and drop no row."""

STATEMENTS_REMEMBERED_MAX = 100
"""How many of its jobs a session can verify later."""

REMEMBERED_CHARACTERS_MAX = 1024 * 1024
"""How long the texts of these jobs' statements may be together; the last one may be longer."""

BYTES_PER_CHARACTER = 50
"""What a bound statement takes for each character of its text, in about."""


@dataclasses.dataclass(frozen=True)
class SubmittedStatement:
    """A query, INSERT or statement set as it was bound, the settings then, and the length of its text."""

    sinks: tuple[Sink, ...]
    config: dict[str, str]
    characters: int


def check_table(table: CatalogTable) -> None:
    """The checks of its connector, beside those of the planner."""
    from sqlstream.runtime.connectors import connector

    found = connector(table.options["connector"])
    found.validate(table.path.name, table.physical_schema(), table.options, table.partition_keys)


@dataclasses.dataclass(frozen=True)
class _Inspector:
    """A FunctionInspector that is made when it is asked: most statements do without its modules."""

    make: Callable[[], FunctionInspector]

    def inspect(self, module: str, attribute: str, files: tuple[str, ...]) -> InspectedFunction:
        return self.make().inspect(module, attribute, files)


class _Inference:
    """A FileInference that is made when it is first asked, and then once."""

    def __init__(self, make: Callable[[], FileInference]) -> None:
        self._make = make

    @functools.cached_property
    def _made(self) -> FileInference:
        return self._make()

    def format(self, path: str) -> str:
        return self._made.format(path)

    def table(self, options: Mapping[str, str]) -> InferredTable:
        return self._made.table(options)


class PlanningSession:
    """A session as the statements see it that plan others: its catalog and settings, and the jobs that it starts.

    The cluster belongs to the caller, and may serve other sessions too. State: catalog, settings,
    the plans of its last jobs, what ANALYZE TABLE has counted, and the permit of the statement that runs; the jobs themselves are
    the cluster's.
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
        self.is_served = is_served
        self._allows_python = allows_python
        self.catalog = SessionCatalog(memory_catalogs() if catalogs is None else catalogs)
        for key, value in (config or {}).items():
            options.option(key).parse(value)
        self._places = places
        self._first_config = dict(config or {})
        self.config: dict[str, str] = dict(self._first_config)
        self._submitted: dict[str, SubmittedStatement] = {}
        self.statistics: dict[ObjectPath, TableStatistics] = {}
        self.permit = ALL
        # Whose share of a server's slots its jobs take.
        self.owner = ""
        self._next_job_id = ""

    @property
    def first_config(self) -> Mapping[str, str]:
        """The settings that the session has started with."""
        return self._first_config

    @contextlib.contextmanager
    def naming_job(self, job_id: str) -> Iterator[None]:
        """The job of the statement that runs now gets this id; empty: one that is made for it."""
        self._next_job_id = job_id
        try:
            yield
        finally:
            self._next_job_id = ""

    def new_job_id(self) -> str:
        """The id of a job to be started."""
        named, self._next_job_id = self._next_job_id, ""
        return named or secrets.token_hex(16)

    @contextlib.contextmanager
    def permitted(self, permit: Permit) -> Iterator[None]:
        """Statements run with the rights of this permit: every effect is required of it before it happens."""
        before, self.permit = self.permit, permit
        try:
            yield
        finally:
            self.permit = before

    def files(self) -> LocalFiles:
        """The files that statements may name by their path."""
        from sqlstream.runtime.host.rooted_files import files_at

        return files_at(self._places)

    # -- plans -------------------------------------------------------------------------------------

    def compile(self, statement: Statement, job_id: str = "") -> CompiledPlan | CompiledBatch:
        """All plans of a query, INSERT or statement set, as a stream or in batch (execution.runtime-mode)."""
        from sqlstream.planner.bind.sink import bind_sinks
        from sqlstream.planner.dialect.statements import CreateModel, CreateTable
        from sqlstream.planner.statements.create_as import created_by

        context = self.context_of(statement)
        if isinstance(statement, CreateTable | CreateModel):
            created = created_by(statement, context)
            if created.sink is not None:
                return self.compile_sinks((created.sink,), context, job_id)
        return self.compile_sinks(bind_sinks(statement, context), context, job_id)

    def context_of(self, statement: Statement) -> BindContext:
        """What the statement is bound with."""
        return dataclasses.replace(self.bind_context(), text=statement.text, text_start=statement.span.start)

    def compile_sinks(
        self, sinks: tuple[Sink, ...], context: BindContext, job_id: str = ""
    ) -> CompiledPlan | CompiledBatch:
        """The same of a bound statement."""
        from sqlstream.planner.compile import compile_statements

        if any(sink.action is not None for sink in sinks):
            # Its commit is all that it leaves, and a row that is left out would be lost.
            kept = {k: v for k, v in context.config.items() if k not in _NOT_OF_CHANGES}
            context = dataclasses.replace(context, config=kept)
        if options.get(self.config, "execution.runtime-mode") == "STREAMING" or not _can_run_in_batch(sinks):
            return self._with_python(compile_statements(sinks, context, job_id), context)
        from sqlstream.client.statements.batch import compile_in_mode

        plan = compile_in_mode(sinks, context, job_id, self.files())
        return self._with_python(plan, context)

    def _with_python(
        self, plan: CompiledPlan | CompiledBatch, context: BindContext
    ) -> CompiledPlan | CompiledBatch:
        """The plan with the modules of the users' functions that it calls, and the files of models."""
        if not context.called and not context.model_files:
            return plan
        return dataclasses.replace(plan, job_graph=self.with_python_files(plan.job_graph, context))

    def with_python_files(self, graph: JobGraph, context: BindContext) -> JobGraph:
        """The graph of a statement with the modules of the users' functions that it calls, and the files of models. UserError
        SS2034 where the server runs no functions."""
        if context.model_files:
            from sqlstream.client.sessions.shipped_files import shipped_models

            models = shipped_models(context.model_files, self.config, self.cluster, self.files())
            graph = replace(graph, artifacts=graph.artifacts + models)
        if not context.called:
            return graph
        from sqlstream.client.sessions.shipped_files import shipped_archives
        from sqlstream.runtime.python.packing import pack, split_paths

        if not all(function.package for function in context.called.values()):
            # What is installed beside the server is its operator's choice.
            self._check_python()
        paths = [path for function in context.called.values() for path in function.files]
        paths += split_paths(options.get(self.config, "python.files"))
        small, large = shipped_archives(tuple(paths), self.config, self.cluster, self.files())
        return replace(graph, python=pack(small, self.files()), artifacts=graph.artifacts + large)

    def _check_python(self) -> None:
        """UserError SS2034 where the server does not let its users run Python."""
        if not self._allows_python:
            hint = "start the server with -D sqlstream.server.python-functions.enabled=true"
            raise UserError("SS2034", "this server runs no Python functions", hint=hint)

    def _inspector(self) -> FunctionInspector:
        """What imports the modules of CREATE FUNCTION; the process of a server does not."""
        if self.is_served:
            from sqlstream.client.sessions.served_files import ServedInspector

            return ServedInspector(self.cluster, self.config, self.files(), self._check_python)
        from sqlstream.runtime.python.inspector import LocalFunctionInspector

        return LocalFunctionInspector(options.get(self.config, "python.files"), self.files())

    def bind_context(self) -> BindContext:
        from sqlstream.planner.bind.context import BindContext, FileDefinitions
        from sqlstream.planner.statements.functions import PackageFunctions
        from sqlstream.runtime.connectors import descriptors
        from sqlstream.runtime.formats import descriptors as format_descriptors

        return BindContext(
            self.catalog.snapshot(),
            descriptors(),
            format_descriptors(),
            self.config,
            self.catalog.current_catalog,
            self.catalog.current_database,
            files=FileDefinitions(_Inference(self._inference)),
            functions=_Inspector(self._inspector),
            installed=PackageFunctions(),
            catalog_types=catalog_types(),
            permit=self.permit,
            check_table=check_table,
            model_version=self._model_version,
            expired_places=self._expired_places,
        )

    def _expired_places(self, name: str, identity: str) -> tuple[KeptPlace, ...]:
        from sqlstream.client.statements.expired import expired_places

        return expired_places(name, identity, self.cluster)

    def _model_version(self, path: str) -> str:
        from sqlstream.client.sessions.shipped_files import model_version

        return model_version(path, self.config, self.files())

    def _inference(self) -> FileInference:
        """What tells the columns of files; the process of a server reads no files itself."""
        if self.is_served:
            from sqlstream.client.sessions.served_files import ServedInference

            return ServedInference(self.cluster, self.config)
        from sqlstream.runtime.inference.file_inference import LocalFileInference

        return LocalFileInference(self.files())

    # -- jobs --------------------------------------------------------------------------------------

    def submit(self, plan: CompiledPlan | CompiledBatch) -> Job:
        """Start the job of a plan."""
        return self.submit_graph(plan.job_graph)

    def submit_graph(self, graph: JobGraph) -> Job:
        """Start a job. UserError for settings that no job can have, SS2037 for what is not permitted."""
        self.permit.require(job_effects(graph))
        planned()
        return submit(replace(graph, owner=self.owner), self.cluster, self.files())

    def submitted(self, job_id: str) -> SubmittedStatement | None:
        """The statement of one of the session's last jobs: STATEMENTS_REMEMBERED_MAX of them, or fewer with long texts."""
        return self._submitted.get(job_id)

    def submitted_sinks(self) -> Iterator[tuple[str, Sink]]:
        """The sinks of these statements, each with its job, those of the latest last."""
        for job_id, statement in self._submitted.items():
            for sink in statement.sinks:
                yield job_id, sink

    def remember(self, job_id: str, sinks: tuple[Sink, ...], characters: int) -> None:
        """Keep the statement of a job that was started now."""
        # Replaced and not modified: other threads measure it.
        kept = {**self._submitted, job_id: SubmittedStatement(sinks, dict(self.config), characters)}
        while len(kept) > 1 and (
            len(kept) > STATEMENTS_REMEMBERED_MAX or _characters(kept) > REMEMBERED_CHARACTERS_MAX
        ):
            del kept[next(iter(kept))]
        self._submitted = kept

    @property
    def held_bytes(self) -> int:
        """What it keeps for its user, in about: settings, temporary objects and the statements of its last jobs. Called from any
        thread."""
        settings = sum(len(key) + len(value) for key, value in self.config.copy().items())
        return settings + self.catalog.held_bytes + _characters(self._submitted) * BYTES_PER_CHARACTER


def _characters(statements: dict[str, SubmittedStatement]) -> int:
    return sum(statement.characters for statement in statements.values())


def _can_run_in_batch(sinks: tuple[Sink, ...]) -> bool:
    """Batch engines compute rows that are added, or take the place of all; which rows change is told by a changelog."""
    return all(sink.action in (None, SinkAction.OVERWRITE) for sink in sinks)
