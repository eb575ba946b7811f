"""CAST of character strings as Spark SQL: Spark reads more forms than the stream, so the text is checked first."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.failed_cast import failed_cast
from sqlstream.planner.lower.spark import points
from sqlstream.planner.lower.spark.date_patterns import parsed, sql_dates, sql_times, sql_timestamps
from sqlstream.planner.lower.spark.scope import fail, let, refuse
from sqlstream.planner.lower.spark.types import BOOLEAN, DATE, INT, spark_type, text, whole
from sqlstream.times import DAY_MS, is_utc
from sqlstream.types import LogicalType, TypeRoot

_SPACES = " \t\r\n"
_INTEGER = r"\A[+-]?[0-9]+(?:\.[0-9]*)?\z"
_NUMBER = r"\A[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"
_FLOAT = rf"{_NUMBER}|\ANaN\z|\A[+-]?Infinity\z"
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")


def from_text(value: exp.Expr, target: LogicalType, time_zone: str, *, is_try: bool) -> exp.Expr:
    """Text as `target`; text that cannot be read is an error, or NULL when `is_try`."""
    return let(value, lambda v: _from_text(v, target, time_zone, is_try))


def _from_text(value: exp.Expr, target: LogicalType, time_zone: str, is_try: bool) -> exp.Expr:
    wanted = spark_type(target)
    error = None if is_try else fail(failed_cast(value, target), wanted)
    trimmed = tree.call("btrim", value, text(_SPACES))
    if target.root is TypeRoot.BOOLEAN:
        return let(tree.call("lower", trimmed), lambda v: _boolean(v, error))
    if sql.is_integer(target):
        return let(trimmed, lambda v: _or_error(v, _integer(v, target), error))
    if target.root in sql.APPROXIMATE_ROOTS:
        return let(trimmed, lambda v: _or_error(v, _guarded(v, _FLOAT, tree.cast(v, wanted)), error))
    if target.root is TypeRoot.DECIMAL:
        return let(trimmed, lambda v: _decimal(v, wanted, error))
    return _or_error(value, _time(value, target, time_zone), error)


def _or_error(value: exp.Expr, read: exp.Expr, error: exp.Expr | None) -> exp.Expr:
    """`read`, but an error where only it is NULL."""
    if error is None:
        return read
    return tree.call("coalesce", read, tree.case([(tree.is_not_null(value), error)]))


def _guarded(value: exp.Expr, regex: str, read: exp.Expr) -> exp.Expr:
    return tree.case([(tree.call("regexp_like", value, text(regex)), read)])


def _boolean(lowered: exp.Expr, error: exp.Expr | None) -> exp.Expr:
    branches = [
        (tree.is_in(lowered, [text(word) for word in words]), tree.boolean(words is _TRUE))
        for words in (_TRUE, _FALSE)
    ]
    if error is None:
        return tree.case(branches, tree.cast(tree.null(), BOOLEAN))
    return tree.case([*branches, (tree.is_not_null(lowered), error)])


def _integer(value: exp.Expr, target: LogicalType) -> exp.Expr:
    """Digits after a point are dropped; NULL for what does not fit."""
    digits = tree.call("substring_index", value, text("."), tree.number(1))
    return _guarded(value, _INTEGER, tree.cast(digits, spark_type(target)))


def _decimal(value: exp.Expr, wanted: exp.DataType, error: exp.Expr | None) -> exp.Expr:
    """Rounded half up; NULL when it has too many digits before the point."""
    branches = [(tree.call("regexp_like", value, text(_NUMBER)), tree.cast(value, wanted))]
    if error is not None:
        branches.append((tree.is_not_null(value), error))
    return tree.case(branches)


def _time(value: exp.Expr, target: LogicalType, time_zone: str) -> exp.Expr:
    if target.root is TypeRoot.DATE:
        return tree.cast(parsed(value, sql_dates()), DATE)
    if target.root is TypeRoot.TIME:
        moment = points.cut_off(parsed(value, sql_times()), min(target.precision, 3))
        return tree.cast(tree.call("pmod", tree.call("unix_millis", moment), whole(DAY_MS)), INT)
    if not sql.is_timestamp(target):
        raise refuse(f"CAST of text to {target.with_nullable(True)}")
    local = parsed(value, sql_timestamps())
    moved = points.from_local(local, target, time_zone)
    if target.root is TypeRoot.TIMESTAMP_LTZ and not is_utc(time_zone):
        moved = points.within_range(points.micros_of(moved), is_error=False)
    return points.cut_off(moved, target.precision)
