"""The columns by which rows of a result are told apart."""

from __future__ import annotations

import pytest
from planner_harness import Planner

from sqlstream.client.verification.verify import result_key
from sqlstream.planner.bind.sink import collecting_sink
from sqlstream.planner.rules import optimise

TABLES = """
CREATE TABLE t (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'files', 'path' = 't', 'format' = 'csv');
CREATE TABLE u (h INT, w INT) WITH ('connector' = 'files', 'path' = 'u', 'format' = 'csv')
"""
WINDOW = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
SESSIONS = "TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
TOP = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM t)"
COUNTS = "(SELECT h, COUNT(*) AS n FROM u GROUP BY h)"


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("SELECT k, v FROM t", None),
        ("SELECT COUNT(*) FROM t", ()),
        ("SELECT COUNT(*) AS n, k FROM t GROUP BY k", (1,)),
        ("SELECT COUNT(*) AS n FROM t GROUP BY k", None),
        ("SELECT COUNT(*) AS n, CAST(k AS STRING), k FROM t GROUP BY k", (2,)),
        ("SELECT COUNT(*) AS n, CAST(k AS STRING) FROM t GROUP BY k", (1,)),
        ("SELECT COUNT(*) AS n, CAST(k AS CHAR(2)) FROM t GROUP BY k", None),
        ("SELECT v, k FROM t GROUP BY k, v HAVING k > 1 ORDER BY v", (1, 0)),
        ("SELECT DISTINCT k, v FROM t", (0, 1)),
        (f"SELECT window_end, COUNT(*) FROM {WINDOW} GROUP BY window_start, window_end", (0,)),
        (f"SELECT k, window_start, COUNT(*) FROM {WINDOW} GROUP BY k, window_start, window_end", (1, 0)),
        (f"SELECT COUNT(*), k FROM {WINDOW} GROUP BY k, window_start, window_end", None),
        (f"SELECT window_end, COUNT(*) FROM {SESSIONS} GROUP BY window_start, window_end", None),
        (f"SELECT v, k FROM {TOP} WHERE n = 1", (1,)),
        (f"SELECT v, k, n FROM {TOP} WHERE n <= 3", (1, 2)),
        (f"SELECT v, k FROM {TOP} WHERE n <= 3", None),
        (f"SELECT a.h, b.h, a.n FROM {COUNTS} AS a JOIN {COUNTS} AS b ON a.n = b.n", (0, 1)),
        (f"SELECT a.h, a.n FROM {COUNTS} AS a JOIN {COUNTS} AS b ON a.n = b.n", None),
        ("SELECT k FROM t UNION ALL SELECT h FROM u", None),
    ],
)
def test_the_key_of_a_query(bare: Planner, query: str, key: tuple[int, ...] | None) -> None:
    bare.run(TABLES)
    sink = collecting_sink(bare.bind(query), bare.context)
    (optimised,) = optimise((sink,), bare.context.connectors, has_watermarks=False)
    found = result_key(optimised)
    assert (None if found is None else {*found}) == (None if key is None else {*key})
