"""Literals of the syntax tree → typed constants, with Flink's literal types."""

from __future__ import annotations

from decimal import Decimal

import msgspec
from sqlglot import exp

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import FALSE, TRUE, Literal
from sqlstream.planner.dialect import nodes
from sqlstream.planner.dialect.literals import datetime_value, interval_value
from sqlstream.times import timestamp_bounds_ns
from sqlstream.types import LogicalType


def bind_literal(node: exp.Expr, span: Span | None) -> Literal | None:
    """`node` as a constant; None when it is not a literal. A minus before a number belongs to the literal.

    'text' is CHAR(n), 1 INT or BIGINT by size, 1.50 DECIMAL(3, 2), 1e0 DOUBLE; all NOT NULL except NULL.
    """
    match node:
        case exp.Literal():
            text = str(node.this)
            return _string(text) if node.is_string else _number(text, span)
        case exp.Boolean():
            return TRUE if node.this else FALSE
        case exp.Null():
            return Literal(None, sql.NULL)
        case exp.HexString():
            digits = str(node.this)
            return Literal(digits.lower(), sql.binary(len(digits) // 2).not_null())
        case nodes.DateTimeLiteral():
            return _datetime(*datetime_value(node), span)
        case nodes.IntervalLiteral():
            return _typed(*interval_value(node))
        case exp.Neg():
            if isinstance(node.this, exp.Literal) and not node.this.is_string:
                return _number(f"-{node.this.this}", span)
    return None


def _datetime(t: LogicalType, value: int, span: Span | None) -> Literal:
    if sql.is_timestamp(t) and t.precision > 6 and not is_in_range(value, t.precision):
        if value % 1_000 == 0:
            # The digits beyond microseconds are zeros: nothing is lost.
            return _datetime(msgspec.structs.replace(t, precision=6), value, span)
        raise UserError(
            "SS2008",
            f"a {t.with_nullable(True)} holds the years 1678 to 2261 only",
            span=span,
            hint="write at most six digits behind the second: a TIMESTAMP(6) holds 0001 to 9999",
        )
    return _typed(t, value) if -(2**63) <= value < 2**63 else Literal(str(value), t.not_null())


def is_in_range(nanoseconds: int, precision: int) -> bool:
    """Whether a TIMESTAMP of this precision can hold the moment."""
    low, high = timestamp_bounds_ns(precision)
    return low <= nanoseconds <= high


def _typed(t: LogicalType, value: int) -> Literal:
    return Literal(value, t.not_null())


def _string(text: str) -> Literal:
    return Literal(text, sql.char(len(text)).not_null())


def _number(text: str, span: Span | None) -> Literal:
    if "e" in text.lower():
        return Literal(float(text), sql.DOUBLE.not_null())
    if "." in text:
        return _decimal(Decimal(text), span)
    value = int(text)
    if -(2**31) <= value < 2**31:
        return Literal(value, sql.INT.not_null())
    if -(2**63) <= value < 2**63:
        return Literal(value, sql.BIGINT.not_null())
    return _decimal(Decimal(value), span)


def _decimal(value: Decimal, span: Span | None) -> Literal:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits), scale, 1)
    if precision > sql.DECIMAL_PRECISION_MAX:
        raise UserError(
            "SS2008",
            f"number has {precision} digits, more than DECIMAL's {sql.DECIMAL_PRECISION_MAX}",
            span=span,
            hint="write it with an exponent (1e0) to make it a DOUBLE",
        )
    return Literal(f"{value:f}", sql.decimal(precision, scale).not_null())
