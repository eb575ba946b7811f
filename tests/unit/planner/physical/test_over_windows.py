"""OVER and UNION between a window function and GROUP BY of its windows."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

DDL = """
CREATE TABLE a (k BIGINT, v BIGINT, t TIMESTAMP(3), WATERMARK FOR t AS t) WITH ('connector' = 'stream');
CREATE TABLE b (k BIGINT, w BIGINT, u TIMESTAMP(3), WATERMARK FOR u AS u) WITH ('connector' = 'stream');
CREATE VIEW ab AS SELECT a.k, v, t, u FROM a JOIN b ON a.k = b.k AND u BETWEEN t AND t + INTERVAL '1' HOUR;
CREATE TABLE console (t TIMESTAMP(3), c BIGINT) WITH ('connector' = 'print');
"""


@pytest.mark.parametrize(
    ("table", "time", "is_closing"),
    [("a", "t", True), ("ab", "window_time", True), ("ab", "t", True), ("ab", "u", False)],
)
def test_windows_stay_open_for_rows_that_wait_for_a_time_of_the_window_alone(
    table: str, time: str, is_closing: bool
) -> None:
    (plan,) = compile_script(
        f"""{DDL} INSERT INTO console SELECT window_start, SUM(c) FROM (
            SELECT window_start, window_end, SUM(v) OVER (PARTITION BY k ORDER BY {time} ROWS 9 PRECEDING) AS c
            FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(t), INTERVAL '1' MINUTE))
        ) x GROUP BY window_start, window_end"""
    )
    names = " ".join(n.name for n in plan.stream_graph.nodes)
    assert ("WindowAggregate" in names, "GroupAggregate" in names) == (is_closing, not is_closing)


def test_a_union_has_the_windows_of_its_branches_whatever_times_they_have_besides() -> None:
    rows = "FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(t), INTERVAL '1' MINUTE))"
    (plan,) = compile_script(
        f"""{DDL} INSERT INTO console SELECT window_start, COUNT(x) FROM (
            SELECT window_start, window_end, t AS x {rows}
            UNION ALL SELECT window_start, window_end, CAST(NULL AS TIMESTAMP(3)) {rows}
        ) u GROUP BY window_start, window_end"""
    )
    assert any("WindowAggregate" in n.name for n in plan.stream_graph.nodes)
