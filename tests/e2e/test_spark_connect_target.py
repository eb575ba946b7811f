"""`execution.target = spark` over Spark Connect: TaskManagers in tasks of a server."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from command_harness import SQLSTREAM, environment
from spark_connect_harness import ConnectServer
from spark_harness.processes import descendants, is_gone, wait_until

from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import target_session
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.dialect.parser import parse_script

SUMS = """
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '100000', 'rows-per-second' = '10000000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000');
SELECT n % 3 AS k, COUNT(*) AS c, SUM(n) AS s FROM numbers GROUP BY n % 3;
"""
ENDLESS = """
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000000');
CREATE TABLE sums (k BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
INSERT INTO sums SELECT n % 7, SUM(n) FROM ticks GROUP BY n % 7;
"""


def submit(session: Session, text: str) -> Job:
    """The job of the last statement."""
    for statement in parse_script(text):
        outcome = session.execute(statement)
    assert isinstance(outcome, Job)
    return outcome


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        yield server


def on(server: ConnectServer, **more: str) -> dict[str, str]:
    return {"execution.target": "spark", "spark.remote": server.url, "parallelism.default": "2", **more}


def task_managers(server: ConnectServer) -> list[psutil.Process]:
    return descendants(server.process_id, "-m sqlstream.runtime.taskmanager")


def run(config: dict[str, str], directory: Path) -> list[str]:
    """The lines of `sqlstream run` with these settings in a file, as some are secrets."""
    (directory / "settings.yaml").write_text("".join(f"{key}: '{value}'\n" for key, value in config.items()))
    (directory / "script.sql").write_text(SUMS)
    done = subprocess.run(
        [*SQLSTREAM, "run", "--quiet", "--config", "settings.yaml", "script.sql"],
        cwd=directory,
        env={**environment(), "JAVA_HOME": "", "PATH": str(directory)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return sorted([*done.stdout.splitlines(), *done.stderr.splitlines()])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tasks_of_the_server_give_the_rows_of_local_processes_to_a_client_without_java(
    server: ConnectServer, tmp_path: Path
) -> None:
    there = run(on(server), tmp_path)
    assert there == run({"execution.target": "local", "parallelism.default": "2"}, tmp_path)
    assert any("33334 | 1666716667" in line for line in there)
    wait_until(lambda: task_managers(server) == [])


def kill_task_manager(server: ConnectServer) -> str:
    victim = task_managers(server)[0]
    victim.kill()
    return rf"TaskManager \S+ \(process {victim.pid}\) was killed by signal 9"


def kill_driver(server: ConnectServer) -> str:
    (victim,) = descendants(os.getpid(), "sqlstream.runtime.providers.spark.driver")
    victim.kill()
    return rf"Spark's driver \(process {victim.pid}\) was killed by signal 9, and all TaskManagers with it"


def kill_server(server: ConnectServer) -> str:
    server.kill()
    return "the Spark Connect server .* (does not answer|has ended)"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "kill", [kill_task_manager, kill_driver, kill_server], ids=lambda kill: kill.__name__
)
def test_a_job_that_loses_a_process_fails_with_the_reason_and_leaves_none(
    tmp_path: Path, kill: Callable[[ConnectServer], str]
) -> None:
    with (
        ConnectServer(tmp_path) as server,
        target_session(on(server, **{"heartbeat.timeout": "25 s"})) as session,
    ):
        job = submit(session, ENDLESS)
        wait_until(lambda: job.metrics().total.get("numRecordsRead", 0) > 0)
        ours = task_managers(server)
        assert len(ours) == 2
        reason = kill(server)
        status, error = job.wait(45)
        assert status is JobStatus.FAILED
        assert error is not None
        assert re.search(reason, error.message), error
        wait_until(lambda: all(is_gone(p) for p in ours))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_job_is_cancelled_and_its_task_managers_end(server: ConnectServer) -> None:
    with target_session(on(server, **{"resourcemanager.taskmanager-timeout": "1 s"})) as session:
        job = submit(session, ENDLESS)
        wait_until(lambda: job.metrics().total.get("numRecordsRead", 0) > 0)
        job.cancel()
        wait_until(lambda: len(task_managers(server)) <= 1)
    wait_until(lambda: task_managers(server) == [])
