"""Which rows of the tables a row of a result was made of."""

from __future__ import annotations

import pytest
from planner_harness import Planner

from sqlstream.client.verification.contributing import contributing_rows, key_conditions
from sqlstream.expressions import Literal
from sqlstream.planner.bind.sink import collecting_sink
from sqlstream.planner.rules import optimise

TABLES = """
CREATE TABLE t (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'files', 'path' = 't', 'format' = 'csv');
CREATE TABLE u (h INT, w INT) WITH ('connector' = 'files', 'path' = 'u', 'format' = 'csv')
"""
WINDOWS = {
    "TUMBLE": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
    "HOP": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND)",
    "CUMULATE": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND)",
    "SESSION": "SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
}
S = 1_000_000_000


def traced(query: str, values: dict[int, int | None]) -> list[str]:
    """The conditions on each table, as `table: condition AND …`, for a row of the query with these values of columns."""
    planner = Planner()
    planner.run(TABLES)
    sink = collecting_sink(planner.bind(query), planner.context)
    (optimised,) = optimise((sink,), planner.context.connectors, has_watermarks=False)
    literals = {i: Literal(v, optimised.schema.types[i]) for i, v in values.items()}
    conditions = key_conditions(optimised.input.schema.types, literals)
    return [_text(found) for found in contributing_rows(optimised.input, conditions, 10)]


def _text(found: object) -> str:
    names = found.scan.schema.names  # type: ignore[attr-defined]
    texts = []
    for condition in found.conditions:  # type: ignore[attr-defined]
        text = str(condition.expression)
        for i in reversed(range(len(names))):
            text = text.replace(f"${i}", names[i])
        if "DISTINCT FROM" in text:
            column, value = (str(a) for a in condition.expression.args)
            for i in reversed(range(len(names))):
                column = column.replace(f"${i}", names[i])
            text = f"{column} is {value}"
        texts.append(text if condition.is_of_key else f"[{text}]")
    return f"{found.scan.table.path.name}: {' AND '.join(texts)}"  # type: ignore[attr-defined]


def test_a_plain_query_has_the_rows_with_its_values() -> None:
    assert traced("SELECT k + 1, v FROM t WHERE v > 3", {0: 5, 1: None}) == [
        "t: (k + 1) is 5 AND v is NULL AND [(v > 3)]"
    ]


def test_grouping_keys_pass_an_aggregate_and_its_results_do_not() -> None:
    assert traced("SELECT k, SUM(v) FROM t WHERE v > 0 GROUP BY k HAVING SUM(v) > 1", {0: 7, 1: 9}) == [
        "t: k is 7 AND [(v > 0)]"
    ]


def test_nothing_is_known_of_the_rows_of_one_sum() -> None:
    assert traced("SELECT SUM(v) FROM t", {0: 7}) == ["t: "]


@pytest.mark.parametrize(
    ("kind", "start", "end"),
    [
        ("TUMBLE", f"(ts >= {2 * S}) AND (ts < {7 * S})", f"(ts >= {2 * S}) AND (ts < {7 * S})"),
        ("HOP", f"(ts >= {2 * S}) AND (ts < {7 * S})", f"(ts >= {2 * S}) AND (ts < {7 * S})"),
        ("CUMULATE", f"(ts >= {2 * S})", f"(ts < {7 * S})"),
        ("SESSION", f"(ts >= {2 * S})", f"(ts < {7 * S})"),
    ],
)
def test_the_bounds_of_a_window_bound_the_time(kind: str, start: str, end: str) -> None:
    query = f"SELECT k, window_start, window_end, COUNT(*) FROM TABLE({WINDOWS[kind]}) GROUP BY k, window_start, window_end"
    assert traced(query, {0: 1, 1: 2 * S}) == [f"t: k is 1 AND {start}"]
    assert traced(query, {0: 1, 2: 7 * S}) == [f"t: k is 1 AND {end}"]


def test_a_condition_on_a_join_key_reaches_both_sides() -> None:
    query = "SELECT t.k, u.w FROM t JOIN u ON t.k = u.h"
    assert traced(query, {0: 1, 1: 2}) == ["t: k is 1", "u: w is 2 AND h is 1"]
    assert traced(query, {1: 2}) == ["t: ", "u: w is 2"]


def test_a_missing_side_of_an_outer_join_asks_for_the_rows_of_its_key() -> None:
    query = "SELECT t.k, u.w FROM t LEFT JOIN u ON t.k = u.h"
    assert traced(query, {0: 1, 1: None}) == ["t: k is 1", "u: h is 1"]
    assert traced(query, {0: 1, 1: 4}) == ["t: k is 1", "u: w is 4 AND h is 1"]
    query = "SELECT t.k, u.w FROM t RIGHT JOIN u ON t.k = u.h"
    assert traced(query, {0: None, 1: 4}) == ["u: w is 4", "t: "]


def test_a_top_n_was_made_of_its_whole_partition() -> None:
    query = (
        "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM t) WHERE n <= 2"
    )
    assert traced(query, {0: 1, 1: 5}) == ["t: k is 1"]


def test_each_branch_of_a_union_is_asked() -> None:
    assert traced("SELECT k FROM t UNION ALL SELECT w FROM u", {0: 3}) == ["t: k is 3", "u: w is 3"]


def test_a_self_join_asks_for_the_rows_of_each_side() -> None:
    found = traced("SELECT a.h, b.h FROM u AS a JOIN u AS b ON a.w = b.w", {0: 1, 1: 2})
    assert found == ["u: h is 1", "u: h is 2"]
