"""Arithmetic of dates, times, timestamps and intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.kernel import Datum, Kernel, as_arrays, null_mask, numbers, refuse
from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import Call
from sqlstream.types import TypeRoot

DAY_MS = 86_400_000
_PER_DAY = {"s": 86_400, "ms": DAY_MS, "us": DAY_MS * 1_000, "ns": DAY_MS * 1_000_000}


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
        product = pc.multiply(pc.cast(interval, pa.int64()), pc.cast(factor, pa.int64()))
        return pc.cast(product, target)

    return kernel


def refuse_division(call: Call) -> Kernel:
    raise refuse(call, "for intervals")


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
    return {TypeRoot.DATE: _shift_date, TypeRoot.TIME: _shift_time}.get(point, _shift_timestamp)


def _shift_interval(base: Datum, amount: Datum, sign: int) -> Datum:
    return pc.add(base, amount) if sign > 0 else pc.subtract(base, amount)


_shift_timestamp = _shift_interval


def _shift_date(base: Datum, amount: Datum, sign: int) -> pa.Array:
    """Whole days; the rest of the interval is cut off, as in Flink."""
    dates, amounts = as_arrays(base, amount)
    milliseconds = numbers(amounts, np.int64)
    days = np.sign(milliseconds) * (np.abs(milliseconds) // DAY_MS)
    moved = numbers(dates, np.int64) + sign * days
    return pa.array(moved.astype(np.int32), mask=null_mask(dates, amounts)).view(pa.date32())


def _shift_time(base: Datum, amount: Datum, sign: int) -> pa.Array:
    """Around midnight."""
    times_of_day, amounts = as_arrays(base, amount)
    moved = np.mod(numbers(times_of_day, np.int64) + sign * numbers(amounts, np.int64), DAY_MS)
    return pa.array(moved.astype(np.int32), mask=null_mask(times_of_day, amounts)).view(pa.time32("ms"))


def _shift_months(base: Datum, amount: Datum, sign: int) -> pa.Array:
    points, amounts = as_arrays(base, amount)
    return add_months(points, sign * numbers(amounts, np.int64), null_mask(points, amounts))


def add_months(points: pa.Array, months: Any, mask: Any) -> pa.Array:
    """Dates or timestamps moved by months; a day that the month lacks becomes its last day."""
    is_date = pa.types.is_date32(points.type)
    values = numbers(points, np.int64)
    per_day = 1 if is_date else _PER_DAY[points.type.unit]
    days = np.floor_divide(values, per_day)
    month = days.astype("datetime64[D]").astype("datetime64[M]")
    day_of_month = days - month.astype("datetime64[D]").astype(np.int64)
    moved = month + months.astype("timedelta64[M]")
    length = (moved + 1).astype("datetime64[D]").astype(np.int64) - moved.astype("datetime64[D]").astype(
        np.int64
    )
    moved_days = moved.astype("datetime64[D]").astype(np.int64) + np.minimum(day_of_month, length - 1)
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
    if unit in ("us", "ns"):
        datum = pc.floor_temporal(datum, unit="millisecond")
    return pc.cast(pc.cast(datum, pa.timestamp("ms", tz=datum.type.tz)), pa.int64())
