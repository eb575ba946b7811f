"""Arithmetic of dates, times, timestamps and intervals as Spark SQL; a result outside of the years 0001 to 9999 is an error."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.constants import unit_word
from sqlstream.planner.lower.spark.scope import ENGINE, fail, let, let_all, refuse
from sqlstream.planner.lower.spark.types import BIGINT, DATE, INT, STRING, TIMESTAMP, spark_type, text, whole
from sqlstream.times import DATE_MAX, DATE_MIN, DAY_MS, UNIT_MONTHS, UNIT_MS, is_utc, timestamp_bounds
from sqlstream.types import LogicalType, TypeRoot

_SPAN_MS = 20_000 * 366 * DAY_MS
"""More than lies between any two points in time."""
_MONTH_MIN, _MONTH_MAX = 12, 9_999 * 12 + 11
"""0001-01 and 9999-12, in months since year 0."""
_TIMESTAMP_ERROR, _DATE_ERROR, _INTERVAL_ERROR = (
    "timestamp out of range",
    "date out of range",
    "interval out of range",
)
_LOCAL_YEAR_ERROR = "the text of a local time in the year 0 or 10000 has no exact counterpart in Spark"
_PARTS = {
    "YEAR": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "WEEK": "weekofyear",
    "DOY": "dayofyear",
    "DAYOFYEAR": "dayofyear",
    "DAY": "day",
    "DAYOFMONTH": "day",
    # Sunday is day 1, as in Calcite.
    "DOW": "dayofweek",
    "DAYOFWEEK": "dayofweek",
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
    "EPOCH": "unix_seconds",
}
EXTRACTED = (*_PARTS, "ISODOW", "ISOYEAR")
_TIME_UNITS = ("HOUR", "MINUTE", "SECOND", "MILLISECOND")
_ROUNDED_TO = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", *_TIME_UNITS)


def to_local(value: exp.Expr, t: LogicalType, time_zone: str) -> exp.Expr:
    """A TIMESTAMP_LTZ as the wall clock of the session's time zone; other values are unchanged."""
    if t.root is not TypeRoot.TIMESTAMP_LTZ or is_utc(time_zone):
        return value
    return tree.call("convert_timezone", tree.text("UTC"), text(time_zone), value)


def from_local(value: exp.Expr, t: LogicalType, time_zone: str) -> exp.Expr:
    """The inverse, for a target of type `t`. As here, Java moves a time in a gap forward, and of two it takes the earlier."""
    if t.root is not TypeRoot.TIMESTAMP_LTZ or is_utc(time_zone):
        return value
    return tree.call("convert_timezone", text(time_zone), tree.text("UTC"), value)


def to_local_text(
    value: exp.Expr, t: LogicalType, time_zone: str, write: Callable[[exp.Expr], exp.Expr]
) -> exp.Expr:
    """`write(local time)` of a point in time; an error for the first and last hours of time, whose local year may be 0 or
    10000."""
    local = as_timestamp(to_local(value, t, time_zone), t)
    if t.root is not TypeRoot.TIMESTAMP_LTZ or is_utc(time_zone):
        return write(local)

    def written(shown: exp.Expr) -> exp.Expr:
        is_within = tree.is_between(tree.call("year", shown), tree.number(1), tree.number(9999))
        return tree.case(
            [(is_within, write(shown)), (tree.is_not_null(shown), fail(_LOCAL_YEAR_ERROR, STRING))]
        )

    return let(local, written)


def micros_of(timestamp: exp.Expr) -> exp.Expr:
    return tree.call("unix_micros", timestamp)


def from_micros(micros: exp.Expr) -> exp.Expr:
    return tree.cast(tree.call("timestamp_micros", micros), TIMESTAMP)


def millis_of(value: exp.Expr, t: LogicalType) -> exp.Expr:
    """A date, time or timestamp as BIGINT milliseconds, floored."""
    if t.root is TypeRoot.DATE:
        return tree.operate(exp.Mul, tree.cast(tree.call("unix_date", value), BIGINT), whole(DAY_MS))
    if t.root is TypeRoot.TIME:
        return tree.cast(value, BIGINT)
    return tree.call("unix_millis", value)


def as_timestamp(value: exp.Expr, t: LogicalType) -> exp.Expr:
    """A date, time (of 1970-01-01) or timestamp as TIMESTAMP_NTZ."""
    if t.root is TypeRoot.DATE:
        return tree.cast(value, TIMESTAMP)
    if t.root is TypeRoot.TIME:
        return from_micros(tree.operate(exp.Mul, tree.cast(value, BIGINT), whole(1000)))
    return value


