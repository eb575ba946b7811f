"""The job that runs one query as a stream and in batch, and compares the rows where they arise."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.planner.graphs import collecting_vertex
from sqlstream.specs import BatchQuerySpec, CompareRowsSpec, SinkSpec
from sqlstream.specs.compare_rows import BATCH_INPUT, STREAM_INPUT, found_schema
from sqlstream.specs.sink import COLLECT

BATCH_IDS = 1_000_000
"""Operators of the batch have ids from here on; those of the stream have lower ones."""

COMPARE_ID = 2 * BATCH_IDS
NAME = "verify"
_CHECKPOINTING_INTERVAL = "execution.checkpointing.interval"
_SINGLETON = Exchange(ExchangeKind.SINGLETON)


def verifying_job(stream: JobGraph, batch: JobGraph, spec: CompareRowsSpec, job_id: str) -> JobGraph:
    """The vertices of both jobs, whose rows go to one more vertex instead of to the client: it compares them, and the client gets
    what `spec` says. Each job has one sink, `collect`. The job takes no checkpoints: what the comparison holds is not saved."""
    (batch_vertex,) = batch.vertices
    vertices = (*stream.vertices, _with_ids_of_batch(batch_vertex))
    config = {key: value for key, value in stream.config.items() if key != _CHECKPOINTING_INTERVAL}
    made = JobGraph(job_id, NAME, vertices, stream.edges, config)
    compare_id = hashlib.sha256(repr((spec, [v.id for v in vertices])).encode()).hexdigest()[:32]
    # The vertices of the stream stand first, and so does its sink.
    made, stream_mode = _redirected(made, compare_id, STREAM_INPUT)
    made, batch_mode = _redirected(made, compare_id, BATCH_INPUT)
    compare = _comparing_vertex(compare_id, spec, (stream_mode, batch_mode))
    return replace(made, vertices=(*made.vertices, compare))


def _with_ids_of_batch(vertex: JobVertex) -> JobVertex:
    def moved(operator: ChainedOperator) -> ChainedOperator:
        spec = operator.spec
        if isinstance(spec, BatchQuerySpec):
            spec = replace(spec, tables=tuple(BATCH_IDS + id for id in spec.tables))
        input = operator.input if operator.input == NETWORK_INPUT else BATCH_IDS + operator.input
        return replace(operator, id=BATCH_IDS + operator.id, spec=spec, input=input)

    return replace(vertex, operators=tuple(map(moved, vertex.operators)))


def _redirected(graph: JobGraph, compare_id: str, ordinal: int) -> tuple[JobGraph, ChangelogMode]:
    """The graph without its first sink, whose rows go to an input of the comparison; and their changelog mode."""
    vertex, sink = next((v, o) for v in graph.vertices for o in v.operators if _is_collecting(o))
    mode = sink.input_modes[0]
    if sink.input == NETWORK_INPUT:
        vertices = tuple(v for v in graph.vertices if v is not vertex)
        edges = tuple(_moved(e, compare_id, ordinal) if e.target == vertex.id else e for e in graph.edges)
        return replace(graph, vertices=vertices, edges=edges), mode
    shorter = replace(
        vertex,
        name=vertex.name.removesuffix(f" -> {sink.name}"),
        operators=tuple(o for o in vertex.operators if o is not sink),
    )
    edge = JobEdge(
        id=1 + max((e.id for e in graph.edges), default=-1),
        source=vertex.id,
        source_operator=sink.input,
        target=compare_id,
        ordinal=ordinal,
        exchange=_SINGLETON,
        schema=sink.input_schemas[0],
        mode=mode,
    )
    vertices = tuple(shorter if v is vertex else v for v in graph.vertices)
    return replace(graph, vertices=vertices, edges=(*graph.edges, edge)), mode


def _is_collecting(operator: ChainedOperator) -> bool:
    return isinstance(operator.spec, SinkSpec) and operator.spec.connector == COLLECT


def _moved(edge: JobEdge, target: str, ordinal: int) -> JobEdge:
    return replace(edge, target=target, ordinal=ordinal, exchange=_SINGLETON)


def _comparing_vertex(
    id: str, spec: CompareRowsSpec, modes: tuple[ChangelogMode, ChangelogMode]
) -> JobVertex:
    found, name = found_schema(spec.schema), "CompareRows"
    compare = ChainedOperator(
        COMPARE_ID,
        f"{id}-compare",
        name,
        spec,
        NETWORK_INPUT,
        (spec.schema, spec.schema),
        modes,
        found,
        ChangelogMode.INSERT_ONLY,
        name,
    )
    return collecting_vertex(id, compare)
