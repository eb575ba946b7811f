"""Running jobs of a server at another parallelism: each row once, also when the server is killed on the way."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from command_harness import TIMEOUT_S, sqlstream
from server_harness import POLL_S, RunningServer
from spark_harness.processes import wait_until

PER_SECOND = 600

NUMBERS = (
    "CREATE TABLE numbers (n BIGINT, k AS n % 7, rt AS TO_TIMESTAMP_LTZ(n * 10, 3), WATERMARK FOR rt AS rt) "
    "WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', "
    f"'fields.n.end' = '1000000000', 'rows-per-second' = '{PER_SECOND}')"
)
WINDOWED = """
    SELECT k, CAST(window_start AS STRING), COUNT(*), SUM(n)
    FROM TABLE(TUMBLE(TABLE numbers, DESCRIPTOR(rt), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end"""
JOINED = "SELECT a.n, b.n FROM numbers a JOIN numbers b ON a.n = b.n + 5"
BEST = """
    SELECT k, n, rn FROM (SELECT k, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n * 7919 % 10007 DESC) AS rn FROM numbers)
    WHERE rn <= 3"""


def begin(server: RunningServer, directory: Path, others: Mapping[str, str] | None = None) -> str:
    """A job of a window, a join and a Top-N that runs until `finish`. Its source has one split, so that it reads 1, 2, 3 and
    so on at any parallelism. `others` are further settings."""
    session = server.open_session()
    tables = {
        "windowed": "k BIGINT, s STRING, c BIGINT, t BIGINT",
        "joined": "a BIGINT, b BIGINT",
        "best": "k BIGINT, n BIGINT, rn BIGINT, PRIMARY KEY (k, rn) NOT ENFORCED",
    }
    settings = {
        "execution.checkpointing.interval": "1 s",
        "table.exec.sink.require-on-conflict": "false",
        "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
        "parallelism.default": "1",
        **(others or {}),
    }
    for key, value in settings.items():
        server.execute(session, f"SET '{key}' = '{value}'")
    server.execute(session, NUMBERS)
    for name, columns in tables.items():
        path = directory / f"{name}.duckdb"
        server.execute(
            session,
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'duckdb', 'path' = '{path}', 'table-name' = 't')",
        )
    job_id = server.insert(
        session,
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO windowed {WINDOWED}; INSERT INTO joined {JOINED}; INSERT INTO best {BEST}; END",
    )
    server.wait_for(job_id, "RUNNING")
    return job_id


def wait_for_rows(server: RunningServer, job_id: str, count: int) -> None:
    """Until the sources have read so many."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while server.get(f"/jobs/{job_id}/totals")["total"].get("numRecordsRead", 0) < count:
        assert time.monotonic() < deadline_s
        time.sleep(POLL_S)


def finish(server: RunningServer, job_id: str, directory: Path) -> None:
    """Ends the sources where they are, and checks the tables against what they have read."""
    count = server.finish(job_id)
    totals = server.get(f"/jobs/{job_id}/totals")["total"]
    assert totals.get("numLateRecordsDropped", 0) == 0
    check_tables(directory, count)


def table(directory: Path, name: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(directory / f"{name}.duckdb"), read_only=True) as connection:
        return sorted(connection.execute("SELECT * FROM t").fetchall())


def check_tables(directory: Path, count: int) -> None:
    """The rows of a run over so many numbers that nothing disturbed, computed by DuckDB."""
    with duckdb.connect() as connection:

        def rows(sql: str) -> list[tuple[Any, ...]]:
            return sorted(connection.execute(sql).fetchall())

        connection.execute(f"CREATE TABLE numbers AS SELECT n, n % 7 AS k FROM range(1, {count + 1}) r(n)")
        windowed = rows("SELECT k, n * 10 // 2000 AS s, COUNT(*), SUM(n)::BIGINT FROM numbers GROUP BY ALL")
        joined = rows("SELECT a.n, b.n FROM numbers a JOIN numbers b ON a.n = b.n + 5")
        best = rows(
            """SELECT k, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n * 7919 % 10007 DESC) AS rn
            FROM numbers QUALIFY rn <= 3"""
        )
    found = [(k, c, t) for k, _, c, t in table(directory, "windowed")]
    assert sorted(found) == sorted((k, c, t) for k, _, c, t in windowed)
    assert table(directory, "joined") == joined
    assert table(directory, "best") == best


def rescaled(server: RunningServer, job_id: str, parallelism: int) -> subprocess.CompletedProcess[str]:
    """The command, repeated until all of the job's tasks run: they do not start at once."""
    words = ("rescale", job_id[:8], "--parallelism", str(parallelism), "--json", "--server", server.gateway)
    deadline_s = time.monotonic() + TIMEOUT_S
    while "error[SS6232]" in (ended := sqlstream(*words)).stderr and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return ended


def rescale(server: RunningServer, job_id: str, parallelism: int) -> Any:
    ended = rescaled(server, job_id, parallelism)
    assert ended.returncode == 0, ended.stderr + server.errors()[-2000:]
    return json.loads(ended.stdout)


def begin_rescale(server: RunningServer, job_id: str, parallelism: int) -> str:
    """Once all tasks of the job run; returns the trigger."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        answer = server.request("PATCH", f"/jobs/{job_id}/rescaling?parallelism={parallelism}", rest=True)
        if "is starting" not in answer.text and "RESTARTING" not in answer.text:
            break
        assert time.monotonic() < deadline_s, answer.text
        time.sleep(POLL_S)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["request-id"])


def await_rescale(server: RunningServer, job_id: str, trigger: str) -> None:
    """Until it is over, however it went."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while server.get(f"/jobs/{job_id}/rescaling/{trigger}")["status"]["id"] != "COMPLETED":
        assert time.monotonic() < deadline_s
        time.sleep(POLL_S)


def parallelisms(server: RunningServer, job_id: str) -> set[int]:
    return {vertex["parallelism"] for vertex in server.get(f"/jobs/{job_id}")["vertices"]}


@pytest.mark.timeout(300)
def test_a_job_that_is_rescaled_at_any_time_leaves_the_rows_of_one_that_is_not(tmp_path: Path) -> None:
    rng = random.Random(11)
    with RunningServer(tmp_path / "server") as server:
        job_id = begin(server, tmp_path)
        wait_for_rows(server, job_id, rng.randrange(300, 1500))
        done = rescale(server, job_id, 3)
        assert (done["earlier"], done["parallelism"]) == (1, 3)
        assert parallelisms(server, job_id) == {3}
        wait_for_rows(server, job_id, rng.randrange(2000, 3000))
        called = server.execute(server.open_session(), f"CALL sys.rescale_job('{job_id}', 2)")
        assert called == [["parallelism 2, before 3"]]
        assert parallelisms(server, job_id) == {2}
        config = server.get(f"/jobs/{job_id}/config")["execution-config"]
        assert config["job-parallelism"] == 2
        exceptions = server.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
        assert exceptions == []
        finish(server, job_id, tmp_path)


def shared_files(directory: Path) -> set[str]:
    """The files that several subtasks refer to, in the newest checkpoint below a directory."""
    found = sorted(directory.glob("*/chk-*/_metadata"), key=lambda path: int(path.parent.name[4:]))
    if not found:
        return set()
    try:
        vertices = json.loads(found[-1].read_bytes())["checkpoint"]["vertices"]
    except FileNotFoundError:
        # A newer one has taken its place.
        return set()
    named = [
        {
            segment["path"]
            for o in subtask["operators"]
            for table in o["tables"]
            for segment in table["segments"]
        }
        for vertex in vertices
        for subtask in vertex["subtasks"]
    ]
    counts = Counter(path for paths in named for path in paths)
    return {path for path, count in counts.items() if count > 1}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_unaligned", [False, True])
def test_a_job_whose_subtasks_share_files_is_killed_and_rescaled_and_leaves_the_same_rows(
    tmp_path: Path, is_unaligned: bool
) -> None:
    settings = {
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.file-merging.enabled": "true",
        "execution.checkpointing.unaligned.enabled": str(is_unaligned).lower(),
    }
    with RunningServer(tmp_path / "server") as server:
        job_id = begin(server, tmp_path, settings)
        for parallelism, count in ((3, 300), (2, 1500)):
            wait_for_rows(server, job_id, count)
            rescale(server, job_id, parallelism)
            wait_until(lambda: shared_files(tmp_path / "server" / "checkpoints"))
            workers = server.task_managers()
            restored = server.get(f"/jobs/{job_id}/checkpoints")["counts"]["restored"]
            workers[0].kill()
            wait_until(lambda n=restored: server.get(f"/jobs/{job_id}/checkpoints")["counts"]["restored"] > n)
            server.wait_for(job_id, "RUNNING")
        server.signal(signal.SIGKILL)
        server.start()
        server.wait_for(job_id, "RUNNING")
        finish(server, job_id, tmp_path)
        assert not list((tmp_path / "server" / "checkpoints").rglob("*.arrow"))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("step", ["CHECKPOINT", "STOPPING", "STARTING", "DONE"])
def test_a_server_killed_while_it_rescales_a_job_brings_it_back_at_one_of_both(
    tmp_path: Path, step: str
) -> None:
    order = ["SLOTS", "CHECKPOINT", "STOPPING", "STORING", "STARTING", "DONE"]
    trigger_id = "0" * 31 + "7"
    with RunningServer(tmp_path / "server") as server:
        job_id = begin(server, tmp_path)
        wait_for_rows(server, job_id, 1000)
        path = f"/jobs/{job_id}/rescaling"
        answer = server.request("PATCH", f"{path}?parallelism=3&triggerId={trigger_id}", rest=True)
        assert (answer.status_code, answer.json()) == (202, {"request-id": trigger_id})
        deadline_s = time.monotonic() + TIMEOUT_S
        while order.index(server.get(f"{path}/{trigger_id}")["status"]["step"]) < order.index(step):
            assert time.monotonic() < deadline_s
        server.kill()
    with RunningServer(tmp_path / "server") as server:
        server.wait_for(job_id, "RUNNING")
        found = parallelisms(server, job_id)
        assert found in ({1}, {3})
        if step in ("STARTING", "DONE"):
            assert found == {3}
        if step == "CHECKPOINT":
            rescale(server, job_id, 2)
        finish(server, job_id, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_task_manager_killed_while_the_job_is_rescaled_loses_nothing(tmp_path: Path) -> None:
    rng = random.Random(5)
    with RunningServer(tmp_path / "server") as server:
        job_id = begin(server, tmp_path)
        wait_for_rows(server, job_id, 1000)
        for parallelism in (2, 3):
            trigger = begin_rescale(server, job_id, parallelism)
            time.sleep(rng.random())
            workers = server.task_managers()
            rng.choice(workers).kill()
            await_rescale(server, job_id, trigger)
            server.wait_for(job_id, "RUNNING")
        finish(server, job_id, tmp_path)


def test_a_job_that_cannot_be_rescaled_runs_on_and_the_reason_is_said(tmp_path: Path) -> None:
    limits = ("-D", "slotmanager.number-of-slots.max=4")
    with RunningServer(tmp_path / "server", *limits) as server:
        job_id = begin(server, tmp_path)

        wait_for_rows(server, job_id, 1)
        ended = rescaled(server, job_id, 5)
        assert (ended.returncode, "SS6233" in ended.stderr) == (2, True)
        path = f"/jobs/{job_id}/resource-requirements"
        wanted = server.get(path)
        assert {v["parallelism"]["upperBound"] for v in wanted.values()} == {1}
        answer = server.request("PUT", path, {"f" * 32: {"parallelism": {"upperBound": 2}}}, rest=True)
        assert answer.status_code == 400
        body = {id: {"parallelism": {"lowerBound": 1, "upperBound": 2}} for id in wanted}
        answer = server.request("PUT", path, body, rest=True)
        assert (answer.status_code, answer.json()) == (200, {})
        deadline_s = time.monotonic() + TIMEOUT_S
        while parallelisms(server, job_id) != {2}:
            assert time.monotonic() < deadline_s
            time.sleep(POLL_S)
        server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
        server.wait_for(job_id, "CANCELED")
        answer = server.request("PATCH", f"/jobs/{job_id}/rescaling?parallelism=2", rest=True)
        assert (answer.status_code, "CANCELED" in answer.text) == (409, True)
