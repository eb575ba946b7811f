"""Batch statements through every door: the command, the server and its REST; killed, cancelled and read slowly."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from command_harness import ROOT, SQLSTREAM, TIMEOUT_S, Process, environment, sqlstream
from server_harness import RunningServer

BATCH = ("--set", "execution.runtime-mode=batch")
DEMO = Path(ROOT) / "queries" / "getting_started.sql"
SET_BATCH = "SET 'execution.runtime-mode' = 'batch'"
ROWS = 400_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("server") / "data") as started:
        yield started


def in_batch(server: RunningServer, *tables: str) -> str:
    """A session of its own catalog in batch mode with these tables."""
    session = server.open_session()
    database = f"d{session.replace('-', '')}"
    for text in (f"CREATE DATABASE {database}", f"USE {database}", *tables, SET_BATCH):
        server.execute(session, text)
    return session


def numbers(last: int, rows_per_second: int = 1_000_000_000) -> str:
    return (
        "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence',"
        f" 'number-of-rows' = '{last}', 'rows-per-second' = '{rows_per_second}',"
        f" 'fields.n.start' = '1', 'fields.n.end' = '{last}')"
    )


def files_table(path: Path) -> str:
    return f"CREATE TABLE files (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{path}')"


def rows_in(directory: Path) -> list[int]:
    # Not `rglob`, which looks into directories of staged rows that a running command removes.
    files = list(directory.glob("part-*"))
    return sorted(int(line) for p in files for line in p.read_text().split())


def test_the_demo_runs_in_batch_and_counts_the_flights_that_a_stream_finds_late(tmp_path: Path) -> None:
    os.symlink(ROOT / "queries", tmp_path / "queries")
    script = tmp_path / "demo.sql"
    script.write_text(
        DEMO.read_text().replace("departure - INTERVAL '1' DAY", "departure - INTERVAL '3' HOUR")
    )
    question = "SELECT SUM(departures) AS flights FROM hourly"
    batch = sqlstream("run", *BATCH, "--format", "csv", str(script), "-c", question, cwd=tmp_path)
    assert batch.returncode == 0, batch.stderr
    assert "late 0" in batch.stderr
    assert batch.stdout.splitlines()[-1] == str(
        len(Path(ROOT / "queries/data/flights.csv").read_text().splitlines()) - 1
    )
    assert len(list((tmp_path / "out").rglob("part-*.parquet"))) == 2


HIDDEN_PYSPARK = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyspark":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""


@pytest.mark.parametrize(
    "settings",
    [
        ("execution.runtime-mode=BATCH", "execution.batch.engine=spark"),
        ("execution.target=spark", "spark.master=local[1]", "sqlstream.in-process.max-input-size=0"),
    ],
    ids=["batch", "target"],
)
def test_without_pyspark_a_statement_on_spark_says_what_to_install(
    tmp_path: Path, settings: tuple[str, ...]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDDEN_PYSPARK)
    words = [word for setting in settings for word in ("--set", setting)]
    text = f"{numbers(10)}; SELECT COUNT(*) FROM numbers"
    ended = sqlstream("run", *words, "-c", text, env=environment(PYTHONPATH=f"{tmp_path}:{ROOT}"))
    assert ended.returncode == 1, ended.stderr
    lines = ended.stderr.splitlines()
    assert "error[SS5115]: Spark needs packages that are not installed: pyspark" in lines
    assert "hint: pip install 'pyspark[connect]>=4.3,<4.4'" in lines


def test_an_unbounded_table_in_batch_is_named_with_its_place() -> None:
    endless = "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen')"
    text = f"{endless}; SELECT n FROM numbers"
    ended = sqlstream("run", *BATCH, "-c", text)
    assert ended.returncode == 2
    assert 'error[SS3302]: table "numbers" never ends' in ended.stderr
    assert "^^^^^^^" in ended.stderr
    assert "SET 'execution.runtime-mode' = 'STREAMING'" in ended.stderr


def test_ctrl_c_interrupts_the_query_and_leaves_no_file(tmp_path: Path) -> None:
    table, script = tmp_path / "files", tmp_path / "script.sql"
    script.write_text(
        f"{numbers(100_000_000)}; {files_table(table)}; INSERT INTO files SELECT n FROM numbers WHERE MOD(n, 7) = 0;"
    )
    command = Process(
        [*SQLSTREAM, "run", *BATCH, str(script)],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline_s = time.monotonic() + TIMEOUT_S
    while not list(tmp_path.rglob("part-*")):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    command.send_signal(signal.SIGINT)
    _, stderr = command.communicate(timeout=TIMEOUT_S)
    assert command.returncode != 0
    assert stderr == "interrupted\n"
    assert not table.exists()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def killed_when(script: Path, is_time: Callable[[], bool]) -> None:
    """Run a script in batch, and kill the command when `is_time`."""
    command = Process([*SQLSTREAM, "run", "--quiet", *BATCH, str(script)], cwd=ROOT, env=environment())
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_time():
        assert command.poll() is None, "the command has ended before"
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    command.kill()
    command.wait(TIMEOUT_S)


def test_a_killed_command_leaves_all_rows_or_none_and_can_be_run_again(tmp_path: Path) -> None:
    table, slow, fast = tmp_path / "files", tmp_path / "slow.sql", tmp_path / "fast.sql"
    insert = f"{files_table(table)}; INSERT INTO files SELECT n FROM numbers;"
    slow.write_text(f"{numbers(10_000_000, 20_000)}; {insert}")
    fast.write_text(f"{numbers(ROWS)}; {insert}")
    # While it writes: ten million rows take minutes.
    killed_when(slow, lambda: any(tmp_path.rglob("part-*")))
    assert not table.exists() or rows_in(table) == []
    # As soon as anything is visible.
    killed_when(fast, lambda: table.exists() and rows_in(table) != [])
    assert len(rows_in(table)) == ROWS
    assert sqlstream("run", *BATCH, str(fast)).returncode == 0
    assert len(rows_in(table)) == 2 * ROWS


@pytest.mark.slow
def test_a_killed_server_runs_a_batch_insert_again_and_writes_each_row_once(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data")
    with server:
        session = server.open_session()
        for text in (numbers(40_000, 20_000), files_table(tmp_path / "out"), SET_BATCH):
            server.execute(session, text)
        job = server.insert(session, "INSERT INTO files SELECT n FROM numbers")
        server.wait_for(job, "RUNNING")
        (summary,) = server.get("/jobs/overview")["jobs"]
        assert (summary["jobType"], summary["state"]) == ("BATCH", "RUNNING")
        assert server.get(f"/jobs/{job}")["job-type"] == "BATCH"
        assert "Batch(duckdb)[numbers]" in server.get(f"/jobs/{job}/plan")["plan"]["nodes"][0]["description"]
        wait_until(lambda: any((tmp_path / "out").rglob("part-*")))
        server.kill()
        server.start()
        server.wait_for(job, "FINISHED")
        session = server.open_session()
        assert [row[:3] for row in server.execute(session, "SHOW JOBS")] == [
            [job, "insert-into_default_catalog.default_database.files", "FINISHED"]
        ]
    assert rows_in(tmp_path / "out") == list(range(1, 40_001))


def test_a_cancelled_query_stops_the_engine_soon(server: RunningServer) -> None:
    session = in_batch(server, numbers(100_000))
    product = (
        "SELECT COUNT(*) FROM numbers AS a, numbers AS b, numbers AS c WHERE MOD(a.n * b.n * c.n, 7) = 1"
    )
    before = set(server.statuses())
    answer = server.submit(session, product)
    assert answer.status_code == 200, answer.text
    deadline_s = time.monotonic() + TIMEOUT_S
    while not (jobs := set(server.statuses()) - before):
        assert time.monotonic() < deadline_s
    (job,) = jobs
    server.wait_for(job, "RUNNING")
    begun_s = used_s(server)
    while used_s(server) < begun_s + 1:
        assert time.monotonic() < deadline_s, "the engine does not compute"
        time.sleep(0.05)
    assert server.request("PATCH", f"/jobs/{job}?mode=cancel", rest=True).status_code == 202
    server.wait_for(job, "CANCELED")
    # The product takes weeks.
    wait_until(lambda: is_idle(server))


def used_s(server: RunningServer) -> float:
    """The CPU time of the server's TaskManagers."""
    return sum(sum(child.cpu_times()[:2]) for child in server.task_managers())


