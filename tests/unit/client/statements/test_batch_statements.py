"""Which statements run in batch, on which engine, and what of them is said."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlstream.batch_plan import batch_plan
from sqlstream.cancellation import given_up_by
from sqlstream.changelog import ChangelogMode
from sqlstream.client.rendering.render import final_rows
from sqlstream.client.sessions.outcomes import Job, Text
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.client.statements.batch import explain_batch, is_spark_there
from sqlstream.errors import JobError, Span, UserError
from sqlstream.graph.job_graph import decode_job_graph, encode_job_graph
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.batch import CompiledBatch, explaining_job
from sqlstream.planner.compile import CompiledPlan
from sqlstream.planner.dialect.parser import parse_script, parse_statement
from sqlstream.runtime.host.rooted_files import FilePlaces
from sqlstream.specs import BatchQuerySpec, SinkSpec, SourceSpec
from sqlstream.specs.aggregate import GroupAggregateSpec

TABLES = """
CREATE TABLE bids (auction BIGINT, price BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'datagen', 'number-of-rows' = '1000');
CREATE TABLE endless (n BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE lines (`file.name` STRING METADATA VIRTUAL, `Line` STRING, `line` STRING)
  WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv');
CREATE TABLE sums (auction BIGINT, total BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}/out', 'format' = 'csv');
CREATE TABLE printed (auction BIGINT, total BIGINT) WITH ('connector' = 'print');
SET 'execution.runtime-mode' = 'BATCH';
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "lines.csv").write_text("a,b\n" * 1000)
    with local_session() as made:
        for statement in parse_script(TABLES.format(path=tmp_path)):
            made.execute(statement)
        yield made


def compiled(session: Session, text: str) -> CompiledPlan | CompiledBatch:
    return session.compile(parse_statement(text))


def in_batch(session: Session, text: str) -> CompiledBatch:
    plan = compiled(session, text)
    assert isinstance(plan, CompiledBatch)
    return plan


def put(session: Session, key: str, value: str) -> None:
    session.execute(parse_statement(f"SET '{key}' = '{value}'"))


def refusal(session: Session, text: str) -> UserError:
    with pytest.raises(UserError) as refused:
        compiled(session, text)
    return refused.value


def underlined(text: str, span: Span | None) -> str:
    assert span is not None
    return text[span.start : span.end]


def test_an_unbounded_table_is_refused_in_batch_and_streams_when_automatic(session: Session) -> None:
    text = "SELECT b.auction FROM bids AS b JOIN endless AS e ON b.auction = e.n"
    error = refusal(session, text)
    assert (error.code, error.message) == (
        "SS3302",
        'table "endless" never ends, so a batch statement cannot read it',
    )
    assert underlined(text, error.span).startswith("endless")
    put(session, "execution.runtime-mode", "AUTOMATIC")
    assert isinstance(compiled(session, text), CompiledPlan)
    in_batch(session, "SELECT auction FROM bids")


def test_what_no_engine_answers_exactly_streams_unless_an_engine_is_named_or_updates_cannot_be_written(
    session: Session,
) -> None:
    text = "SELECT auction, LISTAGG(CAST(price AS STRING)) FROM bids GROUP BY auction"
    streamed = compiled(session, text)
    assert isinstance(streamed, CompiledPlan)
    assert streamed.reason.startswith("no batch engine answers it exactly: LISTAGG")
    updates = "INSERT INTO sums SELECT 1, FIRST_VALUE(price) FROM bids"
    error = refusal(session, updates)
    assert (error.code, error.span is not None) == ("SS3301", True)
    put(session, "execution.runtime-mode", "AUTOMATIC")
    assert isinstance(compiled(session, text), CompiledPlan)
    assert refusal(session, updates).code == "SS3015"
    put(session, "execution.runtime-mode", "BATCH")
    put(session, "execution.batch.engine", "duckdb")
    error = refusal(session, text)
    assert (error.code, error.span is not None) == ("SS3301", True)


def test_a_batch_that_runs_as_a_stream_forgets_no_state(session: Session) -> None:
    put(session, "table.exec.state.ttl", "1 ms")
    text = "SELECT auction, LISTAGG(CAST(price AS STRING)) FROM bids GROUP BY auction"
    assert state_ttl_ms(compiled(session, text)) == 0
    put(session, "execution.runtime-mode", "AUTOMATIC")
    assert state_ttl_ms(compiled(session, text)) == 1


