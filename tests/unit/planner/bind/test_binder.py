"""Queries as SQL, and the plan they bind to."""

from __future__ import annotations

from textwrap import dedent

import pytest
from planner_harness import Planner

from sqlstream.errors import UserError


def tree(text: str) -> str:
    return dedent(text).strip("\n").rstrip()


def test_a_select_is_scan_filter_project(planner: Planner) -> None:
    assert planner.plan("SELECT a, b + 1 AS n FROM t WHERE s = 'x'") == tree("""
        Project(a=[$0], n=[($1 + 1)])
        +- Filter(condition=[($2 = 'x')])
           +- TableScan(table=[`t`], columns=[a, b, s, d])
        """)


def test_computed_columns_and_watermark_stand_above_the_scan(bare: Planner) -> None:
    bare.run("""CREATE TABLE x (n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), p AS PROCTIME(),
                WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'datagen')""")
    assert bare.plan("SELECT n FROM x") == tree("""
        Project(n=[$0])
        +- Watermark(rowtime=[ts], watermark=[($1 - 5000)])
           +- Project(n=[$0], ts=[TO_TIMESTAMP_LTZ($0, 3)], p=[PROCTIME()])
              +- TableScan(table=[`x`], columns=[n])
        """)


def test_time_attributes_mark_their_columns(planner: Planner) -> None:
    assert planner.schema("SELECT ts, p, rt FROM e") == (
        "ts TIMESTAMP_LTZ(3), p TIMESTAMP_LTZ(3) *PROCTIME* NOT NULL, rt TIMESTAMP(3) *ROWTIME*"
    )


def test_watermark_options_come_from_the_table_and_the_session(planner: Planner) -> None:
    planner.set("table.exec.source.idle-timeout", "3 s")
    hint = "/*+ OPTIONS('scan.watermark.emit.strategy' = 'on-event') */"
    assert "emit=[on-event], idle_timeout=[3000 ms]" in planner.plan(f"SELECT id FROM e {hint}")
    hint = "/*+ OPTIONS('scan.watermark.idle-timeout' = '1 s') */"
    assert "idle_timeout=[1000 ms]" in planner.plan(f"SELECT id FROM e {hint}")
    names = ("group' = 'g'", "max-drift' = '1 min'")
    hint = f"/*+ OPTIONS({', '.join(chr(39) + 'scan.watermark.alignment.' + name for name in names)}) */"
    assert "aligned=[g within 60000 ms]" in planner.plan(f"SELECT id FROM e {hint}")
    planner.set("table.dynamic-table-options.enabled", "false")
    with pytest.raises(UserError, match="OPTIONS hints are switched off") as caught:
        planner.plan(f"SELECT id FROM e {hint}")
    assert caught.value.span is not None
    assert planner.plan("SELECT id FROM e")


def test_a_view_is_bound_anew(planner: Planner) -> None:
    assert planner.plan("SELECT twice FROM v") == tree("""
        Project(twice=[$1])
        +- Project(a=[$0], twice=[($1 * 2)])
           +- Filter(condition=[($0 > 0)])
              +- TableScan(table=[`t`], columns=[a, b, s, d])
        """)


def test_a_view_renames_its_columns(planner: Planner) -> None:
    planner.run("CREATE VIEW w (x, y) AS SELECT a, b FROM t")
    assert planner.schema("SELECT * FROM w") == "x INT, y BIGINT NOT NULL"


def test_star_keeps_the_order_of_from(planner: Planner) -> None:
    assert (
        planner.bind("SELECT *, u.* FROM t, u").schema.names == tuple("absdacts"[:4]) + ("a", "c", "ts") * 2
    )


def test_a_qualified_name_reaches_either_side(planner: Planner) -> None:
    assert planner.plan("SELECT x.a, u.a AS ua FROM t AS x JOIN u ON x.a = u.a") == tree("""
        Project(a=[$0], ua=[$4])
        +- Join(kind=[INNER], condition=[($0 = $4)])
           :- TableScan(table=[`t`], columns=[a, b, s, d])
           +- TableScan(table=[`u`], columns=[a, c, ts])
        """)


def test_a_path_qualifies_a_column(planner: Planner) -> None:
    assert planner.schema("SELECT default_database.t.a FROM default_catalog.default_database.t") == "a INT"


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [("LEFT", " NOT NULL", ""), ("RIGHT", "", " NOT NULL"), ("FULL", "", "")],
)
def test_an_outer_join_makes_the_other_side_nullable(
    planner: Planner, kind: str, left: str, right: str
) -> None:
    assert planner.schema(f"SELECT x.b, y.b FROM t AS x {kind} JOIN t AS y ON x.a = y.a") == (
        f"b BIGINT{left}, b BIGINT{right}"
    )


