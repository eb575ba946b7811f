"""The job of two statements: every table is read once, nothing is written, and each half takes a copy of the state."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from plan_harness import CONNECTORS, compile_script

from sqlstream.errors import UserError
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.job_graph import NETWORK_INPUT, JobGraph, written_tables
from sqlstream.planner.canary import NEW_IDS, OF_KEYS, OF_ROWS, canary_job, doubled
from sqlstream.runtime.jobmanager.checkpoints.build_manifest import foreseen_manifest
from sqlstream.runtime.jobmanager.checkpoints.state_claims import begun_empty, claims_of
from sqlstream.specs import SinkSpec, SourceSpec

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT, name STRING, rt TIMESTAMP(3), WATERMARK FOR rt AS rt) WITH ('connector' = 'stream');
CREATE TABLE d (k BIGINT, label STRING) WITH ('connector' = 'stream');
CREATE TABLE a (k BIGINT, c BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
CREATE TABLE f (k BIGINT, v BIGINT) WITH ('connector' = 'filtering');
CREATE TABLE e (k BIGINT, v BIGINT) WITH ('connector' = 'exact');
CREATE TABLE n (k STRING, c BIGINT) WITH ('connector' = 'blackhole');
"""
COMPARED = """
CREATE TABLE old_rows (op STRING, c0 BIGINT, c1 BIGINT) WITH ('connector' = 'stream');
CREATE TABLE new_rows (op STRING, c0 BIGINT, c1 BIGINT) WITH ('connector' = 'stream');
SELECT o.c1, n.c1 FROM old_rows AS o FULL JOIN new_rows AS n ON o.c0 = n.c0;
"""
SUM = "INSERT INTO a SELECT k, SUM(v) FROM s WHERE v > 10 GROUP BY k"
MORE = "INSERT INTO a SELECT k, SUM(v) FROM s WHERE v > 10 AND name = 'x' GROUP BY k"
JOIN = "INSERT INTO a SELECT s.k, s.v FROM s JOIN d ON s.k = d.k"
BOTH = "INSERT INTO a SELECT k, v FROM s WHERE v > 1 UNION ALL SELECT k, v FROM s WHERE v < 1"


def planned(sql: str, parallelism: int = 2) -> JobGraph:
    (plan,) = compile_script(f"{DDL}{sql};", {"parallelism.default": str(parallelism)})
    return plan.job_graph


def with_file(graph: JobGraph, digit: str) -> JobGraph:
    return replace(graph, artifacts=(Artifact("model.onnx", digit * 64, 1),))


def test_one_job_has_one_file_of_a_name() -> None:
    (compared,) = compile_script(COMPARED, {"parallelism.default": "1"})
    same = canary_job(
        with_file(planned(SUM), "1"), with_file(planned(SUM), "1"), compared.job_graph, OF_KEYS, CONNECTORS
    )
    assert [a.name for a in same.artifacts] == ["model.onnx"]
    with pytest.raises(UserError) as refused:
        canary_job(
            with_file(planned(SUM), "1"),
            with_file(planned(SUM), "2"),
            compared.job_graph,
            OF_KEYS,
            CONNECTORS,
        )
    assert (refused.value.code, refused.value.message) == (
        "SS5450",
        'file "model.onnx" is another, and one job has one',
    )


def joined(old: str, new: str) -> JobGraph:
    (compared,) = compile_script(COMPARED, {"parallelism.default": "1"})
    return canary_job(planned(old), planned(new), compared.job_graph, OF_KEYS, CONNECTORS)


def readers(graph: JobGraph) -> list[SourceSpec]:
    return [o.spec for v in graph.vertices for o in v.operators if isinstance(o.spec, SourceSpec)]


@pytest.mark.parametrize(
    ("old", "new", "tables"),
    [
        (SUM, SUM, ["s"]),
        (SUM, MORE, ["s"]),
        (JOIN, JOIN, ["s", "d"]),
        (SUM, JOIN, ["s", "d"]),
        (BOTH, SUM, ["s"]),
    ],
)
def test_tables_are_read_once_and_written_by_nobody(old: str, new: str, tables: list[str]) -> None:
    graph = joined(old, new)
    assert sorted(spec.table for spec in readers(graph)) == sorted(tables)
    assert [spec.connector for _, spec in written_tables(graph)] == ["collect"]


