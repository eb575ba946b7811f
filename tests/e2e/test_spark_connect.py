"""Batch plans at a real Spark Connect server on loopback: rows, figures, errors, cancellation, output, and how sessions end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from spark_connect_harness import ConnectServer
from spark_harness.engine import RecordedRun, datagen_table, file_sink, file_table, plan_of
from spark_harness.processes import wait_until

from sqlstream import types as sql
from sqlstream.batch_plan import BatchTable
from sqlstream.errors import ExternalError, InternalError, JobError, UserError
from sqlstream.expressions import Call, InputRef
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.batch.spark.connect.address import REMOTE, TOKEN
from sqlstream.runtime.batch.spark.engine import SparkEngine
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs.batch_query import HostedFunction
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

pytestmark = pytest.mark.timeout(500)

PEOPLE = Schema.of(("id", sql.BIGINT), ("name", sql.STRING))
NUMBERS = Schema.of(("id", sql.BIGINT))
TWO_MINUTES_SQL = "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b WHERE a.id * b.id % 7919 = 3"
IGNORING_ERRORS = {"csv.ignore-parse-errors": "true"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.fixture(scope="module")
def engine() -> Iterator[SparkEngine]:
    engine = SparkEngine()
    yield engine
    engine.close()


@pytest.fixture
def people(tmp_path: Path) -> str:
    path = tmp_path / "people.csv"
    path.write_text("1,Ann\n2,\nx,Bob\n4,Dan\n")
    return str(path)


class Statements:
    """Runs plans on the engine with the settings of one server."""

    def __init__(self, engine: SparkEngine, server: ConnectServer) -> None:
        self.engine = engine
        self.config = {REMOTE: server.url}

    def run(
        self, query: str, *tables: BatchTable, into: RecordedRun | None = None, **options: Any
    ) -> RecordedRun:
        run = into or RecordedRun()
        config = {**self.config, **options.pop("config", {})}
        self.engine.run(plan_of(query, *tables, config=config, **options), run)
        return run

    def start(
        self, query: str, run: RecordedRun, *tables: BatchTable
    ) -> tuple[str, threading.Thread, list[Any]]:
        """The job's id, the thread of the statement, and what it raises."""
        plan = plan_of(query, *tables, config=self.config)
        errors: list[Any] = []

        def execute() -> None:
            try:
                self.engine.run(plan, run)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=execute, daemon=True)
        thread.start()
        return plan.job_id, thread, errors


@pytest.fixture
def on(engine: SparkEngine, server: ConnectServer) -> Statements:
    return Statements(engine, server)


def is_running(run: RecordedRun) -> bool:
    return any(total > 0 for _, total in run.reports)


def test_rows_come_in_order_and_figures_come_back_though_the_workers_have_no_code_of_ours(
    on: Statements, people: str
) -> None:
    run = on.run(
        "SELECT c0, c1 FROM t0 ORDER BY c0 DESC",
        file_table("t0", people, PEOPLE, **IGNORING_ERRORS),
        schema=PEOPLE,
    )
    assert run.rows() == [(4, "Dan"), (2, ""), (1, "Ann")]
    assert run.counts["t0", "numRecordsOut"] == 3
    assert run.counts["t0", "numRecordsRejected"] == 1
    assert len(run.lines) == 1
    assert "line 3" in run.lines[0]


def test_workers_compute_functions_of_the_stream(on: Statements, people: str) -> None:
    table = file_table("t0", people, PEOPLE, **IGNORING_ERRORS)
    upper = HostedFunction("ours0", Call("UPPER", (InputRef(0, sql.STRING),), sql.STRING), (sql.STRING,))
    query = "SELECT c0, ours0(c1) FROM t0 ORDER BY c0"
    run = on.run(query, table, schema=PEOPLE, functions=(upper,))
    assert run.rows() == [(1, "ANN"), (2, ""), (4, "DAN")]
    # The next statement of the session has another function of this name.
    read = HostedFunction("ours0", Call("CAST", (InputRef(0, sql.STRING),), sql.INT), (sql.STRING,))
    with pytest.raises(UserError, match='cannot cast "Ann" to INT') as caught:
        on.run("SELECT CAST(ours0(c1) AS BIGINT) AS n FROM t0 WHERE c0 = 1", table, functions=(read,))
    assert caught.value.code == "SS5102"


def test_a_table_that_is_scanned_twice_is_counted_once(on: Statements, people: str) -> None:
    table = file_table("t0", people, PEOPLE, **IGNORING_ERRORS)
    shared = replace(table, is_shared=True)
    for one in (table, shared):
        run = on.run("SELECT a.c0 FROM t0 a JOIN t0 b ON a.c0 < b.c0", one)
        assert len(run.rows()) == 3
        assert run.counts["t0", "numRecordsRejected"] == 1


def test_rows_of_a_table_without_columns_are_counted(on: Statements) -> None:
    table = datagen_table("t0", 1000, NUMBERS)
    without_columns = replace(table, source=replace(table.source, columns=()))
    assert on.run("SELECT count(*) AS n FROM t0", without_columns).rows() == [(1000,)]


def test_columns_of_one_name_and_names_with_dots_come_through(on: Statements) -> None:
    four = Schema.of(*((name, sql.INT) for name in "abcd"))
    run = on.run("SELECT 1 AS a, 2 AS a, 3 AS `a.b`, named_struct('x', 4) AS a", schema=four)
    assert run.rows() == [(1, 2, 3, {"x": 4})]


def test_the_order_holds_over_many_partitions(on: Statements) -> None:
    run = on.run("SELECT id FROM range(0, 300000, 1, 8) ORDER BY id DESC")
    assert len(run.batches) > 1
    assert [row[0] for row in run.rows()] == list(range(299_999, -1, -1))


