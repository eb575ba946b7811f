"""Constant folding: expressions over constants are computed once, when the statement is planned."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

from sqlstream.expressions import Call, Expression, Literal, LiteralValue, transform
from sqlstream.functions.determinism import without_repetitions
from sqlstream.planner.relational.nodes import Filter, Join, Project, RelationalNode
from sqlstream.times import timestamp_bounds_ns
from sqlstream.types import (
    INTEGER_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    is_integer,
    is_string,
    is_timestamp,
)

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_INTEGER_BITS = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INTEGER: 31, TypeRoot.BIGINT: 63}
_COMPARABLE = (
    *INTEGER_ROOTS,
    *TIMESTAMP_ROOTS,
    TypeRoot.BOOLEAN,
    TypeRoot.DATE,
    TypeRoot.TIME,
    TypeRoot.CHAR,
    TypeRoot.VARCHAR,
    TypeRoot.DOUBLE,
    TypeRoot.INTERVAL_DAY_TIME,
    TypeRoot.INTERVAL_YEAR_MONTH,
)
_NANOS_PER_MS = 1_000_000


def fold_constants(node: RelationalNode) -> RelationalNode:
    """Evaluate expressions that read no column, and simplify AND, OR, NOT, CASE, COALESCE and IS NULL over constants.

    An expression that would fail or overflow is left to the runtime, whose error has its position. Types never change:
    a folded value has the type (nullability included) of the expression that it replaces.
    """
    match node:
        case Filter():
            condition = fold(node.condition)
            return node if condition == node.condition else dataclasses.replace(node, condition=condition)
        case Project():
            expressions = tuple(fold(e) for e in node.expressions)
            return (
                node
                if expressions == node.expressions
                else dataclasses.replace(node, expressions=expressions)
            )
        case Join() if node.condition is not None:
            condition = fold(node.condition)
            return node if condition == node.condition else dataclasses.replace(node, condition=condition)
    return node


def fold(expression: Expression) -> Expression:
    """The folded form of one expression."""
    return transform(expression, _fold_node)


def _fold_node(node: Expression) -> Expression:
    if not isinstance(node, Call):
        return node
    simplify = _SIMPLIFIERS.get(node.function)
    if simplify is not None:
        return simplify(node)
    if len(node.args) == 2 and all(isinstance(a, Literal) for a in node.args):
        left, right = node.args
        assert isinstance(left, Literal)
        assert isinstance(right, Literal)
        return _fold_binary(node, left, right)
    return node


def _fold_binary(node: Call, left: Literal, right: Literal) -> Expression:
    is_known = node.function in _COMPARISONS or node.function in _ARITHMETIC
    if is_known and (left.value is None or right.value is None):
        return Literal(None, node.type.with_nullable(True))
    if node.function in _COMPARISONS:
        return _compare(node, left, right)
    if node.function in _ARITHMETIC:
        value = _compute(node, left, right)
        return node if value is None else Literal(value, node.type)
    return node


def _compare(node: Call, left: Literal, right: Literal) -> Expression:
    is_like = left.type.root is right.type.root or any(
        is_kind(left.type) and is_kind(right.type) for is_kind in (is_integer, is_string)
    )
    if not is_like or left.type.root not in _COMPARABLE:
        return node
    if is_string(left.type) and max(map(ord, f"{left.value}{right.value}"), default=0) > 0xFFFF:
        # Beyond the basic plane the order of code points and of UTF-16 units differ.
        return node
    a, b = left.value, right.value
    if is_timestamp(left.type):
        a, b = _nanoseconds(a), _nanoseconds(b)
    return Literal(_COMPARISONS[node.function](a, b), node.type)


def _nanoseconds(value: LiteralValue) -> int:
    assert value is not None
    return int(value)


def _compute(node: Call, left: Literal, right: Literal) -> LiteralValue:
    """The value of +, - or * over two integers, or over a timestamp and a day-time interval; None for every other case."""
    a, b = left.value, right.value
    if not isinstance(a, int) or not isinstance(b, int):
        return None
    roots = (left.type.root, right.type.root)
    day_time = TypeRoot.INTERVAL_DAY_TIME
    if is_integer(left.type) and is_integer(right.type) and is_integer(node.type):
        value = _ARITHMETIC[node.function](a, b)
        limit = 1 << _INTEGER_BITS[node.type.root]
        return value if -limit <= value < limit else None
    if node.function == "*":
        return None
    if roots[0] is roots[1] and roots[0] in (day_time, TypeRoot.INTERVAL_YEAR_MONTH):
        value, limit = _ARITHMETIC[node.function](a, b), 1 << (63 if roots[0] is day_time else 31)
        return value if -limit <= value < limit else None
    if is_timestamp(left.type) and roots[1] is day_time and node.type.same_as(left.type):
        moment = _ARITHMETIC[node.function](a, b * _NANOS_PER_MS)
        low, high = timestamp_bounds_ns(node.type.precision)
        return moment if max(low, -(1 << 63)) <= moment <= min(high, (1 << 63) - 1) else None
    return None


def _fold_and(node: Call) -> Expression:
    return _fold_connective(node, absorbing=False)


def _fold_or(node: Call) -> Expression:
    return _fold_connective(node, absorbing=True)


def _fold_connective(node: Call, absorbing: bool) -> Expression:
    flat: list[Expression] = []
    for arg in node.args:
        flat += arg.args if isinstance(arg, Call) and arg.function == node.function else [arg]
    parts = [
        p for p in without_repetitions(flat) if not (isinstance(p, Literal) and p.value is (not absorbing))
    ]
    if any(isinstance(p, Literal) and p.value is absorbing for p in parts):
        return Literal(absorbing, node.type)
    if not parts:
        return Literal(not absorbing, node.type)
    if len(parts) == 1:
        return parts[0]
    return node if tuple(parts) == node.args else Call(node.function, tuple(parts), node.type, node.span)


_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _fold_not(node: Call) -> Expression:
    (arg,) = node.args
    if isinstance(arg, Literal):
        return Literal(None if arg.value is None else not arg.value, node.type)
    if isinstance(arg, Call) and arg.function == "NOT":
        return arg.args[0]
    # NaN makes NOT (a < b) differ from a >= b.
    if isinstance(arg, Call) and arg.function in _NEGATED and all(_has_total_order(a.type) for a in arg.args):
        return Call(_NEGATED[arg.function], arg.args, node.type, node.span)
    return node


def _has_total_order(t: LogicalType) -> bool:
    return t.root in _COMPARABLE and t.root is not TypeRoot.DOUBLE


def _fold_is_null(node: Call) -> Expression:
    (arg,) = node.args
    wants_null = node.function == "IS NULL"
    if isinstance(arg, Literal):
        return Literal((arg.value is None) == wants_null, node.type)
    return node


def _fold_truth(node: Call) -> Expression:
    (arg,) = node.args
    if not isinstance(arg, Literal):
        return node
    negated = "NOT" in node.function
    return Literal((arg.value is node.function.endswith("TRUE")) != negated, node.type)


def _fold_case(node: Call) -> Expression:
    kept: list[Expression] = []
    otherwise = node.args[-1]
    for condition, value in zip(node.args[:-1:2], node.args[1::2], strict=True):
        if isinstance(condition, Literal):
            if condition.value is True:
                otherwise = value
                break
            continue
        kept += [condition, value]
    if not kept:
        return _typed(otherwise, node)
    args = (*kept, otherwise)
    return node if args == node.args else Call(node.function, args, node.type, node.span)


def _fold_coalesce(node: Call) -> Expression:
    args: list[Expression] = []
    for arg in node.args:
        if isinstance(arg, Literal) and arg.value is None:
            continue
        args.append(arg)
        if isinstance(arg, Literal):
            break
    if not args:
        return Literal(None, node.type.with_nullable(True))
    if len(args) == 1:
        return _typed(args[0], node)
    return node if tuple(args) == node.args else Call(node.function, tuple(args), node.type, node.span)


def _typed(value: Expression, node: Call) -> Expression:
    if isinstance(value, Literal) and (value.type.same_as(node.type) or value.value is None):
        return Literal(value.value, node.type if value.value is not None else node.type.with_nullable(True))
    return value if value.type.same_as(node.type) else node


def _fold_joined(node: Call) -> Expression:
    values = [a.value for a in node.args if isinstance(a, Literal)]
    if len(values) < len(node.args) or not is_string(node.type):
        return node
    if None in values:
        return Literal(None, node.type.with_nullable(True))
    return Literal("".join(map(str, values)), node.type)


def _fold_cast(node: Call) -> Expression:
    (arg,) = node.args
    if not isinstance(arg, Literal):
        return node
    if arg.value is None:
        return Literal(None, node.type.with_nullable(True))
    value = _cast_value(arg, node.type)
    return node if value is None else Literal(value, node.type)


def _cast_value(arg: Literal, target: LogicalType) -> LiteralValue:
    """The value in the target's encoding where the cast is exact and cannot fail; None leaves it to the runtime."""
    value, root = arg.value, target.root
    if isinstance(value, int) and is_integer(arg.type):
        if root in _INTEGER_BITS:
            limit = 1 << _INTEGER_BITS[root]
            return value if -limit <= value < limit else None
        if root is TypeRoot.DOUBLE and abs(value) <= 1 << 53:
            return float(value)
        if root is TypeRoot.VARCHAR and len(str(value)) <= target.length:
            return str(value)
        return None
    if (
        isinstance(value, str)
        and is_string(arg.type)
        and root is TypeRoot.VARCHAR
        and len(value) <= target.length
    ):
        return value
    return None


_SIMPLIFIERS: dict[str, Callable[[Call], Expression]] = {
    "AND": _fold_and,
    "OR": _fold_or,
    "NOT": _fold_not,
    "IS NULL": _fold_is_null,
    "IS NOT NULL": _fold_is_null,
    "IS TRUE": _fold_truth,
    "IS FALSE": _fold_truth,
    "IS NOT TRUE": _fold_truth,
    "IS NOT FALSE": _fold_truth,
    "CASE": _fold_case,
    "COALESCE": _fold_coalesce,
    "CAST": _fold_cast,
    "||": _fold_joined,
}
