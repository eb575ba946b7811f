"""What a row makes fail is told in the same words by a stream and by a batch engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.planner.dialect.parser import parse_script, parse_statement

TABLE = (
    """CREATE TABLE texts (s STRING) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'raw')"""
)
LONG = "ä" * 150


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session() as made:
        for statement in parse_script(TABLE.format(path=tmp_path / "texts")):
            made.execute(statement)
        yield made


def error_of(session: Session, query: str, mode: str) -> tuple[str, str, str]:
    session.execute(parse_statement(f"SET 'execution.runtime-mode' = '{mode}'"))
    job = session.execute(parse_statement(query))
    assert isinstance(job, Job)
    _, error = job.wait()
    assert error is not None
    return error.code, error.message, error.hint


@pytest.mark.parametrize(
    ("text", "expression", "message"),
    [
        (" x ", "CAST(s AS INT)", 'cannot cast " x " to INT'),
        (LONG, "CAST(s AS DECIMAL(10, 2))", f'cannot cast "{"ä" * 100}…" to DECIMAL(10, 2)'),
        ("x" * 100, "CAST(s AS DOUBLE)", f'cannot cast "{"x" * 100}" to DOUBLE'),
        ('a" to INT', "CAST(s AS DATE)", 'cannot cast "a" to INT" to DATE'),
        ("Maybe", "CAST(s AS BOOLEAN)", 'cannot cast "Maybe" to BOOLEAN'),
        (" 99999999999999999999.5", "CAST(s AS BIGINT)", 'cannot cast " 99999999999999999999.5" to BIGINT'),
        ("300", "CAST(s AS TINYINT)", 'cannot cast "300" to TINYINT'),
        ("0", "1 / CAST(s AS INT)", "division by zero"),
        ("0", "(SELECT v FROM (VALUES 1, 2) AS t(v))", "a subquery that is used as a value has 2 rows"),
    ],
)
def test_a_value_that_fails_is_told_alike(
    session: Session, tmp_path: Path, text: str, expression: str, message: str
) -> None:
    (tmp_path / "texts").write_text(text)
    streamed = error_of(session, f"SELECT {expression} FROM texts", "STREAMING")
    assert streamed[1] == message
    assert error_of(session, f"SELECT {expression} FROM texts", "BATCH") == streamed
