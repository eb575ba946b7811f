"""Points in time in DuckDB: arithmetic, parts, text."""

from __future__ import annotations

from sqlglot import exp

from planner.lower import tree
from planner.lower.duckdb.bound import bound
from planner.lower.duckdb.casts import require_utc
from planner.lower.duckdb.date_patterns import pattern_regex, strftime_format
from planner.lower.duckdb.handler import Handler, constant_number, constant_text, unit_word
from planner.lower.duckdb.refusals import refuse
from planner.lower.duckdb.types import BIGINT, DATE, INTEGER, TIMESTAMP, failure, in_type
from sqlstream import types as sql
from sqlstream.expressions import Call
from sqlstream.time_range import timestamp_bounds
from sqlstream.time_units import UNIT_MONTHS, UNIT_MS
from sqlstream.types import LogicalType, TypeRoot

_PARTS: dict[str, str] = {
    "YEAR": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "WEEK": "week",
    "DOY": "dayofyear",
    "DAYOFYEAR": "dayofyear",
    "DAY": "day",
    "DAYOFMONTH": "day",
    "DOW": "dayofweek",
    "DAYOFWEEK": "dayofweek",
    "ISODOW": "isodow",
    "ISOYEAR": "isoyear",
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
}
"""Units of EXTRACT."""
_PART_FUNCTIONS = (
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAYOFYEAR",
    "DAYOFMONTH",
    "DAYOFWEEK",
    "HOUR",
    "MINUTE",
    "SECOND",
)

_TRUNCATED_UNITS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
"""Units of FLOOR; Calcite's weeks start on Sunday, DuckDB's on Monday."""

# '2024-1-1', with or without a time: TO_TIMESTAMP and TO_DATE read it besides their pattern.
_OTHER_TIMES = r"^[0-9]{1,4}(-[0-9]{1,2}){0,2}([ T]+[0-9]{1,2}:.*)?$"


def local(point: exp.Expr, t: LogicalType, time_zone: str) -> exp.Expr:
    """A point in time as local time of the session's time zone."""
    if t.root is TypeRoot.TIMESTAMP_LTZ:
        require_utc(time_zone)
    return point


def held(moment: exp.Expr) -> exp.Expr:
    """`moment`, or an error outside the years 0001 to 9999, as in a stream."""
    low, high = (
        tree.cast(tree.text(point), TIMESTAMP)
        for point in ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
    )

    def checked(x: exp.Expr) -> exp.Expr:
        is_held = tree.any_of([tree.is_null(x), tree.is_between(x, low, high)])
        return tree.case([(is_held, x)], failure("timestamp out of range", TIMESTAMP))

    return bound(moment, checked)


def time_between(
    left: tuple[exp.Expr, LogicalType], right: tuple[exp.Expr, LogicalType], time_zone: str
) -> exp.Expr:
    """The milliseconds from `right` to `left`."""
    if TypeRoot.TIME in (left[1].root, right[1].root):
        raise refuse("arithmetic of TIME")
    return tree.operate(
        exp.Sub, *(tree.call("epoch_ms", local(*point, time_zone)) for point in (left, right))
    )


def moved_point(
    point: tuple[exp.Expr, LogicalType],
    interval: tuple[exp.Expr, LogicalType],
    result: LogicalType,
    time_zone: str,
) -> exp.Expr:
    """`point + interval`."""
    value, t = point
    if t.root is TypeRoot.TIME:
        raise refuse("arithmetic of TIME")
    amount, kind = interval
    if kind.root is TypeRoot.INTERVAL_YEAR_MONTH:
        step = tree.call("to_months", tree.cast(amount, INTEGER))
    else:
        step = tree.call("to_microseconds", tree.operate(exp.Mul, amount, tree.number(1000)))
    moved = held(tree.operate(exp.Add, _as_timestamp(local(value, t, time_zone), t), step))
    return in_type(moved, result) if result.root is TypeRoot.DATE else moved


def _as_timestamp(point: exp.Expr, t: LogicalType) -> exp.Expr:
    return tree.cast(point, TIMESTAMP) if t.root is TypeRoot.DATE else point


