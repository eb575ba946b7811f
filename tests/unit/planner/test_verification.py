"""The job that runs a query twice and compares the rows."""

from __future__ import annotations

import pytest
from plan_harness import CONNECTORS

from sqlstream.catalog import PutObject, SessionCatalog
from sqlstream.graph.job_graph import JobGraph, decode_job_graph, encode_job_graph
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.planner.batch import compile_batch, plan_batch_sources
from sqlstream.planner.bind.context import BindContext
from sqlstream.planner.bind.sink import bind_select_sink
from sqlstream.planner.compile import compile_statements
from sqlstream.planner.dialect.parser import parse_script
from sqlstream.planner.dialect.statements import Query
from sqlstream.planner.statements.execute import execute_ddl
from sqlstream.planner.verification import BATCH_IDS, COMPARE_ID, verifying_job
from sqlstream.specs import BatchQuerySpec, CompareRowsSpec, SinkSpec, SourceSpec
from sqlstream.specs.compare_rows import found_schema

TABLE = "CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'table');"


def verifying(query: str, config: dict[str, str]) -> JobGraph:
    context = BindContext(SessionCatalog(), CONNECTORS, {}, config)
    definition, statement = parse_script(f"{TABLE}{query}")
    for change in execute_ddl(definition, context).changes:
        assert isinstance(change, PutObject)
        context.catalog.apply(change)  # type: ignore[attr-defined]
    assert isinstance(statement, Query)
    sink = bind_select_sink(statement.query, context)
    batch = compile_batch(plan_batch_sources((sink,), context), context, "duckdb", "", "a" * 32)
    stream = compile_statements((sink,), context, "b" * 32)
    spec = CompareRowsSpec(sink.schema, (0,), 0.0, 5)
    return verifying_job(stream.job_graph, batch.job_graph, spec, "c" * 32)


@pytest.mark.parametrize("parallelism", ["1", "2"])
@pytest.mark.parametrize(
    "query",
    ["SELECT k, COUNT(*) AS n FROM s GROUP BY k", "SELECT k FROM s UNION ALL SELECT v FROM s", "VALUES (1)"],
)
def test_the_rows_of_both_sides_go_to_the_comparison_and_what_it_finds_to_the_client(
    query: str, parallelism: str
) -> None:
    graph = verifying(query, {"parallelism.default": parallelism})
    operators = [o for v in graph.vertices for o in v.operators]
    assert [o.spec.schema for o in operators if isinstance(o.spec, SinkSpec)] == [
        found_schema(operators[-2].input_schemas[0])
    ]
    compare = graph.vertices[-1]
    assert (compare.parallelism, [o.id for o in compare.operators]) == (1, [COMPARE_ID, COMPARE_ID + 1])
    inputs = graph.inputs_of(compare.id)
    assert {edge.ordinal for edge in inputs} == {0, 1}
    assert {edge.exchange.kind for edge in inputs} == {ExchangeKind.SINGLETON}
    for edge in inputs:
        source = next(o for o in graph.vertex(edge.source).operators if o.id == edge.source_operator)
        assert (source.id >= BATCH_IDS) is (edge.ordinal == 1)
    assert len({o.id for o in operators}) == len(operators)
    assert len({edge.id for edge in graph.edges}) == len(graph.edges)
    assert decode_job_graph(encode_job_graph(graph)) == graph


def test_the_batch_reads_its_tables_by_the_ids_that_they_have_here() -> None:
    graph = verifying("SELECT a.k FROM s AS a JOIN s AS b ON a.k = b.v", {})
    (vertex,) = (v for v in graph.vertices if isinstance(v.operators[0].spec, BatchQuerySpec))
    query = vertex.operators[0].spec
    assert isinstance(query, BatchQuerySpec)
    read = {o.id for o in vertex.operators if isinstance(o.spec, SourceSpec)}
    assert set(query.tables) == read
    assert min(read) > BATCH_IDS
    assert (graph.is_batch, graph.is_query) == (False, True)


def test_a_verifying_job_takes_no_checkpoints() -> None:
    settings = {"execution.checkpointing.interval": "10 s", "parallelism.default": "1"}
    assert verifying("SELECT k FROM s", settings).config.keys() >= {"parallelism.default"}
    assert "execution.checkpointing.interval" not in verifying("SELECT k FROM s", settings).config
