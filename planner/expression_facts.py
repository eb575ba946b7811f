"""Facts about expressions: casts that keep keys, and projections that may be merged."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, InputRef, Literal, walk
from sqlstream.types import LogicalType, TypeRoot

_INTEGER_DIGITS = {
    TypeRoot.TINYINT: 3,
    TypeRoot.SMALLINT: 5,
    TypeRoot.INTEGER: 10,
    TypeRoot.BIGINT: 19,
}


_EXACT_IN = {
    TypeRoot.FLOAT: frozenset((TypeRoot.TINYINT, TypeRoot.SMALLINT)),
    TypeRoot.DOUBLE: frozenset((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.FLOAT)),
}
"""Approximate root → the roots all of whose values it holds exactly."""


def cast_column(expression: Expression) -> int:
    """The input's column that the expression is an injective cast of; -1 for every other expression. TRY_CAST is none: it makes
    several values NULL."""
    inner = expression
    while (
        isinstance(inner, Call) and inner.function == "CAST" and is_injective(inner.args[0].type, inner.type)
    ):
        inner = inner.args[0]
    return inner.index if isinstance(inner, InputRef) and inner is not expression else -1


def is_injective(source: LogicalType, target: LogicalType) -> bool:
    """Whether CAST(source AS target) never makes two values equal; it may fail for a value.

    A CHAR or BINARY that is filled up is not injective, since a table may hold shorter values; neither is a cast between
    TIMESTAMP and TIMESTAMP_LTZ, which crosses the hour that a zone leaves out or repeats."""
    if source.same_as(target) and source.root is not TypeRoot.BINARY:
        return True
    match target.root:
        case TypeRoot.VARCHAR:
            return _text_length(source) <= target.length
        case TypeRoot.VARBINARY:
            return source.root in sql.BINARY_ROOTS and source.length <= target.length
        case TypeRoot.DECIMAL:
            return _fits_decimal(source, target)
        case TypeRoot.TIMESTAMP if source.root is TypeRoot.DATE:
            return True
        case TypeRoot.TIMESTAMP if source.root is TypeRoot.TIME:
            return source.precision <= target.precision
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ | TypeRoot.TIME:
            return source.root is target.root and source.precision <= target.precision
        case root if root in _EXACT_IN:
            return source.root in _EXACT_IN[root]
        case root if root in _INTEGER_DIGITS and source.root in _INTEGER_DIGITS:
            return _INTEGER_DIGITS[source.root] <= _INTEGER_DIGITS[root]
        case _:
            return False


def _text_length(source: LogicalType) -> int:
    """How long the text of a value is at most; more than any type holds where different values may have one text."""
    match source.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return source.length
        case root if root in _INTEGER_DIGITS:
            return 1 + _INTEGER_DIGITS[root]
        case TypeRoot.DECIMAL:
            return len("-0.") + source.precision
        case TypeRoot.BOOLEAN:
            return len("FALSE")
        case TypeRoot.DATE:
            return len("2020-01-01")
        case TypeRoot.TIME:
            return len("00:00:00.") + source.precision
        case TypeRoot.TIMESTAMP:
            return len("2020-01-01 00:00:00.") + source.precision
        case _:
            return sql.VARCHAR_LENGTH_MAX + 1


def _fits_decimal(source: LogicalType, target: LogicalType) -> bool:
    """Values of more digits become NULL, so all digits must fit."""
    whole = target.precision - target.scale
    if source.root in _INTEGER_DIGITS:
        return _INTEGER_DIGITS[source.root] <= whole
    is_decimal = source.root is TypeRoot.DECIMAL
    return is_decimal and source.scale <= target.scale and source.precision - source.scale <= whole


def can_substitute(expressions: tuple[Expression, ...], projections: tuple[Expression, ...]) -> bool:
    """Whether `expressions` may be computed directly over the input of `projections`.

    A computed column that is read more than once would be computed more than once, so only references,
    literals and columns read once are substituted.
    """
    uses: dict[int, int] = {}
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, InputRef):
                uses[node.index] = uses.get(node.index, 0) + 1
    computed = [i for i in uses if not isinstance(projections[i], InputRef | Literal)]
    return all(uses[i] == 1 for i in computed)