def test_a_batch_that_runs_as_a_stream_counts_rows_that_would_be_late(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "jumps.csv").write_text("2026-01-01 00:10:00\n2026-01-01 02:00:00\n2026-01-01 00:10:20\n")
    session.execute(
        parse_statement(
            "CREATE TABLE jumps (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) "
            f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/jumps.csv', 'format' = 'csv')"
        )
    )
    put(session, "execution.batch-rows", "1")
    query = (
        "SELECT COUNT(*), FIRST_VALUE(MINUTE(ts)) FROM TUMBLE(TABLE jumps, DESCRIPTOR(ts), INTERVAL '1' MINUTE) "
        "GROUP BY window_start, window_end"
    )
    job = session.execute(parse_statement(query))
    assert isinstance(job, Job)
    assert job.schema is not None
    rows = [tuple(row.values()) for b in final_rows(job.schema, job.results()) for row in b.to_pylist()]
    assert sorted(rows) == [(1, 0), (2, 10)]


def state_ttl_ms(plan: CompiledPlan | CompiledBatch) -> int:
    operators = (o.spec for vertex in plan.job_graph.vertices for o in vertex.operators)
    (aggregate,) = (spec for spec in operators if isinstance(spec, GroupAggregateSpec))
    return aggregate.state_ttl_ms


def test_floats_are_written_alike_at_every_size(session: Session) -> None:
    dealt = random.Random(7)
    values = ["0.001", "9999999.0", "1e7", "9.99e-4", "1.2345678e-300", "NaN", "Infinity"]
    values += [repr(dealt.uniform(-1, 1) * 10.0 ** dealt.randint(-44, 42)) for _ in range(300)]
    values += [
        f"{sign}3.402823{digits}e38"
        for sign in ("", "-")
        for digits in (4663852886, 5, 5677973365, 5677973366, 6)
    ]
    rows = ", ".join(f"({i}, CAST('{value}' AS DOUBLE))" for i, value in enumerate(values))
    text = (
        f"SELECT i, CAST(d AS STRING), CAST(CAST(d AS FLOAT) AS STRING), CAST(-d AS STRING) FROM (VALUES {rows}) "
        "AS t(i, d) JOIN (SELECT MIN(auction) AS a FROM bids) AS b ON i >= 0 OR a = 0"
    )
    assert sorted(rows_in_both_modes(session, text), key=lambda row: row[0])[2:7] == [
        (2, "1.0E7", "1.0E7", "-1.0E7"),
        (3, "9.99E-4", "9.99E-4", "-9.99E-4"),
        (4, "1.2345678E-300", "0.0", "-1.2345678E-300"),
        (5, "NaN", "NaN", "NaN"),
        (6, "Infinity", "Infinity", "-Infinity"),
    ]


def test_letters_without_a_counterpart_in_duckdb_are_mapped_alike(session: Session) -> None:
    text = (
        "SELECT UPPER(x || 'ŉß'), LOWER('ΑΣ' || x), UPPER(LOWER(UPPER(x))), LOWER(SUBSTRING(x || 'İΣ', 2, 3)), LOWER('ΑΣ') "
        "FROM (VALUES 'ab', 'ﬁ', 'ΑΣ', CAST(NULL AS STRING)) AS t(x) JOIN (SELECT COUNT(*) AS c FROM bids) AS b ON c = 1000"
    )
    assert rows_in_both_modes(session, text)[0] == ("ABʼNSS", "ασab", "AB", "bi̇ς", "ας")


def rows_in_both_modes(session: Session, text: str) -> list[tuple[Any, ...]]:
    """The rows of a query as a stream, which are those in batch."""
    found = []
    for mode in ("STREAMING", "BATCH"):
        put(session, "execution.runtime-mode", mode)
        job = session.execute(parse_statement(text))
        assert isinstance(job, Job)
        assert job.schema is not None
        batches = final_rows(job.schema, job.results())
        found.append(
            sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)
        )
        assert job.wait() == (JobStatus.FINISHED, None)
    assert found[0] == found[1]
    return found[0]


