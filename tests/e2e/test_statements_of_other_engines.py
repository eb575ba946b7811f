"""Statements that Flink, DuckDB or psql take as they are: positions in GROUP BY, DESCRIBE of a query, windows over files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.errors import UserError

GROUPING_SETS = [("a", None, 2), ("b", None, 1), (None, 0, 1), (None, 1, 2)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("files") / "f.csv"
    path.write_text("k,v,ts\na,1,2024-01-01 00:00:00\na,2,2024-01-01 00:00:07\nb,3,2024-01-01 00:00:03\n")
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()

        def rows(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql.replace("FILE", f"'{path}'"))
            return sorted(cursor.fetchall(), key=repr) if cursor.description else []

        yield rows


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, SUM(v) AS s FROM FILE GROUP BY 1", [("a", 3), ("b", 3)]),
        ("SELECT v % 2, k, COUNT(*) FROM FILE GROUP BY 2, 1", [(0, "a", 1), (1, "a", 1), (1, "b", 1)]),
        ("SELECT k, v % 2, COUNT(*) FROM FILE GROUP BY GROUPING SETS ((1), (2))", GROUPING_SETS),
        ("SELECT ELT(window_end > window_start, 'x'), COUNT(*) FROM FILE GROUP BY 1", UserError),
        ("SELECT k, COUNT(*) FROM FILE GROUP BY 3", UserError),
        ("SELECT k, COUNT(*) FROM FILE GROUP BY 0", UserError),
        ("SELECT k, COUNT(*) FROM FILE GROUP BY 2", UserError),
        ("SELECT (SELECT k, v FROM FILE WHERE v = 3) AS r", [(("b", 3),)]),
        ("SELECT (SELECT k, v FROM FILE WHERE v = 9) AS r", [(None,)]),
        ("SELECT k FROM FILE AS f WHERE (SELECT v, k FROM FILE AS g WHERE g.v = f.v) IS NULL", []),
        (
            "SELECT CAST(window_start AS VARCHAR(19)), SUM(v) FROM TABLE(TUMBLE(TABLE FILE, DESCRIPTOR(ts),"
            " INTERVAL '5' SECOND)) GROUP BY window_start, window_end",
            [("2024-01-01 00:00:00", 4), ("2024-01-01 00:00:05", 2)],
        ),
        (
            "SELECT k, SUM(v) FROM SESSION(TABLE FILE PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)"
            " GROUP BY k, window_start, window_end",
            [("a", 1), ("a", 2), ("b", 3)],
        ),
        (
            "SELECT COUNT(*) FROM HOP(TABLE FILE, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
            [(6,)],
        ),
        (
            "SELECT SUM(v) FROM CUMULATE(TABLE FILE, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)"
            " GROUP BY window_start, window_end",
            [(4,), (6,)],
        ),
    ],
)
def test_a_statement_has_its_rows_or_is_refused(run: Any, sql: str, expected: Any) -> None:
    if expected is UserError:
        with pytest.raises(sqlstream.Error):
            run(sql)
    else:
        assert run(sql) == expected


@pytest.mark.parametrize(
    "what",
    ["FILE", "SELECT * FROM FILE", "(SELECT * FROM FILE)", "WITH w AS (SELECT * FROM FILE) SELECT * FROM w"],
)
def test_describe_tells_the_columns_of_a_query_and_of_files(run: Any, what: str) -> None:
    described = {row[0]: row[1:3] for row in run(f"DESCRIBE {what}")}
    assert described == {"k": ("STRING", True), "v": ("BIGINT", True), "ts": ("TIMESTAMP(6)", True)}


def test_an_inferred_timestamp_is_event_time_of_milliseconds(run: Any) -> None:
    run("CREATE TABLE timed (WATERMARK FOR ts AS ts - INTERVAL '10' SECOND) LIKE FILE")
    (described,) = [row for row in run("DESCRIBE timed") if row[0] == "ts"]
    assert described[1] == "TIMESTAMP(3) *ROWTIME*"
    grouped = "SELECT SUM(v) FROM TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '5' SECOND) GROUP BY window_start, window_end"
    assert run(grouped) == [(2,), (4,)]


def test_what_tells_of_partitions_needs_nobody_who_is_told(run: Any, tmp_path: Path) -> None:
    run(
        f"CREATE TABLE parts (v BIGINT, k STRING) PARTITIONED BY (k) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}',"
        " 'format' = 'csv', 'sink.partition-commit.trigger' = 'process-time', 'sink.partition-commit.delay' = '1 s')"
    )
    run("INSERT INTO parts SELECT v, k FROM FILE")
    assert run("SELECT COUNT(*) FROM parts") == [(3,)]
