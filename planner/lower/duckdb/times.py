"""Points in time in DuckDB: arithmetic and parts."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound
from sqlstream.planner.lower.duckdb.handler import Handler, constant_number, unit_word
from sqlstream.planner.lower.duckdb.local_time import from_local, to_local, within_years
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.planner.lower.duckdb.time_functions import read_ltz
from sqlstream.planner.lower.duckdb.types import BIGINT, DATE, INTEGER, TIME, TIMESTAMP, failure
from sqlstream.planner.lower.duckdb.wrapping import wrapped
from sqlstream.times import DAY_MS, UNIT_MONTHS, UNIT_MS, timestamp_bounds
from sqlstream.types import LogicalType, TypeRoot

_PARTS: dict[str, str] = {
    "YEAR": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "WEEK": "week",
    "DOY": "dayofyear",
    "DAY": "day",
    "DOW": "dayofweek",
    "ISODOW": "isodow",
    "ISOYEAR": "isoyear",
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
}
"""Units of EXTRACT."""
_UNIT_OF = {"DAYOFYEAR": "DOY", "DAYOFMONTH": "DAY", "DAYOFWEEK": "DOW"}
_PART_FUNCTIONS = ("YEAR", "QUARTER", "MONTH", "WEEK", *_UNIT_OF, "HOUR", "MINUTE", "SECOND")

_DAYS_OR_LONGER = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")
Typed = tuple[exp.Expr, LogicalType]


def local(point: exp.Expr, t: LogicalType, time_zone: str) -> exp.Expr:
    """A point in time as local time of the session's time zone."""
    return to_local(point, time_zone) if t.root is TypeRoot.TIMESTAMP_LTZ else point


def milliseconds_of(point: exp.Expr, t: LogicalType) -> exp.Expr:
    """Milliseconds since 1970, or of the day, rounded down, which epoch_ms does not do."""
    if t.precision <= 3:
        return tree.call("epoch_ms", point)
    return bound(
        tree.call("epoch_us", point),
        lambda us: tree.operate(exp.IntDiv, tree.operate(exp.Sub, us, rest(us, 1000)), tree.number(1000)),
    )


def rest(value: exp.Expr, divisor: int) -> exp.Expr:
    """The remainder of a whole number that is never negative."""
    width = tree.number(divisor)
    return tree.operate(exp.Mod, tree.operate(exp.Add, tree.operate(exp.Mod, value, width), width), width)


def time_of_day(milliseconds: exp.Expr) -> exp.Expr:
    """Milliseconds as a TIME, which wraps around at midnight."""
    micros = tree.call("to_microseconds", tree.operate(exp.Mul, milliseconds, tree.number(1000)))
    return tree.operate(exp.Add, tree.cast(tree.text("00:00:00"), TIME), micros)


def time_between(left: Typed, right: Typed, time_zone: str) -> exp.Expr:
    """The milliseconds from `right` to `left`."""
    return tree.operate(exp.Sub, *(milliseconds_of(point, t) for point, t in (left, right)))


def moved_point(point: Typed, interval: Typed, result: LogicalType) -> exp.Expr:
    """`point + interval`. Days, hours and months of a TIMESTAMP_LTZ are those of UTC, as in Flink."""
    value, t = point
    amount, kind = interval
    if kind.root is TypeRoot.INTERVAL_YEAR_MONTH:
        return _moved_months(value, tree.cast(amount, INTEGER), t, result)
    if t.root is TypeRoot.TIME:
        return time_of_day(tree.operate(exp.Add, tree.call("epoch_ms", value), rest(amount, DAY_MS)))
    if t.root is TypeRoot.DATE:
        days = tree.operate(exp.IntDiv, amount, tree.number(DAY_MS))
        return _date_after(value, days)
    return _timestamp_after(value, amount)


def _timestamp_after(value: exp.Expr, milliseconds: exp.Expr) -> exp.Expr:
    step = tree.call("to_microseconds", tree.operate(exp.Mul, milliseconds, tree.number(1000)))
    return within_years(tree.operate(exp.Add, value, step), is_required=True)


