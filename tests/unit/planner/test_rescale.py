"""The JobGraph of another parallelism, from the JobGraph alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from plan_harness import compile_script

from sqlstream.errors import UserError
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.job_graph import JobGraph, decode_job_graph, encode_job_graph
from sqlstream.graph.parallelism import rescaled_job_graph
from sqlstream.graph.python_files import PythonFiles
from sqlstream.runtime.jobmanager.dispatcher import is_one_job

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'stream');
CREATE TABLE two (k BIGINT, v BIGINT) WITH ('connector' = 'stream', 'scan.parallelism' = '2');
CREATE TABLE console (k BIGINT, c BIGINT) WITH ('connector' = 'print');
CREATE TABLE single (k BIGINT, c BIGINT) WITH ('connector' = 'print', 'sink.parallelism' = '1');
"""
STATEMENTS = {
    "aggregate": "INSERT INTO console SELECT k, count(*) FROM s GROUP BY k",
    "global aggregate": "INSERT INTO console SELECT max(k), count(*) FROM s",
    "fixed sink": "INSERT INTO single SELECT k, count(*) FROM s GROUP BY k",
    "fixed source": "INSERT INTO console SELECT k, count(*) FROM two GROUP BY k",
    "union": "INSERT INTO console SELECT k, v FROM s UNION ALL SELECT k, v FROM two",
    "union of versions": """INSERT INTO console SELECT k, count(*) FROM s GROUP BY k
        UNION ALL SELECT max(k), count(*) FROM two""",
    "join": "INSERT INTO console SELECT s.k, two.v FROM s JOIN two ON s.k = two.k",
    "two sinks": """EXECUTE STATEMENT SET BEGIN
        INSERT INTO console SELECT k, count(*) FROM s GROUP BY k;
        INSERT INTO single SELECT k, v FROM s WHERE v > 1; END""",
}


def planned(sql: str, parallelism: int, **config: str) -> JobGraph:
    settings = {"parallelism.default": str(parallelism)} | {
        k.replace("__", ".").replace("_", "-"): v for k, v in config.items()
    }
    (plan,) = compile_script(DDL + sql, settings)
    return decode_job_graph(encode_job_graph(plan.job_graph))


@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS.keys())
@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
def test_it_is_the_graph_that_planning_makes_for_that_parallelism(sql: str, parallelism: int) -> None:
    for first in (1, 3):
        assert rescaled_job_graph(planned(sql, first), parallelism) == planned(sql, parallelism)


@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_a_single_subtask_may_have_the_vertices_of_many(sql: str) -> None:
    many = planned(sql, 2)
    single = rescaled_job_graph(many, 1, is_chained_as_many=True)
    fixed = {v.id for v in planned(sql, 1).vertices if v.parallelism > 1}
    assert {v.parallelism for v in single.vertices if v.id not in fixed} == {1}
    assert is_one_job(single, many)
    operators = [[o.uid for o in v.operators] for v in many.vertices]
    if not fixed:
        assert [[o.uid for o in v.operators] for v in single.vertices] == operators
        assert [(e.source, e.target, e.exchange) for e in single.edges] == [
            (e.source, e.target, e.exchange) for e in many.edges
        ]
    assert rescaled_job_graph(single, 2) == many
    assert rescaled_job_graph(single, 1) == planned(sql, 1)


@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_a_rescaled_graph_is_of_the_same_job_and_that_of_another_statement_is_not(sql: str) -> None:
    graph = planned(sql, 3)
    assert is_one_job(rescaled_job_graph(graph, 1), graph)
    others = [planned(other, 3) for other in STATEMENTS.values() if other != sql]
    others += [replace(graph, job_id="other"), replace(graph, owner="other")]
    others += [planned(sql, 3, restart_strategy__type="none")]
    assert not any(is_one_job(rescaled_job_graph(other, 1), graph) for other in others)


def test_a_rescaled_graph_has_the_modules_the_files_and_the_owner_of_the_job() -> None:
    python, artifacts = PythonFiles("digest", b""), (Artifact("a", "digest", 1),)
    graph = replace(planned(STATEMENTS["aggregate"], 3), python=python, artifacts=artifacts, owner="ann")
    rescaled = rescaled_job_graph(graph, 1)
    assert (rescaled.python, rescaled.artifacts, rescaled.owner) == (python, artifacts, "ann")


def test_the_number_of_key_groups_stays() -> None:
    narrow, wide = planned(STATEMENTS["aggregate"], 1), planned(STATEMENTS["aggregate"], 100)
    assert {v.max_parallelism for v in rescaled_job_graph(narrow, 100).vertices} == {128}
    assert {v.max_parallelism for v in rescaled_job_graph(wide, 1).vertices} == {256}


def test_the_parallelism_of_tables_is_followed_by_its_option() -> None:
    graph = planned(STATEMENTS["aggregate"], 2, table__exec__resource__default_parallelism="3")
    rescaled = rescaled_job_graph(graph, 2)
    assert {v.parallelism for v in rescaled.vertices} == {2}
    assert rescaled.config["table.exec.resource.default-parallelism"] == "2"


def test_more_subtasks_than_key_groups_are_refused() -> None:
    with pytest.raises(UserError, match="has 128 key groups") as refused:
        rescaled_job_graph(planned(STATEMENTS["aggregate"], 1), 129)
    assert refused.value.code == "SS6231"


def test_a_job_of_fixed_operators_is_refused() -> None:
    sql = "INSERT INTO single SELECT k, v FROM two"
    with pytest.raises(UserError, match="fixed parallelism") as refused:
        rescaled_job_graph(planned(sql, 1), 2)
    assert refused.value.code == "SS6230"


def test_a_job_of_which_nothing_is_known_is_refused() -> None:
    graph = replace(planned(STATEMENTS["aggregate"], 1), scaling=None)
    with pytest.raises(UserError, match="another version") as refused:
        rescaled_job_graph(graph, 2)
    assert refused.value.code == "SS6230"
