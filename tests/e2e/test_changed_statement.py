"""A job that goes on from a savepoint with another statement: what it cannot keep is told before it starts, and after it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.client.sessions.outcomes import Job, Rows
from sqlstream.client.sessions.session import Session
from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.runtime.embedded import EmbeddedCluster

DDL = """
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000');
CREATE TABLE totals (k BIGINT, c BIGINT, total BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE others (k BIGINT, c BIGINT) WITH ('connector' = 'blackhole');
SET 'execution.checkpointing.interval' = '100 ms';
"""
TOTALS = """INSERT INTO totals
SELECT n % 10, COUNT(*), SUM(n)
FROM numbers
GROUP BY n % 10"""
OTHERS = "INSERT INTO others SELECT n % 7, COUNT(*) FROM numbers GROUP BY n % 7"


@pytest.fixture
def session() -> Iterator[Session]:
    with EmbeddedCluster(in_process=True) as cluster:
        yield Session(cluster)


def execute(session: Session, script: str) -> list[object]:
    return [session.execute(statement) for statement in parse_statements(script)]


def test_what_a_changed_statement_cannot_keep_is_told(session: Session, tmp_path: Path) -> None:
    places = ("execution.checkpointing.dir", "execution.checkpointing.savepoint-dir")
    execute(session, DDL + " ".join(f"SET '{key}' = '{tmp_path}';" for key in places))
    (job,) = execute(session, TOTALS)
    assert isinstance(job, Job)
    assert "without state" not in job.note
    (stopped,) = execute(session, f"STOP JOB '{job.id}' WITH SAVEPOINT")
    assert isinstance(stopped, Rows)
    ((path,),) = (batch.to_pydict().values() for batch in stopped.batches)
    execute(session, f"SET 'execution.state-recovery.path' = '{path[0]}';")

    both = f"EXECUTE STATEMENT SET BEGIN {OTHERS}; {TOTALS}; END"
    (kept,) = execute(session, both)
    assert isinstance(kept, Job)
    assert "state is left out" not in kept.note
    assert "has gone on from it too" not in kept.note
    title = "GROUP BY (n % 7) (COUNT(*)) of INSERT INTO others, line 1"
    assert f"note: begins without state: {title}" in kept.note
    session.cluster.cancel(kept.id)
    session.cluster.wait(kept.id, timeout_s=240)

    changed = TOTALS.replace("SUM", "MAX")
    with pytest.raises(UserError) as raised:
        execute(session, changed)
    assert raised.value.code == "SS6204"
    assert "GROUP BY (n % 10) (COUNT(*), SUM(n)) of INSERT INTO totals, line 4" in raised.value.message
    assert (
        raised.value.detail
        == "the job has no state for: GROUP BY (n % 10) (COUNT(*), MAX(n)) of INSERT INTO totals, line 4"
    )

    execute(session, "SET 'execution.state-recovery.ignore-unclaimed-state' = 'true';")
    (begun,) = execute(session, changed)
    assert isinstance(begun, Job)
    assert (
        "note: state is left out: GROUP BY (n % 10) (COUNT(*), SUM(n)) of INSERT INTO totals, line 4"
        in begun.note
    )
    assert (
        "note: begins without state: GROUP BY (n % 10) (COUNT(*), MAX(n)) of INSERT INTO totals" in begun.note
    )
    again = 'has gone on from it too: what it writes to "totals" is written by this job again'
    assert f"note: job {kept.id} (CANCELED) {again}" in begun.note
    assert "WITH DRAIN" not in begun.note

    (drained,) = execute(session, f"STOP JOB '{begun.id}' WITH SAVEPOINT WITH DRAIN")
    assert isinstance(drained, Rows)
    ((path,),) = (batch.to_pydict().values() for batch in drained.batches)
    _, late = execute(session, f"SET 'execution.state-recovery.path' = '{path[0]}'; {changed}")
    assert isinstance(late, Job)
    assert "note: the savepoint was taken WITH DRAIN" in late.note
    session.cluster.cancel(late.id)