def test_a_query_over_literals_alone_needs_no_engine(session: Session) -> None:
    assert isinstance(compiled(session, "SELECT 1 + 1"), CompiledPlan)
    counts = "SELECT a, COUNT(*) FROM (VALUES (1), (1)) AS t(a) GROUP BY a"
    in_batch(session, counts)
    # A stream of updates could not be written there.
    in_batch(session, f"INSERT INTO sums {counts}")
    in_batch(
        session, f"EXECUTE STATEMENT SET BEGIN INSERT INTO sums {counts}; INSERT INTO sums SELECT 1, 2; END"
    )


def test_the_engine_is_chosen_by_the_size_of_the_input(session: Session) -> None:
    assert in_batch(session, "SELECT auction FROM bids").engine == "duckdb"
    assert (
        "its input has about 97.7 KiB, at most 10.0 GiB"
        in in_batch(session, "SELECT auction FROM bids").reason
    )
    if is_spark_there({}):
        put(session, "execution.batch.duckdb-bytes-max", "1 kb")
        chosen = list(_choices(session, "SELECT auction FROM bids"))
        assert [choice.engine for choice in chosen] == ["spark", "duckdb"]
        assert chosen[0].reason.startswith("its input has about 97.7 KiB, more than 1.0 KiB")
    put(session, "execution.batch.engine", "duckdb")
    assert in_batch(session, "SELECT auction FROM bids").reason == "'execution.batch.engine' = 'duckdb'"


