"""Which rows and columns of which tables operators keep when they expire."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

DDL = """
CREATE TABLE s (k BIGINT, v BIGINT, p AS PROCTIME()) WITH ('connector' = 'stream');
CREATE TABLE t (k BIGINT, v BIGINT, w BIGINT) WITH ('connector' = 'stream');
CREATE TABLE d (k BIGINT, name STRING) WITH ('connector' = 'keyed');
CREATE TABLE timed (k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
"""
KEPT = {"table.exec.state.ttl": "1 h", "sqlstream.state.expired-rows.retention": "1 d"}


def kept(query: str, settings: dict[str, str] | None = None) -> list[str]:
    """For each table of state its name, the tables whose rows it holds, and the names of the columns that are kept."""
    (plan,) = compile_script(f"{DDL}{query};", KEPT if settings is None else settings)
    states = [node.state for node in plan.stream_graph.nodes if node.state is not None]
    return [
        f"{each.state} {len(each.tables)}: {', '.join(column.name for column in each.columns)}"
        for state in states
        for each in state.expired
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT s.v, t.w FROM s JOIN t ON s.k = t.k", ["left 1: s.k, s.v", "right 1: t.k, t.w"]),
        ("SELECT v FROM s WHERE k IN (SELECT k FROM t)", ["left 1: s.k, s.v", "right 1: t.k"]),
        ("SELECT a.v, b.v FROM s a JOIN s b ON a.k = b.k", ["left 1: s.k, s.v", "right 1: s.k, s.v"]),
        ("SELECT s.v + 1, t.w FROM s JOIN t ON s.k + 1 = t.k + 1", ["left 1: s.v", "right 1: t.w"]),
        ("SELECT 1 FROM s JOIN t ON s.k + 1 = t.k + 1", ["left 1: s.k", "right 1: "]),
        (
            "SELECT a.v, t.w, b.v FROM s a JOIN t ON a.k = t.k JOIN s b ON t.v = b.v",
            ["left 1: s.k, s.v", "right 1: t.k, t.v, t.w", "left 2: s.v, t.v, t.w", "right 1: s.v"],
        ),
        ("SELECT k, SUM(v) FROM s GROUP BY k", ["groups 1: s.k"]),
        ("SELECT k + 1, SUM(v) FROM s GROUP BY k + 1", []),
        ("SELECT SUM(v) FROM s", []),
        ("SELECT k, COUNT(*) FROM (SELECT k FROM s UNION ALL SELECT k FROM s WHERE v > 1) GROUP BY k", ["groups 1: s.k"]),
        ("SELECT k, COUNT(*) FROM (SELECT k FROM s UNION ALL SELECT k FROM t) GROUP BY k", []),
        (
            "SELECT name, COUNT(*) FROM s JOIN d FOR SYSTEM_TIME AS OF s.p ON s.k = d.k GROUP BY name",
            ["groups 1: d.name"],
        ),
        (
            "SELECT v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM t) WHERE n <= 2",
            ["rows 1: t.k, t.v"],
        ),
        (
            "SELECT v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS n FROM s) WHERE n = 1",
            ["rows 1: s.k"],
        ),
        (
            "SELECT /*+ STATE_TTL('s' = '0 s') */ s.v, t.w FROM s JOIN t ON s.k = t.k",
            ["right 1: t.k, t.w"],
        ),
        (
            "SELECT a.k FROM timed a JOIN timed b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR",
            [],
        ),
        ("SELECT k, window_start, COUNT(*) FROM TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '1' HOUR)"
         " GROUP BY k, window_start, window_end", []),
    ],
)  # fmt: skip
def test_an_operator_keeps_the_columns_of_tables_that_its_state_has(query: str, expected: list[str]) -> None:
    assert kept(query) == expected


@pytest.mark.parametrize(
    "settings", [{}, {"table.exec.state.ttl": "1 h"}, {"sqlstream.state.expired-rows.retention": "1 d"}]
)
def test_without_a_time_to_live_or_a_retention_nothing_is_kept(settings: dict[str, str]) -> None:
    assert kept("SELECT s.v, t.w FROM s JOIN t ON s.k = t.k", settings) == []


def test_the_rows_of_a_history_are_those_of_its_table() -> None:
    tables = (
        "CREATE TABLE past (k BIGINT, v BIGINT, w BIGINT) WITH ('connector' = 'table');"
        "CREATE TABLE written (a BIGINT, b BIGINT) WITH ('connector' = 'blackhole');"
    )
    joined = "INSERT INTO written SELECT t.w, s.v FROM t JOIN s ON t.k = s.k WITH BACKFILL t FROM past"
    assert kept(f"{tables}{joined}") == ["left 1: t.k, t.w", "right 1: s.k, s.v"]
    grouped = "INSERT INTO written SELECT k, COUNT(*) FROM t GROUP BY k WITH BACKFILL t FROM past"
    assert kept(f"{tables}{grouped}") == ["groups 1: t.k"]
