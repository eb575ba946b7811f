"""`execution.target = spark` of a server, and of processes that are killed: their jobs run in a Spark cluster, which has all of
its cores again when they have ended."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from server_harness import RunningServer
from spark_harness.jobs import ENDLESS, SUMS, SUMS_ROW, on_spark, rows, run, run_command, write_settings
from spark_harness.processes import (
    DRIVER,
    EXECUTOR,
    TASK_MANAGER,
    WAIT_S,
    descendants,
    is_gone,
    wait_until,
)
from spark_harness.standalone import StandaloneCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def in_workers(cluster: StandaloneCluster, words: str) -> list[psutil.Process]:
    return [p for worker in cluster.workers for p in descendants(worker.pid, words)]


def statements(text: str) -> list[str]:
    return [s for s in text.split(";") if s.strip()]


@pytest.fixture
def server(spark_cluster: StandaloneCluster, tmp_path: Path) -> RunningServer:
    """Of two cores in the cluster each job takes one."""
    config = {**on_spark(**spark_cluster.settings), "parallelism.default": "1"}
    return RunningServer(tmp_path / "data", "--config", str(write_settings(config, tmp_path)))


def endless_job(server: RunningServer, session: str) -> str:
    """The id of a job that runs."""
    *tables, insert = statements(ENDLESS)
    for table in tables:
        server.execute(session, table.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    job_id = server.insert(session, insert)
    server.wait_for(job_id, "RUNNING", timeout_s=WAIT_S)
    return job_id


def read(server: RunningServer, job_id: str) -> int:
    """How many rows its sources have read."""
    found: int = server.get(f"/jobs/{job_id}/totals")["total"].get("numRecordsRead", 0)
    return found


def cancel(server: RunningServer, job_id: str) -> None:
    assert server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True).status_code == 202
    assert server.wait_for(job_id, "CANCELED", "FAILED", timeout_s=WAIT_S) == "CANCELED"


def test_a_server_runs_jobs_and_queries_in_the_cluster_until_it_is_stopped(
    server: RunningServer, spark_cluster: StandaloneCluster
) -> None:
    with server:
        session = server.open_session()
        job_id = endless_job(server, session)
        wait_until(lambda: read(server, job_id) > 0)
        assert len(in_workers(spark_cluster, TASK_MANAGER)) == 1
        # Nothing runs on the server's own machine but the driver.
        assert len([p for p in server.children() if "runtime." in " ".join(p.cmdline())]) == 1
        table, query = statements(SUMS)
        server.execute(session, table)
        assert ["2", "33333", "1666650000"] in [[str(v) for v in r] for r in server.execute(session, query)]
        cancel(server, job_id)
        second = endless_job(server, session)
        wait_until(lambda: read(server, second) > 0)
        ours = (
            server.children() + in_workers(spark_cluster, EXECUTOR) + in_workers(spark_cluster, TASK_MANAGER)
        )
        assert server.signal(signal.SIGTERM) == 0, server.errors()
        wait_until(lambda: all(is_gone(p) for p in ours), 60)
        assert in_workers(spark_cluster, EXECUTOR) == []


def test_a_server_that_is_killed_gives_its_executors_back_and_runs_its_jobs_again(
    server: RunningServer, spark_cluster: StandaloneCluster
) -> None:
    with server:
        job_id = endless_job(server, server.open_session())
        wait_until(lambda: read(server, job_id) > 0)
        ours = (
            server.children() + in_workers(spark_cluster, EXECUTOR) + in_workers(spark_cluster, TASK_MANAGER)
        )
        server.signal(signal.SIGKILL)
        wait_until(lambda: all(is_gone(p) for p in ours), 60)
        server.start()
        server.wait_for(job_id, "RUNNING", timeout_s=WAIT_S)
        wait_until(lambda: read(server, job_id) > 0)
        cancel(server, job_id)
        assert server.signal(signal.SIGTERM) == 0, server.errors()
        wait_until(lambda: in_workers(spark_cluster, EXECUTOR) == [], 60)


def test_a_command_that_is_killed_leaves_no_process_and_all_cores_to_the_next_one(
    spark_cluster: StandaloneCluster, tmp_path: Path
) -> None:
    config = on_spark(**spark_cluster.settings)
    lines = "CREATE TABLE lines (k BIGINT, s BIGINT) WITH ('connector' = 'print');"
    *_, insert = statements(ENDLESS)
    script = f"{ENDLESS.replace(insert + ';', '')} {lines} {insert.replace('INTO sums', 'INTO lines')};"
    with subprocess.Popen(
        run_command(config, tmp_path, script), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as command:
        assert command.stdout is not None
        assert command.stdout.readline()
        ours = descendants(command.pid) + in_workers(spark_cluster, EXECUTOR)
        ours += in_workers(spark_cluster, TASK_MANAGER)
        assert [len(in_workers(spark_cluster, words)) for words in (EXECUTOR, TASK_MANAGER)] == [2, 2]
        assert len(descendants(command.pid, DRIVER)) == 1
        command.kill()
    wait_until(lambda: all(is_gone(p) for p in ours), 60)
    # It needs both cores.
    assert any(SUMS_ROW in line for line in rows(run(config, tmp_path, SUMS)))
