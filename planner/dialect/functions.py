"""The grammar of function calls: the plain form, SQL's special argument forms, and what may follow them."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.dialect import expressions, queries
from planner.dialect.nodes import FrameBound, FunctionCall, OverClause
from planner.dialect.tokens import RESERVED, Cursor, Token, TokenKind

_RESERVED_CALLS = frozenset({"LEFT", "RIGHT", "GROUPING", "EXTRACT", "TRIM", "OVERLAY"})
_EXTRACT_UNITS = (
    *(
        "MILLENNIUM",
        "CENTURY",
        "DECADE",
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "HOUR",
        "MINUTE",
        "SECOND",
    ),
    *("MILLISECOND", "MICROSECOND", "NANOSECOND", "DOW", "ISODOW", "DOY", "ISOYEAR", "EPOCH"),
)
_ADD_UNITS = (
    *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
    *("MILLISECOND", "MICROSECOND", "NANOSECOND"),
)


def can_be_called(token: Token) -> bool:
    """Whether `token` names a function when a parenthesis follows it."""
    return token.kind is TokenKind.QUOTED or token.upper not in RESERVED or token.upper in _RESERVED_CALLS


def call(cursor: Cursor) -> exp.Expression:
    """Read `name(arguments)` and what may follow: WITHIN GROUP, FILTER, IGNORE NULLS, OVER."""
    token = cursor.advance()
    name = token.text.upper()
    cursor.expect("(")
    node = FunctionCall(this=name, expressions=[])
    special = _SPECIAL.get(name)
    node.set("expressions", special(cursor) if special else _arguments(cursor, node, token))
    cursor.expect(")")
    _suffixes(cursor, node)
    return cursor.mark(node, token.start)


def _arguments(cursor: Cursor, node: FunctionCall, name: Token) -> list[exp.Expression]:
    if cursor.at(")"):
        return []
    if cursor.accept_any("DISTINCT", "ALL") == "DISTINCT":
        node.set("is_distinct", True)
    if cursor.at("*") and node.this == "COUNT":
        start = cursor.advance().start
        return [cursor.mark(exp.Star(), start)]
    if queries.at_query(cursor):
        raise cursor.unexpected("an expression", "put a scalar subquery in its own parentheses")
    arguments = [_argument(cursor)]
    while cursor.accept(","):
        arguments.append(_argument(cursor))
    if node.this.startswith("JSON_") and not cursor.at(")"):
        clause = cursor.advance()
        hint = "leave the clause out"
        raise cursor.refusal(f"the {clause.upper} clause of {node.this} is not supported yet", clause, hint)
    return arguments


def _argument(cursor: Cursor) -> exp.Expression:
    if cursor.peek(1).upper == "=>":
        token = cursor.advance()
        cursor.advance()
        hint = "pass the arguments by position"
        raise cursor.refusal(f'the named argument "{token.text}" is not supported here', token, hint)
    if cursor.at("DESCRIPTOR", "(") or cursor.at("TABLE"):
        token = cursor.advance()
        hint = "a table function stands in FROM, as in FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), …))"
        raise cursor.refusal(f"{token.upper} is an argument of table functions", token, hint)
    return expressions.expression(cursor)


def _unit(cursor: Cursor, allowed: tuple[str, ...]) -> exp.Expression:
    start = cursor.token.start
    return cursor.mark(exp.Var(this=expressions.time_unit(cursor, allowed)), start)


def _extract(cursor: Cursor) -> list[exp.Expression]:
    unit = _unit(cursor, _EXTRACT_UNITS)
    cursor.expect("FROM")
    return [unit, expressions.expression(cursor)]


def _round_to(cursor: Cursor) -> list[exp.Expression]:
    arguments = expressions.expression_list(cursor)
    if len(arguments) == 1 and cursor.accept("TO"):
        arguments.append(_unit(cursor, _EXTRACT_UNITS))
    return arguments


def _timestamp_arithmetic(cursor: Cursor) -> list[exp.Expression]:
    unit = _unit(cursor, _ADD_UNITS)
    cursor.expect(",")
    return [unit, *expressions.expression_list(cursor)]


def _position(cursor: Cursor) -> list[exp.Expression]:
    # Read as an operand, so that IN is not taken for the test.
    needle = expressions.operand(cursor)
    cursor.expect("IN")
    return [needle, expressions.expression(cursor)]


def _trim(cursor: Cursor) -> list[exp.Expression]:
    start = cursor.token.start
    where = cursor.accept_any("BOTH", "LEADING", "TRAILING")
    side = exp.Var(this=where or "BOTH")
    if where:
        cursor.mark(side, start)
    if where and cursor.accept("FROM"):
        return [side, exp.Literal(this=" ", is_string=True), expressions.expression(cursor)]
    first = expressions.expression(cursor)
    if cursor.accept("FROM"):
        return [side, first, expressions.expression(cursor)]
    if where:
        raise cursor.unexpected('"FROM"')
    return [side, exp.Literal(this=" ", is_string=True), first]


def _from_for(cursor: Cursor) -> list[exp.Expression]:
    """`x FROM a [FOR n]`, or the plain `x, a, n`."""
    arguments = expressions.expression_list(cursor)
    if len(arguments) == 1 and cursor.accept("FROM"):
        arguments.append(expressions.expression(cursor))
        if cursor.accept("FOR"):
            arguments.append(expressions.expression(cursor))
    return arguments


def _overlay(cursor: Cursor) -> list[exp.Expression]:
    text = expressions.expression(cursor)
    cursor.expect("PLACING")
    replacement = expressions.expression(cursor)
    cursor.expect("FROM")
    arguments = [text, replacement, expressions.expression(cursor)]
    if cursor.accept("FOR"):
        arguments.append(expressions.expression(cursor))
    return arguments


_SPECIAL: dict[str, Callable[[Cursor], list[exp.Expression]]] = {
    "EXTRACT": _extract,
    "FLOOR": _round_to,
    "CEIL": _round_to,
    "CEILING": _round_to,
    "TIMESTAMPADD": _timestamp_arithmetic,
    "TIMESTAMPDIFF": _timestamp_arithmetic,
    "POSITION": _position,
    "TRIM": _trim,
    "SUBSTRING": _from_for,
    "OVERLAY": _overlay,
}


def _suffixes(cursor: Cursor, node: FunctionCall) -> None:
    if cursor.accept("WITHIN", "GROUP"):
        cursor.expect("(")
        start = cursor.token.start
        cursor.expect("ORDER", "BY")
        node.set("order", cursor.mark(exp.Order(expressions=queries.ordering(cursor)), start))
        cursor.expect(")")
    if cursor.at("IGNORE", "NULLS") or cursor.at("RESPECT", "NULLS"):
        node.set("nulls", cursor.advance().upper)
        cursor.advance()
    if cursor.accept("FILTER", "("):
        cursor.expect("WHERE")
        node.set("filter", expressions.expression(cursor))
        cursor.expect(")")
    if cursor.at("OVER"):
        node.set("over", _over(cursor))


def _over(cursor: Cursor) -> OverClause:
    start = cursor.expect("OVER").start
    if cursor.at("("):
        clause = window_definition(cursor)
    else:
        clause = OverClause(name=cursor.name("a window name or (").name)
    return cursor.mark(clause, start)


def window_definition(cursor: Cursor) -> OverClause:
    """Read `(PARTITION BY … ORDER BY … frame)`."""
    start = cursor.expect("(").start
    clause = OverClause()
    if cursor.at_name() and not cursor.at_any("ROWS", "RANGE"):
        token = cursor.advance()
        hint = "repeat its PARTITION BY and ORDER BY here"
        raise cursor.refusal("a window that extends another window is not supported yet", token, hint)
    if cursor.accept("PARTITION"):
        cursor.expect("BY")
        clause.set("partition_by", expressions.expression_list(cursor))
    if cursor.accept("ORDER"):
        cursor.expect("BY")
        clause.set("order_by", queries.ordering(cursor))
    if frame := cursor.accept_any("ROWS", "RANGE"):
        clause.set("frame", frame)
        _frame(cursor, clause)
    cursor.expect(")")
    return cursor.mark(clause, start)


def _frame(cursor: Cursor, clause: OverClause) -> None:
    if cursor.accept("BETWEEN"):
        clause.set("start", _bound(cursor))
        cursor.expect("AND")
        clause.set("end", _bound(cursor))
    else:
        clause.set("start", _bound(cursor))
        clause.set("end", FrameBound(kind="CURRENT ROW"))


def _bound(cursor: Cursor) -> FrameBound:
    start = cursor.token.start
    if cursor.accept("CURRENT"):
        cursor.expect("ROW")
        return cursor.mark(FrameBound(kind="CURRENT ROW"), start)
    size = None if cursor.accept("UNBOUNDED") else expressions.operand(cursor)
    kind = cursor.accept_any("PRECEDING", "FOLLOWING")
    if kind is None:
        raise cursor.unexpected("PRECEDING or FOLLOWING")
    return cursor.mark(FrameBound(kind=kind, this=size), start)
