"""INSERT INTO … ON CONFLICT into a table that has one row for each primary key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.errors import UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.runtime.embedded import EmbeddedCluster

NAMES = [f"n{i % 23}" for i in range(400)] + [f"m{i % 7}" for i in range(100)]
DDL = """
CREATE TABLE t (c BIGINT, name STRING, PRIMARY KEY (c) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = '{path}');
CREATE VIEW s AS SELECT * FROM (VALUES {rows}) AS v(name);
SET 'parallelism.default' = '2';
"""
COUNTS = "INSERT INTO t SELECT COUNT(*), name FROM s GROUP BY name"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with EmbeddedCluster(in_process=True) as cluster:
        made = Session(cluster)
        rows = ", ".join(f"('{name}')" for name in NAMES)
        for statement in parse_statements(DDL.format(path=tmp_path / "t.duckdb", rows=rows)):
            made.execute(statement)
        yield made


def run(session: Session, sql: str) -> None:
    (job,) = [session.execute(statement) for statement in parse_statements(sql)]
    assert isinstance(job, Job)
    assert job.wait(60) == (JobStatus.FINISHED, None)


@pytest.mark.parametrize("action", ["DEDUPLICATE", "NOTHING"])
def test_a_table_has_one_of_the_rows_that_the_query_leaves_for_each_key(
    session: Session, tmp_path: Path, action: str
) -> None:
    run(session, f"{COUNTS} ON CONFLICT DO {action}")
    with duckdb.connect(str(tmp_path / "t.duckdb"), read_only=True) as connection:
        found = connection.execute("SELECT c, name FROM t").fetchall()
    counts = {name: NAMES.count(name) for name in NAMES}
    assert sorted(c for c, _ in found) == sorted(set(counts.values()))
    assert all(counts[name] == c for c, name in found)


def test_the_first_row_of_a_key_stays_when_nothing_is_done(session: Session, tmp_path: Path) -> None:
    session.config["parallelism.default"] = "1"
    run(session, "INSERT INTO t SELECT CHAR_LENGTH(name), name FROM s ON CONFLICT DO NOTHING")
    with duckdb.connect(str(tmp_path / "t.duckdb"), read_only=True) as connection:
        assert sorted(connection.execute("SELECT c, name FROM t").fetchall()) == [(2, "n0"), (3, "n10")]


def test_the_first_row_is_nobody_knows_which_in_batch(session: Session) -> None:
    session.config |= {"execution.runtime-mode": "BATCH", "execution.batch.engine": "duckdb"}
    with pytest.raises(UserError, match="rows of a batch have no order") as caught:
        run(session, f"{COUNTS} ON CONFLICT DO NOTHING")
    assert (caught.value.code, caught.value.span is not None) == ("SS3301", True)
    run(session, f"{COUNTS} ON CONFLICT DO DEDUPLICATE")
