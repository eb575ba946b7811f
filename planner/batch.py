"""Batch statements: the optimised plan as SQL of a batch engine, in a JobGraph whose tasks run that SQL."""

from __future__ import annotations

import dataclasses
import hashlib

import msgspec

from sqlstream import config
from sqlstream.batch_plan import table_names
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph, JobVertex
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.compile import job_name
from sqlstream.planner.graphs import collecting
from sqlstream.planner.guards import refuse_depth
from sqlstream.planner.lower.query import (
    STREAM_HINT,
    LoweredPlan,
    bounded_source,
    lower_plan,
    scans_of,
)
from sqlstream.planner.relational.lookup_join import looked_up_table
from sqlstream.planner.relational.nodes import (
    LookupJoin,
    RelationalNode,
    Sink,
    TableScan,
    walk_nodes,
)
from sqlstream.planner.relational.scan import (
    find_connector,
)
from sqlstream.planner.relational.sink import sink_spec
from sqlstream.planner.rules import optimise
from sqlstream.schema import Schema
from sqlstream.specs import BatchQuerySpec, SinkSpec, SourceSpec
from sqlstream.specs.sink import OnConflict
from sqlstream.types import STRING


@dataclasses.dataclass(frozen=True)
class BatchSources:
    """A statement set that is optimised for batch, before an engine is chosen. `scans` are the distinct scans of each sink."""

    relational: tuple[Sink, ...]
    optimised: tuple[Sink, ...]
    scans: tuple[tuple[TableScan, ...], ...]
    sources: tuple[tuple[SourceSpec, ...], ...]


@dataclasses.dataclass(frozen=True)
class CompiledBatch:
    """A statement set as a batch job. `reason` says why this engine was chosen."""

    relational: tuple[Sink, ...]
    optimised: tuple[Sink, ...]
    engine: str
    reason: str
    job_graph: JobGraph


@refuse_depth()
def plan_batch_sources(nodes: tuple[Sink, ...], context: BindContext) -> BatchSources:
    """The optimised plan and what it reads. UserError SS3302 when a table never ends, SS3010 for one that cannot be read, and
    those of `looked_up_table`. A statement is refused in both modes or in none."""
    is_reuse_enabled = bool(config.get(context.config, "table.optimizer.reuse-sub-plan-enabled"))
    optimised = optimise(nodes, context.connectors, is_reuse_enabled, has_watermarks=False)
    for join in (node for sink in optimised for node in walk_nodes(sink) if isinstance(node, LookupJoin)):
        looked_up_table(join, context.connectors)
    scans = tuple(scans_of(sink) for sink in optimised)
    sources = tuple(tuple(_source(scan, context) for scan in found) for found in scans)
    return BatchSources(nodes, optimised, scans, sources)


def is_bounded(nodes: tuple[Sink, ...]) -> bool:
    """Whether every table that is read ends."""
    return all(scan.is_bounded for sink in nodes for scan in scans_of(sink))


@refuse_depth()
def compile_batch(
    plan: BatchSources, context: BindContext, engine: str, reason: str, job_id: str = ""
) -> CompiledBatch:
    """The job of a statement set: one vertex for each sink, with one subtask. Without `job_id` it is a digest of the SQL.

    UserError SS3301 for what the engine cannot answer exactly, with its place in the statement."""
    vertices: list[JobVertex] = []
    for number, sink in enumerate(plan.optimised):
        vertices.append(_vertex(number, sink, plan.scans[number], plan.sources[number], engine, context))
    digest = hashlib.sha256("".join(v.id for v in vertices).encode()).hexdigest()[:32]
    name = job_name(plan.relational, context.config, context.text)
    graph = JobGraph(job_id or digest, name, tuple(vertices), (), dict(context.config))
    return CompiledBatch(plan.relational, plan.optimised, engine, reason, graph)


