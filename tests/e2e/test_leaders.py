"""Two servers of one store: the one that waits takes up the jobs of the one that is killed or stands still, and no row is lost or
doubled."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from command_harness import ROOT, SQLSTREAM, environment, free_port
from leader_stores import Settings, shared_store
from server_harness import RunningServer
from spark_harness.processes import wait_until
from standalone_harness import (
    STANDALONE,
    Beginning,
    finish_copy,
    slots,
    start_copy,
    workers,
    writes_on,
    written,
)

import sqlstream

KEPT = """
from sqlstream import udf

@udf(result_type="BIGINT")
def same(n: int) -> int:
    return n
"""
TIMES = {
    "high-availability.lease-duration": "1 s",
    "high-availability.kubernetes.leader-election.lease-duration": "1 s",
    "high-availability.kubernetes.leader-election.renew-deadline": "1 s",
    "high-availability.kubernetes.leader-election.retry-period": "200 ms",
}


class Place:
    """What two servers share, and the ports of each."""

    def __init__(self, directory: Path, settings: Settings, variables: Mapping[str, str]) -> None:
        self.directory, self.variables = directory, variables
        chosen = {**settings, **TIMES, "execution.checkpointing.dir": str(directory / "checkpoints")}
        chosen["sqlstream.server.python-functions.enabled"] = "true"
        self.words = [word for key, value in chosen.items() for word in ("-D", f"{key}={value}")]
        self.doors = [free_port(), free_port()]
        self.ports = [free_port(), free_port()]
        if settings["high-availability.storageDir"].startswith("s3://"):
            # All that they have in common beside the store.
            secret = directory / "secret"
            secret.write_text(secrets.token_urlsafe(48))
            secret.chmod(0o600)
            self.words += ["-D", f"high-availability.secret-file={secret}"]

    @property
    def url(self) -> str:
        """That of both servers, the second one first."""
        return f"http://127.0.0.1:{self.ports[1]},127.0.0.1:{self.ports[0]}"

    def server(self, number: int) -> RunningServer:
        # The last of two settings counts.
        ports = [
            "-D", f"jobmanager.rpc.port={free_port()}", "-D", f"jobmanager.join.port={self.doors[number]}",
        ]  # fmt: skip
        return self._server(number, *STANDALONE, *ports)

    def local_server(self, number: int) -> RunningServer:
        """One whose TaskManagers are its children."""
        return self._server(number, "--task-managers", "1", port=str(self.ports[number]))

    def spark_server(self, number: int) -> RunningServer:
        """One whose TaskManagers are in executors of Spark, whose driver it is."""
        return self._server(number)

    def _server(self, number: int, *words: str, port: str = "0") -> RunningServer:
        directory = self.directory / f"data{number}"
        return RunningServer(directory, *self.words, *words, port=port, **self.variables)


def slow(kind: str) -> object:
    return pytest.param(kind, marks=pytest.mark.slow)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["filesystem", "s3-moto", slow("zookeeper"), slow("s3"), slow("kubernetes")])
def test_a_server_that_waits_takes_the_place_of_one_that_is_killed_or_stands_still(
    kind: str, tmp_path: Path
) -> None:
    with shared_store(kind, tmp_path / "store") as (settings, variables):
        _take_places(Place(tmp_path, settings, variables), tmp_path)


def _take_places(place: Place, tmp_path: Path) -> None:
    addresses = ",".join(f"127.0.0.1:{port}" for port in place.doors)
    with place.server(0) as first, workers(tmp_path, addresses, 2, *place.words):
        second = Beginning(place.server(1))
        try:
            wait_until(second.is_waiting)
            wait_until(lambda: slots(first) == 2)
            session = first.open_session()
            first.execute(session, "CREATE TABLE kept (n BIGINT) WITH ('connector' = 'blackhole')")
            module = tmp_path / "kept.py"
            module.write_text(KEPT)
            function = f"CREATE FUNCTION same AS 'kept.same' LANGUAGE PYTHON USING FILE '{module}'"
            job = start_copy(first, tmp_path, function, query="SELECT same(n) FROM g")
            wait_until(lambda: bool(written(tmp_path)))
            # The job has a copy, which is the next server's too.
            module.unlink()
            assert first.signal(signal.SIGKILL) == -signal.SIGKILL

            leader = second.leader()
            leader.wait_for(job, "RUNNING")
            wait_until(lambda: slots(leader) == 2)
            assert ["kept"] in leader.execute(leader.open_session(), "SHOW TABLES")
            writes_on(tmp_path)

            third = Beginning(place.server(0))
            wait_until(third.is_waiting)
            os.kill(leader.process.pid, signal.SIGSTOP)
            again = third.leader()
            wait_until(lambda: slots(again) == 2)
            again.wait_for(job, "RUNNING")
            os.kill(leader.process.pid, signal.SIGCONT)
            # It finds that its place is taken, and can change nothing.
            assert leader.process.wait(60) == 1
            assert "SS6077" in leader.errors()
            writes_on(tmp_path)
            finish_copy(again, job, tmp_path)
            assert again.signal(signal.SIGTERM) == 0
        finally:
            for server in (second.server, first):
                if server.process.poll() is None:
                    server.process.kill()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_driver_of_spark_that_is_killed_has_another_server_run_its_jobs_in_executors_of_its_own(
    tmp_path: Path,
) -> None:
    with shared_store("filesystem", tmp_path / "store") as (settings, variables):
        place = Place(
            tmp_path, {**settings, "execution.target": "spark", "spark.master": "local[2]"}, variables
        )
        with place.spark_server(0) as first:
            second = Beginning(place.spark_server(1))
            try:
                wait_until(second.is_waiting)
                job = start_copy(first, tmp_path)
                wait_until(lambda: bool(written(tmp_path)))
                assert first.signal(signal.SIGKILL) == -signal.SIGKILL
                leader = second.leader()
                leader.wait_for(job, "RUNNING")
                writes_on(tmp_path)
                finish_copy(leader, job, tmp_path)
                assert leader.signal(signal.SIGTERM) == 0
            finally:
                for server in (second.server, first):
                    if server.process.poll() is None:
                        server.process.kill()


DEFINITIONS = """
SET 'parallelism.default' = '1';
SET 'execution.checkpointing.interval' = '200 ms';
CREATE TEMPORARY VIEW v AS SELECT * FROM (VALUES (1), (2)) AS t (n);
CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '50');
CREATE TEMPORARY TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '500', 'number-of-rows' = '{rows}',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}');
CREATE TEMPORARY TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{path}');
"""


def define(cursor: sqlstream.Cursor, directory: Path, rows: int) -> None:
    for text in DEFINITIONS.format(rows=rows, path=directory / "out").split(";"):
        if text.strip():
            cursor.execute(text)


@pytest.mark.timeout(400)
def test_clients_go_on_with_their_sessions_when_the_leader_is_killed(tmp_path: Path) -> None:
    """A shell and a program that are at work: an INSERT that is awaited ends with each row once, settings and temporary objects
    stay, and rows that were being fetched are lost with an error that says so."""
    with shared_store("filesystem", tmp_path / "store") as (settings, variables):
        _go_on(Place(tmp_path, settings, variables), tmp_path, 4_000)


def _go_on(place: Place, tmp_path: Path, rows: int) -> None:
    shell: subprocess.Popen[str] | None = None
    with place.local_server(0) as first:
        second = Beginning(place.local_server(1))
        try:
            wait_until(second.is_waiting)
            waiting = httpx.get(f"http://127.0.0.1:{place.ports[1]}/jobs", trust_env=False)
            assert waiting.json()["error"]["code"] == "SS6090"
            shell = subprocess.Popen(
                [*SQLSTREAM, "shell", "--connect", place.url],
                cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            )  # fmt: skip
            assert shell.stdin is not None
            assert shell.stdout is not None
            shell.stdin.write(
                "CREATE TEMPORARY VIEW own AS SELECT 40 + 2 AS answer; SELECT answer FROM own;\n"
            )
            with sqlstream.connect(place.url) as connection, ThreadPoolExecutor(1) as pool:
                cursor, reader = connection.cursor(), connection.cursor()
                define(cursor, tmp_path, rows)
                with pytest.raises(sqlstream.Error, match="zero"):
                    reader.execute("INSERT INTO o SELECT 1 / (n - 1) FROM v")
                (failed,) = reader.execute("SHOW JOBS").fetchall()
                insert = pool.submit(cursor.execute, "INSERT INTO o SELECT n FROM g")
                reader.execute("SELECT n FROM ticks")
                assert reader.fetchone() is not None
                wait_until(lambda: bool(written(tmp_path)))
                wait_until(lambda: "42" in (shell.stdout.readline() if shell.stdout else ""))
                assert first.signal(signal.SIGKILL) == -signal.SIGKILL

                with pytest.raises(sqlstream.OperationalError) as caught:
                    list(reader)
                assert caught.value.code == "SS6094"
                assert sorted(reader.execute("SELECT n FROM v").fetchall()) == [(1,), (2,)]
                assert connection.session.config()["execution.checkpointing.interval"] == "200 ms"
                shell.stdin.write("SELECT answer + 1 AS next FROM own;\n")
                shell.stdin.close()
                assert "43" in shell.stdout.read()
                assert shell.wait(60) == 0

                insert.result(240)
                assert written(tmp_path) == list(range(1, rows + 1))
                jobs = {row[0]: row[2] for row in cursor.execute("SHOW JOBS").fetchall()}
                assert (jobs[failed[0]], "FINISHED" in jobs.values()) == ("FAILED", True)
            # What is known of a job that has ended under the first leader.
            leader = second.leader()
            history = leader.get(f"/jobs/{failed[0]}/exceptions")["exceptionHistory"]["entries"]
            assert "zero" in history[0]["stacktrace"]
            assert leader.get(f"/jobs/{failed[0]}/plan")["plan"]["nodes"]
            assert leader.get(f"/jobs/{failed[0]}")["vertices"][0]["metrics"]
            assert second.leader().signal(signal.SIGTERM) == 0
        finally:
            for process in (second.server.process, first.process, shell):
                if process is not None and process.poll() is None:
                    process.kill()
