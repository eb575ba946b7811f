"""Parts of points in time that Arrow has not: fractions of a second, and periods of years."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.kernel import Values, null_mask, numbers
from sqlstream.runtime.evaluate.time.time_range import require_range

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def second_parts(timestamps: pa.Array, parts: int) -> pa.Array:
    """The part of a second in units of which it has `parts`: 5.678 seconds have 678 milliseconds."""
    per_second = _PER_SECOND[timestamps.type.unit]
    of_second = numbers(timestamps, np.int64) % per_second
    scaled = of_second * (parts // per_second) if parts >= per_second else of_second // (per_second // parts)
    return pa.array(scaled, mask=null_mask(timestamps))


def year_periods(timestamps: pa.Array, span: int, first: int) -> pa.Array:
    """The number of the period of `span` years: `first` is the year with which period 0 or 1 begins."""
    years = numbers(pc.year(timestamps), np.int64)
    return pa.array((years - first) // span + first, mask=null_mask(timestamps))


PERIODS = {"DECADE": (10, 0), "CENTURY": (100, 1), "MILLENNIUM": (1000, 1)}
"""Years, and the year with which the first one begins."""


def period_start(timestamps: pa.Array, unit: str, after: int = 0) -> pa.Array:
    """The beginning of the period, or of one so many `after` it, in the type of the argument, a date or local timestamp.

    UserError SS5102 where nanoseconds cannot hold it.
    """
    span, first = PERIODS[unit]
    years: Values = (numbers(pc.year(timestamps), np.int64) - first) // span * span + first + after * span
    days = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int32)
    dates = pa.array(days, mask=null_mask(timestamps)).view(pa.date32())
    return dates if pa.types.is_date32(timestamps.type) else dates_in_unit(dates, timestamps.type.unit)


# Timestamps in another unit.


_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
_FINENESS = tuple(_NAMES)


def dates_in_unit(dates: pa.Array, unit: str) -> pa.Array:
    """The beginnings of days as local timestamps. UserError SS5102 where nanoseconds cannot hold one."""
    return in_unit(pc.cast(dates, pa.timestamp("s")), unit)


def in_unit(timestamps: Any, unit: str) -> Any:
    """A column or constant of timestamps in this unit: rounded down where it is coarser, before 1970 too.

    UserError SS5102 where nanoseconds cannot hold a value.
    """
    given = timestamps.type
    if _FINENESS.index(unit) < _FINENESS.index(given.unit):
        # In UTC, because a local time may occur twice.
        utc = timestamps if given.tz is None else pc.cast(timestamps, pa.timestamp(given.unit, "UTC"))
        timestamps = pc.cast(pc.floor_temporal(utc, unit=_NAMES[unit]), given)
    return pc.cast(require_range(timestamps, unit), pa.timestamp(unit, given.tz))


# Times and timestamps with the digits of a second that their type has.


_DIGITS = {"ms": 3, "us": 6, "ns": 9}


def cut_off(value: pa.Array, precision: int) -> pa.Array:
    """Without the digits beyond the precision, before 1970 too."""
    digits = _DIGITS[value.type.unit]
    if precision >= digits:
        return value
    step = 10 ** (digits - precision)
    values = numbers(value, np.int32 if value.type.bit_width == 32 else np.int64)
    return pa.array(values - values % step, mask=null_mask(value)).view(value.type)