@pytest.mark.parametrize("bytes_max", ["1 kb", "1 gb"])
def test_where_spark_cannot_be_started_duckdb_takes_input_of_any_size(
    session: Session, monkeypatch: pytest.MonkeyPatch, bytes_max: str
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    put(session, "execution.batch.duckdb-bytes-max", bytes_max)
    (choice,) = _choices(session, "SELECT auction FROM bids")
    assert choice.engine == "duckdb"
    assert ("but Spark is not installed" in choice.reason) == (bytes_max == "1 kb")


def _choices(session: Session, text: str):  # type: ignore[no-untyped-def]
    from sqlstream.client.statements.batch import engine_choices
    from sqlstream.planner.batch import plan_batch_sources
    from sqlstream.planner.bind.sink import bind_sinks

    context = session.bind_context()
    plan = plan_batch_sources(bind_sinks(parse_statement(text), context), context)
    return engine_choices(plan, context, session.files())


@pytest.mark.parametrize("path", ["other/lines.csv", "other/*", "linked/lines.csv"])
@pytest.mark.parametrize("connector", ["'filesystem', 'format' = 'csv'", "'duckdb', 'type' = 'csv'"])
def test_files_outside_of_the_allowed_directories_are_not_measured(
    tmp_path: Path, connector: str, path: str
) -> None:
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lines.csv").write_text("a,b\n" * 1000)
    (tmp_path / "linked").symlink_to(tmp_path / "other")
    with local_session() as local:
        places = FilePlaces(roots=(str(tmp_path / "mine"),))
        session = Session(local.cluster, {"execution.runtime-mode": "BATCH"}, places=places)
        for name, place, size in (("allowed", "mine/*", "3.9 KiB"), ("outside", path, "0 B")):
            options = f"'connector' = {connector}, 'path' = '{tmp_path}/{place}'"
            session.execute(parse_statement(f"CREATE TABLE {name} (a STRING, b STRING) WITH ({options})"))
            assert f"about {size}" in in_batch(session, f"SELECT a FROM {name}").reason


@pytest.mark.parametrize(("mode", "of_nan"), [("STREAMING", (False, False)), ("BATCH", (True, True))])
def test_nan_differs_from_the_stream_in_comparisons_alone(
    tmp_path: Path, mode: str, of_nan: tuple[bool, bool]
) -> None:
    (tmp_path / "x.csv").write_text("NaN\n2\n")
    with local_session({"execution.runtime-mode": mode}) as session:
        options = f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/x.csv'"
        session.execute(parse_statement(f"CREATE TABLE t (x DOUBLE) WITH ({options})"))

        def rows(query: str) -> list[tuple[bool, ...]]:
            job = session.execute(parse_statement(query))
            assert isinstance(job, Job)
            return [tuple(row.values()) for batch in job.rows() for row in batch.to_pylist()]

        assert rows("SELECT x = x, x > 1e0 FROM t") == [of_nan, (True, True)]
        assert len(rows("SELECT a.x FROM t AS a JOIN t AS b ON a.x = b.x")) == 2


def test_a_job_has_a_vertex_for_each_sink_that_only_gets_new_rows(session: Session) -> None:
    graph = in_batch(
        session,
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO sums SELECT auction, SUM(price) FROM bids GROUP BY auction;"
        " INSERT INTO printed SELECT auction, price FROM bids; END",
    ).job_graph
    assert graph.is_batch
    assert not graph.is_query
    assert len(graph.vertices) == 2
    ids = [operator.id for vertex in graph.vertices for operator in vertex.operators]
    assert len(set(ids)) == len(ids)
    for vertex in graph.vertices:
        head, table, sink = vertex.operators
        assert isinstance(head.spec, BatchQuerySpec)
        assert isinstance(table.spec, SourceSpec)
        assert table.spec.watermark is None
        assert isinstance(sink.spec, SinkSpec)
        assert sink.input == head.id
        assert sink.input_modes == (ChangelogMode.INSERT_ONLY,)
        assert vertex.parallelism == 1


def test_an_unchanged_statement_keeps_its_ids_and_another_has_others(session: Session) -> None:
    text = "SELECT auction FROM bids"
    first, again = (in_batch(session, text).job_graph for _ in range(2))
    assert first == again
    assert in_batch(session, f"{text} WHERE price > 3").job_graph.vertices[0].id != first.vertices[0].id


def test_columns_and_metadata_are_named_by_position(session: Session) -> None:
    graph = in_batch(session, "SELECT `line`, `Line`, `file.name` FROM `lines`").job_graph
    plan = batch_plan(graph.vertices[0], graph.job_id, graph.config)
    (table,) = plan.tables
    assert (table.name, table.schema.names) == ("t0", ("c0", "c1", "c2"))
    assert (table.source.columns, [m.name for m in table.source.metadata]) == (
        ("Line", "line"),
        ["file.name"],
    )
    assert plan.outputs[0].schema.names == ("line", "Line", "file.name")
    assert plan.outputs[0].sink is None


def test_a_table_that_is_read_twice_is_shared(session: Session) -> None:
    text = "SELECT a.auction FROM bids AS a JOIN (SELECT auction FROM bids GROUP BY auction) AS b ON a.auction = b.auction"
    graph = in_batch(session, text).job_graph
    plan = batch_plan(graph.vertices[0], graph.job_id, graph.config)
    assert [(t.name, t.is_shared) for t in plan.tables] == [("t0", True)]
    graph = in_batch(session, "SELECT auction FROM bids").job_graph
    plan = batch_plan(graph.vertices[0], graph.job_id, graph.config)
    assert [(t.name, t.is_shared) for t in plan.tables] == [("t0", False)]


def test_a_table_that_each_round_reads_is_shared_and_one_of_the_start_alone_is_not(session: Session) -> None:
    start = "WITH RECURSIVE r (n) AS (SELECT auction FROM bids UNION SELECT"
    for step, is_shared in (("n / 2 FROM r", False), ("price FROM r JOIN bids ON auction = n", True)):
        graph = in_batch(session, f"{start} {step}) SELECT * FROM r").job_graph
        plan = batch_plan(graph.vertices[0], graph.job_id, graph.config)
        assert {t.is_shared for t in plan.tables} == {is_shared}


def test_a_batch_job_is_the_same_after_it_was_stored(session: Session) -> None:
    graph = in_batch(
        session, "INSERT INTO sums SELECT auction, SUM(price) FROM bids GROUP BY auction"
    ).job_graph
    assert decode_job_graph(encode_job_graph(graph)) == graph


def test_settings_of_spark_go_with_the_job(session: Session) -> None:
    put(session, "spark.sql.shuffle.partitions", "3")
    assert (
        in_batch(session, "SELECT auction FROM bids").job_graph.config["spark.sql.shuffle.partitions"] == "3"
    )


def test_explain_names_the_engine_why_its_sql_and_its_plan(session: Session) -> None:
    answer = session.execute(parse_statement("EXPLAIN SELECT MAX(price) FROM bids"))
    assert isinstance(answer, Text)
    assert "== Batch Engine ==\nduckdb: its input has about 97.7 KiB, at most 10.0 GiB" in answer.text
    assert "== SQL of DuckDB ==\nSELECT" in answer.text
    assert "-- t0: bids (price)" in answer.text
    assert "Python Arrow Scan" in answer.text
    assert session.cluster.jobs() == ()


def test_what_neither_an_engine_nor_a_stream_answers_says_why_for_both(session: Session) -> None:
    changing = "(SELECT price, COUNT(*) AS n FROM bids GROUP BY price)"
    with pytest.raises(UserError) as refused:
        in_batch(session, f"SELECT * FROM COUNT_WINDOW(TABLE {changing} PARTITION BY price, 2)")
    assert refused.value.code == "SS3301"
    assert refused.value.detail.startswith("as a stream it is refused, too: count_window doesn't support")
    assert "ROW_NUMBER()" in refused.value.hint


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT n FROM endless", 'table "endless" never ends'),
        (
            "SELECT LISTAGG(CAST(price AS STRING)) FROM bids",
            "no batch engine answers it exactly: LISTAGG has no exact counterpart in DuckDB",
        ),
        ("VALUES (1)", "it reads no table, so it needs no batch engine"),
    ],
)
def test_explain_says_why_an_automatic_statement_runs_as_a_stream(
    query: str, reason: str, session: Session
) -> None:
    put(session, "execution.runtime-mode", "AUTOMATIC")
    put(session, "execution.batch.engine", "duckdb")
    answer = session.execute(parse_statement(f"EXPLAIN {query}"))
    assert isinstance(answer, Text)
    assert answer.text.endswith(f"\n== Runtime Mode ==\nstreaming: {reason}\n")


