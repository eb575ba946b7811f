"""ROW_NUMBER() with a filter becomes a Rank."""

from __future__ import annotations

import pytest
from planner_harness import Planner

from sqlstream.planner.relational.nodes import Rank, RelationalNode, Window
from sqlstream.planner.rules import RULES, apply_rules


def find(node: RelationalNode, kind: type) -> RelationalNode | None:
    if isinstance(node, kind):
        return node
    return next((f for i in node.inputs if (f := find(i, kind)) is not None), None)


def ranked(planner: Planner, condition: str) -> RelationalNode:
    numbered = "SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS n FROM t"
    sql = f"SELECT a, b FROM ({numbered}) WHERE {condition}"
    return apply_rules(planner.bind(sql), RULES)


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("n = 1", (1, 1)),
        ("n <= 10", (1, 10)),
        ("10 >= n", (1, 10)),
        ("n < 10", (1, 9)),
        ("n BETWEEN 3 AND 5", (3, 5)),
        ("n > 2 AND n <= 4", (3, 4)),
        ("n = 2", (2, 2)),
        ("n <= 10 AND n <= 4 AND b > 7", (1, 4)),
        ("n <= 4 AND n <= 10", (1, 4)),
        ("n >= 2 AND n > 3 AND n <= 9", (4, 9)),
        ("CAST(n AS INT) <= 3", (1, 3)),
        ("3 > CAST(n AS BIGINT)", (1, 2)),
        ("n <= CAST(3 AS TINYINT)", (1, 3)),
    ],
)
def test_the_filter_gives_the_range(planner: Planner, condition: str, bounds: tuple[int, int]) -> None:
    rank = find(ranked(planner, condition), Rank)
    assert isinstance(rank, Rank)
    assert (rank.rank_start, rank.rank_end) == bounds


def test_a_filter_without_upper_bound_makes_no_rank(planner: Planner) -> None:
    node = ranked(planner, "n > 2")
    assert find(node, Rank) is None
    assert find(node, Window) is not None


@pytest.mark.parametrize(
    "condition", ["CAST(n AS TINYINT) <= 3", "CAST(n AS SMALLINT) = 1", "CAST(n AS STRING) = '1'"]
)
def test_a_cast_that_may_change_the_number_makes_no_rank(planner: Planner, condition: str) -> None:
    node = ranked(planner, condition)
    assert find(node, Rank) is None
    assert find(node, Window) is not None


def test_a_condition_on_another_column_stays_above_the_rank(planner: Planner) -> None:
    rank = find(ranked(planner, "b <= 3 AND n <= 2"), Rank)
    assert isinstance(rank, Rank)
    assert rank.rank_end == 2
    assert find(ranked(planner, "b <= 3"), Rank) is None


@pytest.mark.parametrize("condition", ["n < 1", "n < 0", "n <= 0", "n <= -1", "n = 0", "n = -1"])
def test_an_empty_range_reads_nothing(planner: Planner, condition: str) -> None:
    node = ranked(planner, condition)
    assert find(node, Rank) is None
    assert find(node, Window) is None
