"""Each statement in errors/statements is refused with the text beside it, and what its hint says to write instead runs.

A file has a statement on each line. `-- instead: statement` behind one is its hint followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.errors import UserError, render_error
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.planner.dialect.statements import CreateTable, Insert, Query, Statement, StatementSet

PLACE = Path(__file__).parent / "errors" / "statements"
FILES = sorted(PLACE.glob("*.sql"))
INSTEAD = "-- instead: "
LIST = "detail: the options are "
STATEMENTS_MIN = 500

TABLES = """
CREATE TABLE emp (id INT, name STRING, dept INT, salary INT, mgr INT, hired DATE)
  WITH ('connector' = 'filesystem', 'path' = 'nowhere/emp', 'format' = 'json');
CREATE TABLE dept (id INT, dname STRING, city STRING)
  WITH ('connector' = 'filesystem', 'path' = 'nowhere/dept', 'format' = 'json');
CREATE TABLE t (k INT, g INT, s STRING)
  WITH ('connector' = 'filesystem', 'path' = 'nowhere/t', 'format' = 'json');
CREATE TABLE orders (
  id INT, item STRING, price DECIMAL(10, 2), qty INT, tags ARRAY<STRING>, attrs MAP<STRING, STRING>, ts TIMESTAMP(3),
  p AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'nowhere/orders', 'format' = 'json');
CREATE TABLE sink (a INT, b BIGINT NOT NULL, s STRING) WITH ('connector' = 'blackhole');
CREATE TABLE keyed (id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'print');
CREATE TABLE filesink (id INT, s STRING)
  WITH ('connector' = 'filesystem', 'path' = 'nowhere/out', 'format' = 'json');
CREATE VIEW v AS SELECT id, name FROM emp;
"""


@pytest.fixture(scope="module")
def clusters() -> Iterator[LocalClusterClient]:
    client = LocalClusterClient()
    yield client
    client.close()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UPDATE and DELETE run."""
    monkeypatch.chdir(tmp_path)


def session_of(clusters: LocalClusterClient) -> Session:
    session = Session(clusters)
    for statement in parse_statements(TABLES):
        session.execute(statement)
    return session


def plan(session: Session, statement: Statement) -> None:
    """Plan what would start a job, and execute the rest. A job of UPDATE or DELETE has ended then: its paths are those of the
    current directory, and the next statement may name its table."""
    has_query = isinstance(statement, CreateTable) and statement.query is not None
    if has_query or isinstance(statement, Query | Insert | StatementSet):
        session.compile(statement, "0" * 32)
    else:
        outcome = session.execute(statement)
        if isinstance(outcome, Job):
            outcome.wait(60)


def error_of(session: Session, text: str) -> UserError | None:
    try:
        for statement in parse_statements(text):
            plan(session, statement)
    except UserError as error:
        return error
    return None


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_statement_is_refused_with_its_place_and_its_hint_runs(
    file: Path, golden: Callable[[Path, str], None], clusters: LocalClusterClient
) -> None:
    session, shown = session_of(clusters), []
    for line in file.read_text().splitlines():
        if line.startswith(INSTEAD):
            changed = error_of(session_of(clusters), line.removeprefix(INSTEAD))
            assert changed is None, f"{line}\n{changed and render_error(changed, line.removeprefix(INSTEAD))}"
            continue
        error = error_of(session, line)
        assert error is not None, f"this is not refused: {line}"
        assert error.span is not None, f"this has no place: {line}\n{error}"
        # The list of all options changes with every option that comes.
        shown.append("\n".join(t for t in render_error(error, line).splitlines() if not t.startswith(LIST)))
    golden(file.with_suffix(".out"), "\n\n".join(shown))


def test_an_error_of_options_stands_within_their_list(clusters: LocalClusterClient) -> None:
    for line in (PLACE / "options_of_tables.sql").read_text().splitlines():
        error = error_of(session_of(clusters), line)
        assert error is not None, line
        assert error.span is not None
        assert max(map(line.rfind, ("WITH (", "SET (", "OPTIONS("))) < error.span.start, line


def test_there_are_many_wrong_statements_and_each_stands_once() -> None:
    lines = [line for file in FILES for line in file.read_text().splitlines() if not line.startswith("--")]
    assert len(lines) >= STATEMENTS_MIN
    assert len(lines) == len(set(lines))
