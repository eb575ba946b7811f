"""GROUPING SETS, CUBE and ROLLUP have the rows that DuckDB has for the same text."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from oracle import Differential, Tables, arrow_table, assert_same_rows, rows_of

ROWS = [
    ("a", "x", 1, Decimal("1.5")), ("a", "y", 2, Decimal("2.5")), ("a", None, 3, None), ("b", "x", 4, Decimal("0.5")),
    (None, "x", 5, Decimal("7.5")), (None, None, None, Decimal("1.0")), ("b", "x", 4, Decimal("0.5")), ("", "y", -1, None),
]  # fmt: skip
TABLES: Tables = {"t": ("a STRING, b STRING, n INT, d DECIMAL(5, 1)", ROWS)}
ARROW = pa.schema([("a", pa.string()), ("b", pa.string()), ("n", pa.int32()), ("d", pa.decimal128(5, 1))])

QUERIES = {
    "rollup": "SELECT a, b, COUNT(*), SUM(n) FROM t GROUP BY ROLLUP (a, b)",
    "cube": "SELECT a, b, COUNT(*), MAX(d) FROM t GROUP BY CUBE (a, b)",
    "sets": "SELECT a, b, COUNT(*) FROM t GROUP BY GROUPING SETS ((a, b), a, (b), ())",
    "one set": "SELECT a, b, COUNT(*) FROM t GROUP BY GROUPING SETS ((a, b))",
    "the empty set alone": "SELECT COUNT(*), SUM(n) FROM t GROUP BY GROUPING SETS (())",
    "a set twice": "SELECT a, COUNT(*) FROM t GROUP BY GROUPING SETS ((a), (a), ())",
    "a key before": "SELECT a, b, COUNT(*) FROM t GROUP BY a, ROLLUP (b)",
    "sets times sets": "SELECT a, b, n, COUNT(*) FROM t GROUP BY GROUPING SETS (a, b), ROLLUP (n)",
    "composite": "SELECT a, b, n, COUNT(*) FROM t GROUP BY ROLLUP ((a, b), n)",
    "a cube of composites": "SELECT a, b, n, COUNT(*) FROM t GROUP BY CUBE ((a, b), n)",
    "nested": "SELECT a, b, n, COUNT(*) FROM t GROUP BY GROUPING SETS (ROLLUP (a, b), CUBE (n, a), GROUPING SETS ((b), ()))",
    "computed keys": "SELECT UPPER(a), n > 2, COUNT(*), UPPER(a) || '!' FROM t GROUP BY CUBE (UPPER(a), n > 2)",
    "grouping":
        "SELECT a, b, GROUPING(a), GROUPING(b), GROUPING(a, b), GROUPING_ID(b, a), COUNT(*) FROM t GROUP BY CUBE (a, b)",
    "grouping of a plain GROUP BY": "SELECT a, GROUPING(a), COUNT(*) FROM t GROUP BY a",
    "a key as argument": "SELECT a, n, SUM(n), COUNT(a), COUNT(DISTINCT b), MIN(a) FROM t GROUP BY ROLLUP (a, n)",
    "FILTER and DISTINCT":
        "SELECT b, COUNT(DISTINCT a), SUM(n) FILTER (WHERE b = 'x'), SUM(DISTINCT n) FROM t GROUP BY ROLLUP (b)",
    "HAVING on the set": "SELECT a, b, SUM(n) FROM t GROUP BY CUBE (a, b) HAVING GROUPING(a) = 1 AND COUNT(*) > 1",
    "HAVING on a key": "SELECT a, b, SUM(n) FROM t GROUP BY CUBE (a, b) HAVING a IS NULL",
    "CASE over grouping":
        "SELECT CASE WHEN GROUPING(a) = 1 THEN 'all' ELSE COALESCE(a, 'none') END AS g, COUNT(*) FROM t GROUP BY ROLLUP (a)",
    "over a subquery": "SELECT s, COUNT(*) FROM (SELECT a AS s, n FROM t WHERE n > 1) AS q GROUP BY ROLLUP (s)",
    "no aggregates": "SELECT a, b FROM t GROUP BY CUBE (a, b)",
    "DISTINCT rows of it": "SELECT DISTINCT a FROM t GROUP BY CUBE (a, b)",
    "rolled up again":
        "SELECT s, k, SUM(c) FROM (SELECT a AS s, b AS k, COUNT(*) AS c FROM t GROUP BY ROLLUP (a, b)) AS q GROUP BY CUBE (s, k)",
    "over updating input":
        "SELECT c, m, COUNT(*), SUM(c) FROM (SELECT a, COUNT(*) AS c, MAX(n) AS m FROM t GROUP BY a) AS q GROUP BY CUBE (c, m)",
    "ordered":
        "SELECT a, b, SUM(n) AS s FROM t GROUP BY ROLLUP (a, b) HAVING a <> '' ORDER BY GROUPING(a, b), a, b NULLS FIRST, s",
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_grouping_sets_have_the_rows_that_duckdb_has_for_the_text(
    name: str, differential: Differential
) -> None:
    rows = differential(QUERIES[name], TABLES, parallelism=2, batch_rows=3)
    with duckdb.connect() as connection:
        connection.register("t", arrow_table(ARROW, ROWS))
        answer = connection.sql(QUERIES[name]).to_arrow_table()
    # SUM of INT is a HUGEINT there.
    plain = [c.cast(pa.int64()) if c.type == pa.decimal128(38, 0) else c for c in answer.columns]
    assert_same_rows(rows, rows_of(pa.Table.from_arrays(plain, names=[f"c{i}" for i in range(len(plain))])))


def test_group_id_numbers_equal_sets(differential: Differential) -> None:
    query = "SELECT a, GROUP_ID(), GROUP_ID() + GROUPING(a), COUNT(*) FROM t GROUP BY GROUPING SETS (a, (), (a), ())"
    rows = differential(query, TABLES)
    assert sorted(rows, key=repr) == sorted(
        (
            (a, i, i + (a == "all"), n) if a != "all" else (None, i, i + 1, n)
            for i in (0, 1)
            for a, n in (("a", 3), ("b", 2), ("", 1), (None, 2), ("all", 8))
        ),
        key=repr,
    )


WINDOWED: Tables = {
    "e": (
        "k STRING, j INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND",
        [(k, i % 2, i, f"2024-01-01 00:00:{i:02}") for i, k in enumerate("abacbaab" * 5)],
    )
}
WINDOWS = {
    "TUMBLE": "TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    "HOP": "HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '12' SECOND)",
    "CUMULATE": "CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    "keys",
    [
        "window_start, window_end, ROLLUP (k, j)",
        "GROUPING SETS ((window_start, window_end, k), (j, window_end, window_start), (window_start, window_end))",
        "window_start, CUBE (k, j), window_time, window_end",
    ],
)
def test_windows_are_aggregated_by_each_set(window: str, keys: str, differential: Differential) -> None:
    query = (
        "SELECT window_start, window_end, k, j, GROUPING(k, j), COUNT(*), SUM(v), COUNT(DISTINCT v), MIN(k)"
        f" FROM TABLE({WINDOWS[window]}) GROUP BY {keys}"
    )
    assert differential(query, WINDOWED, parallelism=2, batch_rows=7)


def test_a_group_window_is_in_every_set(differential: Differential) -> None:
    query = (
        "SELECT k, j, TUMBLE_END(ts, INTERVAL '10' SECOND), GROUPING(j), COUNT(*) FROM e"
        " GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), GROUPING SETS ((k, j), k)"
    )
    assert differential(query, WINDOWED)
