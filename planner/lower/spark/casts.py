"""CAST and TRY_CAST with Flink's results as Spark SQL."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.spark import points
from sqlstream.planner.lower.spark.cast_from_text import from_text
from sqlstream.planner.lower.spark.cast_to_text import to_text
from sqlstream.planner.lower.spark.scope import fail, let, refuse
from sqlstream.planner.lower.spark.types import BIGINT, BINARY, DATE, INT, STRING, spark_type, whole, zero
from sqlstream.planner.lower.wider import is_wider
from sqlstream.times import DAY_MS, is_utc
from sqlstream.types import LogicalType, TypeRoot

_NUMBERS = (TypeRoot.BOOLEAN, TypeRoot.DECIMAL, *sql.INTEGER_ROOTS, *sql.APPROXIMATE_ROOTS)


def lower_cast(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return cast(args[0], call.args[0].type, call.type, time_zone, is_try=call.function == "TRY_CAST")


def cast(
    value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str, *, is_try: bool
) -> exp.Expr:
    """`value` of type `source` as `target`."""
    if source.root is TypeRoot.NULL:
        return tree.cast(tree.null(), spark_type(target))
    if sql.is_string(target):
        return to_text(value, source, target, time_zone, is_try=is_try)
    if target.root in sql.BINARY_ROOTS:
        return _to_bytes(value, target)
    if sql.is_string(source):
        return from_text(value, target, time_zone, is_try=is_try)
    if source.same_as(target) or source.root is target.root is TypeRoot.TIME:
        return value
    if source.element is not None or source.fields:
        return _nested(value, source, target, time_zone, is_try=is_try)
    if sql.is_timestamp(target):
        return _to_timestamp(value, source, target, time_zone, is_try=is_try)
    if sql.is_timestamp(source):
        return _from_timestamp(value, source, target, time_zone, is_try=is_try)
    return _to_number(value, source, target, is_try=is_try)


def _to_bytes(value: exp.Expr, target: LogicalType) -> exp.Expr:
    """Cut off at the target's length; BINARY is filled up with zeros."""
    data = tree.cast(value, BINARY)
    if target.length == sql.VARCHAR_LENGTH_MAX:
        return data
    length = tree.number(target.length)
    if target.root is TypeRoot.BINARY:
        zeros = exp.HexString(this="00" * target.length)
        data = tree.call("concat", data, zeros)
    return tree.call("substring", data, tree.number(1), length)


def _to_timestamp(
    value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str, *, is_try: bool
) -> exp.Expr:
    spark_type(target)
    if source.root is target.root:
        return points.cut_off(value, target.precision) if target.precision < source.precision else value
    local = points.as_timestamp(points.to_local(value, source, time_zone), source)
    if target.precision < source.precision and sql.is_timestamp(source):
        local = points.cut_off(local, target.precision)
    if source.root is TypeRoot.TIME and target.precision < 3:
        local = points.cut_off(local, target.precision)
    moved = points.from_local(local, target, time_zone)
    if is_utc(time_zone) or TypeRoot.TIMESTAMP_LTZ not in (source.root, target.root):
        return moved
    return points.within_range(points.micros_of(moved), is_error=not is_try)


def _from_timestamp(
    value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str, *, is_try: bool
) -> exp.Expr:
    local = points.to_local(value, source, time_zone)
    if target.root is TypeRoot.TIME:
        return tree.cast(tree.call("pmod", tree.call("unix_millis", local), whole(DAY_MS)), INT)
    day = tree.cast(local, DATE)
    if is_utc(time_zone) or source.root is not TypeRoot.TIMESTAMP_LTZ:
        return day
    return points.date_within_range(tree.cast(tree.call("unix_date", day), BIGINT), is_error=not is_try)


def _to_number(value: exp.Expr, source: LogicalType, target: LogicalType, *, is_try: bool) -> exp.Expr:
    """Between numbers, booleans and intervals: integers wrap, floats saturate, decimals round half up or are NULL."""
    wanted = spark_type(target)
    if target.root is TypeRoot.BOOLEAN:
        return tree.operate(exp.NEQ, value, zero(source))
    if target.root is TypeRoot.DECIMAL and source.root in sql.APPROXIMATE_ROOTS:
        # By the shortest decimal that prints as the number; NaN and infinities are errors to no engine's SQL here.
        return tree.cast(tree.cast(value, STRING), wanted)
    if sql.is_interval(target):
        return _to_interval(value, source, target, is_try=is_try)
    if sql.is_integer(target) and source.root is TypeRoot.DECIMAL:
        return tree.cast(tree.cast(value, BIGINT), wanted)
    if source.root in sql.APPROXIMATE_ROOTS and target.root in (TypeRoot.TINYINT, TypeRoot.SMALLINT):
        return tree.cast(tree.cast(value, INT), wanted)
    if source.root in _NUMBERS and target.root in _NUMBERS:
        return tree.cast(value, wanted)
    if sql.is_interval(source) and sql.is_numeric(target):
        return tree.cast(value, wanted)
    raise refuse(f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)}")


def _to_interval(value: exp.Expr, source: LogicalType, target: LogicalType, *, is_try: bool) -> exp.Expr:
    if not sql.is_integer(source):
        raise refuse(f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)}")
    wide = tree.cast(value, BIGINT)
    if target.root is TypeRoot.INTERVAL_DAY_TIME:
        return wide
    beyond = tree.cast(tree.null(), INT) if is_try else fail("interval out of range", INT)

    def months(count: exp.Expr) -> exp.Expr:
        fits = tree.is_between(count, whole(-(2**31)), whole(2**31 - 1))
        return tree.case([(fits, tree.cast(count, INT)), (tree.is_not_null(count), beyond)])

    return let(wide, months)


def _nested(
    value: exp.Expr, source: LogicalType, target: LogicalType, time_zone: str, *, is_try: bool
) -> exp.Expr:
    """An array or row element by element; TRY_CAST is refused, where one bad element makes the whole NULL."""
    if source.root is TypeRoot.MAP is target.root and is_wider(source, target):
        return tree.cast(value, spark_type(target))
    if is_try or source.root is not target.root or source.root is TypeRoot.MAP:
        raise refuse(f"CAST of {source.with_nullable(True)} to {target.with_nullable(True)}")
    if source.root is TypeRoot.ARRAY:
        assert source.element is not None
        assert target.element is not None
        element = exp.Identifier(this=f"e{_depth(source)}", quoted=False)
        converted = cast(element, source.element, target.element, time_zone, is_try=False)
        function = exp.Lambda(
            this=tree.cast(converted, spark_type(target.element)), expressions=[element.copy()]
        )
        return tree.call("transform", value, function)

    def row(given: exp.Expr) -> exp.Expr:
        fields = [
            cast(
                exp.Dot(this=given.copy(), expression=exp.Identifier(this=s.name, quoted=True)),
                s.type,
                t.type,
                time_zone,
                is_try=False,
            )
            for s, t in zip(source.fields, target.fields, strict=True)
        ]
        made = tree.cast(tree.call("struct", *fields), spark_type(target))
        return tree.case([(tree.is_not_null(given), made)], tree.cast(tree.null(), spark_type(target)))

    return let(value, row)


def _depth(t: LogicalType) -> int:
    return 0 if t.element is None else 1 + _depth(t.element)


CASTS = {"CAST": lower_cast, "TRY_CAST": lower_cast}
