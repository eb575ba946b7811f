"""INSERT OVERWRITE, UPDATE, DELETE and TRUNCATE TABLE leave the rows that DuckDB leaves, and tell how many they have changed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.client.sessions import submission
from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_script, parse_statement

ROWS = "(1, 'a', 10), (2, 'b', NULL), (3, 'c', 30), (4, 'a', 40), (5, 'd', 5)"
TABLES = """
CREATE TABLE files (id INT, city STRING, n INT) WITH ('connector' = 'filesystem', 'path' = '{path}/files', 'format' = 'csv');
CREATE TABLE parts (id INT, city STRING, n INT) PARTITIONED BY (city)
  WITH ('connector' = 'filesystem', 'path' = '{path}/parts', 'format' = 'parquet', 'auto-compaction' = 'true');
CREATE TABLE ducks (id INT, city STRING, n INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'duckdb', 'path' = '{path}/x.duckdb', 'table-name' = 'ducks');
CREATE TABLE lites (id INT, city STRING, n INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{path}/x.sqlite', 'table-name' = 'lites');
CREATE TABLE chosen (k INT) WITH ('connector' = 'filesystem', 'path' = '{path}/chosen', 'format' = 'csv');
"""
STATEMENTS = [
    "UPDATE {t} SET n = n + id, city = UPPER(city) WHERE n > 5 AND city <> 'c'",
    "DELETE FROM {t} WHERE id IN (SELECT k FROM chosen)",
    "UPDATE {t} AS x SET n = NULL WHERE x.id NOT IN (SELECT k FROM chosen WHERE k IS NOT NULL) AND x.city = 'c'",
    "UPDATE {t} SET n = 100 / (id - 1) WHERE id <> 1",
    "DELETE FROM {t} WHERE n > 60",
    "UPDATE {t} SET city = 'z'",
    "DELETE FROM {t} WHERE n IS NULL",
    "DELETE FROM {t} WHERE city = 'nowhere'",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Path]]:
    path = tmp_path_factory.mktemp("changed")
    with sqlite3.connect(path / "x.sqlite") as lite:
        lite.execute("CREATE TABLE lites (id INTEGER PRIMARY KEY, city TEXT, n INTEGER)")
    with local_session({"parallelism.default": "2"}) as made:
        for statement in parse_script(TABLES.format(path=path)):
            made.execute(statement)
        yield made, path


def changed(session: Session, text: str) -> int:
    """Run a statement; returns the rows that it says to have changed, or else written."""
    job = session.execute(parse_statement(text))
    assert isinstance(job, Job)
    status, error = job.wait()
    assert error is None, (text, error)
    assert status.value == "FINISHED"
    total = job.metrics().total
    return total.get("numRowsChanged", total["numRecordsWritten"])


def rows(session: Session, table: str) -> list[tuple[Any, ...]]:
    job = session.execute(parse_statement(f"SELECT id, city, n FROM {table}"))
    assert isinstance(job, Job)
    return sorted(tuple(row.values()) for batch in job.rows() for row in batch.to_pylist())


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("table", ["files", "parts", "ducks", "lites"])
def test_rows_are_those_that_duckdb_leaves(session: tuple[Session, Path], table: str, mode: str) -> None:
    made, _ = session
    made.config["execution.runtime-mode"] = mode
    # A job with one commit takes no checkpoints, whatever the settings say.
    made.config["execution.checkpointing.interval"] = "20 ms"
    oracle = duckdb.connect()
    oracle.execute("CREATE TABLE chosen (k INT); INSERT INTO chosen VALUES (2), (NULL)")
    oracle.execute(f"CREATE TABLE t (id INT, city TEXT, n INT); INSERT INTO t VALUES {ROWS}")
    assert changed(made, f"INSERT OVERWRITE {table} VALUES {ROWS}") == 5
    assert changed(made, "INSERT OVERWRITE chosen VALUES (2), (CAST(NULL AS INT))") == 2
    for statement in STATEMENTS:
        (count,) = oracle.execute(statement.format(t="t").replace("100 /", "100 //")).fetchone() or (None,)
        assert changed(made, statement.format(t=table)) == count, statement
        expected = sorted(oracle.execute("SELECT * FROM t").fetchall(), key=lambda row: row[0])
        assert sorted(rows(made, table), key=lambda row: row[0]) == expected, statement
    # What the query reads is what the statement replaces.
    assert changed(made, f"INSERT OVERWRITE {table} SELECT id + 10, city, n FROM {table}") == len(expected)
    assert [row[0] for row in rows(made, table)] == sorted(row[0] + 10 for row in expected)
    changed(made, f"TRUNCATE TABLE {table}")
    assert rows(made, table) == []
    assert changed(made, f"DELETE FROM {table}") == 0


def test_overwriting_replaces_the_partitions_that_rows_come_into_or_that_are_named(
    session: tuple[Session, Path],
) -> None:
    made, path = session
    made.config["execution.runtime-mode"] = "STREAMING"
    changed(made, f"INSERT OVERWRITE parts VALUES {ROWS}")
    changed(made, "INSERT OVERWRITE parts VALUES (7, 'a', 7), (8, 'new', 8)")
    assert rows(made, "parts") == [(2, "b", None), (3, "c", 30), (5, "d", 5), (7, "a", 7), (8, "new", 8)]
    changed(made, "INSERT OVERWRITE parts PARTITION (city = 'c') SELECT 9, 9")
    changed(made, "INSERT OVERWRITE parts PARTITION (city = 'b') SELECT 1, 1 WHERE FALSE")
    assert rows(made, "parts") == [(5, "d", 5), (7, "a", 7), (8, "new", 8), (9, "c", 9)]
    # Nothing but the notes of commits is left of what was replaced.
    assert {p.name for p in (path / "parts").iterdir()} == {
        "city=a",
        "city=c",
        "city=d",
        "city=new",
        ".committed",
    }


@pytest.mark.parametrize("statement", ["INSERT OVERWRITE {t} SELECT 1, 'a', 1", "TRUNCATE TABLE {t}"])
@pytest.mark.parametrize("parts", ["", "PARTITIONED BY (city)"])
def test_what_readers_see_is_replaced_but_no_pipe(
    session: tuple[Session, Path], tmp_path: Path, statement: str, parts: str
) -> None:
    made, _ = session
    made.config["execution.runtime-mode"] = "STREAMING"
    declared = f"(id INT, city STRING, n INT) {parts} WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}'"
    made.execute(
        parse_statement(f"CREATE TEMPORARY TABLE seen {declared}, 'source.path.regex-pattern' = '.*[.]csv')")
    )
    changed(made, "INSERT INTO seen VALUES (1, 'a', 1)")
    place = tmp_path / "city=a" if parts else tmp_path
    for name in ("foreign.csv", "_kept.csv", ".kept.csv", "other.txt"):
        (place / name).write_text("1\n")
    os.mkfifo(place / "pipe.csv")
    job = made.execute(parse_statement(statement.format(t="seen")))
    assert isinstance(job, Job)
    _, error = job.wait()
    assert error is not None
    assert (error.code, error.message) == (
        "SS5017",
        f'could not read "{place}/pipe.csv": it is a named pipe, not a file',
    )
    assert (place / "foreign.csv").exists()
    (place / "pipe.csv").unlink()
    changed(made, statement.format(t="seen"))
    left = {p.name for p in place.iterdir() if not p.name.startswith(("part-", ".committed", ".staging-"))}
    assert left == {"_kept.csv", ".kept.csv", "other.txt"}
    made.execute(parse_statement("DROP TEMPORARY TABLE seen"))


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_overwriting_a_compacted_table_leaves_one_row_of_each_key(
    session: tuple[Session, Path], mode: str
) -> None:
    made, path = session
    made.config["execution.runtime-mode"] = mode
    name = f"once_{mode.lower()}"
    made.execute(
        parse_statement(
            f"CREATE TABLE {name} (id INT, city STRING, n BIGINT, PRIMARY KEY (id, city) NOT ENFORCED) PARTITIONED BY (city)"
            f" WITH ('connector' = 'filesystem', 'path' = '{path}/{name}', 'format' = 'csv', 'changelog.mode' = 'compacted')"
        )
    )
    same = (
        "(SELECT id, CAST(city AS STRING), CAST(n AS BIGINT) FROM"
        " (VALUES (1, 'a', 5), (1, 'a', 5), (2, 'c', 6), (2, 'c', 6)) AS v(id, city, n)) AS t(id, city, n)"
    )
    changed(made, f"INSERT INTO {name} VALUES (1, 'a', 1), (3, 'a', 3), (1, 'b', 1)")
    changed(made, f"INSERT OVERWRITE {name} SELECT * FROM {same}")
    assert rows(made, name) == [(1, "a", 5), (1, "b", 1), (2, "c", 6)]
    changed(made, f"INSERT OVERWRITE {name} SELECT id, city, SUM(n) FROM {same} GROUP BY id, city")
    assert rows(made, name) == [(1, "a", 10), (1, "b", 1), (2, "c", 12)]
    changed(made, f"INSERT OVERWRITE {name} PARTITION (city = 'b') SELECT id, n FROM {same} WHERE n > 9")
    assert rows(made, name) == [(1, "a", 10), (2, "c", 12)]


def test_an_update_of_files_that_others_have_changed_meanwhile_changes_nothing(
    session: tuple[Session, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path = session
    made.config["execution.runtime-mode"] = "STREAMING"
    changed(made, f"INSERT OVERWRITE files VALUES {ROWS}")
    statement = parse_statement("UPDATE files SET n = 0")
    plan = made.compile(statement, job_id="ab" * 16)
    graph = submission.with_versions(plan.job_graph, made.files())
    changed(made, "INSERT INTO files VALUES (6, 'x', 6)")
    monkeypatch.setattr(submission, "with_versions", lambda graph, files: graph)
    _, error = made.submit_graph(graph).wait()
    assert error is not None
    assert error.code == "SS5075"
    assert sorted(n for _, _, n in rows(made, "files") if n is not None) == [5, 6, 10, 30, 40]
    assert {p.name for p in (path / "files").iterdir() if p.name.startswith(".")} == {".committed"}


@pytest.mark.parametrize(
    ("statement", "code", "underlined"),
    [
        ("UPDATE ducks SET id = 3", "SS3491", "id"),
        ("UPDATE merged SET id = 3", "SS3491", "id"),
        ("UPDATE files SET nope = 3", "SS2003", "nope"),
        ("UPDATE files SET n = 'x' WHERE id = 1", "SS2008", "'x'"),
        ("UPDATE files SET n = 1, n = 2", "SS2012", "n"),
        ("DELETE FROM files WHERE m = 1", "SS2003", "m"),
        ("DELETE FROM out WHERE id = 1", "SS3490", "out"),
        ("INSERT OVERWRITE out SELECT * FROM files", "SS3490", "out"),
        ("UPDATE keyless SET n = 1", "SS3491", "keyless"),
        ("INSERT OVERWRITE files SELECT id, 'a', n FROM endless", "SS3493", "files"),
        ("DELETE FROM changes WHERE id = 1", "SS3491", "changes"),
        (
            "EXECUTE STATEMENT SET BEGIN INSERT OVERWRITE files SELECT * FROM files;"
            " INSERT INTO files SELECT * FROM files; END",
            "SS3492",
            "files",
        ),
    ],
)
def test_what_cannot_be_changed_is_refused_with_its_position(
    session: tuple[Session, Path], statement: str, code: str, underlined: str
) -> None:
    made, path = session
    duck = f"'connector' = 'duckdb', 'path' = '{path}/x.duckdb', 'table-name' = 'k'"
    changes = f"'connector' = 'filesystem', 'path' = '{path}/c', 'format' = 'debezium-json'"
    merged = (
        f"'connector' = 'filesystem', 'path' = '{path}/m', 'format' = 'csv', 'changelog.mode' = 'compacted'"
    )
    for table in (
        "out (id INT, city STRING, n INT) WITH ('connector' = 'print')",
        f"keyless (n INT) WITH ({duck})",
        "endless (id INT, n INT) WITH ('connector' = 'datagen')",
        f"changes (id INT) WITH ({changes})",
        f"merged (id INT, n INT, PRIMARY KEY (id) NOT ENFORCED) WITH ({merged})",
    ):
        made.execute(parse_statement(f"CREATE TEMPORARY TABLE IF NOT EXISTS {table}"))
    with pytest.raises(UserError) as raised:
        made.execute(parse_statement(statement))
    span = raised.value.span
    assert span is not None
    assert (raised.value.code, statement[span.start : span.end]) == (code, underlined)
