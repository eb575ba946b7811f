"""Queries: what each clause becomes, and what binds to what."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.planner.dialect.parser import parse_query, span_of


def select(text: str) -> exp.Select:
    node = parse_query(text)
    assert isinstance(node, exp.Select)
    return node


def test_a_select_keeps_all_its_clauses() -> None:
    node = select(
        "SELECT DISTINCT a AS x, b y, t.* FROM t WHERE a > 1 GROUP BY a, b HAVING count(*) > 1 "
        "ORDER BY a DESC, b NULLS LAST LIMIT 5 OFFSET 2 ROWS"
    )
    assert [i.alias_or_name for i in node.expressions] == ["x", "y", "*"]
    assert isinstance(node.args["distinct"], exp.Distinct)
    assert all(node.args[k] is not None for k in ("from_", "where", "group", "having"))
    assert (node.args["limit"].expression.this, node.args["offset"].expression.this) == ("5", "2")


@pytest.mark.parametrize(
    ("item", "desc", "nulls_first"),
    [
        ("a", False, True),
        ("a ASC", False, True),
        ("a DESC", True, False),
        ("a DESC NULLS FIRST", True, True),
        ("a NULLS LAST", False, False),
    ],
)
def test_null_is_the_lowest_value_unless_said_otherwise(item: str, desc: bool, nulls_first: bool) -> None:
    ordered = select(f"SELECT a FROM t ORDER BY {item}").args["order"].expressions[0]
    assert (ordered.args["desc"], ordered.args["nulls_first"]) == (desc, nulls_first)


@pytest.mark.parametrize("tail", ["LIMIT 3", "FETCH FIRST 3 ROWS ONLY", "OFFSET 1 FETCH NEXT 3 ROW ONLY"])
def test_every_way_to_limit_is_one_node(tail: str) -> None:
    assert select(f"SELECT 1 {tail}").args["limit"].expression.this == "3"


def test_limit_all_is_no_limit() -> None:
    assert select("SELECT 1 LIMIT ALL").args.get("limit") is None


def test_intersect_binds_tighter_than_union_and_union_groups_left() -> None:
    node = parse_query("SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 3 INTERSECT SELECT 4 ORDER BY 1")
    assert isinstance(node, exp.Except)
    assert isinstance(node.this, exp.Union)
    assert node.this.args["distinct"] is False
    assert isinstance(node.expression, exp.Intersect)
    assert node.args["distinct"] is True
    assert node.args["order"] is not None


def test_parentheses_group_set_operations() -> None:
    node = parse_query("SELECT 1 UNION ALL (SELECT 2 UNION SELECT 3)")
    assert isinstance(node.expression, exp.Union)


def test_a_parenthesised_query_with_its_own_limit_stays_apart() -> None:
    node = parse_query("(SELECT a FROM t LIMIT 3) LIMIT 5")
    assert isinstance(node, exp.Subquery)
    assert (node.args["limit"].expression.this, node.this.args["limit"].expression.this) == ("5", "3")


def test_common_tables_keep_their_names_and_columns() -> None:
    with_clause = select("WITH a AS (SELECT 1), b (x, y) AS (SELECT 2, 3) SELECT * FROM a, b").args["with_"]
    assert [c.alias for c in with_clause.expressions] == ["a", "b"]
    assert [c.name for c in with_clause.expressions[1].args["alias"].columns] == ["x", "y"]


def test_values_are_rows() -> None:
    node = parse_query("VALUES (1, 'a'), ROW(2, 'b')")
    assert [[v.this for v in row.expressions] for row in node.expressions] == [["1", "a"], ["2", "b"]]


def test_a_lone_value_is_a_row_of_one() -> None:
    assert [len(row.expressions) for row in parse_query("VALUES 1, (2), (1 + 2) * 3").expressions] == [
        1,
        1,
        1,
    ]


def test_grouping_sets_nest() -> None:
    group = select("SELECT 1 FROM t GROUP BY a, GROUPING SETS ((a, b), c, ()), ROLLUP (d, e), CUBE (f)").args[
        "group"
    ]
    sets, rollup, cube = group.expressions[1:]
    assert [type(i) for i in sets.expressions] == [exp.Tuple, exp.Column, exp.Tuple]
    assert [len(i.expressions) for i in (sets.expressions[0], sets.expressions[2])] == [2, 0]
    assert (type(rollup), type(cube)) == (exp.Rollup, exp.Cube)


def test_grouping_by_an_expression_in_parentheses_is_no_list() -> None:
    assert isinstance(select("SELECT 1 FROM t GROUP BY (a + 1) * 2").args["group"].expressions[0], exp.Mul)


def test_star_keeps_what_is_left_out_and_replaced() -> None:
    star, other = select("SELECT * EXCEPT (a, b), t.* REPLACE (x + 1 AS x) FROM t").expressions
    assert [part.name for part in star.args["except_"]] == ["a", "b"]
    assert [part.alias for part in other.this.args["replace"]] == ["x"]


def test_group_by_all_has_no_items() -> None:
    group = select("SELECT a FROM t GROUP BY ALL").args["group"]
    assert group.args["all"]
    assert not group.expressions


def test_ilike_and_double_colon_are_read_as_their_long_forms() -> None:
    short = select("SELECT a NOT ILIKE 'X', a::INT, ilike FROM t")
    long = select("SELECT NOT LOWER(a) LIKE LOWER('X'), CAST(a AS INT), ilike FROM t")
    assert short.expressions[:2] == [part.unnest() for part in long.expressions[:2]]
    assert short.expressions[2].name == "ilike"


def test_a_named_window_is_put_where_it_is_used() -> None:
    node = select("SELECT sum(a) OVER w, max(a) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY c)")
    for item in node.expressions:
        assert [k.name for k in item.args["over"].args["partition_by"]] == ["b"]


def test_subqueries_stand_where_expressions_do() -> None:
    node = select("SELECT (SELECT 1) FROM t WHERE EXISTS (SELECT 2) AND a IN (SELECT b FROM u)")
    where = node.args["where"].this
    assert isinstance(node.expressions[0], exp.Subquery)
    assert isinstance(where.this, exp.Exists)
    assert isinstance(where.expression.args["query"], exp.Select)


def test_every_node_of_a_query_has_a_position_inside_it() -> None:
    text = "SELECT a, count(*) c FROM (SELECT * FROM t) x LEFT JOIN u ON x.a = u.a WHERE a > 1 GROUP BY a"
    for node in parse_query(text, offset=50).walk():
        span = span_of(node)
        assert span is not None, repr(node)
        assert 50 <= span.start <= span.end <= 50 + len(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT",
        "SELECT FROM t",
        "SELECT a FROM",
        "SELECT a, FROM t",
        "SELECT a WHERE",
        "SELECT a t.*",
        "SELECT TOP 5 a",
        "SELECT a FROM t GROUP a",
        "SELECT a ORDER BY",
        "SELECT a LIMIT x",
        "SELECT a LIMIT 1 LIMIT 2",
        "VALUES",
        "SELECT a UNION",
        "WITH x SELECT 1",
        "SELECT * EXCEPT a FROM t",
        "SELECT a FROM t SORT BY a",
        "TABLE t",
        "SELECT a FROM t ORDER BY a NULLS",
        "SELECT a FROM t WINDOW w AS (w2)",
        "SELECT DISTINCT ON (a) b FROM t",
    ],
)
def test_what_is_no_query_is_refused_with_a_position(text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_query(text)
    assert raised.value.span is not None