@pytest.mark.parametrize(("old", "new"), [(SUM, SUM), (SUM, MORE), (JOIN, SUM), (BOTH, BOTH)])
def test_the_graph_is_whole(old: str, new: str) -> None:
    graph = joined(old, new)
    seen: set[str] = set()
    ids = [o.id for v in graph.vertices for o in v.operators]
    assert len(set(ids)) == len(ids)
    assert len({e.id for e in graph.edges}) == len(graph.edges)
    for vertex in graph.vertices:
        edges = graph.inputs_of(vertex.id)
        assert {e.source for e in edges} <= seen
        seen.add(vertex.id)
        head = vertex.operators[0]
        assert bool(edges) != isinstance(head.spec, SourceSpec)
        for edge in edges:
            source = next(o for o in graph.vertex(edge.source).operators if o.id == edge.source_operator)
            assert source.output_schema == edge.schema
            assert head.input_schemas[edge.ordinal].types == edge.schema.types
        within = {o.id: o for o in vertex.operators}
        for operator in vertex.operators[1:]:
            assert operator.input != NETWORK_INPUT
            assert within[operator.input].output_schema.types == operator.input_schemas[0].types


def test_both_halves_go_on_with_the_state_of_the_job() -> None:
    manifest = doubled(foreseen_manifest(planned(SUM)))
    graph = joined(SUM, SUM)
    claims = claims_of(manifest, graph)
    stateful = [
        o
        for v in graph.vertices
        for o in v.operators
        if o.state is not None and o.state.sql.startswith("GROUP BY") and not isinstance(o.spec, SinkSpec)
    ]
    assert [o.id >= NEW_IDS for o in stateful] == [False, True]
    assert [claims[o.id].operator.id == o.id for o in stateful] == [True, True]
    assert begun_empty(graph, claims) == ("FULL JOIN ON c0 = c0 of SELECT",)
    source = next(o for v in graph.vertices for o in v.operators if isinstance(o.spec, SourceSpec))
    assert claims[source.id].operator.title == "the position in table s of INSERT INTO a"
    assert manifest.commits == ()


def test_columns_that_either_statement_reads_are_read() -> None:
    (reader,) = readers(joined(SUM, MORE))
    assert reader.columns == ("k", "v", "name")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SUM, planned(SUM, parallelism=1)),
        ("INSERT INTO a SELECT k, v FROM s /*+ OPTIONS('scan.parallelism'='2') */", planned("INSERT INTO a SELECT k, v FROM s")),
    ],
)  # fmt: skip
def test_tables_that_are_read_in_two_ways_are_refused(old: str, new: JobGraph) -> None:
    (compared,) = compile_script(COMPARED, {"parallelism.default": "1"})
    with pytest.raises(UserError) as refused:
        canary_job(planned(old), new, compared.job_graph, OF_ROWS, CONNECTORS)
    assert refused.value.code == "SS5451"


def test_filters_that_only_help_a_connector_are_left_out_where_they_differ() -> None:
    old, new = (f"INSERT INTO a SELECT k, v FROM f WHERE v > {bound}" for bound in (1, 2))
    assert [bool(spec.filters) for spec in readers(planned(old))] == [True]
    (apart,) = readers(joined(old, new))
    assert apart.filters == ()
    (same,) = readers(joined(old, old))
    assert same == readers(planned(old))[0]


def test_filters_that_a_connector_applies_itself_cannot_differ() -> None:
    old, new = (f"INSERT INTO a SELECT k, v FROM e WHERE v > {bound}" for bound in (1, 2))
    assert joined(old, old)
    with pytest.raises(UserError) as refused:
        joined(old, new)
    assert (refused.value.code, refused.value.message) == (
        "SS5451",
        'the statements read other parts of table "e"',
    )
