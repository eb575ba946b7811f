"""Lookup joins and connector `duckdb` from the command line, with tasks in processes of their own."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import duckdb
import pytest
from command_harness import ROOT, SQLSTREAM, Process, environment, sqlstream

TIMEOUT_S = 60

TABLES = """
SET 'parallelism.default' = '2';
CREATE TABLE orders (id BIGINT, k BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '1000',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '999', 'fields.k.min' = '0', 'fields.k.max' = '99');
CREATE TABLE dim (k BIGINT, name STRING) WITH ('connector' = 'duckdb', 'path' = '{path}');
CREATE TABLE counts (name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = '{path}');
"""
COUNT = """INSERT INTO counts SELECT COALESCE(d.name, 'none'), COUNT(*)
FROM orders AS o LEFT JOIN dim {hint} FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k GROUP BY COALESCE(d.name, 'none');"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE dim AS SELECT range::BIGINT AS k, 'n' || (range % 7) AS name FROM range(50)"
        )
    return path


def test_a_stream_reads_and_writes_one_database_from_several_processes(database: Path) -> None:
    hints = ("", "/*+ OPTIONS('lookup.cache' = 'PARTIAL') */", "/*+ OPTIONS('lookup.cache' = 'FULL') */")
    script = TABLES.format(path=database) + "".join(COUNT.format(hint=hint) for hint in hints)
    done = sqlstream("run", "--task-managers", "2", "-c", script)
    assert done.returncode == 0, done.stderr
    with duckdb.connect(str(database), read_only=True) as connection:
        counts = dict(connection.execute("SELECT name, n FROM counts").fetchall())
        commits = connection.execute("SELECT count(*) FROM sqlstream_commits").fetchall()
    assert set(counts) == {"none", *(f"n{i}" for i in range(7))}
    assert sum(counts.values()) == 1_000
    assert commits == [(6,)]
    assert [p.name for p in database.parent.iterdir()] == ["shop.duckdb"]


def test_a_failed_job_leaves_the_database_as_it_was(database: Path) -> None:
    script = TABLES.format(path=database) + "INSERT INTO counts SELECT 'x', 1 / (id - 500) FROM orders;"
    done = sqlstream("run", "-c", script)
    assert done.returncode != 0
    with duckdb.connect(str(database), read_only=True) as connection:
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("dim",)]
    assert [p.name for p in database.parent.iterdir()] == ["shop.duckdb"]


def test_a_missing_table_is_named_under_the_join(tmp_path: Path, database: Path) -> None:
    script = (
        TABLES.format(path=database).replace("dim (k", "dmi (k")
        + "SELECT o.id FROM orders AS o JOIN dmi FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k;"
    )
    done = sqlstream("run", "-c", script)
    assert done.returncode == 1
    assert 'error[SS5062]: there is no table "dmi" in' in done.stderr
    assert "FOR SYSTEM_TIME AS OF o.p" in done.stderr
    assert 'hint: did you mean "dim"?' in done.stderr


def started(path: Path, script: str) -> subprocess.Popen[str]:
    path.write_text(script)
    return Process(
        [*SQLSTREAM, "run", "--format", "csv", str(path)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )


def interrupted(process: subprocess.Popen[str]) -> float:
    """The seconds in which it ends."""
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_S) == 130
    return time.monotonic() - begin


@pytest.mark.timeout(300)
def test_a_job_that_waits_for_a_missing_key_is_cancelled_at_once(tmp_path: Path, database: Path) -> None:
    statements = """CREATE TABLE seen (id BIGINT) WITH ('connector' = 'print');
        CREATE TABLE found (id BIGINT) WITH ('connector' = 'blackhole');
        BEGIN STATEMENT SET;
        INSERT INTO seen SELECT id FROM orders;
        INSERT INTO found SELECT /*+ LOOKUP('table'='d', 'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay',
        'fixed-delay'='1 h', 'max-attempts'='3') */ o.id FROM orders AS o JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.k = d.k;
        END;"""
    with started(tmp_path / "script.sql", TABLES.format(path=database) + statements) as process:
        assert process.stdout is not None
        # Its rows have arrived.
        assert "+I[" in process.stdout.readline()
        assert interrupted(process) < 10


@pytest.mark.timeout(300)
def test_a_full_cache_follows_a_file_that_is_replaced_while_the_job_runs(
    tmp_path: Path, database: Path
) -> None:
    script = f"""
        CREATE TABLE orders (id BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '20',
          'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '100000');
        CREATE TABLE dim (k BIGINT, name STRING) WITH ('connector' = 'duckdb', 'path' = '{database}',
          'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '100 ms');
        SELECT d.name FROM orders AS o JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON MOD(o.id, 2) = d.k;"""
    with started(tmp_path / "script.sql", script) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["op,name\n", "+I,n0\n", "+I,n1\n"]
        other = tmp_path / "other"
        with duckdb.connect(str(other)) as connection:
            connection.execute("CREATE TABLE dim AS SELECT 1::BIGINT AS k, 'another' AS name")
        other.replace(database)
        while (line := process.stdout.readline()) != "+I,another\n":
            assert line in ("+I,n0\n", "+I,n1\n")
        assert {process.stdout.readline() for _ in range(5)} == {"+I,another\n"}
        assert interrupted(process) < 10