def within_range(micros: exp.Expr, *, is_error: bool = True) -> exp.Expr:
    """Microseconds as TIMESTAMP_NTZ; an error, or NULL, beyond the range of the type."""
    low, high = (whole(bound) for bound in timestamp_bounds("us"))

    def checked(value: exp.Expr) -> exp.Expr:
        branches = [(tree.is_between(value, low, high), from_micros(value))]
        if is_error:
            branches.append((tree.is_not_null(value), fail(_TIMESTAMP_ERROR, TIMESTAMP)))
        return tree.case(branches)

    return let(micros, checked)


def cut_off(timestamp: exp.Expr, precision: int) -> exp.Expr:
    """Without the digits of a second beyond the precision, before 1970 too."""
    if precision >= 6:
        return timestamp
    step = whole(10 ** (6 - precision))

    def cut(micros: exp.Expr) -> exp.Expr:
        return from_micros(tree.operate(exp.Sub, micros, tree.call("pmod", micros, step)))

    return let(micros_of(timestamp), cut)


def date_within_range(days: exp.Expr, *, is_error: bool = True) -> exp.Expr:
    """BIGINT days since 1970 as DATE; an error, or NULL, beyond the range."""

    def checked(value: exp.Expr) -> exp.Expr:
        is_within = tree.is_between(value, whole(DATE_MIN), whole(DATE_MAX))
        branches = [(is_within, tree.call("date_from_unix_date", tree.cast(value, INT)))]
        if is_error:
            branches.append((tree.is_not_null(value), fail(_DATE_ERROR, DATE)))
        return tree.case(branches)

    return let(days, checked)


# -- intervals -------------------------------------------------------------------------------------


def checked_interval(function: str, left: exp.Expr, right: exp.Expr, t: LogicalType) -> exp.Expr:
    """`try_add`, `try_subtract` or `try_multiply` of whole numbers; an error instead of an overflow of type `t`."""
    target = spark_type(t)

    def checked(a: exp.Expr, b: exp.Expr) -> exp.Expr:
        operands = [tree.cast(x, BIGINT) for x in (a, b)]
        is_known = tree.all_of([tree.is_not_null(a), tree.is_not_null(b)])
        result = tree.call("coalesce", tree.call(function, *operands), fail(_INTERVAL_ERROR, BIGINT))
        if t.root is TypeRoot.INTERVAL_YEAR_MONTH:
            result = let(result, _checked_months)
        return tree.case([(is_known, result)], tree.cast(tree.null(), target))

    return let_all([left, right], checked)


def _checked_months(value: exp.Expr) -> exp.Expr:
    fits = tree.is_between(value, whole(-(2**31)), whole(2**31 - 1))
    return tree.case([(fits, tree.cast(value, INT))], fail(_INTERVAL_ERROR, INT))


def multiplied_interval(call: Call, args: list[exp.Expr]) -> exp.Expr:
    return checked_interval("try_multiply", args[0], args[1], call.type)