def served_session(local: Session) -> Session:
    served = Session(local.cluster, {"execution.runtime-mode": "BATCH"}, is_served=True)
    options = "'connector' = 'datagen', 'number-of-rows' = '9'"
    served.execute(parse_statement(f"CREATE TABLE bids (price BIGINT) WITH ({options})"))
    return served


def test_a_server_has_the_plan_of_duckdb_made_by_a_job(session: Session) -> None:
    answer = served_session(session).execute(parse_statement("EXPLAIN SELECT MAX(price) FROM bids"))
    assert isinstance(answer, Text)
    assert "== SQL of DuckDB ==\nSELECT" in answer.text
    assert "Python Arrow Scan" in answer.text
    assert [(job.name, job.status) for job in session.cluster.jobs()] == [("explain", JobStatus.FINISHED)]


def test_the_plan_of_a_statement_that_was_given_up_is_not_awaited(session: Session) -> None:
    served = served_session(session)
    plan = in_batch(served, "SELECT MAX(price) FROM bids")
    given_up = threading.Event()
    given_up.set()
    with given_up_by(given_up), pytest.raises(JobError, match="SS6031"):
        explain_batch(plan, (), served.cluster, served.files(), is_served=True)
    (job,) = session.cluster.jobs()
    # It may have been done before it was cancelled; what counts is that it does not run on.
    assert session.cluster.wait(job.job_id, 60).status in (JobStatus.CANCELED, JobStatus.FINISHED)


def test_the_plan_of_another_engine_is_asked_for_by_a_job(session: Session) -> None:
    graph = in_batch(session, "INSERT INTO printed SELECT auction, price FROM bids").job_graph
    (vertex,) = graph.vertices
    asking = explaining_job(vertex, graph, "f" * 32)
    session.cluster.submit(asking)
    (rows,) = session.cluster.results("f" * 32)
    assert "Python Arrow Scan" in rows.column(0)[0].as_py()
    assert session.cluster.wait("f" * 32, 60).status is JobStatus.FINISHED


def test_explain_refuses_what_only_streams_have(session: Session) -> None:
    with pytest.raises(UserError, match="EXPLAIN CHANGELOG_MODE is not supported in batch"):
        session.execute(parse_statement("EXPLAIN CHANGELOG_MODE SELECT auction FROM bids"))


def test_a_connect_server_needs_no_java_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sqlstream.runtime.host.java._PACKAGE", "no_such_package")
    assert not is_spark_there({})
    assert is_spark_there({"spark.remote": "sc://node7/;use_ssl=true"})
