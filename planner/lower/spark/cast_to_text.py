"""CAST to character strings in Flink's forms, as Spark SQL."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.spark import points
from sqlstream.planner.lower.spark.date_patterns import formatted
from sqlstream.planner.lower.spark.scope import fail, let, refuse
from sqlstream.planner.lower.spark.types import BIGINT, STRING, decimal_type, text, whole, zero
from sqlstream.times import DAY_MS
from sqlstream.types import LogicalType, TypeRoot

_PLAIN_SCALE_MAX = 6
"""Up to this scale Spark writes a decimal without an exponent."""


def to_text(
    value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str, *, is_try: bool
) -> exp.Expr:
    """`value` of type `source` as text, cut off or filled up to the target's length."""
    written = value if sql.is_string(source) else _written(value, source, time_zone, is_try=is_try)
    is_fitting = sql.is_string(source) and source.length <= target.length
    if target.length < sql.VARCHAR_LENGTH_MAX and not is_fitting:
        written = tree.call("left", written, tree.number(target.length))
    if target.root is TypeRoot.CHAR and not (source.root is TypeRoot.CHAR and source.length == target.length):
        written = tree.call("rpad", written, tree.number(target.length), text(" "))
    return written


def _written(value: exp.Expr, source: LogicalType, time_zone: str, *, is_try: bool) -> exp.Expr:
    if sql.is_integer(source) or source.root is TypeRoot.DATE:
        return tree.cast(value, STRING)
    if source.root is TypeRoot.DECIMAL:
        return _written_decimal(value, source)
    if source.root is TypeRoot.BOOLEAN:
        return let(value, lambda v: tree.case([(v, text("TRUE")), (tree.negated(v), text("FALSE"))]))
    if source.root in sql.APPROXIMATE_ROOTS:
        return _written_float(value)
    if sql.is_timestamp(source) or source.root is TypeRoot.TIME:
        fraction = "." + "S" * source.precision if source.precision else ""
        date = "" if source.root is TypeRoot.TIME else "yyyy-MM-dd "
        pattern = f"{date}HH:mm:ss{fraction}"
        return points.to_local_text(value, source, time_zone, lambda local: formatted(local, pattern))
    if source.root in sql.BINARY_ROOTS:
        return _decoded(value, is_try=is_try)
    if source.root is TypeRoot.INTERVAL_DAY_TIME:
        return let(value, _written_days)
    if source.root is TypeRoot.INTERVAL_YEAR_MONTH:
        return let(value, _written_years)
    raise refuse(f"text of {source.with_nullable(True)}")


def _written_decimal(value: exp.Expr, source: LogicalType) -> exp.Expr:
    """All digits of the scale, never an exponent, with which Spark writes numbers below 0.000001."""
    scale = source.scale
    if scale <= _PLAIN_SCALE_MAX:
        return tree.cast(value, STRING)
    if scale > sql.DECIMAL_PRECISION_MAX - 2:
        raise refuse(f"text of {source.with_nullable(True)}", hint="cast it to a smaller scale")

    def digits(v: exp.Expr) -> exp.Expr:
        bound = decimal_type(7, 6)
        is_plain = tree.any_of(
            [
                tree.operate(exp.GTE, v, tree.cast(text("0.000001"), bound)),
                tree.operate(exp.LTE, v, tree.cast(text("-0.000001"), bound)),
            ]
        )
        # With 1 in front there is no exponent.
        small = tree.cast(tree.call("abs", v), decimal_type(scale + 1, scale))
        raised = tree.operate(exp.Add, small, tree.cast(tree.number(1), decimal_type(1, 0)))
        fraction = tree.call("substring", tree.cast(raised, STRING), tree.number(2))
        sign = tree.case([(tree.operate(exp.LT, v, zero(source)), text("-0"))], text("0"))
        return tree.case([(is_plain, tree.cast(v, STRING))], tree.call("concat", sign, fraction))

    return let(value, digits)


def _written_float(value: exp.Expr) -> exp.Expr:
    """Beyond these bounds Java 17 writes more digits than the number needs: an error then, unless there is a choice of one."""
    error = fail("text of a number with an exponent has no exact counterpart in Spark", STRING)

    def written(v: exp.Expr) -> exp.Expr:
        size = tree.call("abs", v)
        is_plain = tree.any_of(
            [
                tree.operate(exp.EQ, v, tree.number(0)),
                tree.all_of(
                    [
                        tree.operate(exp.GTE, size, tree.cast(text("0.001"), _double())),
                        tree.operate(exp.LT, size, tree.cast(text("10000000"), _double())),
                    ]
                ),
            ]
        )
        is_special = tree.call("isnan", v)
        shown = tree.cast(v, STRING)
        is_infinite = tree.operate(exp.EQ, size, tree.cast(text("Infinity"), _double()))
        condition = tree.any_of([is_plain, is_special, is_infinite, tree.is_null(v)])
        return tree.case([(condition, shown)], error)

    return let(value, written)


def _double() -> exp.DataType:
    return exp.DataType(this=exp.DataType.Type.DOUBLE)


def _decoded(value: exp.Expr, *, is_try: bool) -> exp.Expr:
    if not is_try:
        return tree.call("decode", value, text("UTF-8"))

    def valid(v: exp.Expr) -> exp.Expr:
        shown = tree.cast(v, STRING)
        return tree.case([(tree.call("is_valid_utf8", shown), shown)])

    return let(value, valid)


def _written_days(value: exp.Expr) -> exp.Expr:
    """+1 02:03:04.005"""
    size = tree.call("abs", tree.cast(value, decimal_type(20, 0)))
    day = tree.cast(whole(DAY_MS), decimal_type(20, 0))
    days = tree.cast(tree.operate(exp.IntDiv, size, day), STRING)
    of_day = tree.cast(tree.operate(exp.Mod, size, day), BIGINT)
    clock = formatted(points.from_micros(tree.operate(exp.Mul, of_day, whole(1000))), "HH:mm:ss.SSS")
    return tree.call("concat", _sign(value), days, text(" "), clock)


def _written_years(value: exp.Expr) -> exp.Expr:
    """+1-02"""
    size = tree.call("abs", tree.cast(value, BIGINT))
    years = tree.cast(tree.operate(exp.IntDiv, size, whole(12)), STRING)
    months = tree.call(
        "lpad", tree.cast(tree.operate(exp.Mod, size, whole(12)), STRING), tree.number(2), text("0")
    )
    return tree.call("concat", _sign(value), years, text("-"), months)


def _sign(value: exp.Expr) -> exp.Expr:
    return tree.case([(tree.operate(exp.LT, value, tree.number(0)), text("-"))], text("+"))
