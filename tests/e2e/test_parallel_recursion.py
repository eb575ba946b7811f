"""Recursive queries in several subtasks of two processes, which are killed, rescaled and moved: the rows are those of DuckDB."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest
from command_harness import TIMEOUT_S, sqlstream
from server_harness import POLL_S, RunningServer

PLACES = 211
TABLES = f"""
    CREATE TABLE IF NOT EXISTS roads (n BIGINT, s AS MOD(n * 7919, {PLACES}), d AS MOD(n * n, {PLACES}))
      WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1',
      'fields.n.end' = '1000000000', 'rows-per-second' = '100')"""
REACHED = "SELECT s, d FROM roads WHERE s < 20 UNION SELECT r.a, e.d FROM r JOIN roads e ON r.b = e.s"
LATEST = "SELECT MOD(n, 23) AS s, MOD(MAX(n) {divided_by} 5, 23) AS d FROM roads GROUP BY MOD(n, 23)"
"""From each place one road leads on, which is another one every second."""
WAYS = """WITH MUTUALLY RECURSIVE
    latest (s BIGINT, d BIGINT) AS ({latest}),
    ways (place BIGINT, n BIGINT) AS (SELECT d, COUNT(*) FROM places JOIN latest ON s = place GROUP BY d),
    places (place BIGINT) AS (SELECT s FROM latest WHERE s < 5 UNION SELECT place FROM ways)
    SELECT place, n FROM ways"""


def begin(server: RunningServer, directory: Path, parallelism: int, savepoint: str = "") -> str:
    session = server.open_session()
    settings = {
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
        "parallelism.default": str(parallelism),
    }
    if savepoint:
        settings["execution.state-recovery.path"] = savepoint
    for key, value in settings.items():
        server.execute(session, f"SET '{key}' = '{value}'")
    server.execute(session, TABLES)
    key = "place BIGINT, n BIGINT, PRIMARY KEY (place) NOT ENFORCED"
    for name, columns in (("seen", "n BIGINT"), ("reached", "a BIGINT, b BIGINT"), ("ways", key)):
        place = f"'path' = '{directory / f'{name}.duckdb'}', 'table-name' = 't'"
        server.execute(
            session, f"CREATE TABLE IF NOT EXISTS {name} ({columns}) WITH ('connector' = 'duckdb', {place})"
        )
    job_id = server.insert(
        session,
        "EXECUTE STATEMENT SET BEGIN INSERT INTO seen SELECT n FROM roads; "
        f"INSERT INTO reached WITH RECURSIVE r (a, b) AS ({REACHED}) SELECT a, b FROM r; "
        f"INSERT INTO ways {WAYS.format(latest=LATEST.format(divided_by='/'))}; END",
    )
    server.wait_for(job_id, "RUNNING")
    return job_id


def table(directory: Path, name: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(directory / f"{name}.duckdb"), read_only=True) as connection:
        return sorted(connection.execute("SELECT * FROM t").fetchall())


def subtasks(server: RunningServer, job_id: str) -> set[int]:
    vertices = server.get(f"/jobs/{job_id}")["vertices"]
    found = [v["parallelism"] for v in vertices if v["name"].startswith(("Iterate", "MutualIterate"))]
    assert len(found) == 2
    return {*found}


def rescale(server: RunningServer, job_id: str, parallelism: int) -> None:
    words = ("rescale", job_id[:8], "--parallelism", str(parallelism), "--json", "--server", server.gateway)
    deadline_s = time.monotonic() + TIMEOUT_S
    while "error[SS6232]" in (ended := sqlstream(*words)).stderr and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
    assert ended.returncode == 0, ended.stderr
    assert subtasks(server, job_id) == {parallelism}


def stop(server: RunningServer, job_id: str, *, drain: bool) -> str:
    """Ends the job with a savepoint, however often that takes: a loss of tasks, of which it may not have heard, ends a stop."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        answer = server.request("POST", f"/jobs/{job_id}/stop", {"drain": drain}, rest=True)
        if answer.status_code == 202:
            place = f"/jobs/{job_id}/savepoints/{answer.json()['request-id']}"
            while (status := server.get(place))["status"][
                "id"
            ] != "COMPLETED" and time.monotonic() < deadline_s:
                time.sleep(POLL_S)
            if "location" in status.get("operation", {}):
                server.wait_for(job_id, "FINISHED")
                return str(status["operation"]["location"])
        time.sleep(POLL_S)
    raise AssertionError(server.errors()[-2000:])


@pytest.mark.timeout(300)
def test_rows_are_those_of_one_subtask_whatever_happens_to_the_others(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "server", "--task-managers", "3") as server:
        job_id = begin(server, tmp_path, 1)
        server.wait_until_checkpointed(job_id)
        rescale(server, job_id, 2)
        server.wait_until_checkpointed(job_id, 3)
        task_managers = server.task_managers()
        task_managers[0].send_signal(signal.SIGKILL)
        psutil.wait_procs(task_managers[:1], TIMEOUT_S)
        rescale(server, job_id, 3)
        savepoint = stop(server, job_id, drain=False)
        job_id = begin(server, tmp_path, 2, savepoint)
        assert subtasks(server, job_id) == {2}
        server.wait_until_checkpointed(job_id)
        stop(server, job_id, drain=True)
    seen = [n for (n,) in table(tmp_path, "seen")]
    assert seen == list(range(1, len(seen) + 1))
    with duckdb.connect() as connection:
        columns = f"n, n * 7919 % {PLACES} AS s, n * n % {PLACES} AS d"
        connection.execute(f"CREATE TABLE roads AS SELECT {columns} FROM range(1, {len(seen) + 1}) r (n)")
        expected = connection.execute(f"WITH RECURSIVE r (a, b) AS ({REACHED}) SELECT a, b FROM r").fetchall()
        connection.execute(f"CREATE TABLE latest AS {LATEST.format(divided_by='//')}")
        ways = connection.execute(
            "WITH RECURSIVE places (place) AS (SELECT s FROM latest WHERE s < 5 UNION SELECT d FROM places JOIN latest"
            " ON s = place) SELECT d, COUNT(*) FROM places JOIN latest ON s = place GROUP BY d"
        ).fetchall()
    assert Counter(table(tmp_path, "reached")) == Counter(expected)
    assert table(tmp_path, "ways") == sorted(ways)
