"""A job that goes on from a savepoint with another statement: what it cannot keep is told before it starts, and after it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sqlstream.client.main import main
from sqlstream.client.sessions.outcomes import Job, Rows, Text
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


def explained(session: Session, place: str, statement: str) -> str:
    (answer,) = execute(session, f"EXPLAIN UPGRADE FOR {place} AS {statement}")
    assert isinstance(answer, Text)
    return answer.text


def test_what_a_changed_statement_cannot_keep_is_told(
    session: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ("execution.checkpointing.dir", "execution.checkpointing.savepoint-dir")
    execute(session, DDL + " ".join(f"SET '{key}' = '{tmp_path}';" for key in places))
    (job,) = execute(session, TOTALS)
    assert isinstance(job, Job)
    assert "without state" not in job.note
    before = explained(session, f"JOB '{job.id}'", TOTALS.replace("SUM", "MAX"))
    assert "the statement would be refused; state: 1 begins empty, 1 dropped" in before
    assert f"to upgrade: STOP JOB '{job.id}' WITH SAVEPOINT" in before
    (stopped,) = execute(session, f"STOP JOB '{job.id}' WITH SAVEPOINT")
    assert isinstance(stopped, Rows)
    ((path,),) = (batch.to_pydict().values() for batch in stopped.batches)
    execute(session, f"SET 'execution.state-recovery.path' = '{path[0]}';")

    with pytest.raises(UserError) as ended:
        explained(session, f"JOB '{job.id}'", TOTALS)
    assert (ended.value.code, ended.value.message) == (
        "SS3540",
        f'job "{job.id}" is FINISHED, and has no state to go on with',
    )
    for name, code in (("nowhere", "SS6212"), ("s3:/x y", "SS6212")):
        with pytest.raises(UserError) as missing:
            explained(session, f"SAVEPOINT '{tmp_path}/{name}'", TOTALS)
        assert missing.value.code == code
        assert missing.value.span is not None
    script = tmp_path / "changed.sql"
    script.write_text(f"{DDL}{TOTALS};\n{TOTALS.replace('SUM', 'MAX')};")
    assert main(["explain", "--savepoint", path[0], "--json", str(script)]) == 1
    told = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert [(t["is_refused"], [f["verdict"] for f in t["findings"]]) for t in told] == [
        (False, ["goes on", "kept", "same"]),
        (True, ["goes on", "begins empty", "changed", "dropped"]),
    ]
    assert main(["explain", "--json", str(script)]) == 2
    assert "--json goes with --savepoint" in capsys.readouterr().err
    saved = f"SAVEPOINT '{path[0]}'"
    assert "the statement would start; state: 1 kept\n" in explained(session, saved, TOTALS)

    both = f"EXECUTE STATEMENT SET BEGIN {OTHERS}; {TOTALS}; END"
    assert "the statement would start; state: 1 kept, 1 begins empty\n" in explained(session, saved, both)
    (kept,) = execute(session, both)
    assert isinstance(kept, Job)
    assert "state is left out" not in kept.note
    assert "has gone on from it too" not in kept.note
    title = "GROUP BY (n % 7) (COUNT(*)) of INSERT INTO others, line 1"
    assert f"note: begins without state: {title}" in kept.note
    session.cluster.cancel(kept.id)
    session.cluster.wait(kept.id, timeout_s=240)

    changed = TOTALS.replace("SUM", "MAX")
    told = explained(session, saved, changed)
    assert "the statement would be refused; state: 1 begins empty, 1 dropped\n" in told
    assert "because     its calls: MAX(n) instead of SUM(n)" in told
    with pytest.raises(UserError) as raised:
        execute(session, changed)
    assert raised.value.code == "SS6204"
    assert "GROUP BY (n % 10) (COUNT(*), SUM(n)) of INSERT INTO totals, line 4" in raised.value.message
    assert (
        raised.value.detail
        == "the job has no state for: GROUP BY (n % 10) (COUNT(*), MAX(n)) of INSERT INTO totals, line 4"
    )

    execute(session, "SET 'execution.state-recovery.ignore-unclaimed-state' = 'true';")
    assert "the statement would start; state: 1 begins empty, 1 dropped\n" in explained(
        session, saved, changed
    )
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


def test_a_batch_statement_goes_on_from_nothing(session: Session, tmp_path: Path) -> None:
    execute(session, f"{DDL} SET 'execution.checkpointing.dir' = '{tmp_path}';")
    (job,) = execute(session, TOTALS)
    assert isinstance(job, Job)
    execute(session, "SET 'execution.runtime-mode' = 'BATCH'; SET 'execution.batch.engine' = 'duckdb';")
    with pytest.raises(UserError) as refused:
        explained(session, f"JOB '{job.id}'", "INSERT INTO others SELECT 1, 2")
    assert (refused.value.code, refused.value.hint) == (
        "SS3541",
        "SET 'execution.runtime-mode' = 'STREAMING'",
    )
    session.cluster.cancel(job.id)
    session.cluster.wait(job.id, timeout_s=240)