def _date_after(value: exp.Expr, days: exp.Expr) -> exp.Expr:
    moved = tree.operate(exp.Add, tree.cast(value, TIMESTAMP), tree.call("to_days", tree.cast(days, INTEGER)))
    return tree.cast(within_years(moved, is_required=True), DATE)


def _moved_months(value: exp.Expr, months: exp.Expr, t: LogicalType, result: LogicalType) -> exp.Expr:
    point = tree.cast(value, TIMESTAMP) if t.root is TypeRoot.DATE else value
    moved = within_years(tree.operate(exp.Add, point, tree.call("to_months", months)), is_required=True)
    return tree.cast(moved, DATE) if result.root is TypeRoot.DATE else moved


def floor_or_ceil_to_unit(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """FLOOR or CEIL (point TO unit)."""
    unit, t, is_floor = unit_word(call, 1), call.args[0].type, call.function == "FLOOR"
    is_day_or_longer = unit in _DAYS_OR_LONGER
    if not is_day_or_longer and unit not in UNIT_MS:
        raise refuse(f"{call.function} of {t.with_nullable(True)} to {unit}")
    if t.root is TypeRoot.TIME:
        return _time_to_unit(args[0], UNIT_MS[unit], is_floor)
    if t.root is TypeRoot.DATE and not is_day_or_longer:
        return args[0]

    def to_unit(point: exp.Expr) -> exp.Expr:
        start = _start_of(point, unit)
        if is_floor:
            return start
        step = (
            tree.call("to_months", tree.number(UNIT_MONTHS[unit]))
            if unit in UNIT_MONTHS
            else (tree.call("to_microseconds", tree.cast(tree.number(UNIT_MS[unit] * 1000), BIGINT)))
        )
        is_start = tree.operate(exp.EQ, start, point)
        return tree.case([(is_start, start)], tree.operate(exp.Add, start, step))

    point = tree.cast(local(args[0], t, time_zone), TIMESTAMP)
    moved = bound(point, to_unit)
    if t.root is TypeRoot.TIMESTAMP_LTZ:
        moved = from_local(moved, time_zone)
    moved = within_years(moved, is_required=True)
    return tree.cast(moved, DATE) if t.root is TypeRoot.DATE else moved


def _start_of(point: exp.Expr, unit: str) -> exp.Expr:
    start = tree.call("date_trunc", tree.text(unit.lower()), point)
    if unit != "WEEK":
        return tree.cast(start, TIMESTAMP)
    # Calcite's weeks start on Sunday, DuckDB's on Monday.
    day = tree.call("to_days", tree.number(1))
    monday = tree.call("date_trunc", tree.text("week"), tree.operate(exp.Add, point, day))
    return tree.operate(exp.Sub, tree.cast(monday, TIMESTAMP), day)


def _time_to_unit(value: exp.Expr, unit_ms: int, is_floor: bool) -> exp.Expr:
    unit = tree.number(unit_ms)

    def to_unit(ms: exp.Expr) -> exp.Expr:
        if is_floor:
            return time_of_day(tree.operate(exp.Sub, ms, tree.operate(exp.Mod, ms, unit)))
        up = tree.operate(exp.IntDiv, tree.operate(exp.Add, ms, tree.number(unit_ms - 1)), unit)
        whole = tree.operate(exp.Mul, up, unit)
        is_held = tree.operate(exp.LT, whole, tree.number(DAY_MS))
        fail = failure("time out of range", TIME)
        return tree.case([(tree.is_null(ms), tree.null()), (is_held, time_of_day(whole))], fail)

    return bound(tree.call("epoch_ms", value), to_unit)


def _extract(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    unit = unit_word(call, 0) if call.function == "EXTRACT" else _UNIT_OF.get(call.function, call.function)
    t = call.args[-1].type
    if sql.is_interval(t):
        raise refuse(f"EXTRACT of {unit} from {t.with_nullable(True)}")
    point = local(args[-1], t, time_zone)
    if unit == "EPOCH":
        return bound(
            milliseconds_of(point, t),
            lambda ms: tree.operate(exp.IntDiv, tree.operate(exp.Sub, ms, rest(ms, 1000)), tree.number(1000)),
        )
    if unit not in _PARTS or (t.root is TypeRoot.TIME and unit not in ("HOUR", "MINUTE", "SECOND")):
        raise refuse(f"EXTRACT of {unit} from {t.with_nullable(True)}")
    part = tree.call(_PARTS[unit], point)
    if unit == "DOW":
        # Sunday is day 1, as in Calcite.
        part = tree.operate(exp.Add, part, tree.number(1))
    return tree.cast(part, BIGINT)


def _timestamp_add(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    unit, count, t = unit_word(call, 0), args[1], call.args[2].type
    if call.args[1].type.root is TypeRoot.BIGINT:
        raise refuse("TIMESTAMPADD of a BIGINT", hint="cast the count to INT")
    if unit in UNIT_MONTHS:
        months = tree.operate(exp.Mul, count, tree.number(UNIT_MONTHS[unit]))
        return _moved_months(args[2], months, t, call.type)
    if unit not in UNIT_MS:
        raise refuse(f"TIMESTAMPADD of {unit}")
    milliseconds = tree.operate(exp.Mul, tree.cast(count, BIGINT), tree.number(UNIT_MS[unit]))
    if call.type.root is TypeRoot.DATE:
        return _date_after(args[2], tree.operate(exp.IntDiv, milliseconds, tree.number(DAY_MS)))
    point = tree.cast(args[2], TIMESTAMP) if t.root is TypeRoot.DATE else args[2]
    return _timestamp_after(point, milliseconds)


def _timestamp_diff(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Whole units from the first to the second point, towards zero, in milliseconds: finer digits do not count."""
    unit = unit_word(call, 0)
    start, end = (
        milliseconds_of(local(arg, given.type, time_zone), given.type)
        for arg, given in zip(args[1:], call.args[1:], strict=True)
    )
    if unit in UNIT_MONTHS:
        points = (_timestamp_of(ms) for ms in (start, end))
        difference, units = tree.call("date_sub", tree.text("month"), *points), UNIT_MONTHS[unit]
    elif unit in UNIT_MS:
        difference, units = tree.operate(exp.Sub, end, start), UNIT_MS[unit]
    else:
        raise refuse(f"TIMESTAMPDIFF of {unit}")
    return wrapped(tree.operate(exp.IntDiv, difference, tree.number(units)), call.type.root)


def _timestamp_of(milliseconds: exp.Expr) -> exp.Expr:
    return tree.call("make_timestamp", tree.operate(exp.Mul, milliseconds, tree.number(1000)))


def _to_timestamp_ltz(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    t = call.args[0].type
    if sql.is_string(t):
        return read_ltz(call, args)
    precision = constant_number(call, 1) if len(args) == 2 else 3
    if not sql.is_integer(t) or not 0 <= precision <= 6:
        what = "TO_TIMESTAMP_LTZ of this kind"
        raise refuse(what, hint="give a whole number of seconds (0) to microseconds (6)")
    unit = "ms" if precision <= 3 else "us"
    per_count = 10 ** ({"ms": 3, "us": 6}[unit] - precision)
    low, high = timestamp_bounds(unit)
    least, greatest = (tree.number(bound) for bound in (-(-low // per_count), high // per_count))
    micros_a_count = per_count * (1000 if unit == "ms" else 1)

    def read(epoch: exp.Expr) -> exp.Expr:
        micros = tree.operate(exp.Mul, tree.cast(epoch, BIGINT), tree.number(micros_a_count))
        return tree.case([(tree.is_between(epoch, least, greatest), tree.call("make_timestamp", micros))])

    return bound(args[0], read)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("EXTRACT", *_PART_FUNCTIONS), _extract),
    "TO_TIMESTAMP_LTZ": _to_timestamp_ltz,
    "TIMESTAMPADD": _timestamp_add,
    "TIMESTAMPDIFF": _timestamp_diff,
}
