"""Batch plans on executors that are processes of their own, one of which is killed in mid-query."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from spark_harness.engine import RecordedRun, datagen_table, file_sink, plan_of, spark_engine
from spark_harness.processes import EXECUTOR, FAST_JVM, descendants, wait_until
from spark_harness.standalone import StandaloneCluster

from sqlstream import types as sql
from sqlstream.batch_plan import BatchPlan
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CLUSTER = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": FAST_JVM,
    "spark.executor.extraJavaOptions": FAST_JVM,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
}
NUMBERS = Schema.of(("id", sql.BIGINT))
SEQUENCE = {"fields.id.kind": "sequence", "fields.id.start": "1", "fields.id.end": "400000"}
SLOWLY = "SELECT c0, java_method('java.lang.Thread', 'sleep', CAST(20 AS BIGINT)) IS NULL AS s FROM t0 WHERE c0 % 1000 = 0"
"""Each of 400 rows takes 20 ms, so that there is time to kill an executor."""


def run_and_kill_an_executor(plan: BatchPlan, run: RecordedRun) -> None:
    """Kill one of the two executors once tasks of the query run."""
    errors: list[BaseException] = []

    def execute() -> None:
        try:
            spark_engine().run(plan, run)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=execute, daemon=True)
    thread.start()
    wait_until(lambda: errors or (run.reports and run.reports[-1][1] > 0), 240)
    time.sleep(1)
    # Those of a standalone cluster are children of its workers, which are children of this process.
    before = descendants(os.getpid(), EXECUTOR)
    assert (len(before), errors) == (2, [])
    before[0].kill()
    thread.join(600)
    assert errors == []
    assert not thread.is_alive()


def test_our_code_is_shipped_and_rows_come_back() -> None:
    table = datagen_table("t0", 400_000, NUMBERS, **SEQUENCE)
    run = RecordedRun()
    query = "SELECT c0 % 7 AS k, count(*) AS n FROM t0 GROUP BY 1 ORDER BY 1"
    spark_engine().run(plan_of(query, table, config=CLUSTER), run)
    assert [n for _, n in run.rows()] == [57142, 57143, 57143, 57143, 57143, 57143, 57143]


def test_a_standalone_cluster_with_a_secret_survives_the_loss_of_an_executor(tmp_path: Path) -> None:
    table = datagen_table("t0", 400_000, NUMBERS, **SEQUENCE)
    run = RecordedRun()
    with StandaloneCluster(tmp_path, is_encrypted=False) as cluster:
        config = {**CLUSTER, **cluster.settings}
        run_and_kill_an_executor(plan_of(SLOWLY, table, config=config), run)
    assert sorted(row[0] for row in run.rows()) == [1000 * n for n in range(1, 401)]


def test_a_query_gives_each_row_once_though_an_executor_is_killed() -> None:
    table = datagen_table("t0", 400_000, NUMBERS, **SEQUENCE)
    run = RecordedRun()
    run_and_kill_an_executor(plan_of(SLOWLY, table, config=CLUSTER), run)
    assert sorted(row[0] for row in run.rows()) == [1000 * n for n in range(1, 401)]
    assert run.counts["t0", "numRecordsOut"] == 400_000


def test_an_insert_writes_each_row_once_though_an_executor_is_killed(tmp_path: Path) -> None:
    table = datagen_table("t0", 400_000, NUMBERS, **SEQUENCE)
    sink = file_sink(str(tmp_path / "out"), NUMBERS)
    run = RecordedRun()
    query = f"SELECT c0 AS id FROM ({SLOWLY}) AS x WHERE s IS NOT NULL"
    run_and_kill_an_executor(plan_of(query, table, schema=NUMBERS, sink=sink, config=CLUSTER), run)
    connector("filesystem").commit(sink, LAST_CHECKPOINT_ID, run.committables, LocalFiles())
    texts = [
        file.read_text() for file in (tmp_path / "out").rglob("part-*.csv") if ".staging" not in str(file)
    ]
    assert sorted(int(line) for line in "".join(texts).split()) == [1000 * n for n in range(1, 401)]
