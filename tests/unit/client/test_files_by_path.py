"""Files in the statements of a session: inferred once, shown by SHOW CREATE TABLE and EXPLAIN, fixed in views."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import BinaryIO

import pytest

from sqlstream.catalog import CatalogView, ObjectPath
from sqlstream.client.catalog.stored import decode_object, encode_object
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.completion import complete
from sqlstream.client.completion.session_vocabulary import SessionVocabulary
from sqlstream.client.sessions.outcomes import Rows, Text
from sqlstream.client.sessions.session import Session
from sqlstream.errors import UserError
from sqlstream.planner.bind.context import FileDefinitions
from sqlstream.planner.dialect.parser import parse_script, parse_statement
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces
from sqlstream.runtime.inference.file_inference import LocalFileInference


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.chdir(tmp_path)
    Path("clicks.csv").write_text("user;at\n1;2020-01-01 12:00:00\n")
    Path("it's.json").write_text('{"a":1}\n')
    return Session(LocalClusterClient())


def run(session: Session, script: str) -> str:
    """The first value, or the text, of the last statement."""
    outcome = None
    for statement in parse_script(script):
        outcome = session.execute(statement)
    if isinstance(outcome, Text):
        return outcome.text
    assert isinstance(outcome, Rows)
    return str(outcome.batches[0].column(0)[0].as_py()) if outcome.batches[0].num_columns else ""


INFERRED = """CREATE TABLE `default_catalog`.`default_database`.`t` (
  `user` BIGINT,
  `at` TIMESTAMP(6)
)
WITH (
  'connector' = 'filesystem',
  'csv.empty-string-as-null' = 'true',
  'csv.field-delimiter' = ';',
  'csv.header' = 'true',
  'format' = 'csv',
  'path' = 'clicks.csv'
)
"""


def test_the_created_table_shows_all_that_was_inferred_and_creates_itself(session: Session) -> None:
    assert run(session, "CREATE TABLE t LIKE 'clicks.csv'; SHOW CREATE TABLE t;") == INFERRED
    Path("clicks.csv").unlink()
    assert run(session, f"DROP TABLE t; {INFERRED}; SHOW CREATE TABLE t;") == INFERRED


def test_like_takes_options_columns_and_a_watermark(session: Session) -> None:
    text = """CREATE TABLE t (at TIMESTAMP(3) COMMENT 'when', d AS CAST(at AS DATE), f STRING METADATA FROM 'file.name',
        WATERMARK FOR at AS at - INTERVAL '5' SECOND) WITH ('csv.ignore-parse-errors' = 'true') LIKE 'clicks.csv';"""
    assert run(session, text + "SHOW CREATE TABLE t;") == INFERRED.replace(
        "`at` TIMESTAMP(6)\n",
        "`at` TIMESTAMP(3) COMMENT 'when',\n  `d` AS CAST(at AS DATE),\n"
        "  `f` STRING METADATA FROM 'file.name',\n  WATERMARK FOR `at` AS at - INTERVAL '5' SECOND\n",
    ).replace("  'format'", "  'csv.ignore-parse-errors' = 'true',\n  'format'")


def test_explain_shows_the_inferred_table(session: Session) -> None:
    shown = run(session, "EXPLAIN SELECT c.`user` FROM 'clicks.csv' AS c, 'clicks.csv'")
    definition = INFERRED.replace("`default_catalog`.`default_database`.`t`", "'clicks.csv'")
    assert shown.startswith(f"== Inferred Tables ==\n{definition}\n== Abstract Syntax Tree ==")
    assert shown.count("CREATE TABLE") == 1
    assert "TableScan(table=['clicks.csv'], columns=[user, at])" in shown


def test_explain_of_a_batch_statement_shows_the_inferred_table(session: Session) -> None:
    script = "SET 'execution.runtime-mode' = 'batch'; SET 'execution.batch.engine' = 'duckdb';"
    shown = run(session, f"{script} EXPLAIN SELECT * FROM 'clicks.csv'")
    definition = INFERRED.replace("`default_catalog`.`default_database`.`t`", "'clicks.csv'")
    assert shown.startswith(f"== Inferred Tables ==\n{definition}\n== Abstract Syntax Tree ==")
    assert "== SQL of DuckDB ==" in shown


def test_the_file_names_its_columns(session: Session) -> None:
    explained = run(session, "EXPLAIN SELECT clicks.`user` FROM 'clicks.csv' WHERE clicks.at IS NULL")
    assert "TableScan(table=['clicks.csv']" in explained


def test_a_view_keeps_what_was_inferred_when_it_was_created(session: Session) -> None:
    run(session, "CREATE VIEW v AS SELECT * FROM 'clicks.csv'; CREATE VIEW w AS SELECT * FROM v;")
    path = ObjectPath("default_catalog", "default_database", "v")
    view = session.catalog.snapshot().get(path)
    assert isinstance(view, CatalogView)
    assert decode_object(encode_object(view), path) == view
    Path("clicks.csv").write_text("user;other\nx;y\n")
    for name in ("v", "w"):
        shown = run(session, f"EXPLAIN SELECT * FROM {name}")
        assert "columns=[user, at]" in shown
        assert "`user` BIGINT" in shown
    run(session, "ALTER VIEW v AS SELECT * FROM 'clicks.csv'")
    assert "columns=[user, other]" in run(session, "EXPLAIN SELECT * FROM v")


class CountingFiles(LocalFiles):
    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()

    def open_read(self, path: str) -> BinaryIO:
        self.opened[path] += 1
        return super().open_read(path)


def test_a_statement_infers_a_file_once(session: Session) -> None:
    from sqlstream.planner.bind.binder import bind_query

    files = CountingFiles()
    context = dataclasses.replace(session.bind_context(), files=FileDefinitions(LocalFileInference(files)))
    statement = parse_statement("SELECT * FROM 'clicks.csv' AS a, 'clicks.csv' AS b")
    bind_query(statement.query, context)  # type: ignore[attr-defined]
    assert files.opened == {"clicks.csv": 1}


@pytest.mark.parametrize(
    ("text", "code", "marked"),
    [
        ("SELECT * FROM 'none.csv'", "SS5002", "'none.csv'"),
        ("SELECT * FROM 's3://b/x.csv'", "SS4002", "'s3://b/x.csv'"),
        ("SELECT * FROM ''", "SS4002", "''"),
        ("SELECT x FROM 'clicks.csv'", "SS2003", "x"),
        ("SELECT * FROM 'clicks.csv' /*+ OPTIONS('csv.heder' = 'true') */", "SS4003", "'csv.heder'"),
        ("SELECT * FROM 'clicks.csv' /*+ OPTIONS('csv.header' = 'maybe') */", "SS4002", "'maybe'"),
        ("SELECT * FROM 'clicks.csv' /*+ OPTIONS('format' = 'raw') */", "SS5024", "'clicks.csv'"),
        ("SELECT * FROM 'clicks.csv' /*+ OPTIONS('path' = 'x') */", "SS4003", "'path'"),
        ("SELECT * FROM 'clicks.csv' /*+ OPTIONS('connector' = 'print') */", "SS4003", "'print'"),
        ("CREATE TABLE t LIKE 'none.csv'", "SS5002", "'none.csv'"),
        ("CREATE TABLE t (usr INT) LIKE 'clicks.csv'", "SS2003", "usr INT"),
        ("CREATE TABLE t PARTITIONED BY (at) LIKE 'clicks.csv'", "SS2011", "at"),
        ("CREATE TABLE t LIKE other", "SS2001", "other"),
        ("SELECT * FROM a JOIN 'clicks.csv' FOR SYSTEM_TIME AS OF a.p AS b ON a.x = b.x", "SS1003", "FOR"),
        ("INSERT INTO 'out.csv' SELECT 1", "SS1003", "'out.csv'"),
        ("CREATE VIEW v AS SELECT * FROM 'none.csv'", "SS5002", "'none.csv'"),
    ],
)
def test_errors_point_at_their_place(session: Session, text: str, code: str, marked: str) -> None:
    with pytest.raises(UserError) as caught:
        run(session, text)
    span = caught.value.span
    assert span is not None
    assert (caught.value.code, text[span.start : span.end]) == (code, marked)


def test_a_session_reads_only_files_of_its_places(session: Session, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a\n1\n")
    closed = Session(LocalClusterClient(), places=FilePlaces((str(tmp_path / "in"),)))
    assert "columns=[a]" in run(closed, f"EXPLAIN SELECT * FROM '{tmp_path}/in/a.csv'")
    for text in ("EXPLAIN SELECT * FROM '{}/clicks.csv'", "CREATE TABLE t LIKE '{}/in/../clicks.csv'"):
        with pytest.raises(UserError) as caught:
            run(closed, text.format(tmp_path))
        assert caught.value.code == "SS5030"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM 'cl", ["'clicks.csv'"]),
        ("SELECT * FROM a JOIN 'it", ["'it''s.json'"]),
        ("CREATE TABLE t LIKE 'cl", ["'clicks.csv'"]),
        ("SELECT * FROM 'su", ["'sub/"]),
        ("SELECT * FROM 'sub/", ["'sub/x.parquet'"]),
        ("SELECT 'cl", []),
        ("SELECT * FROM a WHERE b = 'cl", []),
    ],
)
def test_paths_are_completed_within_quotes(session: Session, text: str, expected: list[str]) -> None:
    Path("sub").mkdir()
    Path("sub/x.parquet").touch()
    Path("sub/x.txt").touch()
    assert [c.text for c in complete(text, len(text), SessionVocabulary(session))] == expected
    assert complete(text, len(text), SessionVocabulary(session, names_files=False)) == ()