def explaining_job(vertex: JobVertex, graph: JobGraph, job_id: str) -> JobGraph:
    """A job with one row for the client: the engine's own plan of a vertex of a batch job."""
    schema, mode = Schema.of(("result", STRING)), ChangelogMode.INSERT_ONLY
    head, *tables, sink = vertex.operators
    assert isinstance(head.spec, BatchQuerySpec)
    replace = msgspec.structs.replace
    spec = replace(head.spec, is_explained=True)
    head = replace(head, spec=spec, output_schema=schema, output_mode=mode)
    sink = collecting(head, sink.id, sink.uid)
    asking = replace(vertex, name=f"{head.name} -> {sink.name}", operators=(head, *tables, sink))
    return JobGraph(job_id, "explain", (asking,), (), graph.config)


def _source(scan: TableScan, context: BindContext) -> SourceSpec:
    return bounded_source(scan, context.connectors)


def _vertex(
    number: int,
    sink: Sink,
    scans: tuple[TableScan, ...],
    sources: tuple[SourceSpec, ...],
    engine: str,
    context: BindContext,
) -> JobVertex:
    """The engine's query as head, then the tables that it reads, then the sink."""
    spec = sink_spec(sink, find_connector(context.connectors, sink.table, dict(sink.options), sink.span))
    names = table_names(len(scans))
    lowered = _lowered_sink(sink, scans, engine, context)
    first = number * 1_000_000
    table_ids = tuple(range(first + 1, first + 1 + len(scans)))
    query = BatchQuerySpec(
        engine,
        lowered.sql,
        table_ids,
        lowered.shared,
        functions=lowered.functions,
        changes=lowered.changes,
    )
    uid = _uid(number, query, sources, spec)
    title = f"Batch({engine})[{', '.join(dict.fromkeys(s.table for s in sources))}]"
    # The result of a SELECT may have other names than the table's columns; types are those of the sink.
    schema = Schema(spec.fields)
    operators = (
        _operator(first, f"{uid}-query", title, query, schema, sink),
        *(
            _operator(id, f"{uid}-{name}", f"Read: {source.table}", source, scan.schema, scan)
            for id, name, source, scan in zip(table_ids, names, sources, scans, strict=True)
        ),
        _sink_operator(first + len(scans) + 1, f"{uid}-sink", spec, first, sink),
    )
    return JobVertex(uid, f"{title} -> Sink: {spec.table}", operators, parallelism=1, max_parallelism=1)


def _operator(
    id: int, uid: str, name: str, spec: BatchQuerySpec | SourceSpec, schema: Schema, node: RelationalNode
) -> ChainedOperator:
    return ChainedOperator(
        id, uid, name, spec, NETWORK_INPUT, (), (), schema, ChangelogMode.INSERT_ONLY, name, node.span
    )


def _sink_operator(id: int, uid: str, spec: SinkSpec, query_id: int, node: Sink) -> ChainedOperator:
    mode = ChangelogMode.INSERT_ONLY
    name, schema = f"Sink: {spec.table}", Schema(spec.fields)
    return ChainedOperator(id, uid, name, spec, query_id, (schema,), (mode,), schema, mode, name, node.span)


def _lowered_sink(sink: Sink, scans: tuple[TableScan, ...], engine: str, context: BindContext) -> LoweredPlan:
    if sink.on_conflict is OnConflict.NOTHING:
        raise UserError(
            "SS3301",
            "ON CONFLICT DO NOTHING keeps the row that came first, and rows of a batch have no order",
            span=sink.span,
            hint=STREAM_HINT,
        )
    if sink.on_conflict is OnConflict.ERROR:
        raise UserError(
            "SS3301",
            "ON CONFLICT DO ERROR compares all rows of the query, which only a stream does",
            span=sink.span,
            hint=STREAM_HINT,
        )
    try:
        return lower_plan(sink, scans, engine, context.config)
    except UserError as error:
        if error.code == "SS3301" and not error.hint:
            error.hint = STREAM_HINT
        raise error.at(sink.span) from None


def _uid(number: int, query: BatchQuerySpec, sources: tuple[SourceSpec, ...], sink: SinkSpec) -> str:
    """32 hex digits, the same for an unchanged statement."""
    return hashlib.sha256(repr((number, query, sources, sink)).encode()).hexdigest()[:32]
