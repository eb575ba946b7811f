"""What lowering to DuckDB SQL refuses, and names that must not be mistaken; that answers agree is a differential test."""

from __future__ import annotations

import duckdb
import pytest
from planner_harness import TABLES, Planner

from planner.lower.duckdb import lower_duckdb
from sqlstream.errors import UserError


def lower(query: str, time_zone: str = "UTC") -> str:
    planner = Planner()
    planner.run(TABLES)
    return lower_duckdb(planner.bind(query), {"t": "t", "u": "u", "e": "e"}, time_zone)


def test_columns_have_the_names_of_the_query_and_are_found_by_position() -> None:
    sql = lower("SELECT b AS c1, a AS c0, COUNT(*) AS `a b` FROM t GROUP BY a, b ORDER BY c1 DESC")
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT * FROM (VALUES (1, 5, '', 0), (2, 7, '', 0)) AS v(a, b, s, d)"
        )
        answer = connection.sql(sql)
        assert answer.columns == ["c1", "c0", "a b"]
        assert answer.fetchall() == [(7, 2, 1), (5, 1, 1)]


def test_a_table_may_be_any_item_of_from() -> None:
    planner = Planner()
    planner.run(TABLES)
    sql = lower_duckdb(
        planner.bind("SELECT a FROM t WHERE a > 1"), {"t": "(SELECT 3 AS a, 0 AS b, '' AS s, 1 AS d)"}
    )
    assert duckdb.sql(sql).fetchall() == [(3,)]


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT FIRST_VALUE(s) FROM t", "FIRST_VALUE"),
        ("SELECT LISTAGG(s) FROM t", "LISTAGG"),
        ("SELECT RAND() FROM t", "RAND"),
        ("SELECT CURRENT_TIMESTAMP FROM t", "CURRENT_TIMESTAMP"),
        ("SELECT s SIMILAR TO 'a' FROM t", "SIMILAR TO"),
        ("SELECT CAST(ts AS TIMESTAMP(9)) FROM u", "type TIMESTAMP(9)"),
        ("SELECT DATE_FORMAT(ts, 'EEE') FROM u", '"EEE" in the date pattern "EEE"'),
        ("SELECT FLOOR(ts TO WEEK) FROM u", "FLOOR of TIMESTAMP(3) to WEEK"),
    ],
)
def test_what_duckdb_answers_otherwise_is_refused_at_its_place(query: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        lower(query)
    assert caught.value.code == "SS3301"
    assert caught.value.message == f"{what} has no exact counterpart in DuckDB"
    assert caught.value.span is not None


def test_local_time_outside_utc_is_refused() -> None:
    query = "SELECT CAST(TO_TIMESTAMP_LTZ(b, 3) AS STRING) FROM t"
    assert "strftime" in lower(query)
    with pytest.raises(UserError, match='TIMESTAMP_LTZ in time zone "Asia/Tokyo"'):
        lower(query, time_zone="Asia/Tokyo")


def test_a_table_that_duckdb_does_not_know_is_refused() -> None:
    planner = Planner()
    planner.run(TABLES)
    with pytest.raises(UserError, match='table "t" has no exact counterpart'):
        lower_duckdb(planner.bind("SELECT a FROM t"), {})
