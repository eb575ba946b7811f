"""Functions that read and write times as text or as counts since 1970, as Spark SQL."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.constants import constant_text
from sqlstream.planner.lower.spark import points
from sqlstream.planner.lower.spark.date_patterns import (
    TimeForm,
    formatted,
    parsed,
    pattern_form,
    sql_dates,
    sql_fallbacks,
    sql_timestamps,
)
from sqlstream.planner.lower.spark.scope import ENGINE, Builder, let, refuse
from sqlstream.planner.lower.spark.types import BIGINT, DATE, TIMESTAMP, spark_type, whole
from sqlstream.times import is_utc, time_zone_of, timestamp_bounds

_USUAL = "yyyy-MM-dd HH:mm:ss"


def _has_null_constant(call: Call) -> bool:
    return any(isinstance(a, Literal) and a.value is None for a in call.args[1:])


def _null(call: Call) -> exp.Expr:
    return tree.cast(tree.null(), spark_type(call.type))


def _date_format(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if _has_null_constant(call):
        return _null(call)
    t, value = call.args[0].type, args[0]
    if sql.is_string(t):
        value, t = points.cut_off(parsed(value, sql_timestamps()), 3), sql.timestamp(3)
    pattern = constant_text(call, 1, ENGINE)
    return points.to_local_text(value, t, time_zone, lambda local: formatted(local, pattern))


def _forms(call: Call) -> list[TimeForm]:
    """How TO_TIMESTAMP and TO_TIMESTAMP_LTZ read text: by the pattern, then in SQL's form."""
    if len(call.args) == 1:
        return sql_timestamps()
    return [pattern_form(constant_text(call, 1, ENGINE)), *sql_fallbacks()]


def _to_timestamp(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if _has_null_constant(call):
        return _null(call)
    return points.cut_off(parsed(args[0], _forms(call)), 3)


def _to_date(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if _has_null_constant(call):
        return _null(call)
    forms = sql_dates() if len(args) == 1 else [pattern_form(constant_text(call, 1, ENGINE))]
    return tree.cast(parsed(args[0], forms), DATE)


def _to_timestamp_ltz(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """NULL for numbers and text that are no time in the range of the type."""
    spark_type(call.type)
    if _has_null_constant(call):
        return _null(call)
    t = call.args[0].type
    if sql.is_string(t):
        zone = time_zone_of(constant_text(call, 2, ENGINE)) if len(args) == 3 else "UTC"
        local = parsed(args[0], _forms(call))
        instant = local
        if not is_utc(zone):
            moved = points.from_local(local, call.type, zone)
            instant = points.within_range(points.micros_of(moved), is_error=False)
        return points.cut_off(instant, call.type.precision)
    digits = 3
    if len(call.args) == 2:
        digits = int(constant_text(call, 1, ENGINE))
    if not sql.is_integer(t) or not 0 <= digits <= 6:
        raise refuse("TO_TIMESTAMP_LTZ of this kind", hint="give a whole number with a precision up to 6")
    per_count = 10 ** (6 - digits)
    low, high = timestamp_bounds("us")

    def counted(count: exp.Expr) -> exp.Expr:
        is_within = tree.is_between(count, whole(-(-low // per_count)), whole(high // per_count))
        micros = tree.operate(exp.Mul, tree.cast(count, BIGINT), whole(per_count))
        return tree.case([(is_within, points.from_micros(micros))], tree.cast(tree.null(), TIMESTAMP))

    return let(args[0], counted)


def _from_unixtime(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if _has_null_constant(call):
        return _null(call)
    pattern = constant_text(call, 1, ENGINE) if len(args) == 2 else _USUAL
    low, high = timestamp_bounds("s")

    def of(seconds: exp.Expr) -> exp.Expr:
        moment = points.from_micros(tree.operate(exp.Mul, seconds, whole(1_000_000)))
        written = points.to_local_text(
            moment, sql.timestamp_ltz(0), time_zone, lambda local: formatted(local, pattern)
        )
        return tree.case([(tree.is_between(seconds, whole(low), whole(high)), written)], _null(call))

    return let(args[0], of)


def _unix_timestamp(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Text that is no time is the least BIGINT."""
    if not args:
        raise refuse(call.function)
    if _has_null_constant(call):
        return _null(call)
    forms = (
        sql_timestamps() if len(args) == 1 else [pattern_form(constant_text(call, 1, ENGINE), has_rest=True)]
    )

    def seconds(value: exp.Expr) -> exp.Expr:
        instant = points.from_local(parsed(value, forms), sql.timestamp_ltz(0), time_zone)
        read = tree.call("coalesce", tree.call("unix_seconds", instant), whole(-(2**63)))
        return tree.case([(tree.is_not_null(value), read)], _null(call))

    return let(args[0], seconds)


TEMPORAL: dict[str, Builder] = {
    **dict.fromkeys(
        ("EXTRACT", "YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND"), points.extract
    ),
    **dict.fromkeys(("DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK"), points.extract),
    "TIMESTAMPADD": points.timestamp_add,
    "TIMESTAMPDIFF": points.timestamp_diff,
    "DATE_FORMAT": _date_format,
    "TO_TIMESTAMP": _to_timestamp,
    "TO_DATE": _to_date,
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
    "FROM_UNIXTIME": _from_unixtime,
    "UNIX_TIMESTAMP": _unix_timestamp,
}
"""By name of the function."""
