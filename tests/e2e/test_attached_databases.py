"""Databases that DuckDB attaches by its extensions: SQLite, and Debian's Postgres. With the DuckDB that PyPI has these for."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_harness import ROOT, SQLSTREAM, Process, environment, sqlstream
from peers.install import PeerError, install_duckdb
from postgres_harness import PASSWORD, Postgres, running_postgres

PEERS = ROOT / ".peers"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = """
CREATE TABLE orders (id BIGINT, k BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '20',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '20',
  'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '20');
CREATE TABLE dim (k BIGINT, name STRING) WITH ('connector' = 'duckdb', {options});
"""
COUNT = "SELECT COUNT(*) AS n, MIN(name) AS low, MAX(k) AS high FROM dim;"
LOOK_UP = "SELECT o.id, d.name FROM orders AS o LEFT JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k;"
ANSWER = (
    "n,low,high\n10,n0,27\n"
    + "id,name\n"
    + "".join(f"{i},{f'n{i // 3}' if i % 3 == 0 else ''}\n" for i in range(1, 21))
)


@pytest.fixture(scope="module")
def duckdb_path() -> str:
    try:
        packages = install_duckdb(PEERS)
    except PeerError as error:
        pytest.skip(str(error))
    return f"{packages}{os.pathsep}{ROOT}"


def run(duckdb_path: str, options: str, queries: str = COUNT + LOOK_UP) -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(options=options) + queries
    return sqlstream("run", "--format", "csv", "-c", script, env=environment(PYTHONPATH=duckdb_path))


def test_a_sqlite_table_is_read_and_looked_up(duckdb_path: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE dim (k BIGINT PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT INTO dim VALUES (?, ?)", [(3 * i, f"n{i}") for i in range(10)])
        connection.commit()
    done = run(duckdb_path, f"'path' = '{path}'")
    assert (done.returncode, done.stdout) == (0, ANSWER), done.stderr


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        server.sql(
            "CREATE TABLE dim AS SELECT 3 * i::BIGINT AS k, 'n' || i AS name FROM generate_series(0, 9) AS i"
        )
        yield server


def options(server: Postgres, password: str = PASSWORD) -> str:
    written = password.replace("'", "''")
    return (
        f"'type' = 'postgres', 'path' = 'dbname=postgres host=127.0.0.1 port={server.port}', 'table-name' = 'public.dim',"
        f" 'username' = 'shop', 'password' = '{written}', 'lookup.max-retries' = '4'"
    )


def test_a_postgres_table_is_read_and_asked_for_the_wanted_keys_alone(
    duckdb_path: str, postgres: Postgres
) -> None:
    done = run(duckdb_path, options(postgres))
    assert (done.returncode, done.stdout) == (0, ANSWER), done.stderr
    asked = [line for line in postgres.log.splitlines() if "COPY" in line and "WHERE" in line]
    # DuckDB writes a list of numbers without gaps as a range.
    assert len(asked) == 1
    assert """WHERE ("k" >= '1' AND "k" <= '20')""" in asked[0]


def test_a_refused_login_is_not_tried_again_and_shows_no_password(
    duckdb_path: str, postgres: Postgres
) -> None:
    done = run(duckdb_path, options(postgres, "another secret"), LOOK_UP)
    assert done.returncode == 1
    assert "refuses the login" in done.stderr
    assert "another secret" not in done.stderr
    assert postgres.log.count("password authentication failed") == 1


def test_a_server_that_is_down_is_tried_again_until_it_is_back_or_the_job_fails(
    duckdb_path: str, postgres: Postgres
) -> None:
    postgres.stop()
    try:
        begin = time.monotonic()
        done = run(duckdb_path, options(postgres), LOOK_UP)
        assert time.monotonic() - begin > 0.2 + 0.4 + 0.8 + 1.6
        assert done.returncode == 1
        assert "could not read table" in done.stderr
        assert PASSWORD not in done.stderr
    finally:
        back = threading.Thread(target=start_after_a_try, args=(postgres,))
        back.start()
    done = run(duckdb_path, options(postgres).replace("'4'", "'60'"), LOOK_UP)
    back.join(240)
    assert done.returncode == 0, done.stderr


def start_after_a_try(postgres: Postgres) -> None:
    """Start the server that is down, once somebody has tried in vain to reach it."""
    with socket.create_server(("127.0.0.1", postgres.port)) as listening:
        listening.settimeout(240)
        try:
            listening.accept()[0].close()
        finally:
            listening.close()
            postgres.start()


def test_a_server_may_restart_while_a_job_looks_up(
    duckdb_path: str, postgres: Postgres, tmp_path: Path
) -> None:
    path = tmp_path / "script.sql"
    script = SCRIPT.replace("'number-of-rows' = '20'", "'number-of-rows' = '20', 'rows-per-second' = '1'")
    path.write_text(script.format(options=options(postgres).replace("'4'", "'60'")) + LOOK_UP)
    before = lookups(postgres)
    with Process(
        [*SQLSTREAM, "run", "--format", "csv", str(path)],
        cwd=ROOT,
        env=environment(PYTHONPATH=duckdb_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        deadline_s = time.monotonic() + 240
        while lookups(postgres) == before:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        postgres.stop()
        start_after_a_try(postgres)
        lines = process.stdout.readlines()
        assert process.wait(240) == 0
    assert sorted(lines) == sorted(ANSWER.splitlines(keepends=True)[2:])
    assert lookups(postgres) > before + 1


def lookups(postgres: Postgres) -> int:
    return sum("COPY" in line and "WHERE" in line for line in postgres.log.splitlines())
