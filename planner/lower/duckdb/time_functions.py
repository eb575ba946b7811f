"""Functions between text and points in time in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.handler import Handler, constant_text
from sqlstream.planner.lower.duckdb.local_time import from_local, to_local, within_years
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.planner.lower.duckdb.second_digits import cut_off
from sqlstream.planner.lower.duckdb.time_text import form_of, read_timestamp, write_timestamp
from sqlstream.planner.lower.duckdb.types import BIGINT, DATE, TIMESTAMP
from sqlstream.planner.lower.java_pattern import SQL_DATE, SQL_FALLBACK, SQL_TIMESTAMP, TimeForm
from sqlstream.times import time_zone_of, timestamp_bounds
from sqlstream.types import TypeRoot

_USUAL = "yyyy-MM-dd HH:mm:ss"
_UNREADABLE = -(2**63)


def _has_null(call: Call, position: int) -> bool:
    """Whether this argument is there and a constant NULL."""
    arg = call.args[position] if position < len(call.args) else None
    return isinstance(arg, Literal) and arg.value is None


def _forms(call: Call) -> tuple[TimeForm, ...]:
    """The pattern's form, and those that text may have besides."""
    if len(call.args) == 1:
        return (SQL_TIMESTAMP,)
    return form_of(constant_text(call, 1), call.function), SQL_FALLBACK


def _to_timestamp(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if _has_null(call, 1):
        return tree.cast(tree.null(), TIMESTAMP)
    return cut_off(read_timestamp(args[0], *_forms(call)), 3)


def _to_date(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if _has_null(call, 1):
        return tree.cast(tree.null(), DATE)
    form = SQL_DATE if len(args) == 1 else form_of(constant_text(call, 1), call.function)
    return tree.cast(read_timestamp(args[0], form), DATE)


def read_ltz(call: Call, args: list[exp.Expr]) -> exp.Expr:
    """TO_TIMESTAMP_LTZ(text[, pattern[, time zone]])."""
    if _has_null(call, 1) or _has_null(call, 2):
        return tree.cast(tree.null(), TIMESTAMP)
    zone = time_zone_of(constant_text(call, 2)) if len(args) == 3 else "UTC"
    local = cut_off(read_timestamp(args[0], *_forms(call)), call.type.precision)
    return within_years(from_local(local, zone), is_required=False)


def _date_format(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if _has_null(call, 1):
        return tree.cast(tree.null(), exp.DataType(this=exp.DType.VARCHAR))
    point, t = args[0], call.args[0].type
    if sql.is_string(t):
        point = cut_off(read_timestamp(point, SQL_TIMESTAMP), 3)
    elif t.root is TypeRoot.TIMESTAMP_LTZ:
        point = to_local(point, time_zone)
    elif t.root is TypeRoot.DATE:
        point = tree.cast(point, TIMESTAMP)
    return write_timestamp(point, constant_text(call, 1), call.function)


def _from_unixtime(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if _has_null(call, 1):
        return tree.cast(tree.null(), exp.DataType(this=exp.DType.VARCHAR))
    pattern = constant_text(call, 1) if len(args) == 2 else _USUAL
    low, high = (tree.number(bound) for bound in timestamp_bounds("s"))
    micros = tree.operate(exp.Mul, tree.cast(args[0], BIGINT), tree.number(1_000_000))
    instant = tree.case([(tree.is_between(args[0], low, high), tree.call("make_timestamp", micros))])
    return write_timestamp(to_local(instant, time_zone), pattern, call.function)


def _unix_timestamp(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Seconds since 1970; the least number for text that cannot be read."""
    if not args:
        raise refuse("UNIX_TIMESTAMP() of the clock")
    if _has_null(call, 1):
        return tree.cast(tree.null(), BIGINT)
    form = SQL_TIMESTAMP if len(args) == 1 else form_of(constant_text(call, 1), call.function).with_rest()
    instant = from_local(cut_off(read_timestamp(args[0], form), 0), time_zone)
    seconds = tree.operate(exp.IntDiv, tree.call("epoch_us", instant), tree.number(1_000_000))
    unreadable = tree.cast(tree.number(_UNREADABLE), BIGINT)
    read = tree.call("coalesce", seconds, unreadable)
    return tree.case([(tree.is_not_null(args[0]), read)])


HANDLERS: dict[str, Handler] = {
    "DATE_FORMAT": _date_format,
    "TO_TIMESTAMP": _to_timestamp,
    "TO_DATE": _to_date,
    "FROM_UNIXTIME": _from_unixtime,
    "UNIX_TIMESTAMP": _unix_timestamp,
}
