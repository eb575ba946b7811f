"""Whatever the rows, their split into files, the parallelism and the size of batches: the answer is the batch answer."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Differential, Engine, Row, Tables

START = datetime.datetime(2024, 1, 1)
WINDOWS = {
    "tumble": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '3' SECOND)",
    "hop": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '12' SECOND)",
    "cumulate": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
    "session": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
}
QUERIES: dict[str, str] = {
    "calc": "SELECT id, v + k, CASE WHEN v > 2 THEN s ELSE 'none' END, s || s FROM t WHERE v > 0 OR s IS NULL",
    "group": "SELECT k, COUNT(*), COUNT(v), SUM(v), AVG(v), MIN(v), MAX(s) FROM t GROUP BY k",
    "global": "SELECT COUNT(*), SUM(v), COUNT(DISTINCT k), COUNT(*) FILTER (WHERE v > 2) FROM t",
    "distinct": "SELECT k, s, COUNT(DISTINCT v), SUM(DISTINCT v) FROM t GROUP BY k, s",
    "retracting":
        "SELECT n, COUNT(*), MIN(m), MAX(m), SUM(m), COUNT(DISTINCT m) FROM"
        " (SELECT k, s, COUNT(*) AS n, MAX(v) AS m FROM t GROUP BY k, s) GROUP BY n",
    "inner_join": "SELECT t.id, u.w FROM t JOIN u ON t.k = u.k AND t.v <= u.w",
    "left_join": "SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k",
    "left_join_of_aggregates":
        "SELECT a.k, a.n, b.m FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS a"
        " LEFT JOIN (SELECT k, MAX(w) AS m FROM u GROUP BY k) AS b ON a.n = b.m",
    "interval_join":
        "SELECT t.id, u.w, u.ts FROM t LEFT JOIN u ON t.k = u.k"
        " AND u.ts BETWEEN t.ts - INTERVAL '3' SECOND AND t.ts + INTERVAL '5' SECOND",
    "window_join":
        "SELECT l.id, r.w, l.window_end FROM"
        " (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS l LEFT JOIN"
        " (SELECT * FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS r"
        " ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
    **{
        name: f"SELECT k, window_start, window_end, COUNT(*), SUM(v), COUNT(DISTINCT s) FROM TABLE({window})"
        " GROUP BY k, window_start, window_end"
        for name, window in WINDOWS.items()
    },
    "window_top_n":
        "SELECT window_end, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, s"
        f" ORDER BY v DESC, id) AS n FROM TABLE({WINDOWS['tumble']})) WHERE n <= 2",
    "top_n": "SELECT k, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS n FROM t) WHERE n <= 2",
    "top_n_of_aggregate":
        "SELECT k, c, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY c DESC, k) AS n FROM"
        " (SELECT k, COUNT(*) AS c FROM t GROUP BY k)) WHERE n BETWEEN 2 AND 3",
    "last_row": "SELECT k, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM t) WHERE n = 1",
    "first_row": "SELECT k, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM t) WHERE n = 1",
    "order": "SELECT v, s, id FROM t ORDER BY v DESC, s, id LIMIT 5 OFFSET 1",
    "union": "SELECT k, COUNT(*) FROM (SELECT k FROM t UNION ALL SELECT k FROM u) GROUP BY k",
}  # fmt: skip

KEY = st.none() | st.integers(0, 3)
VALUE = st.none() | st.integers(-2, 6)
WORD = st.none() | st.sampled_from(["", "a", "b", "ä"])
TIME = st.integers(-1000, 60_000).map(lambda ms: START + datetime.timedelta(milliseconds=ms)) | st.integers(
    0, 12
).map(lambda fives: START + datetime.timedelta(seconds=5 * fives))


@st.composite
def tables(draw: st.DrawFn) -> Tables:
    """Rows in order of time under a watermark that follows them closely, or in any order under a patient one."""
    left: list[Row] = draw(st.lists(st.tuples(KEY, VALUE, WORD, TIME), max_size=40))
    right: list[Row] = draw(st.lists(st.tuples(KEY, VALUE, TIME), max_size=20))
    delay = "1' HOUR"
    if draw(st.booleans()):
        left, right, delay = sorted(left, key=_time), sorted(right, key=_time), "0.001' SECOND"
    watermark = f"ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '{delay}"
    return {
        "t": (f"id INT, k INT, v INT, s STRING, {watermark}", [(i, *row) for i, row in enumerate(left)]),
        "u": (f"k INT, w INT, {watermark}", right),
    }


def _time(row: Row) -> datetime.datetime:
    moment = row[-1]
    assert isinstance(moment, datetime.datetime)
    return moment


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=15, deadline=None)
@given(
    tables=tables(),
    parallelism=st.integers(1, 3),
    batch_rows=st.integers(1, 50),
    files=st.integers(1, 4),
    is_dealt=st.booleans(),
    strategy=st.sampled_from(["AUTO", "ONE_PHASE", "TWO_PHASE"]),
)
def test_a_query_has_the_batch_answer(
    engine: Engine,
    name: str,
    tables: Tables,
    parallelism: int,
    batch_rows: int,
    files: int,
    is_dealt: bool,
    strategy: str,
) -> None:
    setting = f"SET 'table.optimizer.agg-phase-strategy' = '{strategy}';"
    Differential(engine)(
        setting + QUERIES[name],
        tables,
        parallelism=parallelism,
        batch_rows=batch_rows,
        files=files,
        is_dealt=is_dealt,
    )
