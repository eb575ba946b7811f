"""One user's catalog and settings: the only place where the planner's plans meet the runtime's cluster."""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from client.lost_rows import RejectedRowsPlace
from sqlstream import config as options
from sqlstream.catalog import MemoryCatalog
from sqlstream.errors import ErrorInfo, UserError
from sqlstream.expressions import Literal, LiteralValue
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.schema import Schema
from sqlstream.specs import CalcSpec, SinkSpec, SourceSpec, ValuesSpec
from sqlstream.spi.connector import KeepsRejectedRows

if TYPE_CHECKING:
    import pyarrow as pa

    from planner.bind.context import BindContext
    from planner.compile import CompiledPlan
    from planner.dialect.statements import Statement
    from planner.relational.nodes import Sink
    from runtime.embedded import EmbeddedCluster
    from runtime.net.results import PrintLines
    from sqlstream.messages.rpc import JobMetrics

COLLECT = "collect"

CLUSTER_OPTIONS = (
    "heartbeat.interval",
    "heartbeat.timeout",
    "resourcemanager.taskmanager-registration.timeout",
    "resourcemanager.taskmanager-timeout",
    "slot.request.timeout",
    "slotmanager.number-of-slots.max",
    "slotmanager.number-of-slots.min",
    "task.cancellation.timeout",
    "taskmanager.memory.network.max",
    "taskmanager.numberOfTaskSlots",
)
"""Settings that a cluster is started with: after a change the next job starts a new cluster."""


IN_PROCESS_INPUT = "sqlstream.in-process.max-input-size"

IN_PROCESS_PARALLELISM_MAX = 4
"""Highest parallelism of a job in this process; wider jobs run in child processes, since threads share one interpreter lock."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """The outcome of a statement that runs no job. `done` is a confirmation, for a statement without an answer in rows; `note`
    is shown to the user in any case."""

    schema: Schema
    batches: tuple[pa.RecordBatch, ...]
    done: str = ""
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Text:
    """EXPLAIN's answer."""

    text: str


@dataclasses.dataclass(frozen=True)
class Job:
    """A submitted job. `label` names it to the user; `schema` is the result's for a query, else None; `is_bounded`: every
    source ends; `rejected`: where its sources keep undecodable rows, by operator id."""

    id: str
    label: str
    is_bounded: bool
    schema: Schema | None
    cluster: EmbeddedCluster | None
    rejected: Mapping[int, RejectedRowsPlace]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The query's changelog, batch by batch as rows arrive, until the job has ended."""
        assert self.cluster is not None
        return self.cluster.results(self.id)

    def wait(self, timeout_s: float | None = None) -> tuple[JobStatus, ErrorInfo | None]:
        """Wait for the end of the job; returns its status, and its error if it failed. TimeoutError after `timeout_s`."""
        assert self.cluster is not None
        reply = self.cluster.wait(self.id, timeout_s)
        return reply.status, reply.error

    def metrics(self) -> JobMetrics:
        assert self.cluster is not None
        return self.cluster.metrics(self.id)

    def cancel(self) -> None:
        assert self.cluster is not None
        self.cluster.cancel(self.id)


@dataclasses.dataclass(frozen=True)
class LiteralJob(Job):
    """A query over literal rows that computes nothing: its answer needs no cluster."""

    batches: tuple[pa.RecordBatch, ...]

    def rows(self) -> Iterator[pa.RecordBatch]:
        return iter(self.batches)

    def wait(self, timeout_s: float | None = None) -> tuple[JobStatus, ErrorInfo | None]:
        return JobStatus.FINISHED, None

    def metrics(self) -> JobMetrics:
        from sqlstream.messages.rpc import JobMetrics

        return JobMetrics(self.id, JobStatus.FINISHED, {}, {})

    def cancel(self) -> None:
        """Nothing runs, so nothing is cancelled."""


Outcome = Rows | Text | Job


