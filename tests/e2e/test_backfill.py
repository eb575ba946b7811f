"""A job that begins with a history: its server is killed while it hands over, and each row of both counts once."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import duckdb
import psutil
import pytest
from command_harness import TIMEOUT_S, sqlstream
from server_harness import RunningServer

HISTORY = 400_000
LIVE = 2_000
KEYS = 150_000
OVERLAP = 100
JOINED = 1_000
NUMBERS = (
    f"CREATE TABLE numbers (n BIGINT, k AS n % {KEYS}) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', "
    f"'fields.n.start' = '{HISTORY - OVERLAP}', 'fields.n.end' = '{HISTORY + LIVE}', 'rows-per-second' = '500')"
)
COLUMNS = "k INT, c BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED"
QUERY = "SELECT k, COUNT(*), SUM(n) FROM numbers GROUP BY k"
QUERIES = {
    "groups": QUERY,
    "first rows": "SELECT k, r, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS r"
    " FROM numbers) WHERE r = 1",
    "joined rows": "SELECT k, COUNT(*), SUM(even) FROM numbers LEFT JOIN doubled ON numbers.n = doubled.n"
    f" WHERE k < {JOINED} GROUP BY k",
}


RECURSIVE = """CREATE VIEW lengths AS WITH RECURSIVE
    links AS (SELECT n, n + 1 AS m FROM numbers WHERE n > 300000 AND n % 8 <> 7 GROUP BY n),
    r (a, b) AS (SELECT n, m FROM links UNION SELECT a, m FROM r JOIN links ON b = n)
    SELECT a, COUNT(*) AS c FROM r GROUP BY a"""


def begin(server: RunningServer, directory: Path, backfill: str, query: str = QUERY, *further: str) -> str:
    session = server.open_session()
    with duckdb.connect() as connection:
        rows = f"SELECT n, (n % {KEYS})::INT AS k FROM range(1, {HISTORY + OVERLAP}) r(n)"
        connection.execute(f"COPY ({rows}) TO '{directory}/history.parquet'")
        rows = f"SELECT n, n * 2 AS even FROM range(1, {HISTORY + LIVE + 1}) r(n)"
        for name, condition in (("old", "<="), ("doubled", ">")):
            connection.execute(
                f"COPY (FROM ({rows}) WHERE n {condition} {HISTORY}) TO '{directory}/{name}.parquet'"
            )
    options = f"'connector' = 'duckdb', 'path' = '{directory}/out.duckdb', 'table-name' = 't'"
    for statement in (
        "SET 'execution.runtime-mode' = 'STREAMING'",
        "SET 'execution.checkpointing.interval' = '200 ms'",
        f"SET 'execution.checkpointing.savepoint-dir' = '{directory}/savepoints'",
        NUMBERS,
        "CREATE TABLE doubled (n BIGINT, even BIGINT) WITH ('connector' = 'filesystem', 'format' = 'parquet',"
        f" 'path' = '{directory}/doubled.parquet')",
        f"CREATE TABLE out ({COLUMNS}) WITH ({options})",
        *further,
    ):
        server.execute(session, statement)
    table = "changes" if further else "out"
    return server.insert(session, f"INSERT INTO {table} {query} WITH BACKFILL {backfill}")


def histories(query: str, directory: Path) -> str:
    found = f"numbers FROM '{directory}/history.parquet' HAND OVER AT n > {HISTORY}"
    return f"{found}, doubled FROM '{directory}/old.parquet'" if "doubled" in query else found


def rows_written(server: RunningServer, job_id: str) -> int:
    return int(server.get(f"/jobs/{job_id}/totals")["total"].get("numRecordsWritten", 0))


def check_table(directory: Path, query: str = QUERY) -> None:
    with duckdb.connect(f"{directory}/out.duckdb", read_only=True) as connection:
        found = connection.execute("SELECT * FROM t ORDER BY k").fetchall()
        rows = f"SELECT n % {KEYS} AS k, n FROM range(1, {HISTORY + LIVE + 1}) r(n)"
        connection.execute(f"CREATE TEMP VIEW numbers AS {rows}")
        connection.execute("CREATE TEMP VIEW doubled AS SELECT n, n * 2 AS even FROM numbers")
        expected = connection.execute(f"SELECT * FROM ({query}) ORDER BY 1")
        assert found == expected.fetchall()


# Each kill starts a server, which takes most of the time: on a loaded machine more than the job.
@pytest.mark.parametrize(("seed", "kills"), [(0, 2), pytest.param(1, 4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", QUERIES)
def test_a_server_that_is_killed_on_the_way_counts_each_row_once(
    name: str, seed: int, kills: int, tmp_path: Path
) -> None:
    random_, query = random.Random(f"{name} {seed}"), QUERIES[name]
    files = histories(query, tmp_path)
    with RunningServer(tmp_path / "server", "-D", f"sqlstream.server.file-roots={tmp_path}") as server:
        job_id = begin(server, tmp_path, files, query)
        server.wait_for(job_id, "RUNNING", "FINISHED")
        for checkpoints in (0, random_.randrange(1, 3), 0, random_.randrange(2, 5))[:kills]:
            if checkpoints:
                server.wait_until_checkpointed(job_id, checkpoints)
            # Wherever this hits is right: it chooses how far the history has come, and nothing is waited for.
            time.sleep(random_.random() * 0.5)
            server.kill()
            server.start()
        if server.statuses()[job_id] == "RUNNING":
            sqlstream("rescale", job_id[:8], "--parallelism", "3", "--server", server.gateway)
        assert server.wait_for(job_id, "FINISHED", "FAILED") == "FINISHED", server.errors()
    check_table(tmp_path, query)


@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_recursive_query_in_several_subtasks_gives_each_result_of_its_history_once(
    parallelism: int, tmp_path: Path
) -> None:
    """Chains of links that end at multiples of 8, and are joined in seven rounds. Two TaskManagers are killed on the way."""
    options = f"'connector' = 'duckdb', 'path' = '{tmp_path}/out.duckdb', 'table-name' = 'changes'"
    further = (
        f"SET 'parallelism.default' = '{parallelism}'",
        RECURSIVE,
        f"CREATE TABLE changes (op STRING, a BIGINT, c BIGINT) WITH ({options})",
    )
    query = "SELECT op, a, c FROM TO_CHANGELOG(input => TABLE lengths)"
    with RunningServer(
        tmp_path / "server", "-D", f"sqlstream.server.file-roots={tmp_path}", "--task-managers", "2"
    ) as server:
        job_id = begin(server, tmp_path, histories("", tmp_path), query, *further)
        server.wait_for(job_id, "RUNNING", "FINISHED")
        for checkpoints in (0, 1):
            if checkpoints:
                server.wait_until_checkpointed(job_id, checkpoints)
            killed = server.task_managers()[:1]
            killed[0].send_signal(signal.SIGKILL)
            psutil.wait_procs(killed, TIMEOUT_S)
        assert server.wait_for(job_id, "FINISHED", "FAILED") == "FINISHED", server.errors()
    with duckdb.connect(f"{tmp_path}/out.duckdb", read_only=True) as connection:
        links = f"SELECT n AS a FROM range(300001, {HISTORY + LIVE + 1}) r(n) WHERE n % 8 <> 7"
        expected = f"FROM ({links}) SELECT 'INSERT', a, 7 - a % 8 WHERE a < {HISTORY} ORDER BY a"
        found = connection.execute(f"FROM changes WHERE a < {HISTORY} ORDER BY a, c, op").fetchall()
        assert found == connection.execute(expected).fetchall()
        net = "SUM(CASE WHEN op IN ('INSERT', 'UPDATE_AFTER') THEN 1 ELSE -1 END)"
        final = f"SELECT a, c FROM changes GROUP BY a, c HAVING {net} <> 0 ORDER BY a"
        expected = f"FROM ({links}) SELECT a, LEAST(7 - a % 8, {HISTORY + LIVE + 1} - a) ORDER BY a"
        assert connection.execute(final).fetchall() == connection.execute(expected).fetchall()


# The groups behind their history, and the joined rows while it is read.
@pytest.mark.parametrize(("name", "read"), [("groups", KEYS + 200), ("joined rows", JOINED)])
def test_the_statement_goes_on_from_its_savepoint(name: str, read: int, tmp_path: Path) -> None:
    query = QUERIES[name]
    files = histories(query, tmp_path)
    with RunningServer(tmp_path / "server", "-D", f"sqlstream.server.file-roots={tmp_path}") as server:
        job_id = begin(server, tmp_path, files, query)
        server.wait_for(job_id, "RUNNING")
        deadline_s = time.monotonic() + TIMEOUT_S
        while server.get(f"/jobs/{job_id}/totals")["total"].get("numRecordsRead", 0) < read:
            assert time.monotonic() < deadline_s, server.errors()
            time.sleep(0.05)
        stopped = sqlstream("stop", job_id[:8], "--server", server.gateway)
        assert stopped.returncode == 0, stopped.stderr
        written = rows_written(server, job_id)
        (savepoint,) = (tmp_path / "savepoints").iterdir()
        session = server.open_session()
        server.execute(session, "SET 'execution.runtime-mode' = 'STREAMING'")
        server.execute(session, f"SET 'execution.state-recovery.path' = '{savepoint}'")
        job_id = server.insert(session, f"INSERT INTO out {query} WITH BACKFILL {files}")
        assert server.wait_for(job_id, "FINISHED", "FAILED") == "FINISHED", server.errors()
        if "doubled" in query:
            # Each group once, wherever the history was: no row of the table itself is of these.
            assert written + rows_written(server, job_id) == JOINED
    check_table(tmp_path, query)