def moved_or_difference(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """`+` and `-` of points in time and intervals."""
    left, right = call.args
    a, b = args
    if sql.is_interval(left.type) and not sql.is_interval(right.type):
        left, right, a, b = right, left, b, a
    if sql.is_interval(left.type):
        return checked_interval("try_add" if call.function == "+" else "try_subtract", a, b, call.type)
    if not sql.is_interval(right.type):
        return tree.operate(exp.Sub, millis_of(a, left.type), millis_of(b, right.type))
    amount = tree.cast(b, BIGINT)
    if call.function == "-":
        # The least number has no positive counterpart, but is out of every range: so is its neighbour.
        amount = tree.operate(exp.Sub, whole(0), tree.call("greatest", amount, whole(-(2**63) + 1)))
        amount = tree.case([(tree.is_not_null(b), amount)])
    if right.type.root is TypeRoot.INTERVAL_YEAR_MONTH:
        return moved_by_months(a, left.type, amount)
    return moved_by_millis(a, left.type, amount, is_short=_is_short(right))


def _is_short(interval: Expression) -> bool:
    return (
        isinstance(interval, Literal) and isinstance(interval.value, int) and abs(interval.value) <= _SPAN_MS
    )


def moved_by_months(point: exp.Expr, t: LogicalType, months: exp.Expr) -> exp.Expr:
    """A date or timestamp moved by BIGINT months, to the last day of a month that lacks its day."""
    message = _DATE_ERROR if t.root is TypeRoot.DATE else _TIMESTAMP_ERROR

    def moved(value: exp.Expr, amount: exp.Expr) -> exp.Expr:
        year = tree.operate(exp.Mul, tree.call("year", value), tree.number(12))
        reached = tree.operate(exp.Add, amount, year, tree.call("month", value), whole(-1, INT))
        count = tree.cast(amount, INT)
        if t.root is TypeRoot.DATE:
            result = tree.call("add_months", value, count)
        else:
            result = tree.call("timestampadd", tree.raw("MONTH"), count, value)
        is_within = tree.is_between(reached, whole(_MONTH_MIN), whole(_MONTH_MAX))
        # So many months that the sum would overflow are beyond every range too.
        is_near = tree.is_between(amount, whole(-240_000), whole(240_000))
        is_known = tree.all_of([tree.is_not_null(amount), tree.is_not_null(value)])
        return tree.case(
            [(tree.all_of([is_near, is_within]), result), (is_known, fail(message, spark_type(t)))]
        )

    return let_all([point, months], moved)


def moved_by_millis(point: exp.Expr, t: LogicalType, millis: exp.Expr, *, is_short: bool) -> exp.Expr:
    """A date, time or timestamp moved by BIGINT milliseconds: a date by whole days, a time around midnight.

    `is_short`: the count is known to be at most the span of all points in time.
    """
    if t.root is TypeRoot.TIME:
        day = whole(DAY_MS)
        moved = tree.operate(exp.Add, tree.cast(point, BIGINT), tree.call("pmod", millis, day))
        return tree.cast(tree.call("pmod", moved, day), INT)
    if t.root is TypeRoot.DATE:
        days = tree.operate(exp.IntDiv, millis, whole(DAY_MS))
        return date_within_range(
            tree.operate(exp.Add, tree.cast(tree.call("unix_date", point), BIGINT), days)
        )

    def shift(amount: exp.Expr) -> exp.Expr:
        moved = within_range(
            tree.operate(exp.Add, micros_of(point), tree.operate(exp.Mul, amount, whole(1000)))
        )
        if is_short:
            return moved
        is_near = tree.is_between(amount, whole(-_SPAN_MS), whole(_SPAN_MS))
        is_known = tree.all_of([tree.is_not_null(amount), tree.is_not_null(point)])
        return tree.case([(is_near, moved), (is_known, fail(_TIMESTAMP_ERROR, TIMESTAMP))])

    return let(millis, shift)


# -- functions -------------------------------------------------------------------------------------


def extract(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """EXTRACT(unit, x), and YEAR(x) and the others."""
    unit = unit_word(call, 0, ENGINE) if call.function == "EXTRACT" else call.function
    value = call.args[-1]
    if unit not in EXTRACTED or sql.is_interval(value.type):
        raise refuse(f"EXTRACT of {unit} from {value.type.with_nullable(True)}")
    local = as_timestamp(to_local(args[-1], value.type, time_zone), value.type)
    if unit == "ISODOW":
        part = tree.operate(exp.Add, tree.call("weekday", local), tree.number(1))
    elif unit == "ISOYEAR":
        part = tree.call("date_part", tree.text("YEAROFWEEK"), local)
    else:
        part = tree.call(_PARTS[unit], local)
    return tree.cast(part, BIGINT)


def floor_or_ceil(call: Call, args: list[exp.Expr], time_zone: str, *, is_floor: bool) -> exp.Expr:
    """A point in time rounded to a unit; weeks start on Sunday, as in Calcite."""
    unit, t = unit_word(call, 1, ENGINE), call.args[0].type
    if unit not in (_TIME_UNITS if t.root is TypeRoot.TIME else _ROUNDED_TO):
        raise refuse(f"{call.function} of {t.with_nullable(True)} to {unit}")
    if t.root is TypeRoot.TIME:
        return _rounded_time(args[0], UNIT_MS[unit], is_floor=is_floor)
    rounded = let(
        as_timestamp(to_local(args[0], t, time_zone), t),
        lambda v: _floor(v, unit) if is_floor else _ceil(v, unit),
    )
    held = within_range(micros_of(from_local(rounded, t, time_zone)))
    return tree.cast(held, DATE) if t.root is TypeRoot.DATE else held


def _floor(value: exp.Expr, unit: str) -> exp.Expr:
    day = whole(DAY_MS * 1000)
    if unit == "WEEK":
        # Spark's weeks start on Monday.
        value = from_micros(tree.operate(exp.Add, micros_of(value), day))
    start = tree.cast(tree.call("date_trunc", tree.text(unit), value), TIMESTAMP)
    return from_micros(tree.operate(exp.Sub, micros_of(start), day)) if unit == "WEEK" else start


def _ceil(value: exp.Expr, unit: str) -> exp.Expr:
    def next_unit(start: exp.Expr) -> exp.Expr:
        if unit in UNIT_MONTHS:
            moved = tree.call("timestampadd", tree.raw("MONTH"), tree.number(UNIT_MONTHS[unit]), start)
        else:
            moved = from_micros(tree.operate(exp.Add, micros_of(start), whole(UNIT_MS[unit] * 1000)))
        return tree.case([(tree.operate(exp.EQ, start, value), value)], moved)

    return let(_floor(value, unit), next_unit)


def _rounded_time(value: exp.Expr, unit_ms: int, *, is_floor: bool) -> exp.Expr:
    unit = whole(unit_ms, INT)
    if is_floor:
        return let(value, lambda v: tree.operate(exp.Sub, v, tree.operate(exp.Mod, v, unit)))

    def ceil(v: exp.Expr) -> exp.Expr:
        up = tree.operate(exp.Add, v, whole(unit_ms - 1, INT))
        result = tree.operate(exp.Sub, up, tree.operate(exp.Mod, up, unit))
        is_beyond = tree.operate(exp.GT, v, whole(DAY_MS - unit_ms, INT))
        return tree.case([(is_beyond, fail("time out of range", INT))], result)

    return let(value, ceil)


def timestamp_add(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """TIMESTAMPADD: a DATE remains one when the unit is a day or longer, and becomes a TIMESTAMP otherwise."""
    unit, point = unit_word(call, 0, ENGINE), call.args[2]
    if unit not in UNIT_MONTHS and unit not in UNIT_MS:
        raise refuse(f"TIMESTAMPADD of {unit}")
    value = args[2] if call.type.root is TypeRoot.DATE else as_timestamp(args[2], point.type)
    per_count = UNIT_MONTHS.get(unit) or UNIT_MS[unit]
    limit = _SPAN_MS // (1 if unit in UNIT_MONTHS else per_count) + 1
    clipped = tree.call(
        "least", tree.call("greatest", tree.cast(args[1], BIGINT), whole(-limit)), whole(limit)
    )
    count = tree.case([(tree.is_not_null(args[1]), tree.operate(exp.Mul, clipped, whole(per_count)))])
    if unit in UNIT_MONTHS:
        return moved_by_months(value, call.type, count)
    return moved_by_millis(value, call.type, count, is_short=isinstance(call.args[1], Literal))


def timestamp_diff(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Whole units from the first to the second point, towards zero."""
    unit = unit_word(call, 0, ENGINE)
    if unit not in UNIT_MONTHS and unit not in UNIT_MS:
        raise refuse(f"TIMESTAMPDIFF of {unit}")
    local = [to_local(a, e.type, time_zone) for a, e in zip(args[1:], call.args[1:], strict=True)]
    millis = [millis_of(a, e.type) for a, e in zip(local, call.args[1:], strict=True)]
    if unit in UNIT_MONTHS:
        months = let_all(
            [from_micros(tree.operate(exp.Mul, m, whole(1000))) for m in millis], _months_between
        )
        return tree.cast(tree.operate(exp.IntDiv, months, whole(UNIT_MONTHS[unit])), INT)
    difference = tree.operate(exp.Sub, millis[1], millis[0])
    return tree.cast(tree.operate(exp.IntDiv, difference, whole(UNIT_MS[unit])), INT)


def _months_between(start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """Full months: one counts when moving the earlier point by it does not lead behind the later one."""

    def full(earlier: exp.Expr, later: exp.Expr) -> exp.Expr:
        def counted(months: exp.Expr) -> exp.Expr:
            reached = tree.call("timestampadd", tree.raw("MONTH"), months, earlier)
            is_short = tree.operate(exp.GT, reached, later)
            return tree.operate(exp.Sub, months, tree.case([(is_short, tree.number(1))], tree.number(0)))

        return let(tree.operate(exp.Sub, _month_number(later), _month_number(earlier)), counted)

    forward, backward = full(start, end), full(end, start)
    is_forward = tree.operate(exp.GTE, end, start)
    return tree.case([(is_forward, forward)], exp.Paren(this=exp.Neg(this=exp.Paren(this=backward))))


def _month_number(point: exp.Expr) -> exp.Expr:
    return tree.operate(
        exp.Add, tree.operate(exp.Mul, tree.call("year", point), tree.number(12)), tree.call("month", point)
    )
