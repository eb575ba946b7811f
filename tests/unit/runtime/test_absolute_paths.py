"""The paths of a job's tables, made absolute before another process runs it and checked there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.client.server.guarded_cluster import check_paths
from sqlstream.client.sessions.served_files import inferring_job
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph, read_tables
from sqlstream.planner.dialect.parser import parse_script, parse_statement
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.runtime.split_enumerators import is_of_spark, with_absolute_paths

TABLES = """
CREATE TABLE lines (n BIGINT, p AS PROCTIME()) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = 'in/lines.csv');
CREATE TABLE dim (n BIGINT) WITH ('connector' = 'duckdb', 'path' = 'in/dim.csv');
CREATE TABLE server (n BIGINT) WITH ('connector' = 'duckdb', 'type' = 'postgres', 'path' = 'dbname=shop host=localhost');
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with local_session() as made:
        for statement in parse_script(TABLES):
            made.execute(statement)
        yield made


def graph_of(session: Session, query: str) -> JobGraph:
    return session.compile(parse_statement(query)).job_graph


def read_paths(graph: JobGraph) -> list[str]:
    return [spec.options["path"] for _, spec in read_tables(graph)]


def test_the_path_of_a_duckdb_table_becomes_absolute_and_an_address_stays(
    session: Session, tmp_path: Path
) -> None:
    assert read_paths(with_absolute_paths(graph_of(session, "SELECT n FROM dim"))) == [
        f"{tmp_path}/in/dim.csv"
    ]
    graph = graph_of(session, "SELECT n FROM server")
    assert with_absolute_paths(graph) == graph


def test_a_job_that_reads_a_duckdb_table_elsewhere_is_refused(session: Session, tmp_path: Path) -> None:
    graph = with_absolute_paths(graph_of(session, "SELECT n FROM dim"))
    check_paths(graph, RootedFiles(FilePlaces((f"{tmp_path}/in",))))
    with pytest.raises(UserError) as refused:
        check_paths(graph, RootedFiles(FilePlaces((f"{tmp_path}/other",))))
    assert refused.value.code == "SS5030"
    assert refused.value.span is not None


def test_a_table_that_is_read_by_key_has_its_path_made_absolute_too(session: Session, tmp_path: Path) -> None:
    query = "SELECT l.n FROM lines AS l JOIN dim FOR SYSTEM_TIME AS OF l.p AS d ON l.n = d.n"
    graph = with_absolute_paths(graph_of(session, query))
    assert sorted(read_paths(graph)) == [f"{tmp_path}/in/dim.csv", f"{tmp_path}/in/lines.csv"]


def test_a_file_whose_columns_are_asked_for_has_its_path_made_absolute_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = inferring_job({"connector": "filesystem", "path": "in/lines.csv"}, "j", {})
    expected = inferring_job({"connector": "filesystem", "path": f"{tmp_path}/in/lines.csv"}, "j", {})
    changed = with_absolute_paths(asked)
    assert changed.vertices[0].operators[0].spec == expected.vertices[0].operators[0].spec


@pytest.mark.parametrize(("engine", "is_spark"), [("spark", True), ("duckdb", False)])
def test_a_batch_statement_on_spark_runs_in_other_directories(
    session: Session, tmp_path: Path, engine: str, is_spark: bool
) -> None:
    session.config |= {"execution.runtime-mode": "BATCH", "execution.batch.engine": engine}
    graph = graph_of(session, "SELECT n FROM lines")
    assert is_of_spark(graph) is is_spark
    assert read_paths(with_absolute_paths(graph)) == [f"{tmp_path}/in/lines.csv"]
