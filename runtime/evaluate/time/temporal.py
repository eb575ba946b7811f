"""Functions of dates, times, timestamps and the clock."""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Literal
from sqlstream.functions.checks import word_among
from sqlstream.functions.temporal import EXTRACTED_UNITS, MOVED_UNITS, check_epoch_digits, writes_zone
from sqlstream.runtime.evaluate.by_parameter import by_parameter
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import (
    Builder,
    Datum,
    Kernel,
    as_array,
    as_arrays,
    literal_of,
    null_mask,
    numbers,
    rows_of,
)
from sqlstream.runtime.evaluate.time.intervals import (
    add_months,
    clipped_to_span,
    milliseconds_of,
    shift_by_nanoseconds,
    shift_date,
    shift_timestamp,
)
from sqlstream.runtime.evaluate.time.local_time import from_local, to_local
from sqlstream.runtime.evaluate.time.time_parts import (
    cut_off,
    dates_in_unit,
    in_unit,
    second_parts,
    year_periods,
)
from sqlstream.runtime.evaluate.time.time_range import null_beyond_range
from sqlstream.runtime.evaluate.time.timestamp_format import TimestampFormat
from sqlstream.runtime.evaluate.time.timestamp_parser import Parsed, TimestampParser
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.group import extent
from sqlstream.times import DAY_MS, UNIT_MONTHS, UNIT_MS, UNIT_NS, time_zone_of, timestamp_bounds
from sqlstream.types import TypeRoot

