"""Finds the expressions that can fail on some row, which are evaluated only for rows where SQL requires it."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import Call, Expression, Literal, walk
from sqlstream.functions import SCALAR_FUNCTIONS
from sqlstream.functions.signature import Rejects
from sqlstream.text.regular_expressions import MalformedRegex, java_regex
from sqlstream.times import UNIT_NS
from sqlstream.types import LogicalType, TypeRoot

_DIVISIONS = frozenset({"/", "%", "MOD"})
_WITH_ERROR_CLAUSE = frozenset({"JSON_VALUE", "JSON_QUERY", "JSON_EXISTS"})
"""Functions that fail where a clause, which is a further argument, tells so."""


def can_fail(expression: Expression) -> bool:
    """Whether evaluating it may raise a UserError.

    A division of exact numbers may, and a CAST that reads text, and a function that rejects some arguments. So may a point in
    time or a whole number that leaves the range of its type.
    """
    return any(
        _fails_often(node) or _leaves_range(node) or _wraps(node) or _rejects_parameters(node)
        for node in walk(expression)
    )


def fails_rarely(expression: Expression) -> bool:
    """Whether nothing can fail but points in time and whole numbers that leave their range, and parameters in columns: worth
    trying on all rows first."""
    return not any(_fails_often(node) for node in walk(expression))


_SHIFTS = frozenset({"+", "-", "*", "NEGATE", "ABS", "TIMESTAMPADD", "FLOOR", "CEIL", "CEILING", "CAST"})
_TIMES = frozenset(
    (
        TypeRoot.DATE,
        TypeRoot.TIME,
        *sql.TIMESTAMP_ROOTS,
        TypeRoot.INTERVAL_DAY_TIME,
        TypeRoot.INTERVAL_YEAR_MONTH,
    )
)


def _leaves_range(node: Expression) -> bool:
    if not isinstance(node, Call):
        return False
    if node.function == "TIMESTAMPDIFF":
        unit = node.args[0]
        return isinstance(unit, Literal) and unit.value in UNIT_NS
    return node.function in _SHIFTS and node.type.root in _TIMES


_WRAPPING = frozenset({"+", "-", "*", "NEGATE", "ABS"})


def _wraps(node: Expression) -> bool:
    if not isinstance(node, Call) or not sql.is_integer(node.type):
        return False
    if node.function in _WRAPPING:
        return True
    source = node.args[0].type if node.function == "CAST" else sql.NULL
    if source.root in sql.APPROXIMATE_ROOTS:
        return True
    return sql.is_integer(source) and is_narrower(node.type, source)


def is_narrower(target: LogicalType, source: LogicalType) -> bool:
    """Whether a type of whole numbers has fewer bits than another one."""
    return to_arrow_type(target).bit_width < to_arrow_type(source).bit_width


def _rejects(call: Call) -> Rejects | None:
    function = SCALAR_FUNCTIONS.get(call.function)
    return function.rejects if function is not None else None


def _rejects_parameters(node: Expression) -> bool:
    if isinstance(node, Call) and node.function.startswith("REGEXP"):
        return _may_take_too_long(node.args[1])
    if not isinstance(node, Call) or _rejects(node) is not Rejects.PARAMETERS:
        return False
    return not all(isinstance(a, Literal) for a in node.args[1:])


def _may_take_too_long(regex: Expression) -> bool:
    """Whether it may be an expression that is matched by backtracking, for a limited time."""
    if not isinstance(regex, Literal) or regex.value is None:
        return True
    try:
        return java_regex(str(regex.value)).linear is None
    except MalformedRegex:
        return True


def _is_nonzero_literal(divisor: Expression) -> bool:
    while isinstance(divisor, Call) and divisor.function == "CAST":
        divisor = divisor.args[0]
    return isinstance(divisor, Literal) and divisor.value is not None and float(divisor.value) != 0


def _fails_often(call: Expression) -> bool:
    if not isinstance(call, Call):
        return False
    if call.ref is not None:
        return True
    if call.function in _DIVISIONS:
        return call.type.root not in sql.APPROXIMATE_ROOTS and not _is_nonzero_literal(call.args[1])
    if _rejects(call) is Rejects.VALUES or (call.function in _WITH_ERROR_CLAUSE and len(call.args) > 2):
        return True
    source = call.args[0].type if call.args else sql.NULL
    if call.function != "CAST":
        return False
    if source.root in sql.BINARY_ROOTS:
        return sql.is_string(call.type)
    return (sql.is_string(source) and not sql.is_string(call.type)) or source.root in sql.NESTED_ROOTS
