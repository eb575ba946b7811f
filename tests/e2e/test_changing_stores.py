"""UPDATE, DELETE, INSERT OVERWRITE and TRUNCATE where others keep the rows: a Postgres server, and files in S3."""

from __future__ import annotations

from typing import Any

import pytest
from postgres_harness import running_postgres, sql_options
from s3_harness import running_s3

from sqlstream.client.sessions.outcomes import Job
from sqlstream.client.sessions.session import Session
from sqlstream.client.sessions.target_session import local_session
from sqlstream.planner.dialect.parser import parse_statement

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Row = tuple[Any, ...]
STEPS: tuple[tuple[str, list[Row]], ...] = (
    (
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'a', CAST(NULL AS INT))",
        [(1, "a", 1), (2, "b", 2), (3, "c", 3), (4, "a", None)],
    ),
    ("UPDATE t SET n = n + id, city = UPPER(city) WHERE n > 1", [(1, "a", 1), (2, "B", 4), (3, "C", 6), (4, "a", None)]),
    ("DELETE FROM t WHERE city = 'a' AND n IS NULL", [(1, "a", 1), (2, "B", 4), (3, "C", 6)]),
    ("UPDATE t SET n = 100 / (id - 2)", [(1, "a", 1), (2, "B", 4), (3, "C", 6)]),
    ("UPDATE t SET city = (SELECT MAX(city) FROM t) WHERE id IN (SELECT id FROM t WHERE n < 5)",
     [(1, "a", 1), (2, "a", 4), (3, "C", 6)]),
    ("INSERT OVERWRITE t SELECT id + 1, city, n FROM t", [(2, "a", 1), (3, "a", 4), (4, "C", 6)]),
    ("TRUNCATE TABLE t", []),
)  # fmt: skip
"""Statements, each with the rows that it leaves. One fails for a row, and changes nothing."""
KEY = ", PRIMARY KEY (id) NOT ENFORCED"


def check(session: Session, options: dict[str, str], key: str, partitioned: str = "") -> None:
    table = f"t (id INT, city STRING, n INT{key}){partitioned} WITH ({sql_options(options)})"
    session.execute(parse_statement(f"CREATE TABLE {table}"))
    for mode in ("STREAMING", "BATCH"):
        session.config["execution.runtime-mode"] = mode
        for statement, left in STEPS:
            job = session.execute(parse_statement(statement))
            if isinstance(job, Job):
                status, error = job.wait(60)
                assert (error is None) == ("100 /" not in statement), (statement, status, error)
            found = session.execute(parse_statement("SELECT * FROM t"))
            assert isinstance(found, Job)
            rows = [tuple(row.values()) for batch in found.rows() for row in batch.to_pylist()]
            assert sorted(rows) == left, (mode, statement)
    session.execute(parse_statement("DROP TABLE t"))


def test_rows_of_a_postgres_table_are_changed() -> None:
    with running_postgres() as server, local_session({"parallelism.default": "2"}) as session:
        server.sql("CREATE TABLE k (id int4 PRIMARY KEY, city text, n int4)")
        check(session, server.options("k"), KEY)


def test_files_in_a_store_are_replaced() -> None:
    with running_s3() as server, local_session({"parallelism.default": "2"}) as session:
        for name, format, more, key, partitioned in (
            ("lines", "csv", {}, "", ""),
            ("parts", "parquet", {}, "", " PARTITIONED BY (city)"),
            ("merged", "json", {"changelog.mode": "compacted"}, KEY, ""),
        ):
            options = server.options(f"s3://bucket/{name}", format=format, **more)
            check(session, options, key, partitioned)
