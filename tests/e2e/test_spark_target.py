"""`execution.target = spark`: TaskManagers in the executors of a Spark cluster."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import trustme
from command_harness import ROOT
from spark_harness.jobs import ENDLESS, LOCAL, SUMS, SUMS_ROW, nexmark, on_spark, rows, run
from spark_harness.processes import DRIVER, EXECUTOR, TASK_MANAGER, descendants, is_gone, wait_until
from spark_harness.standalone import StandaloneCluster

from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import target_session
from sqlstream.errors import UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.dialect.parser import parse_script

LOOKUP = """
CREATE TABLE dim (n BIGINT) WITH ('connector' = 'duckdb', 'path' = 'dim.csv');
CREATE TABLE keys (n BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
SELECT k.n FROM keys AS k JOIN dim FOR SYSTEM_TIME AS OF k.p AS d ON k.n = d.n;
"""
FILES = """
CREATE TABLE files (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '/data', 'format' = 'csv');
SELECT * FROM files;
"""


def submit(session: Session, text: str) -> Job:
    """The job of the last statement."""
    for statement in parse_script(text):
        outcome = session.execute(statement)
    assert isinstance(outcome, Job)
    return outcome


def task_managers(process_id: int) -> list[psutil.Process]:
    return descendants(process_id, TASK_MANAGER)


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, str]:
    """Settings with which all processes meet over TCP."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    names = {"certificate-file": "cert.pem", "key-file": "key.pem", "ca-file": "ca.pem"}
    return {
        "jobmanager.rpc.address": "127.0.0.1",
        "security.ssl.internal.enabled": "true",
        **{f"security.ssl.internal.{key}": str(tmp_path / name) for key, name in names.items()},
    }


@pytest.mark.timeout(300)
def test_tasks_of_spark_give_the_rows_of_local_processes_over_tls(
    tls: dict[str, str], tmp_path: Path
) -> None:
    config = on_spark(**{"spark.master": "local[2]"}, **tls)
    there = run(config, tmp_path, SUMS)
    assert rows(there) == rows(run(LOCAL, tmp_path, SUMS))
    assert any(SUMS_ROW in line for line in there.stdout.splitlines())


def test_a_master_that_is_not_there_is_told_at_once() -> None:
    config = {"execution.target": "spark", "spark.master": "spark://127.0.0.1:1"}
    with target_session(config) as session:
        status, error = submit(session, SUMS).wait(50)
    assert status is JobStatus.FAILED
    assert error is not None
    assert error.code == "SS5112"
    assert error.message.startswith('could not reach the Spark master "spark://127.0.0.1:1"')


def test_tables_of_local_files_are_refused_on_several_hosts(tls: dict[str, str]) -> None:
    config = {**tls, "execution.target": "spark", "spark.master": "yarn"}
    with target_session(config) as session:
        with pytest.raises(UserError, match='table "files" has files of this machine') as error:
            submit(session, FILES)
        assert isinstance(session.cluster, LocalClusterClient)
        # Before Spark is asked for anything.
        assert session.cluster.cluster().process_ids == ()
    assert error.value.code == "SS4057"


def test_a_local_file_that_is_read_by_key_is_refused_on_several_hosts(tls: dict[str, str]) -> None:
    config = {**tls, "execution.target": "spark", "spark.master": "yarn"}
    with target_session(config) as session, pytest.raises(UserError, match='table "dim" has files') as error:
        submit(session, LOOKUP)
    assert error.value.code == "SS4057"


# --- a cluster of its own processes


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nexmark_and_the_demo_give_the_rows_of_local_processes(
    spark_cluster: StandaloneCluster, tmp_path: Path
) -> None:
    script = (ROOT / "queries" / "getting_started.sql").read_text() + nexmark("q5")
    found, counts = [], []
    for name, config in (
        ("here", {**LOCAL, "parallelism.default": "2"}),
        ("there", on_spark(**spark_cluster.settings)),
    ):
        directory = tmp_path / name
        directory.mkdir()
        # Relative paths are those of the command, wherever its tasks run.
        (directory / "queries").symlink_to(ROOT / "queries")
        found.append(rows(run(config, directory, script)))
        counts.append(len(rows(run(config, directory, nexmark("q18")))))
    assert len(found[0]) > 30
    assert found[0] == found[1]
    # Of bids at the same time q18 may keep any.
    assert counts[0] == counts[1] > 1000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_executors_come_and_go_with_the_task_managers_and_none_is_kept(
    spark_cluster: StandaloneCluster,
) -> None:
    config = on_spark(
        **spark_cluster.settings,
        **{"resourcemanager.taskmanager-timeout": "1 s", "spark.dynamicAllocation.executorIdleTimeout": "1s"},
    )

    def executors() -> list[psutil.Process]:
        return [p for w in spark_cluster.workers for p in descendants(w.pid, EXECUTOR)]

    with target_session(config) as session:
        for _ in range(2):
            job = submit(session, ENDLESS.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
            wait_until(lambda: len(session.cluster.task_managers()) == 2)
            assert len(executors()) == 2
            job.cancel()
            wait_until(lambda: len(session.cluster.task_managers()) == 1 and len(executors()) == 1)
    wait_until(lambda: executors() == [])


def kill_executor(cluster: StandaloneCluster) -> str:
    victim = descendants(cluster.workers[0].pid, EXECUTOR)[0]
    victim.kill()
    return r"was lost with its executor: executor \d+ exited.*137"


def kill_worker(cluster: StandaloneCluster) -> str:
    cluster.workers[0].kill()
    return "was lost with its executor: executor "


def kill_task_manager(cluster: StandaloneCluster) -> str:
    victim = task_managers(cluster.workers[0].pid)[0]
    victim.kill()
    return rf"TaskManager \S+ \(process {victim.pid}\) was killed by signal 9"


def kill_driver(cluster: StandaloneCluster) -> str:
    (victim,) = descendants(os.getpid(), DRIVER)
    victim.kill()
    return rf"Spark's driver \(process {victim.pid}\) was killed by signal 9, and all TaskManagers with it"


KILLS: list[Callable[[StandaloneCluster], str]] = [kill_executor, kill_task_manager, kill_driver, kill_worker]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: kill.__name__)
def test_a_job_that_loses_a_process_fails_with_the_reason_and_leaves_none(
    spark_cluster: StandaloneCluster, kill: Callable[[StandaloneCluster], str]
) -> None:
    while len(spark_cluster.workers) < 2:
        spark_cluster.start_worker(f"worker-{len(spark_cluster.processes)}")
    with target_session(on_spark(**spark_cluster.settings)) as session:
        job = submit(session, ENDLESS)
        wait_until(lambda: job.cluster.details(job.id).status is JobStatus.RUNNING)
        wait_until(lambda: job.metrics().total.get("numRecordsRead", 0) > 0)
        ours = descendants(os.getpid()) + [p for w in spark_cluster.workers for p in descendants(w.pid)]
        assert sum(p in ours for w in spark_cluster.workers for p in task_managers(w.pid)) == 2
        reason = kill(spark_cluster)
        # The timeout of heartbeats is 50 s: Spark tells sooner.
        status, error = job.wait(45)
        assert status is JobStatus.FAILED
        assert error is not None
        assert re.search(reason, error.message), error.message
    kept = {p.pid for p in spark_cluster.processes}
    wait_until(lambda: all(is_gone(p) for p in ours if p.pid not in kept), 60)


CHECKPOINTED = """
SET 'execution.checkpointing.interval' = '300 ms';
SET 'execution.checkpointing.dir' = '{directory}/checkpoints';
SET 'restart-strategy.type' = 'fixed-delay';
SET 'restart-strategy.fixed-delay.attempts' = '{attempts}';
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1',
  'fields.n.end' = '8000', 'rows-per-second' = '500');
CREATE TABLE written (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{directory}/written', 'format' = 'csv');
INSERT INTO written SELECT n FROM numbers;
"""
SHORT_HEARTBEATS = {"heartbeat.interval": "500 ms", "heartbeat.timeout": "5 s"}


def checkpointed(session: Session, directory: Path, attempts: int = 20) -> Job:
    """A job that has taken two checkpoints, and has not ended."""
    job = submit(session, CHECKPOINTED.format(directory=directory, attempts=attempts))
    wait_until(lambda: job.cluster.checkpoints(job.id).counts.completed >= 2)
    assert not job.cluster.status(job.id).status.is_terminal
    return job


def restored(job: Job) -> int:
    return job.cluster.checkpoints(job.id).counts.restored


def assert_each_row_once(directory: Path) -> None:
    found = [line for path in (directory / "written").glob("part-*") for line in path.read_text().split()]
    assert sorted(map(int, found)) == list(range(1, 8001))


def have_workers(cluster: StandaloneCluster, count: int) -> None:
    for worker in cluster.workers[count:]:
        worker.kill()
        worker.wait()
    while len(cluster.workers) < count:
        cluster.start_worker(f"worker-{len(cluster.processes)}")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: kill.__name__)
