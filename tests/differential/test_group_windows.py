"""GROUP BY TUMBLE(time, size) and its like: DuckDB's rows, and those of the same query with a window function."""

from __future__ import annotations

import pytest
from oracle import Differential, Tables

TABLES: Tables = {
    "e": (
        "id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND",
        [
            (1, "a", 1, "2024-01-01 00:00:01"),
            (2, "A", 2, "2024-01-01 00:00:02"),
            (3, None, 3, "2024-01-01 00:00:09.999"),
            (4, "a", None, "2024-01-01 00:00:10"),
            (5, "b", 5, "2024-01-01 00:00:13"),
            (6, "B", 6, "2024-01-01 00:01:11"),
            (7, "b", 7, "2024-01-01 00:01:15"),
            (8, None, 8, "2024-01-01 00:02:00"),
        ],
    ),
    "nothing": ("k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", []),
}
T, H, S = (
    "TUMBLE{}(ts, INTERVAL '10' SECOND)",
    "HOP{}(ts, INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
    "SESSION{}(ts, INTERVAL '5' SECOND)",
)
TVF = {
    T: "TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    H: "HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
}


@pytest.mark.parametrize("window", [T, H])
def test_a_group_window_is_the_window_function_below_an_aggregation(
    window: str, differential: Differential
) -> None:
    start, end, time = (window.format(s) for s in ("_START", "_END", "_ROWTIME"))
    old = (
        f"SELECT {start}, {end}, CAST({time} AS STRING), k, COUNT(*), SUM(v), COUNT(DISTINCT v) FROM e"
        f" GROUP BY k, {window.format('')}"
    )
    new = (
        "SELECT window_start, window_end, CAST(window_time AS STRING), k, COUNT(*), SUM(v), COUNT(DISTINCT v)"
        f" FROM TABLE({TVF[window]}) GROUP BY k, window_start, window_end, window_time"
    )
    assert sorted(map(repr, differential(old, TABLES))) == sorted(map(repr, differential(new, TABLES)))


QUERIES = {
    "a window alone": f"SELECT COUNT(*), SUM(v) FROM e GROUP BY {T.format('')}",
    "nothing but its bounds": f"SELECT {T.format('_START')}, {T.format('_END')} FROM e GROUP BY {T.format('')}",
    "empty input": f"SELECT {T.format('_START')}, COUNT(*) FROM nothing GROUP BY {T.format('')}",
    "an offset":
        "SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE, INTERVAL '10' SECOND), COUNT(*) FROM e"
        " GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE, INTERVAL '10' SECOND)",
    "a slide that does not divide the size":
        "SELECT HOP_START(ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND), k, COUNT(*) FROM e"
        " GROUP BY HOP(ts, INTERVAL '4' SECOND, INTERVAL '10' SECOND), k",
    "a computed key":
        f"SELECT UPPER(k), UPPER(k) || '!', {H.format('_END')}, MAX(v) FROM e GROUP BY {H.format('')}, UPPER(k)",
    "a session by a computed key":
        f"SELECT UPPER(k) || '!', {S.format('_START')}, {S.format('_END')}, COUNT(*) FROM e GROUP BY UPPER(k), {S.format('')}",
    "a session of all rows": f"SELECT {S.format('_START')}, {S.format('_ROWTIME')}, SUM(v) FROM e GROUP BY {S.format('')}",
    "expressions around it":
        f"SELECT EXTRACT(SECOND FROM {T.format('_START')}) + 1, CAST({T.format('_END')} AS STRING) || k FROM e"
        f" GROUP BY {T.format('')}, k",
    "HAVING and ORDER BY":
        f"SELECT k FROM e GROUP BY k, {T.format('')} HAVING {T.format('_END')} > TIMESTAMP '2024-01-01 00:00:15'"
        f" ORDER BY {T.format('_START')} DESC, k",
    "windows of windows":
        "SELECT TUMBLE_START(r, INTERVAL '1' MINUTE), k, SUM(n), COUNT(*) FROM"
        f" (SELECT {T.format('_ROWTIME')} AS r, k, COUNT(*) AS n FROM e GROUP BY {T.format('')}, k)"
        " GROUP BY TUMBLE(r, INTERVAL '1' MINUTE), k",
    "a window function over a group window":
        "SELECT window_start, SUM(n) FROM TABLE(TUMBLE((SELECT"
        f" {H.format('_ROWTIME')} AS r, COUNT(*) AS n FROM e GROUP BY {H.format('')}), DESCRIPTOR(r), INTERVAL '1' MINUTE))"
        " GROUP BY window_start, window_end",
    "rows of sessions":
        "SELECT id, k, window_start, window_end, window_time FROM"
        " TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND))",
    "rows of sessions of all":
        "SELECT id, window_start, window_end FROM TABLE(SESSION(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)) WHERE id > 1",
    "sessions of one key by another":
        "SELECT v > 2, window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts),"
        " INTERVAL '5' SECOND)) GROUP BY v > 2, window_start, window_end",
    "the bounds of sessions":
        "SELECT window_start, window_end, COUNT(*), SUM(v) FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts),"
        " INTERVAL '5' SECOND)) GROUP BY window_start, window_end",
    "the first of each session":
        "SELECT k, id, window_end FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY id) AS n"
        " FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND))) AS s WHERE n = 1",
    "sessions by sets of keys":
        "SELECT k, v > 2, window_end, COUNT(*) FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND))"
        " GROUP BY window_start, window_end, ROLLUP (k, v > 2)",
    "sessions of sessions":
        "SELECT k, window_start, COUNT(*) FROM TABLE(SESSION((SELECT k, window_time AS ts FROM"
        " TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)))"
        " PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' MINUTE))"
        " GROUP BY k, window_start, window_end",
    "updated rows":
        "SELECT window_start, k, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT v) FROM TABLE(TUMBLE((SELECT k, v, ts FROM (SELECT *,"
        " ROW_NUMBER() OVER (PARTITION BY v ORDER BY ts DESC) AS n FROM e) AS d WHERE n = 1),"
        " DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end, k",
    "qualified, filtered and in a CTE":
        "WITH big AS (SELECT x.id, x.k, x.ts FROM e AS x WHERE x.v > 1)"
        f" SELECT b.k, {T.format('_START').replace('ts', 'b.ts')}, COUNT(b.id) FILTER (WHERE b.id > 3) FROM big AS b"
        f" GROUP BY b.k, {T.format('').replace('ts', 'ts')}",
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_with_a_group_window_has_the_rows_of_duckdb(name: str, differential: Differential) -> None:
    rows = differential(QUERIES[name], TABLES, parallelism=2, batch_rows=3)
    assert bool(rows) == (name != "empty input")