def floor_to_unit(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """FLOOR(point TO unit)."""
    unit, t = unit_word(call, 1), call.args[0].type
    if call.function != "FLOOR" or unit not in _TRUNCATED_UNITS or call.type.root is TypeRoot.TIME:
        raise refuse(f"{call.function} of {t.with_nullable(True)} to {unit}")
    return in_type(tree.call("date_trunc", tree.text(unit.lower()), local(args[0], t, time_zone)), call.type)


def _extract(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    unit = unit_word(call, 0) if call.function == "EXTRACT" else call.function
    if unit not in _PARTS:
        raise refuse(f"EXTRACT of {unit}")
    part = tree.call(_PARTS[unit], local(args[-1], call.args[-1].type, time_zone))
    if unit in ("DOW", "DAYOFWEEK"):
        # Sunday is day 1, as in Calcite.
        part = tree.operate(exp.Add, part, tree.number(1))
    return tree.cast(part, BIGINT)


def _date_format(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    t = call.args[0].type
    if sql.is_string(t):
        raise refuse("DATE_FORMAT of text", hint="cast the text to TIMESTAMP")
    pattern = strftime_format(constant_text(call, 1))
    return tree.call("strftime", local(args[0], t, time_zone), tree.text(pattern))


def _to_timestamp(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    is_date = call.type.root is TypeRoot.DATE
    usual = "yyyy-MM-dd" if is_date else "yyyy-MM-dd HH:mm:ss"
    pattern = constant_text(call, 1) if len(args) == 2 else usual

    def read(value: exp.Expr) -> exp.Expr:
        is_usual = tree.call("regexp_full_match", value, tree.text(pattern_regex(pattern)))
        usual = tree.call("try_strptime", value, tree.text(strftime_format(pattern)))
        is_other = tree.call("regexp_matches", tree.call("trim", value), tree.text(_OTHER_TIMES))
        # A stream reads further forms: for these the query fails instead of misreading them.
        message = "a time in another form than the pattern has no exact counterpart in DuckDB"
        return tree.case([(is_usual, usual), (is_other, failure(message, TIMESTAMP))])

    result = bound(args[0], read)
    return tree.cast(result, DATE) if is_date else result


def _to_timestamp_ltz(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    t = call.args[0].type
    precision = constant_number(call, 1) if len(args) == 2 and not sql.is_string(t) else 3
    if not sql.is_integer(t) or precision not in (0, 3):
        raise refuse("TO_TIMESTAMP_LTZ of this kind", hint="give whole seconds (0) or milliseconds (3)")
    unit, factor = ("s", 1_000_000) if precision == 0 else ("ms", 1_000)
    low, high = (tree.number(bound) for bound in timestamp_bounds(unit))

    def read(epoch: exp.Expr) -> exp.Expr:
        micros = tree.operate(exp.Mul, tree.cast(epoch, BIGINT), tree.number(factor))
        return tree.case([(tree.is_between(epoch, low, high), tree.call("make_timestamp", micros))])

    return bound(args[0], read)


def _timestamp_add(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    unit, count, t = unit_word(call, 0), args[1], call.args[2].type
    if call.args[1].type.root is TypeRoot.BIGINT:
        raise refuse("TIMESTAMPADD of a BIGINT", hint="cast the count to INT")
    if unit in UNIT_MONTHS:
        step = tree.call("to_months", tree.operate(exp.Mul, count, tree.number(UNIT_MONTHS[unit])))
    elif unit in UNIT_MS:
        micros = tree.operate(exp.Mul, tree.cast(count, BIGINT), tree.number(UNIT_MS[unit] * 1000))
        step = tree.call("to_microseconds", micros)
    else:
        raise refuse(f"TIMESTAMPADD of {unit}")
    point = _as_timestamp(local(args[2], t, time_zone), t)
    return in_type(held(tree.operate(exp.Add, point, step)), call.type)


def _timestamp_diff(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    unit = unit_word(call, 0)
    start, end = (
        local(arg, given.type, time_zone) for arg, given in zip(args[1:], call.args[1:], strict=True)
    )
    if unit in UNIT_MONTHS:
        points = (tree.cast(start, TIMESTAMP), tree.cast(end, TIMESTAMP))
        difference, units = tree.call("date_sub", tree.text("month"), *points), UNIT_MONTHS[unit]
    elif unit in UNIT_MS:
        times = (tree.call("epoch_ms", end), tree.call("epoch_ms", start))
        difference, units = tree.operate(exp.Sub, *times), UNIT_MS[unit]
    else:
        raise refuse(f"TIMESTAMPDIFF of {unit}")
    return tree.cast(tree.operate(exp.IntDiv, difference, tree.number(units)), INTEGER)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("EXTRACT", *_PART_FUNCTIONS), _extract),
    "DATE_FORMAT": _date_format,
    **dict.fromkeys(("TO_TIMESTAMP", "TO_DATE"), _to_timestamp),
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
    "TIMESTAMPADD": _timestamp_add,
    "TIMESTAMPDIFF": _timestamp_diff,
}