def test_a_job_that_loses_a_process_goes_on_from_its_checkpoint_and_writes_each_row_once(
    spark_cluster: StandaloneCluster, kill: Callable[[StandaloneCluster], str], tmp_path: Path
) -> None:
    have_workers(spark_cluster, 3)
    with target_session(on_spark(**spark_cluster.settings)) as session:
        job = checkpointed(session, tmp_path)
        kill_one_that_is_used(spark_cluster, kill)
        assert job.wait(300) == (JobStatus.FINISHED, None)
        assert restored(job) >= 1
    assert_each_row_once(tmp_path)


def kill_one_that_is_used(cluster: StandaloneCluster, kill: Callable[[StandaloneCluster], str]) -> None:
    """Of three workers one has no executor: it comes last."""
    cluster.processes[1:] = sorted(cluster.workers, key=lambda w: not task_managers(w.pid))
    kill(cluster)


def task_manager_alone(cluster: StandaloneCluster) -> list[psutil.Process]:
    return task_managers(cluster.workers[0].pid)


def executor_alone(cluster: StandaloneCluster) -> list[psutil.Process]:
    return descendants(cluster.workers[0].pid, EXECUTOR)


def whole_executor(cluster: StandaloneCluster) -> list[psutil.Process]:
    return descendants(cluster.workers[0].pid)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "frozen", [task_manager_alone, executor_alone, whole_executor], ids=lambda frozen: frozen.__name__
)
def test_a_job_whose_processes_hang_goes_on_and_they_have_no_effect_when_they_wake(
    spark_cluster: StandaloneCluster,
    frozen: Callable[[StandaloneCluster], list[psutil.Process]],
    tmp_path: Path,
) -> None:
    """An executor's JVM carries no rows: without it its TaskManager works on."""
    have_workers(spark_cluster, 2)
    with target_session(on_spark(**spark_cluster.settings, **SHORT_HEARTBEATS)) as session:
        job = checkpointed(session, tmp_path)
        hanging = frozen(spark_cluster)
        assert hanging
        for process in hanging:
            process.suspend()
        try:
            if frozen is not executor_alone:
                wait_until(lambda: restored(job) == 1)
        finally:
            for process in hanging:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()
        assert job.wait(300) == (JobStatus.FINISHED, None)
        assert restored(job) == (frozen is not executor_alone)
    wait_until(lambda: all(is_gone(p) for p in hanging), 60)
    assert_each_row_once(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_fails_with_the_reason_when_no_other_driver_can_be_started(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    with (
        StandaloneCluster(tmp_path / "cluster") as cluster,
        target_session(on_spark(**cluster.settings)) as session,
    ):
        job = checkpointed(session, tmp_path, attempts=3)
        cluster.processes[0].kill()
        cluster.processes[0].wait()
        kill_driver(cluster)
        status, error = job.wait(120)
        assert status is JobStatus.FAILED
        assert error is not None
        assert error.code == "SS5112"
