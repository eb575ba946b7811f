"""What lowering to DuckDB SQL refuses, and names that must not be mistaken; that answers agree is a differential test."""

from __future__ import annotations

import contextlib
import datetime

import duckdb
import pytest
from planner_harness import TABLES, Planner

from sqlstream.errors import UserError
from sqlstream.planner.lower.duckdb import lower_duckdb
from sqlstream.planner.lower.engine import HostedFunctions
from sqlstream.runtime.batch.hosted_functions import HostedCalls


def lower(query: str, time_zone: str = "UTC") -> str:
    planner = Planner()
    planner.run(TABLES)
    return lower_duckdb(planner.bind(query), {"t": "t", "u": "u", "e": "e"}, time_zone)


def hosted_calls(functions: HostedFunctions, time_zone: str) -> HostedCalls:
    return HostedCalls(functions.found, {"table.local-time-zone": time_zone})


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
        ("SELECT CAST(ts AS TIMESTAMP(9)) FROM u", "type TIMESTAMP(9)"),
    ],
)
def test_what_duckdb_answers_otherwise_is_refused_at_its_place(query: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        lower(query)
    assert caught.value.code == "SS3301"
    assert caught.value.message == f"{what} has no exact counterpart in DuckDB"
    assert caught.value.span is not None


def test_local_time_is_that_of_the_session_whatever_the_connection_says() -> None:
    planner = Planner()
    planner.run(TABLES)
    query = "SELECT CAST(TO_TIMESTAMP_LTZ(b, 3) AS STRING), CAST(TIMESTAMP '2024-10-27 02:30:00' AS TIMESTAMP_LTZ(3)) FROM t"
    for zone, text, instant in (
        ("UTC", "1970-01-02 00:00:00.000", datetime.datetime(2024, 10, 27, 2, 30)),
        ("Asia/Tokyo", "1970-01-02 09:00:00.000", datetime.datetime(2024, 10, 26, 17, 30)),
        ("GMT+05:30", "1970-01-02 05:30:00.000", datetime.datetime(2024, 10, 26, 21, 0)),
        # The clock shows this time twice: the first is meant.
        ("Europe/Berlin", "1970-01-02 01:00:00.000", datetime.datetime(2024, 10, 27, 0, 30)),
    ):
        functions = HostedFunctions()
        sql = lower_duckdb(planner.bind(query), {"t": "t"}, zone, functions)
        with duckdb.connect() as connection, contextlib.closing(hosted_calls(functions, zone)) as hosted:
            connection.execute("SET TimeZone = 'America/New_York'")
            connection.execute("CREATE TABLE t AS SELECT 0 AS a, 86400000 AS b, '' AS s, 0 AS d")
            hosted.register(connection)
            assert connection.sql(sql).fetchall() == [(text, instant)], zone


def test_a_table_that_duckdb_does_not_know_is_refused() -> None:
    planner = Planner()
    planner.run(TABLES)
    with pytest.raises(UserError, match='table "t" has no exact counterpart'):
        lower_duckdb(planner.bind("SELECT a FROM t"), {})
