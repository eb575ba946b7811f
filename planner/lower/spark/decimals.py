"""Exact decimal arithmetic with Flink's rounding (half up) and its NULL on overflow, as Spark SQL.

Sums and products are exact in Spark before they are rounded, and its result types are Flink's for DECIMAL operands; whole
numbers are cast first, because Spark gives them other digits.
"""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.lower import tree
from sqlstream.planner.lower.spark.scope import fail, let, refuse
from sqlstream.planner.lower.spark.types import STRING, decimal_type, spark_type, zero
from sqlstream.types import DECIMAL_PRECISION_MAX, LogicalType

_SIGNED_DIGITS = 34
_QUOTIENT_DIGITS = DECIMAL_PRECISION_MAX + 1
"""Digits behind the point to which Spark rounds a quotient before it rounds to the result's scale."""


def _as(value: exp.Expr, t: LogicalType) -> exp.Expr:
    return tree.cast(value, decimal_type(t.precision, t.scale))


def exact_sum(
    operator: type[exp.Binary],
    left: exp.Expr,
    a: LogicalType,
    right: exp.Expr,
    b: LogicalType,
    result: LogicalType,
) -> exp.Expr:
    """`left + right` or `left - right`, operands of types `a` and `b`."""
    return tree.cast(tree.operate(operator, _as(left, a), _as(right, b)), spark_type(result))


def product(left: exp.Expr, a: LogicalType, right: exp.Expr, b: LogicalType, result: LogicalType) -> exp.Expr:
    return tree.cast(tree.operate(exp.Mul, _as(left, a), _as(right, b)), spark_type(result))


def quotient(
    left: exp.Expr, a: LogicalType, right: exp.Expr, b: LogicalType, result: LogicalType
) -> exp.Expr:
    """`left / right`; the divisor is not zero.

    Spark rounds twice: to 39 digits behind the point, then to the scale s. A quotient by an unscaled divisor B is at least
    1/2B units of its last place away from a half, so the first rounding changes nothing while B is below 10^(39-s).
    """
    digits = _QUOTIENT_DIGITS - result.scale

    def divided(divisor: exp.Expr) -> exp.Expr:
        value = tree.cast(tree.operate(exp.Div, _as(left, a), divisor), spark_type(result))
        if b.precision <= digits:
            return value
        low, high = (tree.cast(tree.text(f"{sign}1E{digits - b.scale}"), spark_type(b)) for sign in ("-", ""))
        is_long = tree.negated(tree.is_between(divisor, low, high))
        return tree.case(
            [
                (
                    is_long,
                    fail(
                        "a divisor of this many digits has no exact counterpart in Spark", spark_type(result)
                    ),
                )
            ],
            value,
        )

    return let(_as(right, b), divided)


def remainder(
    left: exp.Expr, a: LogicalType, right: exp.Expr, b: LogicalType, result: LogicalType
) -> exp.Expr:
    """`left % right`, with the dividend's sign. Java computes the whole part of the quotient first, in 38 digits."""
    if a.precision - a.scale + b.scale > DECIMAL_PRECISION_MAX:
        raise refuse("a remainder of decimals with more than 38 digits", hint="cast to fewer digits")
    return tree.cast(tree.operate(exp.Mod, _as(left, a), _as(right, b)), spark_type(result))


def negated(value: exp.Expr, t: LogicalType) -> exp.Expr:
    """`- value`. Spark rounds this to 34 digits, so longer decimals change their sign as text."""
    if t.precision <= _SIGNED_DIGITS:
        return exp.Paren(this=exp.Neg(this=exp.Paren(this=value.copy())))

    def changed(written: exp.Expr) -> exp.Expr:
        is_negative = tree.call("startswith", written, tree.text("-"))
        without_sign = tree.call("substring", written, tree.number(2))
        return tree.case([(is_negative, without_sign)], tree.call("concat", tree.text("-"), written))

    return tree.cast(let(tree.cast(value, STRING), changed), spark_type(t))


def absolute(value: exp.Expr, t: LogicalType) -> exp.Expr:
    if t.precision <= _SIGNED_DIGITS:
        return tree.call("abs", value)
    return let(value, lambda v: tree.case([(tree.operate(exp.LT, v, zero(t)), negated(v, t))], v))
