"""Names and values of a query in Python are what they are, whatever they hold, and operators bind as they do in Python."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlstream.client.dbapi.connection import Connection
from sqlstream.client.dbapi.tables import Expression, Table, col, lit, when
from sqlstream.client.dbapi.tables.calls import functions
from sqlstream.client.dbapi.tables.table import named_table
from sqlstream.planner.dialect.parser import parse_expression, parse_statement
from sqlstream.planner.dialect.statements import Insert, Query
from sqlstream.planner.dialect.tokens import RESERVED

HOSTILE = (
    *(
        "`",
        "``",
        "a`b",
        "'",
        '"',
        "--",
        "-- x\n",
        "/*",
        "*/",
        ";",
        "; DROP TABLE t",
        ")",
        "(",
        "a.b",
        "*",
        "?",
        "\\",
        "\n",
        "\x00",
    ),
    *(
        "x` FROM y --",
        "1",
        "ä",
        "²",
        "SELECT",
        "order",
        "semi",
        "anti",
        "interval",
        "array",
        "date",
        "$rowtime",
        "U&",
        " ",
        "a b",
    ),
)
WORDS = (
    *(
        "asof",
        "by",
        "bytes",
        "date",
        "decimal",
        "double",
        "exclude",
        "explain",
        "extended",
        "fetch",
        "filter",
        "first",
        "global",
    ),
    *(
        "grouping",
        "ilike",
        "json",
        "last",
        "multiset",
        "nulls",
        "of",
        "ordinality",
        "period",
        "positional",
        "precision",
        "range",
    ),
    *(
        "raw",
        "rename",
        "rows",
        "sample",
        "sets",
        "snapshot",
        "straight",
        "system_time",
        "time",
        "timestamp",
        "uescape",
        "varchar",
    ),
    *("within", "year", "zone"),
)
NAMES = st.one_of(
    st.sampled_from(HOSTILE),
    st.sampled_from([*WORDS, *functions()]),
    st.sampled_from(sorted(RESERVED)).map(str.lower),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
)
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(codec="utf-8"), max_size=12))


def table(*name: str) -> Table:
    unused: Any = Connection.__new__(Connection)
    return named_table(unused, name)


@settings(max_examples=200, deadline=None)
@given(NAMES, NAMES, NAMES, NAMES, TEXTS)
def test_names_and_texts_are_what_they_are(name: str, column: str, alias: str, sink: str, value: str) -> None:
    t = table("d", name)
    other = t.alias(alias)
    joined = (
        t.join(other, t[column] == other[column]).filter(t[column] == value).select(other[column].alias(sink))
    )
    statement = parse_statement(joined.insert_into(sink, [column]).to_sql())
    assert isinstance(statement, Insert)
    assert statement.target.parts == (sink,)
    query: Any = statement.query
    tables = list(query.find_all(exp.Table))
    assert [[part.name for part in t.parts] for t in tables] == [["d", name]] * 2
    assert {c.name for c in query.find_all(exp.Column)} == {column}
    assert len({c.table for c in query.find_all(exp.Column)}) == 2
    assert [item.alias for item in query.expressions] == [sink]
    assert [text.this for text in query.find_all(exp.Literal)] == [value]
    alone: Any = parse_statement(
        t.select(t[column], t[column] + 1, t[column].is_null()).order_by(t[column]).to_sql()
    )
    assert [c.name for c in alone.query.find_all(exp.Column)] == [column] * 4


Tree = tuple[Expression, str]


def binary(operator: str) -> Any:
    def make(pair: tuple[Tree, Tree]) -> Tree:
        (a, left), (b, right) = pair
        words = {"and": "AND", "or": "OR", "ne": "<>", "eq": "="}
        made = {
            "and": lambda: a & b,
            "or": lambda: a | b,
            "eq": lambda: a == b,
            "ne": lambda: a != b,
            "<": lambda: a < b,
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "/": lambda: a / b,
            "%": lambda: a % b,
        }[operator]()
        return made, f"(({left}) {words.get(operator, operator)} ({right}))"

    return make


def unary(tree: Tree, choice: int) -> Tree:
    a, text = tree
    return (
        (-a, f"(-({text}))"),
        (~a, f"(NOT ({text}))"),
        (a.is_null(), f"(({text}) IS NULL)"),
        (a.is_distinct_from(1), f"(({text}) IS DISTINCT FROM 1)"),
        (a.between(a, 2), f"(({text}) BETWEEN ({text}) AND 2)"),
        (a.is_in([a, 3]), f"(({text}) IN (({text}), 3))"),
        (a.like("x"), f"(({text}) LIKE 'x')"),
        (a.cast("INT"), f"CAST(({text}) AS INT)"),
        (a[1], f"(({text})[1])"),
        (when(a, a).otherwise(1), f"(CASE WHEN ({text}) THEN ({text}) ELSE 1 END)"),
    )[choice]


LEAVES: st.SearchStrategy[Tree] = st.sampled_from(
    [(col("a"), "a"), (col("b"), "b"), (lit(1), "1"), (lit(-2), "(-2)")]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        *(
            st.tuples(inner, inner).map(binary(o))
            for o in ("and", "or", "eq", "ne", "<", "+", "-", "*", "/", "%")
        ),
        st.builds(unary, inner, st.integers(0, 9)),
    ),
    max_leaves=8,
)


def _without_parentheses(text: str) -> exp.Expr:
    root = exp.Tuple(expressions=[parse_expression(text)])
    while (node := root.find(exp.Paren)) is not None:
        node.replace(node.this)
    return root


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_operators_bind_as_they_do_in_python(tree: Tree) -> None:
    expression, text = tree
    query = parse_statement(table("t").select(x=expression).to_sql())
    assert isinstance(query, Query)
    written = table("t").select(x=expression).to_sql().removeprefix("SELECT ").removesuffix(" AS x\nFROM t")
    assert repr(_without_parentheses(written)) == repr(_without_parentheses(text))
