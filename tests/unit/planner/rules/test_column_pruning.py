"""Column pruning."""

from __future__ import annotations

import pytest
from plan_harness import compile_script

from sqlstream.planner.relational.nodes import RelationalNode, TableScan, Watermark

DDL = """
CREATE TABLE s (k BIGINT, name STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'table');
CREATE TABLE one (k BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE two (name STRING) WITH ('connector' = 'blackhole');
"""


def nodes(node: RelationalNode) -> list[RelationalNode]:
    return [node, *(n for i in node.inputs for n in nodes(i))]


def scans(sql: str, config: dict[str, str] | None = None) -> list[tuple[str, ...]]:
    (plan,) = compile_script(DDL + sql, config)
    return [n.columns for sink in plan.optimised for n in nodes(sink) if isinstance(n, TableScan)]


def test_a_scan_reads_what_the_query_names_and_no_more() -> None:
    assert scans("SELECT k FROM s WHERE v > 1") == [("k", "v")]


def test_counting_rows_reads_one_cheap_column() -> None:
    assert scans("SELECT count(*) FROM s") == [("k",)]


def test_a_watermark_that_nobody_uses_is_not_made() -> None:
    (plan,) = compile_script(DDL + "SELECT k, ts FROM s")
    assert not any(isinstance(n, Watermark) for n in nodes(plan.optimised[0]))


def test_a_window_keeps_the_watermark_and_its_column() -> None:
    sql = """SELECT k, count(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY k, window_start, window_end"""
    (plan,) = compile_script(DDL + sql)
    assert any(isinstance(n, Watermark) for n in nodes(plan.optimised[0]))
    assert scans(sql) == [("k", "ts")]


TWO_SINKS = """EXECUTE STATEMENT SET BEGIN
INSERT INTO one SELECT k FROM s; INSERT INTO two SELECT name FROM s; END;"""


def test_one_source_with_the_columns_of_all_readers_feeds_a_statement_set() -> None:
    assert scans(TWO_SINKS) == [("k", "name"), ("k", "name")]
    (plan,) = compile_script(DDL + TWO_SINKS)
    assert len([n for n in plan.stream_graph.nodes if n.name.startswith("Source")]) == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_reader_that_needs_no_watermark_shares_the_source_of_one_that_does(order: tuple[int, int]) -> None:
    window = "TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
    inserts = (
        "INSERT INTO two SELECT name FROM s;",
        f"INSERT INTO one SELECT count(*) FROM {window} GROUP BY window_start, window_end;",
    )
    script = f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts[i] for i in order)} END;"
    assert scans(script) == [("name", "ts")] * 2
    (plan,) = compile_script(DDL + script)
    names = [n.name.partition("[")[0] for n in plan.stream_graph.nodes]
    assert names.count("WatermarkAssigner") == 1
    assert len([n for n in plan.stream_graph.nodes if n.name.startswith("Source")]) == 1


def test_without_reuse_each_reader_has_its_own_source() -> None:
    config = {"table.optimizer.reuse-sub-plan-enabled": "false"}
    assert scans(TWO_SINKS, config) == [("k",), ("name",)]
    (plan,) = compile_script(DDL + TWO_SINKS, config)
    assert len([n for n in plan.stream_graph.nodes if n.name.startswith("Source")]) == 2


def test_a_rank_that_nobody_reads_is_not_output() -> None:
    sql = "SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM s) WHERE n <= 2"
    (plan,) = compile_script(DDL + sql)
    assert "outputsRank" not in "".join(n.description for n in plan.stream_graph.nodes)
