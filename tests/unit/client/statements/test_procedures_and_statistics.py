"""CALL, ANALYZE TABLE, SHOW PARTITIONS and modules; statements that are not there are refused with the reason."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.client.sessions.outcomes import Job, Rows, Text
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_script, parse_statement

TABLES = """
CREATE TABLE t (id INT, city STRING, n BIGINT) PARTITIONED BY (city)
  WITH ('connector' = 'filesystem', 'path' = '{path}/t', 'format' = 'csv');
CREATE TABLE plain (id INT) WITH ('connector' = 'filesystem', 'path' = '{path}/p', 'format' = 'csv');
CREATE TABLE endless (id INT, l ARRAY<INT>) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
CREATE TABLE nowhere (id INT) WITH ('connector' = 'blackhole');
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    path: Path = tmp_path_factory.mktemp("analyzed")
    with local_session() as made:
        for statement in parse_script(TABLES.format(path=path)):
            made.execute(statement)
        assert rows(made, "SHOW PARTITIONS t") == []
        job = made.execute(
            parse_statement("INSERT INTO t VALUES (1, 'a', 1), (2, 'c d', NULL), (3, 'a', 1), (4, 'b/', 2)")
        )
        assert isinstance(job, Job)
        job.wait()
        yield made


def rows(session: Session, text: str) -> list[tuple[object, ...]]:
    outcome = session.execute(parse_statement(text))
    assert isinstance(outcome, Rows)
    return [tuple(row.values()) for batch in outcome.batches for row in batch.to_pylist()]


def test_partitions_are_the_directories_with_rows(session: Session) -> None:
    assert rows(session, "SHOW PARTITIONS t") == [("city=a",), ("city=b%2F",), ("city=c d",)]
    assert rows(session, "SHOW PARTITIONS t NOT LIKE '%a'") == [("city=b%2F",), ("city=c d",)]


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_statistics_count_rows_values_and_nulls_and_estimates_follow_them(
    session: Session, mode: str
) -> None:
    session.config["execution.runtime-mode"] = mode
    session.statistics.clear()
    query = "EXPLAIN ESTIMATED_COST SELECT n, COUNT(*) FROM t WHERE city = 'a' GROUP BY n"

    def estimated() -> list[str]:
        outcome = session.execute(parse_statement(query))
        assert isinstance(outcome, Text)
        found = dict(re.findall(r"(\w+)\([^\n]*: rowcount = ([\d.E+-]+),", outcome.text))
        return [found[name] for name in ("TableScan", "Filter", "Aggregate")]

    guessed = estimated()
    assert rows(session, "ANALYZE TABLE t COMPUTE STATISTICS") == [(None, 4, None, None)]
    assert estimated()[0] == "4"
    assert rows(session, "ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS n, city") == [
        (None, 4, None, None),
        ("n", 4, 2, 1),
        ("city", 4, 3, 0),
    ]
    # A third of four rows, and no more groups than rows.
    assert estimated() == ["4", "1.333", "1.333"] != guessed
    assert len(rows(session, "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS")) == 4
    session.config.clear()


def test_there_is_one_module(session: Session) -> None:
    assert rows(session, "SHOW MODULES") == [("core",)]
    assert rows(session, "SHOW FULL MODULES") == [("core", True)]
    assert rows(session, "USE MODULES core") == [("OK",)]


@pytest.mark.parametrize(
    ("text", "code", "underlined", "words"),
    [
        ("SHOW PARTITIONS plain", "SS2011", "plain", "not partitioned"),
        ("ANALYZE TABLE endless COMPUTE STATISTICS", "SS3523", "endless", "no end"),
        ("ANALYZE TABLE t COMPUTE STATISTICS FOR COLUMNS m", "SS2003", "m", '"m"'),
        ("ANALYZE TABLE endless COMPUTE STATISTICS FOR COLUMNS l", "SS2010", "l", "ARRAY"),
        (
            "ANALYZE TABLE t PARTITION (city = 'a') COMPUTE STATISTICS",
            "SS1003",
            "PARTITION",
            "single partitions",
        ),
        ("CALL sys.trigger_savepont('x')", "SS3525", "sys.trigger_savepont", "does not exist"),
        ("CALL other.trigger_savepoint('x')", "SS3525", "other.trigger_savepoint", "does not exist"),
        ("CALL sys.rescale_job('x', 'y')", "SS3525", "'y'", "a whole number"),
        ("CALL trigger_checkpoint()", "SS3525", "CALL trigger_checkpoint()", "does not take 0 arguments"),
        ("CALL trigger_checkpoint('x')", "SS6009", "'x'", "not known"),
        ("LOAD MODULE hive WITH ('hive-version' = '3.1.3')", "SS3524", "hive", "no module"),
        ("LOAD MODULE core", "SS3524", "core", "loaded already"),
        ("UNLOAD MODULE core", "SS3524", "core", "cannot be unloaded"),
        ("USE MODULES core, core", "SS2012", "core", "twice"),
        ("ADD JAR '/x.jar'", "SS1002", "ADD JAR", "no JVM"),
        ("REMOVE JAR '/x.jar'", "SS1002", "REMOVE JAR", "no JVM"),
        ("SHOW JARS", "SS1002", "SHOW JARS", "no JVM"),
        ("CREATE MATERIALIZED TABLE m AS SELECT 1", "SS1002", "CREATE MATERIALIZED TABLE", "no scheduler"),
        ("ALTER MATERIALIZED TABLE m SUSPEND", "SS1002", "ALTER MATERIALIZED TABLE", "no scheduler"),
        ("SHOW MATERIALIZED TABLES", "SS1002", "SHOW MATERIALIZED TABLES", "no scheduler"),
        ("SHOW CREATE CONNECTION c", "SS1002", "SHOW CREATE", "name its connection"),
        ("MERGE INTO t", "SS1002", "MERGE", "no such statement"),
    ],
)
def test_what_is_not_there_is_refused_with_position_and_reason(
    session: Session, text: str, code: str, underlined: str, words: str
) -> None:
    with pytest.raises(UserError) as raised:
        session.execute(parse_statement(text))
    span = raised.value.span
    assert span is not None
    assert (raised.value.code, text[span.start : span.end]) == (code, underlined)
    assert words in raised.value.message
    assert raised.value.hint


@pytest.mark.slow
def test_procedures_save_a_running_job(session: Session, tmp_path: Path) -> None:
    session.config["execution.checkpointing.dir"] = f"{tmp_path}/checkpoints"
    job = session.execute(parse_statement("INSERT INTO nowhere SELECT id FROM endless GROUP BY id"))
    assert isinstance(job, Job)
    try:
        deadline_s = time.monotonic() + 60
        while session.cluster.status(job.id).status.value != "RUNNING":
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        ((path,),) = rows(session, f"CALL sys.trigger_savepoint('{job.id}', '{tmp_path}/savepoints')")
        assert (Path(str(path)) / "_metadata").exists()
        assert rows(session, f"CALL trigger_checkpoint('{job.id}')")[0][0]
        assert rows(session, f"CALL dispose_savepoint('{path}')") == [(f"removed {path}",)]
        assert not Path(str(path)).exists()
    finally:
        session.config.clear()
        job.cancel()
        job.wait()
