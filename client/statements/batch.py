"""Statements in batch: which of them run so, on which engine, and what EXPLAIN says of them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sqlstream import config as options
from sqlstream.batch_plan import batch_plan
from sqlstream.client.following.progress import size_text
from sqlstream.client.statements.short_job import answered_texts
from sqlstream.errors import ExternalError, UserError
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.planner.batch import (
    BatchSources,
    CompiledBatch,
    compile_batch,
    explaining_job,
    plan_batch_sources,
)
from sqlstream.planner.compile import CompiledPlan, compile_statements
from sqlstream.planner.estimates import TableSizes, explain_cost
from sqlstream.planner.explain import inferred_sections
from sqlstream.planner.lower.query import scans_of
from sqlstream.planner.relational.node import explain_relation, walk_nodes
from sqlstream.planner.relational.nodes import MutualIterate, Project, RelationalNode, Sink, Values
from sqlstream.specs import SourceSpec
from sqlstream.specs.sink import COLLECT

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ClusterClient
    from sqlstream.planner.bind.context import BindContext
    from sqlstream.runtime.host.files import LocalFiles

ENGINE = "execution.batch.engine"
DUCKDB_BYTES_MAX = "execution.batch.duckdb-bytes-max"
NO_EXACT_ANSWER = "SS3301"
TITLES = {"duckdb": "DuckDB", "spark": "Spark"}


@dataclasses.dataclass(frozen=True)
class EngineChoice:
    """An engine, and why."""

    engine: str
    reason: str


def compile_in_mode(
    sinks: tuple[Sink, ...], context: BindContext, job_id: str, files: LocalFiles
) -> CompiledPlan | CompiledBatch:
    """The job of a statement under BATCH or AUTOMATIC. What no engine can answer exactly runs as a stream, which ends with its
    tables and gives the same final rows, unless BATCH goes with an engine by name; AUTOMATIC does so with unbounded tables too.
    A query over literals alone needs no engine. Only `files` are measured.

    UserError SS3302 for an unbounded table under BATCH, SS3301 for what the named engine cannot answer exactly, or neither an
    engine nor a stream can."""
    from sqlstream.client.sessions.submission import literal_rows

    is_automatic = options.get(context.config, "execution.runtime-mode") == "AUTOMATIC"
    # The final rows of a batch are those of all its input, so that no state expires.
    kept = context.config if is_automatic else {**context.config, "table.exec.state.ttl": "0 ms"}
    streaming = dataclasses.replace(context, config=kept)

    def as_stream(reason: str) -> CompiledPlan:
        return dataclasses.replace(compile_statements(sinks, streaming, job_id), reason=reason)

    endless = [scan.table.path.name for sink in sinks for scan in scans_of(sink) if not scan.is_bounded]
    if is_automatic and endless:
        return as_stream(f'table "{endless[0]}" never ends')
    plan = plan_batch_sources(sinks, context)
    if _passes_literals(plan.optimised):
        streamed = as_stream("it reads no table, so it needs no batch engine")
        if literal_rows(streamed.job_graph) is not None:
            return streamed
    is_named = not is_automatic and options.get(context.config, ENGINE) != "auto"
    if not is_named and _has_rounds(plan.optimised):
        with contextlib.suppress(UserError):
            return as_stream(
                "a round of it is computed from what the last one changed, and by no batch engine so"
            )
    try:
        return _compile(plan, context, job_id, files)
    except UserError as error:
        if error.code != NO_EXACT_ANSWER or is_named:
            raise
        try:
            return as_stream(f"no batch engine answers it exactly: {error.message}")
        except UserError as of_stream:
            # Under BATCH the user asked for final rows, so what a stream of updates cannot do is no answer.
            if is_automatic:
                raise
            error.detail = f"as a stream it is refused, too: {of_stream.message}"
            error.hint = of_stream.hint or error.hint
            raise error from of_stream


def _has_rounds(sinks: tuple[Sink, ...]) -> bool:
    return any(isinstance(node, MutualIterate) for sink in sinks for node in walk_nodes(sink))


def _passes_literals(sinks: tuple[Sink, ...]) -> bool:
    """Whether a SELECT does no more than project literal rows. Only that may be planned as a stream: a stream may refuse what a
    batch engine answers, such as an aggregation into a table that takes no updates."""
    if len(sinks) != 1 or dict(sinks[0].options).get("connector") != COLLECT:
        return False
    node: RelationalNode = sinks[0].input
    while isinstance(node, Project):
        node = node.input
    return isinstance(node, Values)


def compile_in_batch(
    sinks: tuple[Sink, ...], context: BindContext, job_id: str, files: LocalFiles
) -> CompiledBatch:
    """The job of a statement in batch, whatever execution.runtime-mode is. Only `files` are measured. UserError as
    `compile_in_mode` under BATCH."""
    return _compile(plan_batch_sources(sinks, context), context, job_id, files)


def _compile(plan: BatchSources, context: BindContext, job_id: str, files: LocalFiles) -> CompiledBatch:
    refusal: UserError | None = None
    for choice in engine_choices(plan, context, files):
        reason = choice.reason if refusal is None else f"{choice.reason}: {refusal.message}"
        try:
            return compile_batch(plan, context, choice.engine, reason, job_id)
        except UserError as error:
            if error.code != NO_EXACT_ANSWER:
                raise
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def engine_choices(plan: BatchSources, context: BindContext, files: LocalFiles) -> Iterator[EngineChoice]:
    """The engines to try, best first; Spark only where it can be used. A second one is there for what the first cannot answer
    exactly."""
    chosen = str(options.get(context.config, ENGINE))
    if chosen != "auto":
        yield EngineChoice(chosen, f"'{ENGINE}' = '{chosen}'")
        return
    bytes_max = int(options.get(context.config, DUCKDB_BYTES_MAX))
    size = input_bytes(plan, files)
    is_small = size is None or size <= bytes_max
    if size is None:
        reason = "the size of its input is not known"
    else:
        compared = "at most" if is_small else "more than"
        reason = (
            f"its input has about {size_text(size)}, {compared} {size_text(bytes_max)} ({DUCKDB_BYTES_MAX})"
        )
    if is_small:
        yield EngineChoice("duckdb", reason)
        # Asked when DuckDB has no answer, and not before: it takes a quarter of a second.
        if is_spark_there(context.config):
            yield EngineChoice("spark", "DuckDB cannot answer exactly")
    elif is_spark_there(context.config):
        yield EngineChoice("spark", reason)
        yield EngineChoice("duckdb", "Spark cannot answer exactly")
    else:
        yield EngineChoice("duckdb", f"{reason}, but Spark is not installed")


def is_spark_there(config: Mapping[str, str]) -> bool:
    """Whether Spark can be used from here without installing anything."""
    from sqlstream.runtime.batch.spark.connect.address import is_connect
    from sqlstream.runtime.batch.spark.packages import missing_packages
    from sqlstream.runtime.host.java import find_java

    if missing_packages(is_connect(config)):
        return False
    if is_connect(config):
        return True
    try:
        find_java(os.environ)
    except ExternalError:
        return False
    return True


def input_bytes(plan: BatchSources, files: LocalFiles) -> int | None:
    """An upper estimate of what the statement reads; None when a connector has none. A file that is not one of `files` has no
    size."""
    from sqlstream.runtime.connectors import connector
    from sqlstream.spi.connector import MeasuresInput

    total = 0
    for source in _distinct(plan):
        measuring = connector(source.connector)
        if not isinstance(measuring, MeasuresInput):
            return None
        total += measuring.input_bytes(source, files)
    return total


def _distinct(plan: BatchSources) -> list[SourceSpec]:
    found: list[SourceSpec] = []
    for sources in plan.sources:
        found += [source for source in sources if source not in found]
    return found


def explain_batch(
    plan: CompiledBatch,
    details: tuple[str, ...],
    cluster: ClusterClient,
    files: LocalFiles,
    is_served: bool,
    sizes: TableSizes | None = None,
) -> str:
    """The stages of a batch statement: relational plans, the engine and why, its SQL, how it reads the tables, and its own plan.
    Only `files` are looked at. `is_served`: this process is a server, which asks no engine itself. UserError SS3001 for details
    that only streams have, JobError SS6031 when the statement is given up."""
    for detail in details:
        if detail != "ESTIMATED_COST":
            raise UserError(
                "SS3001",
                f"EXPLAIN {detail} is not supported in batch",
                hint="leave it out, or SET 'execution.runtime-mode' = 'STREAMING'",
            )
    title = TITLES[plan.engine]
    sections = [
        *inferred_sections(plan.relational),
        ("Abstract Syntax Tree", "\n".join(explain_relation(n) for n in plan.relational)),
        ("Optimized Relational Plan", "\n".join(explain_relation(n) for n in plan.optimised)),
        ("Batch Engine", f"{plan.engine}: {plan.reason}"),
    ]
    if sizes is not None:
        sections.append(("Estimated Cost", explain_cost(plan.optimised, sizes)))
    graph = plan.job_graph
    for vertex in graph.vertices:
        batch = batch_plan(vertex, graph.job_id, graph.config)
        tables = "".join(
            f"\n-- {t.name}: {t.source.table} ({', '.join(t.source.columns)})" for t in batch.tables
        )
        sections.append((f"SQL of {title}", batch.outputs[0].sql + tables))
        sections.append((f"Plan of {title}", _engine_plan(vertex, graph, cluster, files, is_served)))
    return "\n\n".join(f"== {name} ==\n{text}" for name, text in sections) + "\n"


def _engine_plan(
    vertex: JobVertex, graph: JobGraph, cluster: ClusterClient, files: LocalFiles, is_served: bool
) -> str:
    """What the engine says of a query. DuckDB is asked here, unless this is a server: it would compute with what users wrote.
    Any other engine is asked where its queries run, since it may be large or take long to start."""
    batch = batch_plan(vertex, graph.job_id, graph.config)
    if batch.engine == "duckdb" and not is_served:
        from sqlstream.runtime.batch.engine import batch_engine

        return batch_engine("duckdb").explain(batch, files)
    return "\n".join(answered_texts(explaining_job(vertex, graph, secrets.token_hex(16)), cluster))