class Session:
    """Runs statements one after the other. State: catalog, settings, and the clusters started so far.

    The cluster of child processes starts with the first job that needs it, with one TaskManager per core. A job with little
    to read runs in this process, where it finishes before child processes would have started. `close` stops everything.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        task_managers: int | None = None,
        print_lines: PrintLines | None = None,
    ) -> None:
        """`print_lines` receives the lines of connector `print`; by default they go to standard output and error."""
        self.catalog = MemoryCatalog()
        self.config: dict[str, str] = {}
        for key, value in (config or {}).items():
            options.option(key).parse(value)
            self.config[key] = value
        self._task_managers = task_managers
        self._print_lines = print_lines
        self._clusters: dict[tuple[object, ...], EmbeddedCluster] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the clusters; running jobs are cancelled with them."""
        for cluster in self._clusters.values():
            cluster.stop()
        self._clusters.clear()

    # -- statements --------------------------------------------------------------------------------

    def execute(self, statement: Statement) -> Outcome:
        """Run one parsed statement; a query or INSERT is submitted, and not waited for. UserError with a position."""
        from planner.dialect.statements import Explain, Insert, Query, StatementSet

        if isinstance(statement, Explain):
            from planner.compile import explain

            return Text(explain(self.compile(statement.target), statement.details))
        if isinstance(statement, Query | Insert | StatementSet):
            return self.submit(self.compile(statement, job_id=secrets.token_hex(16)))
        return self._apply(statement)

    def compile(self, statement: Statement, job_id: str = "") -> CompiledPlan:
        """All plans of a query, INSERT or statement set."""
        from planner.bind.sink import bind_insert, bind_select_sink
        from planner.compile import compile_statements
        from planner.dialect.statements import Insert, Query, StatementSet

        context = self.bind_context()
        sinks: tuple[Sink, ...]
        match statement:
            case Query():
                sinks = (bind_select_sink(statement.query, context),)
            case Insert():
                sinks = (bind_insert(statement, context),)
            case StatementSet():
                sinks = tuple(bind_insert(insert, context) for insert in statement.inserts)
            case _:
                raise UserError(
                    "SS3001", "only queries and INSERT statements have a plan", span=statement.span
                )
        return compile_statements(sinks, context, job_id)

    def bind_context(self) -> BindContext:
        from planner.bind.context import BindContext
        from runtime.connectors import descriptors
        from runtime.evaluate.check import check_expression
        from runtime.formats import descriptors as format_descriptors

        return BindContext(
            self.catalog,
            descriptors(),
            format_descriptors(),
            self.config,
            check_expression=check_expression,
        )

    def _apply(self, statement: Statement) -> Rows:
        from planner.statements.execute import execute_ddl
        from planner.statements.result import PutObject, RemoveObject, ResetConfig, SetConfig

        result = execute_ddl(statement, self.bind_context())
        for change in result.changes:
            match change:
                case PutObject(entry):
                    self._validate(entry, statement)
                    self.catalog.put(entry)
                case RemoveObject(path):
                    self.catalog.drop(path)
                case SetConfig(key, value):
                    self.config[key] = value
                case ResetConfig(None):
                    self.config.clear()
                case ResetConfig(key):
                    self.config.pop(str(key), None)
        batches = literal_batches(result.schema, result.rows)
        return Rows(result.schema, batches, result.done, result.note)

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

    def submit(self, plan: CompiledPlan) -> Job:
        """Start the job of a plan on the cluster that suits it."""
        graph = plan.job_graph
        sinks = [o.spec for v in graph.vertices for o in v.operators if isinstance(o.spec, SinkSpec)]
        collected = [s.schema for s in sinks if s.connector == COLLECT]
        if collected:
            graph = without_rejected_files(graph)
        tables = ", ".join(dict.fromkeys(s.table for s in sinks))
        label = "SELECT" if collected else f"INSERT INTO {tables}"
        literals = literal_rows(graph)
        if literals is not None:
            return LiteralJob(graph.job_id, label, True, collected[0], None, {}, literal_batches(*literals))
        cluster = self.cluster(self._runs_in_process(graph))
        cluster.submit(graph)
        return Job(
            graph.job_id,
            label,
            is_bounded(graph),
            collected[0] if collected else None,
            cluster,
            rejected_rows_places(graph),
        )

    def _runs_in_process(self, graph: JobGraph) -> bool:
        if is_trivial(graph):
            return True
        # An explicit number of TaskManagers is obeyed, however small the job.
        input_max = options.get(self.config, IN_PROCESS_INPUT) if self._task_managers is None else 0
        return input_max > 0 and is_small(graph, input_max)

    def cluster(self, in_process: bool = False) -> EmbeddedCluster:
        """The cluster of child processes, or the one in this process; started at the first call."""
        kind = (in_process, *(options.get(self.config, key) for key in CLUSTER_OPTIONS))
        if kind not in self._clusters:
            from runtime.embedded import EmbeddedCluster, print_to_terminal

            print_lines = self._print_lines or print_to_terminal
            cluster = EmbeddedCluster(self.config, self._task_managers, in_process, print_lines)
            self._clusters[kind] = cluster
            cluster.start()
        return self._clusters[kind]


