"""Jobs over tables of SQLite by connector `jdbc`, as a stream and in batch."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from command_harness import sqlstream

SCRIPT = """
SET 'execution.runtime-mode' = '{mode}';
CREATE TABLE flights (origin STRING, at TIMESTAMP(3), delay DECIMAL(6, 2))
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{path}', 'table-name' = 'flights');
CREATE TABLE worst (origin STRING, n BIGINT, delay DECIMAL(6, 2), PRIMARY KEY (origin) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{path}', 'table-name' = 'worst');
INSERT INTO worst SELECT origin, COUNT(*), MAX(delay) FROM flights WHERE origin <> 'LGA' GROUP BY origin;
"""
SETUP = """
CREATE TABLE flights (origin TEXT, at TIMESTAMP, delay NUMERIC);
INSERT INTO flights VALUES ('JFK', '2013-01-01 05:00:00', 2.25), ('EWR', '2013-01-01 06:00:00', -4), ('LGA', NULL, 1),
  ('JFK', '2013-01-01 07:30:00', 11.5), ('JFK', NULL, NULL);
CREATE TABLE worst (origin TEXT PRIMARY KEY, n INTEGER, delay NUMERIC);
INSERT INTO worst VALUES ('JFK', 0, 0), ('SFO', 1, 1);
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "batch"])
def test_a_job_reads_and_upserts_tables_of_one_file(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "shop.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(SETUP)
    done = sqlstream("run", "-c", SCRIPT.format(mode=mode, path=path))
    assert done.returncode == 0, done.stderr
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT * FROM worst ORDER BY origin").fetchall()
    assert found == [("EWR", 1, -4), ("JFK", 3, 11.5), ("SFO", 1, 1)]
    assert [p.name for p in tmp_path.iterdir()] == ["shop.sqlite"]