def test_using_shows_one_column_first_and_keeps_both_reachable(planner: Planner) -> None:
    node = planner.bind("SELECT *, t.a, u.a FROM t JOIN u USING (a)")
    assert node.schema.names == ("a", "b", "s", "d", "c", "ts", "a", "a")


def test_using_in_a_full_join_takes_whichever_side_is_there(planner: Planner) -> None:
    assert "COALESCE($0, $4)" in planner.plan("SELECT a FROM t FULL JOIN u USING (a)")


def test_a_comma_is_a_cross_join(planner: Planner) -> None:
    assert "Join(kind=[INNER], condition=[TRUE])" in planner.plan("SELECT 1 FROM t, u")


def test_derived_tables_and_ctes_are_named(planner: Planner) -> None:
    sql = """WITH x (k) AS (SELECT a FROM t), y AS (SELECT k + 1 AS k FROM x)
             SELECT z.k FROM (SELECT * FROM y) AS z"""
    assert planner.plan(sql) == tree("""
        Project(k=[$0])
        +- Project(k=[$0])
           +- Project(k=[($0 + 1)])
              +- Project(k=[$0])
                 +- Project(a=[$0])
                    +- TableScan(table=[`t`], columns=[a, b, s, d])
        """)


def test_a_cte_hides_a_table_but_not_inside_a_view(planner: Planner) -> None:
    assert planner.schema("WITH t AS (SELECT 'x' AS q) SELECT t.q, v.twice FROM t, v") == (
        "q CHAR(1) NOT NULL, twice BIGINT NOT NULL"
    )


def test_aggregates_read_columns_that_a_projection_computes(planner: Planner) -> None:
    sql = "SELECT s, SUM(b * 2) + 1 AS n, COUNT(*) FILTER (WHERE a > 1) FROM t GROUP BY s HAVING MAX(a) > 3"
    assert planner.plan(sql) == tree("""
        Project(s=[$0], n=[($1 + 1)], EXPR$2=[$2])
        +- Filter(condition=[($3 > 3)])
           +- Aggregate(group=[$0], EXPR$0=[SUM($1)], EXPR$1=[COUNT(*) FILTER $2], EXPR$2=[MAX($3)])
              +- Project(s=[$2], $f1=[($1 * 2)], $f2=[($0 > 1)], $f3=[$0])
                 +- TableScan(table=[`t`], columns=[a, b, s, d])
        """)


def test_equal_aggregates_are_computed_once(planner: Planner) -> None:
    assert "Aggregate(group=[], EXPR$0=[COUNT(*)])" in planner.plan("SELECT COUNT(*), COUNT(*) + 1 FROM t")


def test_a_group_key_is_an_expression_anywhere(planner: Planner) -> None:
    assert planner.plan("SELECT (a + 1) * 2 AS n FROM t GROUP BY a + 1").startswith(
        "Project(n=[($0 * 2)])\n+- Aggregate(group=[$0])"
    )


def test_distinct_aggregates_say_so(planner: Planner) -> None:
    assert "COUNT(DISTINCT $0)" in planner.plan("SELECT COUNT(DISTINCT a) FROM t")


def test_select_distinct_is_an_aggregate_without_calls(planner: Planner) -> None:
    assert planner.plan("SELECT DISTINCT a FROM t ORDER BY a") == tree("""
        Sort(order=[$0 ASC NULLS FIRST])
        +- Aggregate(group=[$0])
           +- Project(a=[$0])
              +- TableScan(table=[`t`], columns=[a, b, s, d])
        """)


def test_order_by_takes_positions_aliases_and_hidden_expressions(planner: Planner) -> None:
    sql = "SELECT a, -b AS b FROM t ORDER BY 1 DESC, b, d NULLS LAST LIMIT 5 OFFSET 2"
    assert planner.plan(sql) == tree("""
        Project(a=[$0], b=[$1])
        +- Sort(order=[$0 DESC NULLS LAST, $1 ASC NULLS FIRST, $2 ASC NULLS LAST], offset=[2], fetch=[5])
           +- Project(a=[$0], b=[NEGATE($1)], $f2=[$3])
              +- TableScan(table=[`t`], columns=[a, b, s, d])
        """)


