"""Whatever a user writes is bound to a consistent plan, or refused at a place in the text."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_harness import TABLES, Planner

from sqlstream.errors import UserError
from sqlstream.expressions import Expression, InputRef, walk
from sqlstream.planner.bind.expressions.calls import callable_names
from sqlstream.planner.bind.sink import bind_select_sink
from sqlstream.planner.dialect.parser import parse_query
from sqlstream.planner.relational.nodes import Filter, Project, RelationalNode

PLANNER = Planner()
PLANNER.run(TABLES)

ATOMS = st.sampled_from([
    "id", "r", "r.x", "r.y.z", "l", "m", "millis", "ts", "p", "rt", "e.id", "l[1]", "m['a']", "COUNT(*)",
    "SUM(id)", "NULL", "1", "-2", "1.5", "1e0", "'x'", "'2020-01-01'", "TRUE", "X'0a'", "ARRAY[1, 2]",
    "DATE '2020-01-01'", "TIMESTAMP '2020-01-01 00:00:00'", "INTERVAL '1' DAY",
])  # fmt: skip
OPERATORS = st.sampled_from(
    ["+", "-", "*", "/", "||", "=", "<>", "<", "AND", "OR", "LIKE", "IS DISTINCT FROM"]
)
TYPES = st.sampled_from(
    ["INT", "STRING", "TIMESTAMP(3)", "DECIMAL(5, 2)", "DATE", "BOOLEAN", "ARRAY<INT>", "DOUBLE"]
)


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, OPERATORS, inner),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, inner, inner, inner),
        st.builds("CAST({} AS {})".format, inner, TYPES),
        st.builds("({} IS NOT NULL)".format, inner),
        st.builds("({} IN ({}, {}))".format, inner, inner, inner),
        st.builds(
            lambda name, args: f"{name}({', '.join(args)})",
            st.sampled_from(callable_names()),
            st.lists(inner, max_size=3),
        ),
    )


EXPRESSIONS = st.recursive(ATOMS, larger, max_leaves=5)
RELATIONS = st.sampled_from(
    [
        "e",
        "(SELECT * FROM e) AS e",
        "e LEFT JOIN t ON e.id = t.a",
        "TABLE(TUMBLE(TABLE e, DESCRIPTOR(rt), INTERVAL '1' MINUTE))",
    ]
)


def clause(word: str) -> st.SearchStrategy[str]:
    return st.one_of(st.just(""), st.just(""), EXPRESSIONS.map(lambda e: f" {word} {e}"))


QUERIES = st.builds(
    "SELECT {} AS z, {} FROM {}{}{}{}".format,
    EXPRESSIONS,
    ATOMS,
    RELATIONS,
    clause("WHERE"),
    clause("GROUP BY"),
    clause("ORDER BY"),
)


def nodes_of(node: RelationalNode) -> Iterator[RelationalNode]:
    yield node
    for child in node.inputs:
        yield from nodes_of(child)


def expressions_of(node: RelationalNode) -> tuple[Expression, ...]:
    if isinstance(node, Project):
        return node.expressions
    return (node.condition,) if isinstance(node, Filter) else ()


def bind(query: str) -> RelationalNode | UserError:
    try:
        return bind_select_sink(parse_query(query), PLANNER.context)
    except UserError as error:
        return error


@settings(max_examples=400, deadline=None)
@given(QUERIES)
def test_a_query_is_refused_with_a_position_or_bound_to_a_consistent_plan(query: str) -> None:
    plan = bind(query)
    if isinstance(plan, UserError):
        assert plan.span is not None
        assert 0 <= plan.span.start < plan.span.end <= len(query)
        return
    for node in nodes_of(plan):
        if isinstance(node, Project):
            assert [e.type for e in node.expressions] == list(node.schema.types)
        for expression in expressions_of(node):
            assert msgspec.json.decode(msgspec.json.encode(expression), type=Expression) == expression
            for part in walk(expression):
                if isinstance(part, InputRef):
                    assert part.type == node.inputs[0].schema.types[part.index]
