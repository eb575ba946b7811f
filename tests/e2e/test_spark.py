"""Batch plans on a real Spark of this process, local[2]: rows, figures, errors, cancellation, output, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace
from spark_harness.engine import (
    SMALL,
    RecordedRun,
    datagen_table,
    file_sink,
    file_table,
    plan_of,
    spark_engine,
)
from spark_harness.processes import is_gone, wait_until

from sqlstream import types as sql
from sqlstream.batch_plan import BatchTable
from sqlstream.errors import ExternalError, InternalError, JobError, UserError
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

pytestmark = pytest.mark.timeout(300)

PEOPLE = Schema.of(("id", sql.BIGINT), ("name", sql.STRING))
NUMBERS = Schema.of(("id", sql.BIGINT))
TWO_MINUTES_SQL = "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b WHERE a.id * b.id % 7919 = 3"


@pytest.fixture
def people(tmp_path: Path) -> str:
    path = tmp_path / "people.csv"
    path.write_text("1,Ann\n2,\nx,Bob\n4,Dan\n")
    return str(path)


def run_query(query: str, *tables: BatchTable, **options: Any) -> RecordedRun:
    run = RecordedRun()
    spark_engine().run(plan_of(query, *tables, **options), run)
    return run


def test_rows_come_in_order_and_figures_come_back(people: str) -> None:
    table = file_table("t0", people, PEOPLE, **{"csv.ignore-parse-errors": "true"})
    run = run_query("SELECT c0, c1 FROM t0 ORDER BY c0 DESC", table)
    assert run.rows() == [(4, "Dan"), (2, ""), (1, "Ann")]
    assert run.counts["t0", "numRecordsOut"] == 3
    assert run.counts["t0", "numRecordsRejected"] == 1
    assert len(run.lines) == 1
    assert "line 3" in run.lines[0]
    assert run.states in ([], ["starting Spark", ""])


def test_the_order_holds_over_many_partitions() -> None:
    run = run_query("SELECT id FROM range(0, 300000, 1, 8) ORDER BY id DESC")
    assert len(run.batches) > 1
    assert [row[0] for row in run.rows()] == list(range(299_999, -1, -1))


def test_a_table_that_is_scanned_twice_is_counted_once(people: str) -> None:
    table = file_table("t0", people, PEOPLE, **{"csv.ignore-parse-errors": "true"})
    run = run_query("SELECT a.c0 FROM t0 a JOIN t0 b ON a.c0 < b.c0", table)
    assert len(run.rows()) == 3
    assert run.counts["t0", "numRecordsRejected"] == 1


def test_rows_of_a_table_without_columns_are_counted(people: str) -> None:
    table = datagen_table("t0", 1000, NUMBERS)
    without_columns = replace(table, source=replace(table.source, columns=()))
    run = run_query("SELECT count(*) AS n FROM t0", without_columns)
    assert run.rows() == [(1000,)]


def test_an_error_of_a_reader_is_the_statement_s_error(tmp_path: Path) -> None:
    with pytest.raises((UserError, ExternalError)) as caught:
        run_query("SELECT c0 FROM t0", file_table("t0", str(tmp_path / "missing.csv"), PEOPLE))
    assert "missing.csv" in caught.value.message
    assert "java" not in caught.value.message + caught.value.detail


def test_an_error_of_the_query_is_one_line_without_a_stack_trace(people: str) -> None:
    table = file_table("t0", people, PEOPLE, **{"csv.ignore-parse-errors": "true"})
    with pytest.raises(JobError) as caught:
        run_query("SELECT raise_error('no such thing') AS x FROM t0", table)
    assert "no such thing" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.detail == ""


def test_sql_that_spark_refuses_is_our_bug(people: str) -> None:
    with pytest.raises(InternalError) as caught:
        run_query("SELECT c9 FROM t0", file_table("t0", people, PEOPLE))
    assert "c9" in caught.value.message


def test_a_query_of_two_minutes_is_cancelled_long_before_its_end() -> None:
    run, caught = RecordedRun(), []
    plan = plan_of(TWO_MINUTES_SQL)

    def execute() -> None:
        try:
            spark_engine().run(plan, run)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=execute, daemon=True)
    thread.start()
    wait_until(lambda: any(total > 0 for _, total in run.reports), 60)
    spark_engine().cancel(plan.job_id)
    thread.join(60)
    assert [type(error) for error in caught] == [BatchCancelled]
    assert all(done < total for done, total in run.reports if total > 0)
    # Spark is as warm as before.
    assert run_query("SELECT 7 AS n").rows() == [(7,)]


def test_a_reader_that_goes_away_ends_the_query() -> None:
    run = RecordedRun(lambda batch: run.cancelled.set())
    with pytest.raises(BatchCancelled):
        spark_engine().run(plan_of("SELECT c0 FROM t0", datagen_table("t0", 3_000_000, NUMBERS)), run)
    assert len(run.batches) == 1


def test_output_is_visible_only_after_the_commit(tmp_path: Path, people: str) -> None:
    sink = file_sink(str(tmp_path / "out"), PEOPLE)
    table = file_table("t0", people, PEOPLE, **{"csv.ignore-parse-errors": "true"})
    run = run_query("SELECT c0, c1 FROM t0", table, schema=PEOPLE, sink=sink)
    assert visible_files(tmp_path / "out") == []
    assert run.counts["output", "numRecordsIn"] == 3
    connector("filesystem").commit(sink, LAST_CHECKPOINT_ID, run.committables, LocalFiles())
    texts = [file.read_text() for file in visible_files(tmp_path / "out")]
    assert sorted("".join(texts).splitlines()) == ["1,Ann", '2,""', "4,Dan"]


def test_a_failed_insert_leaves_no_files(tmp_path: Path, people: str) -> None:
    sink = file_sink(str(tmp_path / "out"), NUMBERS)
    table = datagen_table(
        "t0", 1000, NUMBERS, **{"fields.id.kind": "sequence", "fields.id.start": "1", "fields.id.end": "1000"}
    )
    run = RecordedRun()
    query = "SELECT CASE WHEN c0 = 900 THEN raise_error('no') ELSE c0 END AS id FROM t0"
    with pytest.raises(JobError):
        spark_engine().run(plan_of(query, table, schema=NUMBERS, sink=sink), run)
    assert run.committables == []
    assert visible_files(tmp_path / "out") == []


def visible_files(directory: Path) -> list[Path]:
    return sorted(f for f in directory.rglob("part-*") if ".staging" not in str(f))


def test_columns_of_one_name_and_names_with_dots_come_through() -> None:
    assert run_query("SELECT 1 AS a, 2 AS a, 3 AS `a.b`, named_struct('x', 4) AS a").rows() == [
        (1, 2, 3, {"x": 4})
    ]


def test_settings_of_spark_sql_belong_to_the_statement() -> None:
    key = "spark.sql.shuffle.partitions"
    query = "SELECT 1 AS n"
    engine = spark_engine()
    engine.run(plan_of(query, config={**SMALL, key: "17"}), RecordedRun())
    with engine._sessions.session(SMALL, lambda words: None, lambda: False) as (_, session):
        assert session.conf.get(key) == "4"
        assert session.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_statement_with_another_master_waits_for_nobody_and_names_the_setting() -> None:
    run, errors = RecordedRun(), []
    plan = plan_of(TWO_MINUTES_SQL)

    def execute() -> None:
        try:
            spark_engine().run(plan, run)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=execute, daemon=True)
    thread.start()
    wait_until(lambda: any(total > 0 for _, total in run.reports), 60)
    with pytest.raises(UserError) as caught:
        run_query("SELECT 1 AS n", config={**SMALL, "spark.master": "local[1]"})
    assert caught.value.code == "SS4054"
    assert '"spark.master"' in caught.value.message
    run.cancelled.set()
    thread.join(60)
    assert [type(error) for error in errors] == [BatchCancelled]


def test_explain_shows_spark_s_plan_and_reads_nothing(people: str) -> None:
    table = file_table("t0", people, PEOPLE)
    text = spark_engine().explain(
        plan_of("SELECT c1, count(*) AS n FROM t0 GROUP BY c1", table, config=SMALL), LocalFiles()
    )
    assert "HashAggregate" in text
    assert "MapInArrow" in text


def test_a_large_result_stays_within_bounds() -> None:
    own = psutil.Process()
    peaks: list[int] = []
    run = RecordedRun(lambda batch: peaks.append(own.memory_info().rss), keeps_rows=False)
    before = own.memory_info().rss
    query = "SELECT c0, c0 + 1 AS a, c0 + 2 AS b FROM t0"
    spark_engine().run(plan_of(query, datagen_table("t0", 1_000_000, NUMBERS), config=SMALL), run)
    assert run.row_count == 1_000_000
    assert max(peaks) - before < 100 * 1024 * 1024


def test_the_master_must_be_reachable() -> None:
    started_s = time.monotonic()
    with pytest.raises(ExternalError) as caught:
        run_query("SELECT 1 AS n", config={"spark.master": "spark://127.0.0.1:1"})
    assert caught.value.code == "SS5112"
    assert "127.0.0.1:1: connection refused" in caught.value.message
    assert time.monotonic() - started_s < 60


CHILD = """
import sys, time
sys.path.insert(0, {tests!r})
from spark_harness.engine import RecordedRun, SMALL, plan_of, spark_engine
engine = spark_engine()
engine.run(plan_of("SELECT 1 AS n"), RecordedRun())
with engine._sessions.session(SMALL, print, lambda: False) as (spark, _):
    print(spark.jvm.process_id, spark.directory, flush=True)
