"""The dialect as sqlglot meets it."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from sqlstream.planner.dialect.parser import Flink, parse_query

QUERY = "SELECT a, count(*) FROM t JOIN u ON t.x = u.x WHERE (a + 1) * 2 > 3 GROUP BY a ORDER BY a LIMIT 5"


@pytest.mark.parametrize("dialect", [Flink, "flink", "sqlstream"])
def test_sqlglot_parses_a_query_into_our_tree(dialect: object) -> None:
    assert sqlglot.parse_one(QUERY, read=dialect) == parse_query(QUERY)  # type: ignore[call-overload]


def test_sqlglot_parses_queries_between_semicolons() -> None:
    assert [type(q) for q in sqlglot.parse("SELECT 1; VALUES (2)", read=Flink)] == [exp.Select, exp.Values]


def test_names_stay_names_where_sqlglot_has_a_keyword() -> None:
    names = "value day first next rows range filter escape desc format comment key date time index"
    items = parse_query("SELECT " + ", ".join(names.split()) + " FROM t").expressions
    assert [i.name for i in items] == names.split()
    assert all(isinstance(i, exp.Column) for i in items)


@pytest.mark.parametrize("function", ["nvl", "ifnull", "strpos", "date_add", "list", "if", "log", "struct"])
def test_functions_that_sqlglot_rewrites_stay_as_written(function: str) -> None:
    (item,) = parse_query(f"SELECT {function}(b, a)").expressions
    assert (item.this, [a.name for a in item.expressions]) == (function.upper(), ["b", "a"])
