"""Processes that are killed at a bad moment, and state that a disk has damaged: each row once, or an error that says why."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from command_harness import (
    ROOT,
    SQLSTREAM,
    TIMEOUT_S,
    Process,
    children_of,
    environment,
    sqlstream,
    wait_until_ended,
)
from http_harness import Asked, Reply, http_server
from http_harness import table as http_table
from server_harness import RunningServer
from spark_harness.processes import wait_until

ROWS = 4000
PER_SECOND = 1000
NUMBERS = (
    "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', "
    f"'fields.n.end' = '{ROWS}', 'rows-per-second' = '{PER_SECOND}')"
)


def files_table(name: str, directory: Path) -> str:
    path = directory / name
    return f"CREATE TABLE {name} (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"


def database_table(name: str, directory: Path) -> str:
    path = directory / f"{name}.duckdb"
    return (
        f"CREATE TABLE {name} (n BIGINT) WITH ('connector' = 'duckdb', 'path' = '{path}', 'table-name' = 't')"
    )


def rows_in(directory: Path, name: str) -> list[int]:
    """What readers of one of the two kinds of tables see."""
    if (directory / name).is_dir():
        files = [path for path in (directory / name).iterdir() if not path.name.startswith(".")]
        return sorted(int(line) for path in files for line in path.read_text().split())
    with duckdb.connect(str(directory / f"{name}.duckdb"), read_only=True) as connection:
        return sorted(n for (n,) in connection.execute("SELECT n FROM t").fetchall())


SERVERS = "sqlstream.server.database-servers.enabled"
ADDRESSES = "sqlstream.server.private-addresses.enabled"
ROOTS = "sqlstream.server.file-roots"


@pytest.mark.parametrize(
    ("less", "status", "code", "missing"),
    [
        ({SERVERS: "false"}, "RESTARTING", "SS5031", SERVERS),
        ({ADDRESSES: "false"}, "RESTARTING", "SS5341", ADDRESSES),
        ({ROOTS: "elsewhere"}, "SUSPENDED", "SS5030", ROOTS),
    ],
    ids=["servers", "addresses", "files"],
)
def test_a_job_waits_for_the_settings_without_which_its_server_was_started_again(
    tmp_path: Path, less: dict[str, str], status: str, code: str, missing: str
) -> None:
    rows = 100

    def page(asked: Asked) -> Reply:
        since = int(asked.parameters.get("since", 0))
        return Reply.json([{"n": n} for n in range(since + 1, min(since + 6, rows + 1))])

    def started(settings: dict[str, str]) -> RunningServer:
        words = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
        return RunningServer(tmp_path / "server", "--task-managers", "1", *words)

    (tmp_path / "elsewhere").mkdir()
    settings = {SERVERS: "true", ADDRESSES: "true", ROOTS: str(tmp_path)}
    less = {key: value.replace("elsewhere", str(tmp_path / "elsewhere")) for key, value in less.items()}
    insert = "INSERT INTO out SELECT n FROM asked"
    with http_server(page) as source:
        cursor = {"http.source.cursor.column": "n", "http.source.cursor.parameter": "since"}
        polled = {"http.source.poll.interval": "20 ms", **cursor}
        with started(settings) as server:
            session = server.open_session()
            server.execute(session, http_table(source.url, name="asked", **polled))
            server.execute(session, files_table("out", tmp_path))
            server.execute(session, "SET 'execution.checkpointing.interval' = '100 ms'")
            job_id = server.insert(session, insert)
            wait_until(lambda: rows_in(tmp_path, "out") == list(range(1, 101)))
            server.kill()
        rows = 200
        with started({**settings, **less}) as server:
            server.wait_for(job_id, status)
            wait_until(lambda: exceptions(server, job_id) != [])
            newest = exceptions(server, job_id)[0]
            assert (newest["exceptionName"], missing in newest["stacktrace"]) == (code, True)
            refuse_at_once(server, insert, code)
            assert server.statuses()[job_id] == status
            server.signal(signal.SIGTERM)
        assert rows_in(tmp_path, "out") == list(range(1, 101))
        with started(settings) as server:
            wait_until(lambda: rows_in(tmp_path, "out") == list(range(1, 201)))
            assert server.get(f"/jobs/{job_id}/checkpoints")["counts"]["restored"] == 1


def refuse_at_once(server: RunningServer, insert: str, code: str) -> None:
    """A new job does not wait."""
    before = set(server.statuses())
    session = server.open_session()
    server.execute(session, "SET 'execution.checkpointing.interval' = '100 ms'")
    if code == "SS5030":
        with pytest.raises(AssertionError, match=code):
            server.insert(session, insert)
        assert set(server.statuses()) == before
    else:
        refused_id = server.insert(session, insert)
        server.wait_for(refused_id, "FAILED")
        assert exceptions(server, refused_id)[0]["exceptionName"] == code


def exceptions(server: RunningServer, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"]
    return found


def test_a_flipped_bit_of_state_behind_a_commit_fails_the_job_with_the_file(tmp_path: Path) -> None:
    """The checkpoint before it cannot be used either: the rows in between are visible."""
    with RunningServer(tmp_path / "server", "--task-managers", "1") as server:
        session = server.open_session()
        server.execute(session, "SET 'execution.checkpointing.interval' = '1 d'")
        server.execute(session, "SET 'execution.checkpointing.num-retained' = '2'")
        server.execute(
            session, NUMBERS.replace(f"'fields.n.end' = '{ROWS}', ", "'fields.n.end' = '1000000', ")
        )
        keyed = database_table("out", tmp_path).replace(
            "(n BIGINT)", "(n BIGINT, PRIMARY KEY (n) NOT ENFORCED)"
        )
        server.execute(session, keyed)
        job_id = server.insert(session, "INSERT INTO out SELECT DISTINCT n FROM numbers")
        server.wait_for(job_id, "RUNNING")
        shared, state = tmp_path / "server" / "checkpoints" / job_id / "shared", list[Path]()
        # Until one has rows that the checkpoint before it has not.
        for number in itertools.count(1):
            assert server.request("POST", f"/jobs/{job_id}/checkpoints", {}, rest=True).status_code == 202
            server.wait_until_checkpointed(job_id, number, TIMEOUT_S)
            state = sorted(shared.glob(f"*-{number}.arrow"))
            if number > 1 and state:
                break
        for path in state:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        (child,) = server.task_managers()
        child.kill()
        server.wait_for(job_id, "FAILED")
        error = json.dumps(server.get(f"/jobs/{job_id}/exceptions"))
        assert "SS6210" in error
        assert any(str(path) in error for path in state), error
    found = rows_in(tmp_path, "out")
    assert found == list(range(1, len(found) + 1))
    assert found


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("seed", "interval"), [(0, "2 s"), (1, "2 s"), (2, "0 s"), (3, "0 s")])
def test_a_server_killed_behind_savepoints_writes_each_row_once(
    tmp_path: Path, seed: int, interval: str
) -> None:
    rng = random.Random(seed)
    server = RunningServer(tmp_path / "server")
    with server:
        session = server.open_session()
        for text in (NUMBERS, files_table("a", tmp_path), database_table("b", tmp_path)):
            server.execute(session, text)
        server.execute(session, f"SET 'execution.checkpointing.interval' = '{interval}'")
        job_id = server.insert(
            session,
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT n FROM numbers; INSERT INTO b SELECT n FROM numbers; END",
        )
        for _ in range(3):
            if server.wait_for(job_id, "RUNNING", "FINISHED") == "FINISHED":
                break
            time.sleep(rng.uniform(0.2, 1.5))
            server.request(
                "POST", f"/jobs/{job_id}/savepoints", {"target-directory": str(tmp_path / "saved")}, rest=True
            )
            time.sleep(rng.uniform(0, 0.6))
            server.kill()
            server.start()
        assert server.wait_for(job_id, "FINISHED", "FAILED") == "FINISHED", server.errors()
    for table in ("a", "b"):
        assert rows_in(tmp_path, table) == list(range(1, ROWS + 1))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_server_killed_while_jobs_end_writes_each_row_once(tmp_path: Path) -> None:
    jobs, server = [], RunningServer(tmp_path / "server", "-D", "taskmanager.numberOfTaskSlots=4")
    with server:
        session = server.open_session()
        server.execute(session, "SET 'execution.checkpointing.interval' = '300 ms'")
        for n in range(4):
            rows = 1500 + 150 * n
            server.execute(
                session,
                NUMBERS.replace("TABLE numbers", f"TABLE numbers{n}").replace(f"'{ROWS}'", f"'{rows}'"),
            )
            server.execute(session, files_table(f"a{n}", tmp_path))
            server.execute(session, database_table(f"b{n}", tmp_path))
            statements = "; ".join(f"INSERT INTO {sink}{n} SELECT n FROM numbers{n}" for sink in "ab")
            jobs.append(server.insert(session, f"EXECUTE STATEMENT SET BEGIN {statements}; END"))
        server.wait_for(jobs[0], "FINISHED")
        server.kill()
        server.start()
        for n, job_id in enumerate(jobs):
            assert server.wait_for(job_id, "FINISHED", "FAILED") == "FINISHED", server.errors()
            for sink in "ab":
                assert rows_in(tmp_path, f"{sink}{n}") == list(range(1, 1501 + 150 * n))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [files_table, database_table])
def test_a_killed_command_goes_on_from_its_checkpoint_also_after_another_job_wrote_to_the_table(
    tmp_path: Path, kind: Callable[[str, Path], str]
) -> None:
    rng = random.Random(3)
    script, table = tmp_path / "script.sql", kind("out", tmp_path)
    rows = 20 * PER_SECOND
    numbers = NUMBERS.replace(f"'{ROWS}'", f"'{rows}'")
    others = 0
    for is_last in (False, False, False, True):
        if is_last:
            numbers = numbers.replace(f"'{PER_SECOND}'", f"'{rows}'")
        complete = list((tmp_path / "checkpoints").glob("*/chk-*/_metadata"))
        newest = max(complete, key=lambda path: path.stat().st_mtime_ns, default=None)
        settings = {
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            **({"execution.state-recovery.path": str(newest.parent)} if newest else {}),
        }
        lines = [*(f"SET '{key}' = '{value}'" for key, value in settings.items()), numbers, table]
        script.write_text(";\n".join([*lines, "INSERT INTO out SELECT n FROM numbers"]) + ";\n")
        command = Process(
            [*SQLSTREAM, "run", "--task-managers", "1", str(script)],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if is_last:
            _, errors = command.communicate(timeout=TIMEOUT_S)
            assert command.returncode == 0, errors
            break
        time.sleep(rng.uniform(1.5, 2.5))
        children = children_of(command.pid)
        command.kill()
        _, errors = command.communicate(timeout=TIMEOUT_S)
        assert command.returncode == -signal.SIGKILL, errors
        wait_until_ended(children)
        other = sqlstream("run", "-c", f"{table}; INSERT INTO out VALUES (0)")
        assert other.returncode == 0, other.stderr
        others += 1
    assert rows_in(tmp_path, "out") == [0] * others + list(range(1, rows + 1))


@pytest.mark.parametrize("how", ["cancel", "stop"])
def test_an_end_that_was_acknowledged_is_one_also_after_a_kill(tmp_path: Path, how: str) -> None:
    """The tasks stand still, so that nothing of it has happened when the server is killed."""
    server = RunningServer(tmp_path / "server", "--task-managers", "1")
    with server:
        session = server.open_session()
        server.execute(session, "SET 'execution.checkpointing.interval' = '200 ms'")
        server.execute(session, NUMBERS.replace(f"'fields.n.end' = '{ROWS}'", "'fields.n.end' = '1000000'"))
        server.execute(session, files_table("out", tmp_path))
        job_id = server.insert(session, "INSERT INTO out SELECT n FROM numbers")
        server.wait_until_checkpointed(job_id, 2, TIMEOUT_S)
        tasks = server.task_managers()
        for task in tasks:
            task.suspend()
        if how == "cancel":
            answer = server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
        else:
            body = {"targetDirectory": str(tmp_path / "sp"), "drain": False}
            answer = server.request("POST", f"/jobs/{job_id}/stop", body, rest=True)
        assert answer.status_code == 202, answer.text
        server.signal(signal.SIGKILL)
        for task in tasks:
            task.kill()
        wait_until_ended(tasks)
        server.start()
        server.wait_for(job_id, "CANCELED" if how == "cancel" else "FINISHED")
        wait_until(lambda: not list((tmp_path / "server" / "jobs").glob(f"{job_id}.*")))
    found = rows_in(tmp_path, "out")
    assert found == list(range(1, len(found) + 1))
    assert found
    assert len(list((tmp_path / "sp").glob("savepoint-*/_metadata"))) == (how == "stop")
