"""Constant folding."""

from __future__ import annotations

import pytest
from planner_harness import Planner

from planner.relational.nodes import Project
from planner.rules.constant_folding import fold_constants
from sqlstream.expressions import Expression, Literal


def folded(planner: Planner, expression: str) -> Expression:
    node = planner.bind(f"SELECT {expression} FROM t")
    folded_node = fold_constants(node)
    assert isinstance(folded_node, Project)
    return folded_node.expressions[0]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("1 + 2 * 3", "7"),
        ("-5", "-5"),
        ("3 > 2", "TRUE"),
        ("'a' = 'b'", "FALSE"),
        ("TIMESTAMP '2024-01-01 00:00:00' < TIMESTAMP '9999-12-31 00:00:00'", "TRUE"),
        ("1 = 2 AND a > 1", "FALSE"),
        ("1 = 1 AND a > 1", "($0 > 1)"),
        ("1 = 1 OR a > 1", "TRUE"),
        ("NOT (a > 1)", "($0 <= 1)"),
        ("NOT (d > 1.5)", "NOT(($3 > '1.50'))"),
        ("CASE WHEN 1 = 2 THEN 'a' WHEN a = 1 THEN 'b' ELSE 'c' END", "CASE(($0 = 1), 'b', 'c')"),
        ("CASE WHEN 1 = 1 THEN a ELSE 7 END", "$0"),
        ("COALESCE(NULL, a, 3)", "COALESCE($0, 3)"),
        ("NULL IS NULL", "TRUE"),
        ("CAST(7 AS BIGINT)", "7"),
        ("CAST('x' AS STRING)", "'x'"),
    ],
)
def test_what_is_known_is_computed(planner: Planner, sql: str, text: str) -> None:
    assert str(folded(planner, sql)) == text


@pytest.mark.parametrize(
    "sql",
    [
        "2147483647 + 1",
        "1 / 0",
        "CAST('x' AS INT)",
        "CAST(300 AS TINYINT)",
        "RAND() < 2",
        "a + 1",
        "0.1 + 0.2",
    ],
)
def test_what_could_fail_or_round_is_left_to_the_runtime(planner: Planner, sql: str) -> None:
    assert not isinstance(folded(planner, sql), Literal)


@pytest.mark.parametrize(
    "sql", ["1 + 1", "CAST(1 AS BIGINT)", "CASE WHEN 1 = 1 THEN 'ab' ELSE 'c' END", "1 < 2"]
)
def test_the_type_of_a_folded_expression_is_kept(planner: Planner, sql: str) -> None:
    before = planner.bind(f"SELECT {sql} FROM t")
    assert isinstance(before, Project)
    assert folded(planner, sql).type == before.expressions[0].type


def test_an_interval_is_added_to_a_timestamp(planner: Planner) -> None:
    result = folded(planner, "TIMESTAMP '1970-01-01 00:00:00' + INTERVAL '2' SECOND")
    assert isinstance(result, Literal)
    assert result.value == 2_000_000_000
