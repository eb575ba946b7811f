"""Arithmetic of dates, times, timestamps and intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.kernel import Datum, Kernel, as_arrays, null_mask, numbers
from sqlstream.runtime.evaluate.time.time_range import (
    PER_DAY,
    bounds_of,
    extremes,
    out_of_range,
    require_between,
)
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.times import DAY_MS, PER_SECOND
from sqlstream.types import TypeRoot

_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_SPAN_MS = 20_000 * 366 * DAY_MS
"""More than lies between any two points in time: a longer interval leads out of the range as this one does."""
_SPAN_MONTHS = 20_000 * 12


def plus(call: Call) -> Kernel:
    return _shift(call, 1)


def minus(call: Call) -> Kernel:
    if not sql.is_interval(call.args[1].type):
        return _difference
    return _shift(call, -1)


def times(call: Call) -> Kernel:
    is_first = sql.is_interval(call.args[0].type)
    target = to_arrow_type(call.type)

    def kernel(left: Datum, right: Datum) -> Datum:
        interval, factor = (left, right) if is_first else (right, left)
        return checked_interval(pc.multiply_checked, target, interval, factor)

    return kernel


def _shift(call: Call, sign: int) -> Kernel:
    """A point in time, or an interval, moved by an interval."""
    a, b = (arg.type for arg in call.args)
    is_swapped = sql.is_interval(a) and not sql.is_interval(b)
    point, interval = (b, a) if is_swapped else (a, b)
    shift = _shift_function(point.root, interval.root)

    def kernel(left: Datum, right: Datum) -> Datum:
        base, amount = (right, left) if is_swapped else (left, right)
        return shift(base, amount, sign)

    return kernel


def _shift_function(point: TypeRoot, interval: TypeRoot) -> Any:
    if point is interval:
        return _shift_interval
    if interval is TypeRoot.INTERVAL_YEAR_MONTH:
        return _shift_months
    return {TypeRoot.DATE: shift_date, TypeRoot.TIME: _shift_time}.get(point, shift_timestamp)


def checked_interval(function: Any, target: pa.DataType, *args: Datum) -> Datum:
    """A checked Arrow function of intervals (and factors) as int64. UserError SS5102 when an interval cannot hold the result."""
    try:
        return pc.cast(function(*(pc.cast(a, pa.int64()) for a in args)), target)
    except pa.ArrowInvalid as error:
        raise UserError(
            "SS5102", "interval out of range", hint="an interval has at most 2^31 months or 2^63 milliseconds"
        ) from error


def _shift_interval(base: Datum, amount: Datum, sign: int) -> Datum:
    return checked_interval(pc.add_checked if sign > 0 else pc.subtract_checked, base.type, base, amount)


def shift_timestamp(base: Datum, amount: Datum, sign: int) -> Datum:
    """A timestamp moved by milliseconds. UserError SS5102 when a result is beyond the range of its type."""
    if _stays_within(base, amount, sign):
        if isinstance(amount, pa.Scalar) and isinstance(base, pa.Array) and not base.null_count:
            # A third of Arrow's time for a few rows.
            moved = view_values(base, np.int64) + sign * amount.value * _PER_MS[base.type.unit]
            return to_array(base.type, moved)
        return pc.add(base, amount) if sign > 0 else pc.subtract(base, amount)
    points, amounts = as_arrays(base, amount)
    per_ms = _PER_MS[points.type.unit]
    values = numbers(points, np.int64)
    shift = sign * np.clip(numbers(amounts, np.int64), -_SPAN_MS, _SPAN_MS)
    # In milliseconds nothing overflows; the finer digits do not change.
    milliseconds = values // per_ms + shift
    low, high = (bound // per_ms for bound in bounds_of(points.type))
    mask = null_mask(points, amounts)
    moved = require_between(milliseconds, low, high, mask, points.type) * per_ms + values % per_ms
    return pa.array(moved, mask=mask).view(points.type)


def shift_by_nanoseconds(points: pa.Array, counts: pa.Array, nanoseconds: int) -> pa.Array:
    """Timestamps moved by counts of 1 or 1,000 nanoseconds, which their unit can hold. UserError SS5102 beyond their range."""
    per_count = max(nanoseconds * PER_SECOND[points.type.unit] // 1_000_000_000, 1)
    values, amounts = numbers(points, np.int64), numbers(counts, np.int64)
    low, high = bounds_of(points.type)
    mask = null_mask(points, counts)
    most = (2**63 - 1) // per_count
    beyond = (amounts > most) | (amounts < -most)
    shift = np.where(beyond, 0, amounts) * per_count
    # The bounds are compared without a sum that could overflow.
    beyond |= np.where(shift >= 0, values > high - np.maximum(shift, 0), values < low - np.minimum(shift, 0))
    if (beyond if mask is None else beyond & ~mask).any():
        raise out_of_range(points.type)
    return pa.array(np.where(beyond, 0, values + shift), mask=mask).view(points.type)


def _stays_within(base: Datum, amount: Datum, sign: int) -> bool:
    """Whether no sum of any point and any amount leaves the range: then one plain addition suffices."""
    points, amounts = extremes(base), extremes(amount)
    if points is None or amounts is None:
        # All sums are NULL, so there are no bounds to compare, and Arrow's addition checks values under NULLs.
        return False
    per_ms = _PER_MS[base.type.unit]
    low, high = bounds_of(base.type)
    shifts = sorted(sign * a * per_ms for a in amounts)
    return low <= points[0] + shifts[0] and points[1] + shifts[1] <= high


def shift_date(base: Datum, amount: Datum, sign: int) -> pa.Array:
    """A date moved by whole days; the rest of the interval is cut off, as in Flink."""
    dates, amounts = as_arrays(base, amount)
    milliseconds = np.clip(numbers(amounts, np.int64), -_SPAN_MS, _SPAN_MS)
    days = np.sign(milliseconds) * (np.abs(milliseconds) // DAY_MS)
    mask = null_mask(dates, amounts)
    moved = require_between(numbers(dates, np.int64) + sign * days, *bounds_of(dates.type), mask, dates.type)
    return pa.array(moved.astype(np.int32), mask=mask).view(pa.date32())


def clipped_to_span(counts: pa.Array, unit_ms: int) -> Any:
    """int64 counts of a unit; those that lead out of every range anyway are reduced, so that no sum of them
    overflows."""
    most = _SPAN_MS // unit_ms + 1
    return np.clip(numbers(counts, np.int64), -most, most)


def _shift_time(base: Datum, amount: Datum, sign: int) -> pa.Array:
    """A time moved by an interval; it wraps around at midnight."""
    times_of_day, amounts = as_arrays(base, amount)
    shift = np.mod(numbers(amounts, np.int64), DAY_MS)
    moved = np.mod(numbers(times_of_day, np.int64) + sign * shift, DAY_MS)
    return pa.array(moved.astype(np.int32), mask=null_mask(times_of_day, amounts)).view(pa.time32("ms"))


def _shift_months(base: Datum, amount: Datum, sign: int) -> pa.Array:
    points, amounts = as_arrays(base, amount)
    return add_months(points, sign * numbers(amounts, np.int64), amounts)


def add_months(points: pa.Array, months: Any, amounts: pa.Array) -> pa.Array:
    """Dates or timestamps moved by months, NULL where a point or its amount is; a day that the month lacks becomes its
    last day. UserError SS5102 when a result is beyond the range of its type."""
    months = np.clip(months, -_SPAN_MONTHS, _SPAN_MONTHS)
    is_date = pa.types.is_date32(points.type)
    values = numbers(points, np.int64)
    per_day = 1 if is_date else PER_DAY[points.type.unit]
    days = np.floor_divide(values, per_day)
    month = days.astype("datetime64[D]").astype("datetime64[M]")
    day_of_month = days - month.astype("datetime64[D]").astype(np.int64)
    moved = month + months.astype("timedelta64[M]")
    length = (moved + 1).astype("datetime64[D]").astype(np.int64) - moved.astype("datetime64[D]").astype(
        np.int64
    )
    moved_days = moved.astype("datetime64[D]").astype(np.int64) + np.minimum(day_of_month, length - 1)
    low, high = (bound // per_day for bound in bounds_of(points.type))
    mask = null_mask(points, amounts)
    moved_days = require_between(moved_days, low, high, mask, points.type)
    result = moved_days * per_day + (values - days * per_day)
    if is_date:
        return pa.array(result.astype(np.int32), mask=mask).view(pa.date32())
    return pa.array(result, mask=mask).view(points.type)


def _difference(left: Datum, right: Datum) -> pa.Array:
    return pc.cast(pc.subtract(milliseconds_of(left), milliseconds_of(right)), pa.duration("ms"))


def milliseconds_of(datum: Datum) -> Datum:
    """A date, time or timestamp as int64 milliseconds, floored."""
    if pa.types.is_date32(datum.type):
        return pc.multiply(pc.cast(pc.cast(datum, pa.int32()), pa.int64()), DAY_MS)
    if pa.types.is_time32(datum.type):
        return pc.cast(pc.cast(datum, pa.int32()), pa.int64())
    unit = datum.type.unit
    if unit == "ms" and isinstance(datum, pa.Array):
        return datum.view(pa.int64())
    if unit in ("us", "ns"):
        datum = pc.floor_temporal(datum, unit="millisecond")
    return pc.cast(pc.cast(datum, pa.timestamp("ms", tz=datum.type.tz)), pa.int64())
