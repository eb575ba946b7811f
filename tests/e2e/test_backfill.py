"""A job that begins with a history: its server is killed while it hands over, and each row of both counts once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import duckdb
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


def begin(server: RunningServer, directory: Path, backfill: str, query: str = QUERY) -> str:
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
    ):
        server.execute(session, statement)
    return server.insert(session, f"INSERT INTO out {query} WITH BACKFILL {backfill}")


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