def test_order_by_prefers_a_selected_column_to_others_of_its_name(planner: Planner) -> None:
    assert planner.plan("SELECT u.a FROM t, u ORDER BY a").startswith("Sort(order=[$0 ASC NULLS FIRST])")


def test_order_by_takes_an_aggregate_that_is_not_selected(planner: Planner) -> None:
    assert planner.plan("SELECT a FROM t GROUP BY a ORDER BY COUNT(*) DESC").startswith(
        "Project(a=[$0])\n+- Sort(order=[$1 DESC NULLS LAST])\n   +- Project(a=[$0], $f1=[$1])"
    )


def test_row_number_is_appended_below_the_select_list(planner: Planner) -> None:
    sql = """SELECT a, n FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY a, s ORDER BY b + 1 DESC) AS n FROM t) WHERE n <= 3"""
    assert planner.plan(sql) == tree("""
        Project(a=[$0], n=[$4])
        +- Filter(condition=[($4 <= 3)])
           +- Project(a=[$0], b=[$1], s=[$2], d=[$3], n=[$5])
              +- Window(partition=[$0, $2], order=[$4 DESC NULLS LAST], calls=[ROW_NUMBER()])
                 +- Project(a=[$0], b=[$1], s=[$2], d=[$3], $f4=[($1 + 1)])
                    +- TableScan(table=[`t`], columns=[a, b, s, d])
        """)


def test_row_number_ranks_groups_too(planner: Planner) -> None:
    sql = "SELECT s, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS n FROM t GROUP BY s"
    assert (
        "Window(partition=[], order=[$1 DESC NULLS LAST], calls=[ROW_NUMBER()])\n   +- Aggregate(group=[$0]"
        in planner.plan(sql)
    )


def test_union_all_is_one_node_of_the_common_types(planner: Planner) -> None:
    sql = "SELECT a FROM t UNION ALL SELECT b FROM t UNION ALL SELECT c FROM u"
    assert planner.plan(sql) == tree("""
        Union(all=[true])
        :- Project(a=[CAST($0 AS DOUBLE)])
        :  +- Project(a=[$0])
        :     +- TableScan(table=[`t`], columns=[a, b, s, d])
        :- Project(a=[CAST($0 AS DOUBLE)])
        :  +- Project(b=[$1])
        :     +- TableScan(table=[`t`], columns=[a, b, s, d])
        +- Project(a=[$0])
           +- Project(c=[$1])
              +- TableScan(table=[`u`], columns=[a, c, ts])
        """)


def test_union_drops_duplicates(planner: Planner) -> None:
    assert planner.plan("SELECT a FROM t UNION SELECT a FROM u").startswith("Aggregate(group=[$0])\n+- Union")


def test_union_keeps_the_time_attribute_that_all_have(planner: Planner) -> None:
    assert planner.schema("SELECT rt FROM e UNION ALL SELECT rt FROM e") == "rt TIMESTAMP(3) *ROWTIME*"
    assert planner.schema("SELECT rt FROM e UNION ALL SELECT ts FROM u") == "rt TIMESTAMP(3)"


def test_order_by_of_a_union_sees_its_output(planner: Planner) -> None:
    assert planner.plan("SELECT a FROM t UNION ALL SELECT a FROM u ORDER BY a LIMIT 3").startswith(
        "Sort(order=[$0 ASC NULLS FIRST], fetch=[3])\n+- Union"
    )


def test_values_unify_their_columns(planner: Planner) -> None:
    node = planner.bind("VALUES (1, 'a', NULL), (2.5, 'bcd', DATE '1970-01-02')")
    assert str(node.schema) == ("EXPR$0 DECIMAL(11, 1) NOT NULL, EXPR$1 VARCHAR(3) NOT NULL, EXPR$2 DATE")
    assert planner.plan("VALUES (1, 'a', NULL), (2.5, 'bcd', DATE '1970-01-02')") == (
        "Values(rows=[('1.0', 'a', NULL), ('2.5', 'bcd', 1)])"
    )


def test_values_with_expressions_are_projections(planner: Planner) -> None:
    assert planner.plan("SELECT * FROM (VALUES (1, UPPER('a'))) AS x (n, s)").count("UPPER('a')") == 1


def test_select_without_from_reads_one_row(planner: Planner) -> None:
    assert planner.plan("SELECT 1 AS one, 'x'") == "Project(one=[1], EXPR$1=['x'])\n+- Values(rows=[(0)])"


