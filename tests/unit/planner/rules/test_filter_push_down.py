"""Filters move towards the sources where that keeps the result."""

from __future__ import annotations

import pytest
from planner_harness import Planner
from rule_harness import after

from sqlstream import types as sql
from sqlstream.expressions import TRUE, Call, InputRef, Literal
from sqlstream.planner.relational.nodes import Filter, Join, Values
from sqlstream.planner.rules.filter_push_down import merge_filters, push_filters_down, simplify_join_condition
from sqlstream.schema import Schema
from sqlstream.specs.join import JoinKind

RULES = (merge_filters, push_filters_down, simplify_join_condition)


def lines(plan: str) -> list[str]:
    return [line.strip(" :+-").split("(")[0] for line in plan.splitlines()]


def test_a_filter_goes_below_a_projection_in_terms_of_its_input(planner: Planner) -> None:
    plan = after(planner, "SELECT x FROM (SELECT a + 1 AS x FROM t) WHERE x > 5", *RULES)
    assert "Filter(condition=[(($0 + 1) > 5)])" in plan
    assert lines(plan)[-2:] == ["Filter", "TableScan"]


def test_a_filter_on_a_random_column_stays_above_it(planner: Planner) -> None:
    plan = after(planner, "SELECT x FROM (SELECT RAND() AS x FROM t) WHERE x > 0.5", *RULES)
    assert lines(plan) == ["Project", "Filter", "Project", "TableScan"]


def test_equal_conjuncts_are_one_unless_each_is_another_draw(planner: Planner) -> None:
    plan = after(planner, "SELECT a FROM t WHERE a > 1 AND a > 1 AND RAND() > 0.5 AND RAND() > 0.5", *RULES)
    assert plan.count("> 1)") == 1
    assert plan.count("RAND() > ") == 2


def test_a_filter_goes_into_both_branches_of_a_union(planner: Planner) -> None:
    plan = after(planner, "SELECT * FROM (SELECT a FROM t UNION ALL SELECT a FROM u) WHERE a > 1", *RULES)
    assert lines(plan).count("Filter") == 2
    assert lines(plan).index("Union") < lines(plan).index("Filter")


def test_an_inner_join_is_filtered_on_both_sides(planner: Planner) -> None:
    plan = after(planner, "SELECT * FROM t, u WHERE t.a = u.a AND t.b > 1 AND u.c < 2", *RULES)
    assert "Join(joinType=[INNER], condition=[($0 = $4)])" in plan.replace("kind=", "joinType=")
    assert lines(plan).count("Filter") == 2


def test_a_left_join_keeps_its_conditions_on_the_left_side(planner: Planner) -> None:
    plan = after(planner, "SELECT * FROM t LEFT JOIN u ON t.a = u.a AND t.b > 1 AND u.c < 2", *RULES)
    assert plan.count("Filter") == 1
    assert "$1 > 1" in next(line for line in plan.splitlines() if "Join" in line)


def test_a_filter_on_the_right_side_stays_above_a_left_join(planner: Planner) -> None:
    plan = after(planner, "SELECT * FROM t LEFT JOIN u ON t.a = u.a WHERE u.c IS NULL", *RULES)
    assert lines(plan).index("Filter") < lines(plan).index("Join")


def test_only_filters_on_keys_go_below_an_aggregate(planner: Planner) -> None:
    plan = after(planner, "SELECT a, SUM(b) FROM t GROUP BY a HAVING a > 1 AND SUM(b) > 2", *RULES)
    assert lines(plan) == ["Project", "Filter", "Aggregate", "Project", "Filter", "TableScan"]


def test_a_filter_stays_above_a_watermark_and_a_limit(planner: Planner) -> None:
    plan = after(planner, "SELECT id FROM (SELECT * FROM e LIMIT 3) WHERE id > 1", *RULES)
    assert lines(plan).index("Filter") < lines(plan).index("Sort")
    plan = after(planner, "SELECT id FROM e WHERE id > 1", *RULES)
    assert lines(plan).index("Filter") < lines(plan).index("Watermark")


def test_a_condition_that_is_never_true_reads_nothing(planner: Planner) -> None:
    from sqlstream.planner.rules.constant_folding import fold_constants

    plan = after(planner, "SELECT a FROM t WHERE 1 = 2", fold_constants, *RULES)
    assert "TableScan" not in plan
    assert "Values" in plan


@pytest.mark.parametrize("kind", [JoinKind.SEMI, JoinKind.ANTI])
def test_a_semi_or_anti_join_is_filtered_on_its_left_side(kind: JoinKind) -> None:
    row = Values(rows=((1,),), schema=Schema.of(("a", sql.INT)))
    join = Join(left=row, right=row, kind=kind, condition=TRUE, schema=row.schema)
    condition = Call(">", (InputRef(0, sql.INT), Literal(1, sql.INT)), sql.BOOLEAN)
    pushed = push_filters_down(Filter(input=join, condition=condition, schema=row.schema))
    assert isinstance(pushed, Join)
    assert (pushed.kind, pushed.right) == (kind, row)
    assert pushed.left == Filter(input=row, condition=condition, schema=row.schema)