time.sleep(600)
"""


def test_the_jvm_dies_with_the_process_and_ctrl_c_does_not_reach_it() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(tests=str(Path(__file__).parents[1]))],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
        text=True,
    )
    try:
        assert child.stdout is not None
        pid, directory = child.stdout.readline().split()
        jvm = psutil.Process(int(pid))
        workers = jvm.children(recursive=True)
        assert os.getpgid(jvm.pid) != os.getpgid(child.pid)
        assert os.stat(directory).st_mode & 0o077 == 0
        listening = {c.laddr.ip for c in jvm.net_connections("inet") if c.status == psutil.CONN_LISTEN}
        assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(60)
    for process in (jvm, *workers):
        wait_until(lambda p=process: is_gone(p), 60)


@pytest.mark.slow
def test_a_jvm_that_hangs_holds_up_no_cancellation_and_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    run_query("SELECT 1 AS n")
    with spark_engine()._sessions.session(SMALL, lambda words: None, lambda: False) as (spark, _):
        jvm, directory = psutil.Process(spark.jvm.process_id), Path(spark.directory)
    jvm.suspend()
    run, errors = RecordedRun(), []

    def execute() -> None:
        try:
            spark_engine().run(plan_of("SELECT 1 AS n"), run)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=execute, daemon=True)
    thread.start()
    wait_until(lambda: any(t.name == "ask-spark" for t in threading.enumerate()), 60)
    run.cancelled.set()
    thread.join(60)
    assert [type(error) for error in errors] == [BatchCancelled]
    monkeypatch.setattr("sqlstream.runtime.batch.spark.session.ANSWER_TIMEOUT_S", 0.5)
    assert run_query("SELECT 7 AS n").rows() == [(7,)]
    assert not jvm.is_running()
    assert not directory.exists()


@pytest.mark.slow
def test_a_jvm_that_is_killed_fails_the_statement_and_the_next_one_starts_spark_anew() -> None:
    run, errors = RecordedRun(), []

    def execute() -> None:
        try:
            spark_engine().run(plan_of(TWO_MINUTES_SQL), run)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=execute, daemon=True)
    thread.start()
    wait_until(lambda: any(total > 0 for _, total in run.reports), 60)
    with spark_engine()._sessions.session(SMALL, lambda words: None, lambda: False) as (spark, _):
        os.kill(spark.jvm.process_id, signal.SIGKILL)
    thread.join(60)
    assert [type(error) for error in errors] == [ExternalError]
    assert errors[0].code == "SS5113"
    again = run_query("SELECT 7 AS n")
    assert again.rows() == [(7,)]
    assert again.states == ["starting Spark", ""]
