"""UNNEST of arrays and maps has the rows that DuckDB has."""

from __future__ import annotations

import pytest
from oracle import Differential, Tables

TABLES: Tables = {
    "t": (
        "id INT, tags STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND",
        [
            (i, tags, n, f"2024-01-01 00:00:{i:02}")
            for i, (tags, n) in enumerate(
                [
                    ("a,b", 1),
                    (None, 2),
                    ("c", None),
                    ("", 4),
                    ("a,a,a", 5),
                    ("b,c,d,e", 6),
                    (None, None),
                    ("a", 1),
                ]
            )
        ],
    ),
    "u": ("tag STRING, worth INT", [("a", 10), ("b", 20), ("c", None), (None, 1)]),
    "nothing": ("id INT, tags STRING", []),
}
ARRAYS = (
    "(SELECT id, n, ts, SPLIT(tags, ',') AS a, CASE WHEN id < 3 THEN ARRAY[n, NULL, id] END AS b FROM t) AS t"
)

QUERIES = {
    "cross": f"SELECT id, tag FROM {ARRAYS} CROSS JOIN UNNEST(t.a) AS u (tag)",
    "comma": f"SELECT id, tag FROM {ARRAYS}, UNNEST(a) AS u (tag)",
    "left": f"SELECT id, tag FROM {ARRAYS} LEFT JOIN UNNEST(a) AS u (tag) ON TRUE",
    "elements that are NULL": f"SELECT id, x FROM {ARRAYS} LEFT JOIN UNNEST(b) AS u (x) ON TRUE",
    "ordinality": f"SELECT id, tag, i FROM {ARRAYS} CROSS JOIN UNNEST(a) WITH ORDINALITY AS u (tag, i)",
    "left with ordinality": f"SELECT * FROM (SELECT id, a FROM {ARRAYS}) AS t LEFT JOIN UNNEST(a) WITH ORDINALITY AS u ON TRUE",
    "the alias is the column": f"SELECT id, tag, tag.tag FROM {ARRAYS} CROSS JOIN UNNEST(a) AS tag",
    "a condition": f"SELECT id, tag FROM {ARRAYS} JOIN UNNEST(a) AS u (tag) ON tag <> 'a' AND id > 1",
    "an expression": "SELECT id, x FROM t CROSS JOIN UNNEST(ARRAY[id, n, id + n]) AS u (x)",
    "a literal": "SELECT * FROM UNNEST(ARRAY[1, 2, NULL]) AS u (x)",
    "a literal with its number": "SELECT x + i FROM UNNEST(ARRAY[10, 20]) WITH ORDINALITY AS u (x, i)",
    "a literal beside a table": "SELECT tag, x FROM u CROSS JOIN UNNEST(ARRAY[1, 2]) AS v (x)",
    "no alias": "SELECT * FROM UNNEST(ARRAY['a', 'b'])",
    "rows": "SELECT id, f, g FROM t CROSS JOIN UNNEST(ARRAY[ROW(id, tags), ROW(n, 'x')]) AS u (f, g)",
    "rows with numbers":
        "SELECT id, f, g, i FROM t LEFT JOIN UNNEST(ARRAY[ROW(id, tags)]) WITH ORDINALITY AS u (f, g, i) ON TRUE",
    "a map": "SELECT id, k, v FROM t CROSS JOIN UNNEST(MAP['a', n, 'b', id]) AS u (k, v)",
    "a map with numbers": "SELECT id, k, v, i FROM t CROSS JOIN UNNEST(MAP['a', n]) WITH ORDINALITY AS u (k, v, i)",
    "arrays of arrays":
        "SELECT id, y FROM t CROSS JOIN UNNEST(ARRAY[ARRAY[id, 1], ARRAY[n]]) AS u (x) CROSS JOIN UNNEST(x) AS v (y)",
    "two of them": f"SELECT id, x, y FROM {ARRAYS} CROSS JOIN UNNEST(a) AS u (x) LEFT JOIN UNNEST(b) AS v (y) ON TRUE",
    "grouped by the element": f"SELECT tag, COUNT(*), SUM(n) FROM {ARRAYS} CROSS JOIN UNNEST(a) AS u (tag) GROUP BY tag",
    "a filter on the row":
        f"SELECT id, tag FROM {ARRAYS} CROSS JOIN UNNEST(a) AS u (tag) WHERE n > 1 AND tag < 'd' AND n + id > 3",
    "joined": f"SELECT id, t.tag, worth FROM (SELECT id, tag FROM {ARRAYS}, UNNEST(a) AS v (tag)) AS t JOIN u ON t.tag = u.tag",
    "windowed":
        f"SELECT window_start, tag, COUNT(*) FROM TABLE(TUMBLE((SELECT ts, tag FROM {ARRAYS}, UNNEST(a) AS u (tag)),"
        " DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY window_start, window_end, tag",
    "updated rows":
        "SELECT c, x FROM (SELECT n, COUNT(*) AS c, MAX(tags) AS m FROM t GROUP BY n)  AS g"
        " CROSS JOIN UNNEST(SPLIT(m, ',')) AS u (x)",
    "updated rows, outer and grouped again":
        "SELECT x, COUNT(*), SUM(c) FROM (SELECT n, COUNT(*) AS c, MIN(tags) AS m FROM t GROUP BY n) AS g"
        " LEFT JOIN UNNEST(SPLIT(m, ',')) WITH ORDINALITY AS u (x, i) ON TRUE GROUP BY x",
    "empty input": "SELECT id, x FROM nothing CROSS JOIN UNNEST(SPLIT(tags, ',')) AS u (x)",
    "grouping sets of elements": f"SELECT tag, n, COUNT(*) FROM {ARRAYS}, UNNEST(a) AS u (tag) GROUP BY CUBE (tag, n)",
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_with_unnest_has_the_rows_of_duckdb(name: str, differential: Differential) -> None:
    rows = differential(QUERIES[name], TABLES, parallelism=2, batch_rows=3)
    assert bool(rows) == (name != "empty input")


def test_rows_without_elements_are_kept_by_a_left_join_alone(differential: Differential) -> None:
    inner = differential(QUERIES["cross"], TABLES)
    outer = differential(QUERIES["left"], TABLES)
    assert {id for id, _ in inner} == {0, 2, 3, 4, 5, 7}
    assert sorted(set(outer) - set(inner)) == [(1, None), (6, None)]
    assert inner.count((4, "a")) == 3