def is_idle(server: RunningServer) -> bool:
    """Whether the TaskManagers take little CPU time while this process takes 0.3 s, however loaded the machine is."""
    begin_s, own_s = used_s(server), time.process_time()
    while time.process_time() < own_s + 0.3:
        pass
    return used_s(server) - begin_s < 0.15


def test_a_large_result_is_paged_while_its_reader_is_slow_and_memory_stays(server: RunningServer) -> None:
    session = in_batch(server, numbers(1_000_000))
    wide = "SELECT n, CONCAT('some text that makes each row wider than it would be ', CAST(n AS STRING)) FROM numbers"
    server.execute(session, "SELECT COUNT(*) FROM numbers")
    before = set(server.statuses())
    answer = server.submit(session, wide)
    rows, held, processes = 0, 0, [psutil.Process(server.process.pid), *server.children()]
    path = f"/v3/sessions/{session}/operations/{answer.json()['operationHandle']}/result/0?rowFormat=JSON"
    while path and rows < 200_000:
        page = server.request("GET", path).json()
        path = page.get("nextResultUri", "")
        if page["resultType"] != "NOT_READY":
            rows += len(page["results"]["data"])
        if rows and not held:
            # The buffers are full: the engine waits for its reader.
            assert any(is_idle(server) for _ in range(100))
            held = sum(p.memory_info().rss for p in processes)
    assert rows >= 200_000
    assert any(is_idle(server) for _ in range(100))
    (job,) = set(server.statuses()) - before
    assert server.statuses()[job] == "RUNNING", "the other rows wait in the engine"
    assert sum(p.memory_info().rss for p in processes) - held < 60 * 2**20


def test_a_killed_task_manager_fails_the_statement_and_leaves_no_row(
    server: RunningServer, tmp_path: Path
) -> None:
    session = in_batch(server, numbers(10_000_000, 20_000), files_table(tmp_path / "out"))
    job = server.insert(session, "INSERT INTO files SELECT n FROM numbers")
    server.wait_for(job, "RUNNING")
    wait_until(lambda: any(tmp_path.rglob("part-*")))
    for child in server.task_managers():
        child.kill()
    assert server.wait_for(job, "FAILED") == "FAILED"
    assert server.execute(session, "SELECT COUNT(*) FROM (SELECT n FROM numbers LIMIT 3)") == [[3]]
    assert not list(tmp_path.rglob("part-*"))