def test_a_window_function_appends_its_columns(planner: Planner) -> None:
    sql = "SELECT * FROM TABLE(HOP(TABLE e, DESCRIPTOR(rt), INTERVAL '5' SECOND, INTERVAL '10' SECOND))"
    node = planner.bind(sql)
    assert str(node.schema).endswith(
        "window_start TIMESTAMP(3) NOT NULL, window_end TIMESTAMP(3) NOT NULL,"
        " window_time TIMESTAMP(3) *ROWTIME* NOT NULL"
    )
    assert "WindowTvf(window=[HOP(size=10000 ms, slide=5000 ms)], time=[$7])" in planner.plan(sql)


@pytest.mark.parametrize(
    ("call", "window"),
    [
        ("TUMBLE(TABLE e, DESCRIPTOR(rt), INTERVAL '1' HOUR)", "TUMBLE(size=3600000 ms)"),
        (
            "TUMBLE(TABLE e, DESCRIPTOR(rt), INTERVAL '1' HOUR, INTERVAL '5' MINUTE)",
            "TUMBLE(size=3600000 ms, offset=300000 ms)",
        ),
        (
            "CUMULATE(TABLE e, DESCRIPTOR(rt), INTERVAL '1' HOUR, INTERVAL '1' DAY)",
            "CUMULATE(size=86400000 ms, step=3600000 ms)",
        ),
        (
            "SESSION(TABLE e PARTITION BY id, DESCRIPTOR(rt), INTERVAL '10' SECOND)",
            "SESSION(gap=10000 ms)], time=[$7], partition=[$0",
        ),
    ],
)
def test_every_kind_of_window_is_read(planner: Planner, call: str, window: str) -> None:
    assert f"window=[{window}]" in planner.plan(f"SELECT window_end FROM TABLE({call})")


def test_a_processing_time_window_says_so(planner: Planner) -> None:
    sql = "SELECT window_time FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(p), INTERVAL '1' MINUTE))"
    assert planner.schema(sql) == "window_time TIMESTAMP_LTZ(3) *PROCTIME* NOT NULL"


def test_grouping_keeps_the_time_of_the_window_only(planner: Planner) -> None:
    tvf = "TABLE(TUMBLE(TABLE e, DESCRIPTOR(rt), INTERVAL '1' MINUTE))"
    sql = f"SELECT window_time, rt, COUNT(*) FROM {tvf} GROUP BY window_start, window_end, window_time, rt"
    assert planner.schema(sql) == (
        "window_time TIMESTAMP(3) *ROWTIME* NOT NULL, rt TIMESTAMP(3), EXPR$2 BIGINT NOT NULL"
    )


def test_equal_queries_are_equal_plans(planner: Planner) -> None:
    assert planner.bind("SELECT a FROM t") == planner.bind("   SELECT a   FROM t")


def test_scans_know_whether_they_end(planner: Planner) -> None:
    def scan_of(sql: str) -> bool:
        node = planner.bind(sql)
        while node.inputs:
            node = node.inputs[0]
        return bool(getattr(node, "is_bounded", False))

    assert not scan_of("SELECT a FROM t")
    assert scan_of("SELECT a FROM t /*+ OPTIONS('number-of-rows' = '10') */")


def test_a_table_is_blamed_by_its_name(planner: Planner) -> None:
    sql = "SELECT x.a FROM default_database.t AS x"
    node = planner.bind(sql)
    while node.inputs:
        (node,) = node.inputs
    assert node.span is not None
    assert sql[node.span.start : node.span.end] == "default_database.t"


@pytest.mark.parametrize("keys", ["(a, s)", "a, (s)", "((a), s), ()", "ROW (a, s)"])
def test_a_row_of_keys_is_its_keys(planner: Planner, keys: str) -> None:
    flat = planner.plan("SELECT a, s, COUNT(*) FROM t GROUP BY a, s")
    assert planner.plan(f"SELECT a, s, COUNT(*) FROM t GROUP BY {keys}") == flat


def test_rows_of_more_values_than_can_be_planned_are_refused(planner: Planner) -> None:
    rows = ", ".join(f"({i}, {i})" for i in range(10_001))
    with pytest.raises(UserError) as caught:
        planner.plan(f"SELECT a FROM t WHERE (a, b) IN ({rows})")
    assert caught.value.code == "SS3019"
    assert caught.value.message == "IN compares 10001 rows of 2 values: more than 20000 values"
    assert caught.value.span is not None
    assert "IN (SELECT" in caught.value.hint