_EXTRACT: dict[str, Callable[[Any], Any]] = {
    "YEAR": pc.year,
    "QUARTER": pc.quarter,
    "MONTH": pc.month,
    "WEEK": pc.iso_week,
    "DOY": pc.day_of_year,
    "DAY": pc.day,
    # Sunday is day 1, as in Calcite.
    "DOW": lambda t: pc.day_of_week(t, count_from_zero=False, week_start=7),
    "ISODOW": lambda t: pc.day_of_week(t, count_from_zero=False, week_start=1),
    "ISOYEAR": pc.iso_year,
    "HOUR": pc.hour,
    "MINUTE": pc.minute,
    "SECOND": pc.second,
    "MILLISECOND": functools.partial(second_parts, parts=1_000),
    "MICROSECOND": functools.partial(second_parts, parts=1_000_000),
    "NANOSECOND": functools.partial(second_parts, parts=1_000_000_000),
    "DECADE": functools.partial(year_periods, span=10, first=0),
    "CENTURY": functools.partial(year_periods, span=100, first=1),
    "MILLENNIUM": functools.partial(year_periods, span=1000, first=1),
    "EPOCH": lambda t: pa.array(numbers(milliseconds_of(t), np.int64) // 1000, mask=null_mask(t)),
}
_UNIT_OF = {"DAYOFYEAR": "DOY", "DAYOFMONTH": "DAY", "DAYOFWEEK": "DOW"}
_DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"

_UNIT_DIGITS = {"ms": 3, "us": 6, "ns": 9}


def extract(call: Call, context: EvaluationContext) -> Kernel:
    """EXTRACT(unit, x), and YEAR(x) and the others."""
    unit = (
        word_among(call, literal_of(call, 0), EXTRACTED_UNITS, "of")
        if call.function == "EXTRACT"
        else _UNIT_OF.get(call.function, call.function)
    )
    if sql.is_interval(call.args[-1].type):
        return lambda *args: _extract_of_interval(unit, as_array(args[-1], rows_of(*args)))
    function = _EXTRACT[unit]

    def kernel(*args: Datum) -> pa.Array:
        value = to_local(as_array(args[-1], rows_of(*args)), context.time_zone)
        if pa.types.is_time32(value.type):
            value = pc.cast(pc.cast(value, pa.int32()), pa.int64()).view(pa.timestamp("ms"))
        elif pa.types.is_date32(value.type):
            value = pc.cast(value, pa.timestamp("ms"))
        return function(value)

    return kernel


def _extract_of_interval(unit: str, value: pa.Array) -> pa.Array:
    """The part of an interval, of whose sign it is: 1 HOUR of -1 02:00:00 is -2."""
    amounts = numbers(value, np.int64)
    sizes = np.abs(amounts)
    if pa.types.is_int32(value.type):
        parts = (
            sizes % 12 // 3 + 1
            if unit == "QUARTER"
            else sizes // _MONTHS[unit] % (12 if unit == "MONTH" else _ALL)
        )
    elif unit in _SECOND_PARTS:
        parts = sizes % 1_000 * _SECOND_PARTS[unit]
    else:
        parts = sizes // UNIT_MS["SECOND" if unit == "EPOCH" else unit] % _WITHIN.get(unit, _ALL)
    return pa.array(np.copysign(1, amounts).astype(np.int64) * parts, mask=null_mask(value))


_ALL = np.iinfo(np.int64).max
_MONTHS = {"MONTH": 1, "YEAR": 12, "DECADE": 120, "CENTURY": 1_200, "MILLENNIUM": 12_000}
_WITHIN = {"HOUR": 24, "MINUTE": 60, "SECOND": 60}
_SECOND_PARTS = {"MILLISECOND": 1, "MICROSECOND": 1_000, "NANOSECOND": 1_000_000}


def _date_format(call: Call, context: EvaluationContext) -> Kernel:
    pattern = literal_of(call, 1)
    if pattern is None:
        return lambda value, _: pa.nulls(rows_of(value), pa.string())
    form = TimestampFormat(pattern, has_zone=writes_zone(call))
    parser = TimestampParser.of_sql_timestamp()

    def kernel(value: Datum, _: pa.Scalar) -> pa.Array:
        value = as_array(value, rows_of(value))
        if pa.types.is_string(value.type):
            value = parser.parse(value).timestamps("ms")
        elif pa.types.is_date32(value.type):
            value = pc.cast(value, pa.timestamp("s"))
        return form.format_shown(value, context.time_zone)

    return kernel


def _parse(call: Call, *, has_rest: bool = False) -> Callable[[pa.Array], Parsed] | None:
    """The reader of the first argument: by the pattern that follows it, or in SQL's forms; None for a NULL pattern. With
    `has_rest`, text may follow what the pattern matches."""
    if len(call.args) == 1:
        return TimestampParser.of_sql_timestamp().parse
    pattern = literal_of(call, 1)
    return None if pattern is None else TimestampParser.of_pattern(pattern, has_rest=has_rest).parse


def _parse_or_standard(call: Call) -> Callable[[pa.Array], Parsed] | None:
    """As `_parse`; text that does not match the pattern is read as '1999-9-10 05:20:10' or '1999-9-10', as in Flink."""
    parse = _parse(call)
    if parse is None or len(call.args) == 1:
        return parse
    standard = TimestampParser.of_sql_fallback()

    def read(text: pa.Array) -> Parsed:
        found = parse(text)
        return found if found.valid.all() else found.or_else(standard.parse(text))

    return read


def _nulls(call: Call) -> Kernel:
    """NULL for every row, where a constant argument is NULL."""
    target = to_arrow_type(call.type)
    return lambda *args: pa.nulls(rows_of(*args), target)


def _to_timestamp(call: Call, context: EvaluationContext) -> Kernel:
    """NULL for text that does not match."""
    parse = _parse_or_standard(call)
    if parse is None:
        return _nulls(call)
    return lambda text, _=None: parse(text).timestamps("ms")


def _to_date(call: Call, context: EvaluationContext) -> Kernel:
    if len(call.args) == 1:
        parser = TimestampParser.of_sql_date()
        return lambda text: parser.parse(text).dates()
    parse = _parse(call)
    if parse is None:
        return _nulls(call)
    return lambda text, _: parse(text).dates()


def _to_timestamp_ltz(call: Call, context: EvaluationContext) -> Kernel:
    """NULL for numbers and text that are no time in the range of the type."""
    target = to_arrow_type(call.type)
    if not sql.is_string(call.args[0].type):
        precision = literal_of(call, 1) if len(call.args) == 2 else 3
        if precision is None:
            return _nulls(call)
        check_epoch_digits(call, precision)
        return lambda epoch, _=None: _epoch(epoch, precision, target)
    parse = _parse_or_standard(call)
    zone = literal_of(call, 2) if len(call.args) == 3 else "UTC"
    if parse is None or zone is None:
        return _nulls(call)
    zone, precision = time_zone_of(zone), call.type.precision

    def kernel(text: pa.Array, *_: Datum) -> pa.Array:
        return null_beyond_range(cut_off(parse(text).instants(target.unit, zone), precision))

    return kernel


def _epoch(epoch: pa.Array, precision: int, target: pa.DataType) -> pa.Array:
    """A count of 10^-precision seconds as timestamps; NULL outside of their range, as in Flink. The unit of `target` is not
    coarser than the count."""
    unit = target.unit
    per_count = 10 ** (_UNIT_DIGITS[unit] - precision)
    low, high = timestamp_bounds(unit)
    nulls = null_mask(epoch)
    if pa.types.is_integer(epoch.type):
        values = numbers(epoch, np.int64)
        least, greatest = -(-low // per_count), high // per_count
        if nulls is None and len(values):
            first, last = extent(values)
            if least <= first and last <= greatest:
                return to_array(target, values if per_count == 1 else values * per_count)
        is_known = (values >= least) & (values <= greatest)
        scaled = np.where(is_known, values, 0) * per_count
    elif pa.types.is_decimal(epoch.type):
        wide = pc.multiply(
            pc.cast(epoch, pa.decimal256(38, epoch.type.scale)),
            pa.scalar(decimal.Decimal(per_count), pa.decimal256(10, 0)),
        )
        bounds = (pa.scalar(decimal.Decimal(b), pa.decimal256(20, 0)) for b in (low, high))
        within = pc.and_(
            *(f(wide, b) for f, b in zip((pc.greater_equal, pc.less_equal), bounds, strict=True))
        )
        is_known = numbers(pc.fill_null(within, False), np.bool_)
        kept = pc.if_else(pa.array(is_known), wide, pa.scalar(decimal.Decimal(0), wide.type))
        scaled = numbers(pc.cast(pc.trunc(kept), pa.int64()), np.int64)
    else:
        floats = numbers(epoch, np.float64) * per_count
        is_known = (floats >= low) & (floats <= high)
        scaled = np.where(is_known, floats, 0).astype(np.int64)
    if nulls is None and is_known.all():
        return to_array(target, scaled)
    mask = ~is_known if nulls is None else nulls | ~is_known
    return pa.array(scaled, mask=mask).view(target)


def _from_unixtime(call: Call, context: EvaluationContext) -> Kernel:
    pattern = literal_of(call, 1) if len(call.args) == 2 else _DEFAULT_PATTERN
    if pattern is None:
        return lambda seconds, _: pa.nulls(len(seconds), pa.string())
    form = TimestampFormat(pattern, has_zone=True)

    def kernel(seconds: pa.Array, _: Any = None) -> pa.Array:
        instants = null_beyond_range(seconds.cast(pa.int64()).view(pa.timestamp("s", tz="UTC")))
        return form.format_shown(instants, context.time_zone)

    return kernel


def _convert_tz(call: Call, context: EvaluationContext) -> Kernel:
    """CONVERT_TZ: the time of day of one time zone in another one, as text; NULL for text that is no time."""
    zones = [literal_of(call, place) for place in (1, 2)]
    if None in zones:
        return _nulls(call)
    source, target = (time_zone_of(zone) for zone in zones)
    parser, form = TimestampParser.of_sql_timestamp(), TimestampFormat(_DEFAULT_PATTERN)
    instant = pa.timestamp("s", tz="UTC")

    def kernel(text: pa.Array, *_: Datum) -> pa.Array:
        moments = null_beyond_range(from_local(parser.parse(text).timestamps("s"), instant, source))
        return form.format(to_local(moments, target))

    return kernel


def _unix_timestamp(call: Call, context: EvaluationContext) -> Kernel:
    if not call.args:
        return lambda rows: as_array(pa.scalar(context.moment_ms() // 1000, pa.int64()), rows)
    parse = _parse(call, has_rest=True)
    if parse is None:
        return _nulls(call)
    unreadable = pa.scalar(-(2**63), pa.int64())

    def kernel(text: Datum, _: Any = None) -> pa.Array:
        text = as_array(text, rows_of(text))
        instants = parse(text).instants("s", context.time_zone)
        return pc.if_else(pc.is_valid(text), pc.fill_null(pc.cast(instants, pa.int64()), unreadable), None)

    return kernel


def _unit(call: Call) -> str:
    return word_among(call, literal_of(call, 0), MOVED_UNITS, "with unit")


def timestamp_add(call: Call, context: EvaluationContext) -> Kernel:
    """TIMESTAMPADD: a DATE remains one when the unit is a day or longer, and becomes a TIMESTAMP otherwise."""
    unit, target = _unit(call), to_arrow_type(call.type)

    def kernel(_: pa.Scalar, count: Datum, point: Datum) -> pa.Array:
        counts, points = as_arrays(count, point)
        if points.type != target:
            convert = dates_in_unit if points.type == pa.date32() else in_unit
            points = convert(points, target.unit)
        if unit in UNIT_NS:
            return shift_by_nanoseconds(points, counts, UNIT_NS[unit])
        if unit in UNIT_MONTHS:
            return add_months(points, clipped_to_span(counts, 1) * UNIT_MONTHS[unit], counts)
        shift = pa.array(clipped_to_span(counts, UNIT_MS[unit]) * UNIT_MS[unit], mask=null_mask(counts))
        move = shift_date if pa.types.is_date32(points.type) else shift_timestamp
        return move(points, shift.view(pa.duration("ms")), 1)

    return kernel


def timestamp_diff(call: Call, context: EvaluationContext) -> Kernel:
    """Whole units from the first to the second point, towards zero."""
    unit = _unit(call)

    def kernel(_: pa.Scalar, first: Datum, second: Datum) -> pa.Array:
        a, b = as_arrays(first, second)
        mask = null_mask(a, b)
        if unit in UNIT_NS:
            return _fine_difference(to_local(a, context.time_zone), to_local(b, context.time_zone), unit)
        start, end = (numbers(milliseconds_of(to_local(x, context.time_zone)), np.int64) for x in (a, b))
        if unit in UNIT_MONTHS:
            units = _months_between(start, end)
            step = UNIT_MONTHS[unit]
        else:
            units, step = end - start, UNIT_MS[unit]
        return pa.array(np.sign(units) * (np.abs(units) // step), mask=mask)

    return kernel


def _fine_difference(start: pa.Array, end: pa.Array, unit: str) -> pa.Array:
    """Whole microseconds or nanoseconds from `start` to `end`."""
    name = {"MICROSECOND": "us", "NANOSECOND": "ns"}[unit]
    points = (pc.cast(x, pa.timestamp("ms")) if pa.types.is_date32(x.type) else x for x in (end, start))
    try:
        return pc.subtract_checked(*(in_unit(x, name).view(pa.int64()) for x in points))
    except pa.ArrowInvalid as error:
        raise UserError("SS5102", "the difference in nanoseconds is beyond BIGINT") from error


def _months_between(start: Any, end: Any) -> Any:
    """Full months: one that has not reached its day and time of day does not count (Calcite: subtractMonths).

    A day that the later month lacks is its last day: from January 31 to February 29 is a month.
    """
    earlier, later = np.minimum(start, end), np.maximum(start, end)
    earlier_month, earlier_rest = _month_and_rest(earlier)
    later_month, later_rest = _month_and_rest(later)
    days = earlier_rest // DAY_MS
    last_days = _month_length(later_month) - 1
    reached = np.minimum(days, last_days) * DAY_MS + earlier_rest % DAY_MS
    months = later_month - earlier_month - (later_rest < reached)
    return np.where(end >= start, months, -months)


def _month_length(months: Any) -> Any:
    """Days of months counted since 1970-01."""
    first, after = (
        m.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for m in (months, months + 1)
    )
    return after - first


def _month_and_rest(milliseconds: Any) -> tuple[Any, Any]:
    month = milliseconds.astype("datetime64[ms]").astype("datetime64[M]")
    return month.astype(np.int64), milliseconds - month.astype("datetime64[ms]").astype(np.int64)


_INSTANT = pa.timestamp("ms", tz="UTC")


def now(call: Call, context: EvaluationContext) -> Kernel:
    """The clock's time, the same for all rows of a batch."""
    target = to_arrow_type(call.type)
    is_instant = call.type.root is TypeRoot.TIMESTAMP_LTZ

    def kernel(rows: int) -> pa.Array:
        if is_instant:
            return to_array(_INSTANT, np.full(rows, context.moment_ms()))
        instant = pa.array([context.moment_ms()], pa.int64()).view(_INSTANT)
        local = to_local(instant, context.time_zone)
        if target == pa.date32() or pa.types.is_time32(target):
            of_day = local.view(pa.int64()).to_numpy()
            value = of_day // DAY_MS if target == pa.date32() else of_day % DAY_MS // 1000 * 1000
            return as_array(pa.array(value.astype(np.int32)).view(target)[0], rows)
        return as_array(local[0], rows)

    return kernel


def current_watermark(call: Call, context: EvaluationContext) -> Kernel:
    """The operator's watermark, the same for all rows of a batch; of a BIGINT, that which it says in milliseconds."""
    target = to_arrow_type(call.type)
    if call.args[0].type.root is TypeRoot.BIGINT:
        return lambda watermarks: watermarks.view(target)

    def kernel(rowtime: Any) -> pa.Array:
        return as_array(pa.array([context.watermark_ms()], pa.int64()).view(target)[0], len(rowtime))

    return kernel


def _by_pattern(builder: Builder) -> Builder:
    """`builder`, which reads its parameters once, for calls whose parameters are columns too."""

    def build(call: Call, context: EvaluationContext) -> Kernel:
        parameters = call.args[1:]
        if all(isinstance(p, Literal) for p in parameters):
            return builder(call, context)

        def made(*values: Any) -> Kernel:
            literals = (Literal(v, p.type) for v, p in zip(values, parameters, strict=True))
            kernel = builder(Call(call.function, (call.args[0], *literals), call.type, call.span), context)
            return lambda value: kernel(value, *([None] * len(values)))

        return by_parameter(made, to_arrow_type(call.type))

    return build


DATE_FORMAT = _by_pattern(_date_format)
TO_TIMESTAMP = _by_pattern(_to_timestamp)
TO_DATE = _by_pattern(_to_date)
TO_TIMESTAMP_LTZ = _by_pattern(_to_timestamp_ltz)
FROM_UNIXTIME = _by_pattern(_from_unixtime)
CONVERT_TZ = _by_pattern(_convert_tz)
UNIX_TIMESTAMP = _by_pattern(_unix_timestamp)
