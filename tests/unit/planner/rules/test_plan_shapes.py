"""The smaller rules: merging, swapping and moving."""

from __future__ import annotations

from planner_harness import Planner
from rule_harness import after

from sqlstream.planner.rules.join_keys import project_join_keys, turn_right_join
from sqlstream.planner.rules.project_merge import (
    merge_project_into_aggregate,
    merge_projects,
    push_project_below_window_tvf,
)
from sqlstream.planner.rules.watermark_push_down import push_limit_down


def lines(plan: str) -> list[str]:
    return [line.strip(" :+-").split("(")[0] for line in plan.splitlines()]


def test_projections_merge_and_identities_vanish(planner: Planner) -> None:
    plan = after(planner, "SELECT y FROM (SELECT a + 1 AS y, b FROM t)", merge_projects)
    assert lines(plan) == ["Project", "TableScan"]
    assert lines(after(planner, "SELECT * FROM t", merge_projects)) == ["TableScan"]


def test_what_would_be_computed_twice_is_not_merged(planner: Planner) -> None:
    plan = after(planner, "SELECT y, y * 2 FROM (SELECT RAND() AS y FROM t)", merge_projects)
    assert lines(plan) == ["Project", "Project", "TableScan"]


def test_a_right_join_is_a_left_join_of_swapped_sides(planner: Planner) -> None:
    plan = after(planner, "SELECT t.a, u.c FROM t RIGHT JOIN u ON t.a = u.a", turn_right_join)
    assert "LEFT" in plan
    assert "RIGHT" not in plan
    tables = [line for line in plan.splitlines() if "TableScan" in line]
    assert "`u`" in tables[0]
    assert "`t`" in tables[1]


def test_computed_sides_of_an_equality_become_key_columns(planner: Planner) -> None:
    plan = after(planner, "SELECT t.a FROM t JOIN u ON t.a + 1 = u.a * 2", project_join_keys)
    join = next(line for line in plan.splitlines() if "Join" in line)
    assert "condition=[($4 = $8)]" in join


def test_aggregations_written_in_another_order_are_the_same_node(planner: Planner) -> None:
    one = after(
        planner, "SELECT a, s, SUM(b) FROM t GROUP BY a, s", merge_project_into_aggregate, merge_projects
    )
    two = after(
        planner, "SELECT s, a, SUM(b) FROM t GROUP BY s, a", merge_project_into_aggregate, merge_projects
    )

    def aggregate(plan: str) -> str:
        return next(line.strip(" +-:") for line in plan.splitlines() if "Aggregate" in line)

    assert aggregate(one) == aggregate(two)


def test_a_limit_goes_below_a_projection_and_the_smaller_of_two_stays(planner: Planner) -> None:
    plan = after(
        planner, "SELECT a + 1 FROM (SELECT a FROM t LIMIT 9) LIMIT 4", push_limit_down, merge_projects
    )
    assert lines(plan) == ["Project", "Sort", "TableScan"]
    assert "fetch=[4]" in plan


def test_computed_columns_go_below_a_window(planner: Planner) -> None:
    sql = "SELECT id * 2, window_start FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(rt), INTERVAL '1' HOUR))"
    plan = after(planner, sql, push_project_below_window_tvf)
    names = lines(plan)
    assert names.index("WindowTvf") < names.index("Project", 1)
    assert "$0 * 2" in plan[plan.index("WindowTvf") :]
    drawn = after(planner, sql.replace("id * 2", "id * RAND(), id * RAND()"), push_project_below_window_tvf)
    assert drawn[: drawn.index("WindowTvf")].count("RAND()") == 2
