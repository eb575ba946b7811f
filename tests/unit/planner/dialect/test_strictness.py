"""What sqlglot would accept, and Flink does not have, is refused."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.planner.dialect.nodes import checked
from sqlstream.planner.dialect.parser import parse_expression, parse_query


@pytest.mark.parametrize(
    "text",
    [
        "a NOT NULL",
        "a ISNULL",
        "a ?? b",
        "a << 1",
        "a & b",
        "a <=> b",
        "a == b",
        "a REGEXP 'x'",
        "a AT TIME ZONE 'UTC'",
        "a BETWEEN 1 2",
        "a IN b",
        "a IN UNNEST(b)",
        "a LIKE ANY ('x')",
        "a DIV b",
        "'x' 'y'",
        "0x1F",
        "1_000",
        "[1, 2]",
        "{'a': 1}",
        "x -> x + 1",
        "f(x ORDER BY y)",
        "f(x LIMIT 1)",
        "f(x => 1)",
        "CASE END",
        "CASE WHEN a b END",
        "a[1:2]",
        "a COLLATE b",
        "$1",
        "@a",
        ":a",
        "INTERVAL 1",
        "a.b.c.f(b)",
        "()",
        "CAST(a, INT)",
        "IF a THEN b",
        "a /* open",
        "a {# b #}",
    ],
)
def test_another_dialects_expression_is_refused_with_a_position(text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_expression(text)
    assert raised.value.span is not None


@pytest.mark.parametrize(
    "text",
    [
        "FROM t",
        "FROM t SELECT a",
        "TABLE t",
        "SELECT AS a FROM t",
        "SELECT AS STRUCT a",
        "SELECT ALL DISTINCT a",
        "SELECT DISTINCT ON (a) b FROM t",
        "SELECT FETCH FIRST 1 ROWS ONLY a",
        "SELECT a INTO u FROM t",
        "SELECT a JOIN t ON TRUE",
        "SELECT a FROM t HAVING b WHERE c",
        "SELECT a FROM t WHERE b WHERE c",
        "SELECT a FROM t GROUP BY a WITH ROLLUP",
        "SELECT a FROM t GROUP BY DISTINCT a",
        "SELECT a FROM t ORDER BY a WITH FILL",
        "SELECT a FROM t LIMIT 1, 2",
        "SELECT a FROM t LIMIT 5 PERCENT",
        "SELECT a FROM t LIMIT 1 BY a",
        "SELECT a FROM t FETCH FIRST 1 ROWS WITH TIES",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM t START WITH a CONNECT BY b",
        "SELECT a FROM t SAMPLE (10)",
        "SELECT a FROM t AS OF TIMESTAMP '2024-01-01 00:00:00'",
        "SELECT a FROM t AT (VERSION => 1)",
        "SELECT a FROM t |> WHERE a",
        "SELECT a FROM t RIGHT SEMI JOIN u ON a = b",
        "SELECT a FROM t OUTER JOIN u ON a = b",
        "SELECT a FROM t JOIN u JOIN v ON a = b ON c = d",
        "SELECT a FROM t CROSS APPLY f(a)",
        "SELECT a FROM t JOIN u",
        "SELECT a FROM t LATERAL (SELECT b)",
        "SELECT a FROM (t)",
        "SELECT a FROM t x (b",
        "SELECT 1 INTERSECT BY NAME SELECT 2",
        "SELECT 1 LEFT UNION SELECT 2",
        "SELECT 1 UNION CORRESPONDING SELECT 2",
        "SELECT 1 ORDER BY 1 UNION SELECT 2",
        "SELECT 1 UNION SELECT 2 LIMIT 1 UNION SELECT 3",
        "SELECT 1 UNION WITH a AS (SELECT 1) SELECT 2",
        "WITH a AS (SELECT 1), SELECT 1",
        "WITH a AS (SELECT 1) WITH b AS (SELECT 2) SELECT 1",
        "WITH a AS MATERIALIZED (SELECT 1) SELECT 1",
        "WITH a (SELECT 1) SELECT 1",
        "WITH a AS (INSERT INTO t SELECT 1) SELECT 1",
        "DESCRIBE t",
        "SELECT sum(a) OVER (ORDER BY b GROUPS 1 PRECEDING)",
        "SELECT sum(a) OVER (ORDER BY b ROWS 1 PRECEDING EXCLUDE TIES)",
        "SELECT * REPLACE (1 b) FROM a",
        "SELECT a AS (b, c)",
        "SELECT a 'b'",
    ],
)
def test_another_dialects_query_is_refused_with_a_position(text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_query(text)
    assert raised.value.span is not None


def test_the_net_refuses_a_node_and_an_argument_that_the_table_does_not_list() -> None:
    for foreign in (exp.Coalesce(this=exp.Null()), exp.Select(expressions=[exp.Star()], kind="STRUCT")):
        with pytest.raises(UserError, match="not part of Flink SQL"):
            checked(foreign)


def test_a_finished_tree_has_no_parentheses() -> None:
    assert checked(exp.Paren(this=exp.Paren(this=exp.Null()))) == exp.Null()
    assert parse_expression("((a)) + ((b))") == parse_expression("a + b")