def test_an_error_of_a_reader_is_the_statement_s_error(on: Statements, tmp_path: Path) -> None:
    with pytest.raises((UserError, ExternalError)) as caught:
        on.run("SELECT c0 FROM t0", file_table("t0", str(tmp_path / "missing.csv"), PEOPLE))
    assert "missing.csv" in caught.value.message
    assert "java" not in caught.value.message + caught.value.detail


def test_an_error_of_the_query_is_one_line_without_a_stack_trace(on: Statements) -> None:
    with pytest.raises(JobError) as caught:
        on.run("SELECT raise_error('no such thing') AS x")
    assert "no such thing" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.detail == ""


def test_sql_that_spark_refuses_is_our_bug(on: Statements, people: str) -> None:
    with pytest.raises(InternalError) as caught:
        on.run("SELECT c9 FROM t0", file_table("t0", people, PEOPLE))
    assert "c9" in caught.value.message


def test_a_query_of_two_minutes_is_cancelled_within_two_seconds(on: Statements) -> None:
    run = RecordedRun()
    job_id, thread, errors = on.start(TWO_MINUTES_SQL, run)
    wait_until(lambda: is_running(run), 60)
    started_s = time.monotonic()
    on.engine.cancel(job_id)
    thread.join(60)
    assert time.monotonic() - started_s < 30
    assert [type(error) for error in errors] == [BatchCancelled]
    assert on.run("SELECT 7 AS n").rows() == [(7,)]


def test_a_reader_that_goes_away_ends_the_query(on: Statements) -> None:
    run = RecordedRun(lambda batch: run.cancelled.set())
    with pytest.raises(BatchCancelled):
        on.run("SELECT c0 FROM t0", datagen_table("t0", 3_000_000, NUMBERS), into=run)
    assert len(run.batches) == 1


def test_output_is_visible_only_after_the_commit(on: Statements, tmp_path: Path, people: str) -> None:
    sink = file_sink(str(tmp_path / "out"), PEOPLE)
    table = file_table("t0", people, PEOPLE, **IGNORING_ERRORS)
    run = on.run("SELECT c0, c1 FROM t0", table, schema=PEOPLE, sink=sink)
    assert visible_files(tmp_path / "out") == []
    assert run.counts["output", "numRecordsIn"] == 3
    assert run.counts["t0", "numRecordsOut"] == 3
    connector("filesystem").commit(sink, LAST_CHECKPOINT_ID, run.committables, LocalFiles())
    texts = [file.read_text() for file in visible_files(tmp_path / "out")]
    assert sorted("".join(texts).splitlines()) == ["1,Ann", '2,""', "4,Dan"]


def test_a_failed_insert_leaves_no_files(on: Statements, tmp_path: Path) -> None:
    sink = file_sink(str(tmp_path / "out"), NUMBERS)
    run = RecordedRun()
    query = "SELECT CASE WHEN id = 900 THEN raise_error('no') ELSE id END AS id FROM range(0, 1000, 1, 3)"
    with pytest.raises(JobError):
        on.run(query, schema=NUMBERS, sink=sink, into=run)
    assert run.committables == []
    assert visible_files(tmp_path / "out") == []


def visible_files(directory: Path) -> list[Path]:
    return sorted(f for f in directory.rglob("part-*") if ".staging" not in str(f))


def test_settings_of_spark_sql_belong_to_the_statement(on: Statements) -> None:
    key = "spark.sql.shuffle.partitions"
    on.run("SELECT 1 AS n", config={key: "17"})
    (session,) = [s for sessions in on.engine._remote._idle.values() for s in sessions]
    assert session.spark.conf.get(key) == "4"
    assert session.spark.conf.get("spark.sql.session.timeZone") == "UTC"
    with session.settings({key: "17"}):
        assert session.spark.conf.get(key) == "17"


def test_a_setting_of_the_server_is_refused_by_name(on: Statements) -> None:
    for key in ("spark.executor.memory", "spark.sql.warehouse.dir"):
        with pytest.raises(UserError) as caught:
            on.run("SELECT 1 AS n", config={key: "1g"})
        assert caught.value.code == "SS4058"
        assert f'"{key}"' in caught.value.message


def test_explain_shows_the_server_s_plan(on: Statements, people: str) -> None:
    table = file_table("t0", people, PEOPLE)
    text = on.engine.explain(plan_of("SELECT count(*) AS n FROM t0", table, config=on.config), LocalFiles())
    assert text.startswith("t0: through sqlstream's reader: over Spark Connect")
    assert "== Physical Plan ==" in text
    assert "HashAggregate" in text


def test_a_wrong_token_is_said_and_not_shown(on: Statements, server: ConnectServer) -> None:
    url = f"sc://127.0.0.1:{server.port}/;token=not-the-token"
    with pytest.raises(ExternalError) as caught:
        on.run("SELECT 1 AS n", config={REMOTE: url})
    assert caught.value.code == "SS5116"
    assert "not-the-token" not in str(caught.value) + caught.value.hint + caught.value.detail


def test_the_token_may_be_a_setting_of_its_own(on: Statements, server: ConnectServer) -> None:
    settings = {REMOTE: f"sc://localhost:{server.port}", TOKEN: server.token}
    assert on.run("SELECT 3 AS n", config=settings).rows() == [(3,)]


def test_a_server_that_is_not_there_is_said_soon(on: Statements) -> None:
    started_s = time.monotonic()
    with pytest.raises(ExternalError) as caught:
        on.run("SELECT 1 AS n", config={REMOTE: "sc://127.0.0.1:9"})
    assert caught.value.code == "SS5112"
    assert time.monotonic() - started_s < 30
