"""The optimised plan of a query has the rows of the plan as bound, by a slow interpreter that runs both."""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from join_reference import nested_loops
from plan_harness import CONNECTORS, compile_script

from sqlstream.expressions import AggregateCall, Call, Expression, InputRef, Literal
from sqlstream.planner.relational import nodes as plan
from sqlstream.planner.rules import optimise
from sqlstream.specs import JoinKind
from sqlstream.types import is_integer

Row = tuple[Any, ...]
DDL = """
CREATE TABLE t (a INT, b INT, c INT) WITH ('connector' = 'table');
CREATE TABLE u (a INT, d INT) WITH ('connector' = 'filtering');
"""
QUERIES = (
    "SELECT b, a + 1 FROM t WHERE a > 1 AND (b < 2 OR c IS NULL) AND 1 = 1",
    "SELECT x FROM (SELECT a + b AS x, c FROM t WHERE c > 0) WHERE x > 1 AND c < 3",
    "SELECT t.c, u.d FROM t JOIN u ON t.a = u.a AND t.b > 0 WHERE u.d < 3 AND t.c > u.d",
    "SELECT t.c, u.d FROM t JOIN u ON t.a + 1 = u.a + u.d",
    "SELECT t.c, u.d FROM t LEFT JOIN u ON t.a = u.a AND t.b > 0 AND u.d < 3 WHERE t.c > 0",
    "SELECT t.c, u.d FROM t LEFT JOIN u ON t.a = u.a WHERE u.d IS NULL",
    "SELECT t.c, u.d FROM t RIGHT JOIN u ON t.a = u.a AND t.c > 1 WHERE u.d > 0",
    "SELECT t.c, u.d FROM t FULL JOIN u ON t.a = u.a AND t.c > 1 AND u.d < 3 WHERE u.d > 0 OR t.b > 0",
    "SELECT t.a, c, d FROM t NATURAL FULL JOIN u WHERE c > 0",
    "SELECT c FROM t LEFT SEMI JOIN u ON t.a + 1 = u.a + u.d AND t.b > 0 AND u.d < 3 WHERE c > 0",
    "SELECT c FROM t LEFT ANTI JOIN u ON t.a = u.a + 1 AND t.b > 0 AND u.d < 3 WHERE c > 0",
    "SELECT c, a, SUM(b), COUNT(*) FROM t GROUP BY a, c HAVING a > 0 AND COUNT(*) > 1",
    "SELECT SUM(n) FROM (SELECT a, COUNT(*) AS n, SUM(c) AS s FROM t GROUP BY a) WHERE s > 1",
    "SELECT COUNT(*) FROM t WHERE NOT (a > 1)",
    "SELECT * FROM (SELECT a, b FROM t UNION ALL SELECT d, a FROM u) WHERE a > 0",
    "SELECT DISTINCT a FROM (SELECT b, a FROM t) WHERE CASE WHEN b > 1 THEN a > 0 ELSE TRUE END",
    "SELECT x.n, t.b FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) x JOIN t ON x.a = t.a WHERE x.a > 0",
    "SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b, c) AS n FROM t)"
    " WHERE n <= 2 AND a > 0",
    "SELECT n, a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC, c) AS n FROM t)"
    " WHERE n = 2",
)

VALUE = st.none() | st.integers(-1, 4)
TABLES = st.fixed_dictionaries(
    {
        "t": st.lists(st.tuples(VALUE, VALUE, VALUE), max_size=8),
        "u": st.lists(st.tuples(VALUE, VALUE), max_size=6),
    }
)
COLUMNS = {"t": ("a", "b", "c"), "u": ("a", "d")}


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=40, deadline=None)
@given(tables=TABLES)
def test_optimising_keeps_the_rows(query: str, tables: dict[str, list[Row]]) -> None:
    (bound,) = (p.relational[0] for p in compile_script(DDL + query))
    (optimised,) = optimise((bound,), CONNECTORS)
    assert Counter(run(optimised, tables)) == Counter(run(bound, tables))


def run(node: plan.RelationalNode, tables: dict[str, list[Row]]) -> list[Row]:
    rows = [run(i, tables) for i in node.inputs]
    match node:
        case plan.TableScan():
            name = node.table.path.name
            places = [COLUMNS[name].index(c) for c in node.columns]
            return [tuple(row[p] for p in places) for row in tables[name]]
        case plan.Values():
            return list(node.rows)
        case plan.Filter():
            return [r for r in rows[0] if evaluate(node.condition, r) is True]
        case plan.Project():
            return [tuple(evaluate(e, r) for e in node.expressions) for r in rows[0]]
        case plan.Union():
            return [r for branch in rows for r in branch]
        case plan.Join():
            return join(node, *rows)
        case plan.Aggregate():
            return aggregate(node, rows[0])
        case plan.Window():
            return numbered(node, rows[0])
        case plan.Rank():
            width = len(node.input.schema)
            kept = [r for r in numbered(node, rows[0]) if node.rank_start <= r[-1] <= node.rank_end]
            return kept if node.outputs_rank else [r[:width] for r in kept]
        case plan.Sink():
            return rows[0]
    raise AssertionError(type(node).__name__)


def join(node: plan.Join, left: list[Row], right: list[Row]) -> list[Row]:
    def matches(row: Row) -> bool:
        return node.condition is None or evaluate(node.condition, row) is True

    widths = (len(node.left.schema), len(node.right.schema))
    kind = JoinKind(node.kind.value)
    return list(nested_loops(kind, left, right, lambda a, b: matches(a + b), widths).elements())


def aggregate(node: plan.Aggregate, rows: list[Row]) -> list[Row]:
    groups: dict[Row, list[Row]] = {} if node.keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in node.keys), []).append(row)
    return [key + tuple(call_value(c, group) for c in node.calls) for key, group in groups.items()]


def call_value(call: AggregateCall, group: list[Row]) -> Any:
    if not call.args:
        return len(group)
    values = [r[call.args[0]] for r in group if r[call.args[0]] is not None]
    return {"SUM": sum, "COUNT": len}[call.function](values) if values else None


def numbered(node: plan.Window | plan.Rank, rows: list[Row]) -> list[Row]:
    # The whole row breaks ties, so that equal keys have one answer in every plan.
    for key in reversed(node.order):
        rows = sorted(
            rows,
            key=lambda r, c=key.column: (r[c] is not None, r[c] or 0),  # type: ignore[misc]
            reverse=key.is_descending,
        )
    counts: Counter[Row] = Counter()
    result = []
    for row in rows:
        partition = tuple(row[k] for k in node.partition_keys)
        counts[partition] += 1
        result.append((*row, counts[partition]))
    return result


OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "*": operator.mul,
}


def evaluate(expression: Expression, row: Row) -> Any:
    if isinstance(expression, InputRef):
        return row[expression.index]
    if isinstance(expression, Literal):
        return expression.value
    args = [evaluate(a, row) for a in expression.args]
    return call(expression, args)


def call(expression: Call, args: list[Any]) -> Any:
    match expression.function:
        case "AND":
            return False if False in args else None if None in args else True
        case "OR":
            return True if True in args else None if None in args else False
        case "NOT":
            return None if args[0] is None else not args[0]
        case "IS NULL":
            return args[0] is None
        case "COALESCE":
            return next((value for value in args if value is not None), None)
        case "CAST":
            assert is_integer(expression.type)
            return args[0]
        case "CASE":
            pairs = zip(args[:-1:2], args[1::2], strict=True)
            return next((value for condition, value in pairs if condition is True), args[-1])
    return None if None in args else OPERATORS[expression.function](*args)