def literal_batches(schema: Schema, rows: tuple[tuple[object, ...], ...]) -> tuple[pa.RecordBatch, ...]:
    """One batch of rows in the encoding of `Literal.value`."""
    from runtime.operators.values import values_batches
    from sqlstream.specs import ValuesSpec

    return tuple(values_batches(ValuesSpec(rows), schema, max(1, len(rows))))  # type: ignore[arg-type]


def without_rejected_files(graph: JobGraph) -> JobGraph:
    """The graph with rejected-rows files turned off: a SELECT writes nothing beside the files that it reads."""
    from runtime.connectors import connector

    def changed(operator: ChainedOperator) -> ChainedOperator:
        spec = operator.spec
        if isinstance(spec, SourceSpec) and isinstance(
            keeper := connector(spec.connector), KeepsRejectedRows
        ):
            return replace(operator, spec=keeper.without_rejected_files(spec))
        return operator

    vertices = tuple(replace(v, operators=tuple(map(changed, v.operators))) for v in graph.vertices)
    return replace(graph, vertices=vertices)


def rejected_rows_places(graph: JobGraph) -> dict[int, RejectedRowsPlace]:
    """Where each source keeps the rows that it cannot decode, by operator id."""
    from runtime.connectors import connector
    from runtime.connectors.rejected_rows import rejected_rows_name

    places = {}
    for operator in (o for v in graph.vertices for o in v.operators):
        spec = operator.spec
        if isinstance(spec, SourceSpec) and isinstance(
            keeper := connector(spec.connector), KeepsRejectedRows
        ):
            directory = keeper.rejected_rows_directory(spec)
            path = os.path.join(directory, rejected_rows_name(graph.job_id)) if directory else None
            places[operator.id] = RejectedRowsPlace(spec.table, path)
    return places


def is_bounded(graph: JobGraph) -> bool:
    """Whether every source ends."""
    sources = [o.spec for v in graph.vertices for o in v.operators if isinstance(o.spec, SourceSpec)]
    return all(s.is_bounded for s in sources)


def literal_rows(graph: JobGraph) -> tuple[Schema, tuple[tuple[LiteralValue, ...], ...]] | None:
    """The schema and rows of a query whose operators only pass literal rows to the client; None for every other job."""
    if len(graph.vertices) != 1 or graph.vertices[0].parallelism != 1:
        return None
    operators = graph.vertices[0].operators
    source, sink = operators[0].spec, operators[-1].spec
    if not isinstance(source, ValuesSpec) or not isinstance(sink, SinkSpec) or sink.connector != COLLECT:
        return None
    rows = source.rows
    for calc in operators[1:-1]:
        if not isinstance(calc.spec, CalcSpec) or calc.spec.condition is not None:
            return None
        values = [p.value for p in calc.spec.projections if isinstance(p, Literal)]
        if len(values) < len(calc.spec.projections):
            return None
        rows = (tuple(values),) * len(rows)
    return sink.schema, rows


def is_trivial(graph: JobGraph) -> bool:
    """Whether the job reads literal rows only and runs in one subtask, so that no child process is worth its start."""
    has_source = any(isinstance(o.spec, SourceSpec) for v in graph.vertices for o in v.operators)
    return not has_source and all(v.parallelism == 1 for v in graph.vertices)


def is_small(graph: JobGraph, input_bytes_max: int) -> bool:
    """Whether all tables of the job end, hold at most `input_bytes_max` by their connectors' estimates, and few subtasks run."""
    from runtime.connectors import connector
    from runtime.host.files import LocalFiles
    from sqlstream.spi.connector import MeasuresInput

    if not is_bounded(graph) or any(v.parallelism > IN_PROCESS_PARALLELISM_MAX for v in graph.vertices):
        return False
    total, files = 0, LocalFiles()
    for source in (o.spec for v in graph.vertices for o in v.operators if isinstance(o.spec, SourceSpec)):
        measuring = connector(source.connector)
        if not isinstance(measuring, MeasuresInput):
            return False
        total += measuring.input_bytes(source, files)
        if total > input_bytes_max:
            return False
    return True
