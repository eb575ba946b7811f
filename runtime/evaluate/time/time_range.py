"""Checks points in time against the range of their type (sqlstream.times): beyond it is an error or NULL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.kernel import Datum, Values
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.kernels.keys.group import extent
from sqlstream.times import DATE_MAX, DATE_MIN, DAY_S, PER_SECOND, timestamp_bounds, timestamp_years

PER_DAY = {unit: DAY_S * per_second for unit, per_second in PER_SECOND.items()}
"""Units of a timestamp in a day."""


def bounds_of(t: pa.DataType, unit: str = "") -> tuple[int, int]:
    """The least and the greatest value of a date or timestamp type, as the integers in a column.

    With `unit`, of those that also lie in the range of a timestamp in that unit.
    """
    if pa.types.is_date32(t):
        return DATE_MIN, DATE_MAX
    low, high = timestamp_bounds(t.unit)
    if unit != "ns" or t.unit == "ns":
        return low, high
    first, last = (bound // PER_DAY["ns"] for bound in timestamp_bounds("ns"))
    return first * PER_DAY[t.unit], (last + 1) * PER_DAY[t.unit] - 1


def extremes(points: Datum) -> tuple[int, int] | None:
    """The least and the greatest value of a column or constant of dates, timestamps or durations, as integers; None when
    all are NULL."""
    if isinstance(points, pa.Scalar):
        return (points.value, points.value) if points.is_valid else None
    integer = pa.int32() if pa.types.is_date32(points.type) else pa.int64()
    if not points.null_count and len(points):
        # A tenth of Arrow's time for a few rows, and no more for many.
        if integer == pa.int64():
            return extent(view_values(points, np.int64))
        values = view_values(points, np.int32)
        return int(values.min()), int(values.max())
    found = pc.min_max(pc.cast(points, integer))
    return (found["min"].as_py(), found["max"].as_py()) if found["min"].is_valid else None


def require_range(points: Datum, unit: str = "") -> Datum:
    """The same dates or timestamps. UserError SS5102 when one lies beyond the range of its type (and of `unit`)."""
    if not are_within_range(points, unit):
        raise out_of_range(points.type if not unit else pa.timestamp(unit, points.type.tz))
    return points


def null_beyond_range(points: pa.Array, unit: str = "") -> pa.Array:
    """The same dates or timestamps, NULL for those beyond the range of their type (and of `unit`)."""
    if are_within_range(points, unit):
        return points
    integer = pa.int32() if pa.types.is_date32(points.type) else pa.int64()
    low, high = (pa.scalar(b, integer) for b in bounds_of(points.type, unit))
    values = points.view(integer)
    within = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return pc.if_else(within, points, pa.scalar(None, points.type))


def require_between(
    values: Values, low: int, high: int, mask: Values | None, point_type: pa.DataType
) -> Values:
    """The same integers, 0 where one under a NULL (`mask`) lies outside. UserError SS5102 when another one does."""
    beyond = (values < low) | (values > high)
    if not beyond.any():
        return values
    if mask is None or (beyond & ~mask).any():
        raise out_of_range(point_type)
    return np.where(beyond, 0, values)


def out_of_range(point_type: pa.DataType) -> UserError:
    """The error for a value that the type cannot hold."""
    if pa.types.is_date32(point_type):
        return UserError("SS5102", "date out of range", hint="a DATE holds the years 0001 to 9999")
    name = "TIMESTAMP" if point_type.tz is None else "TIMESTAMP_LTZ"
    if point_type.unit != "ns":
        hint = f"a {name} holds the years {timestamp_years(point_type.unit)}"
    else:
        hint = (
            f"a {name} with a precision of 7 to 9 holds the years {timestamp_years('ns')}; "
            f"use {name}(6) for others"
        )
    return UserError("SS5102", "timestamp out of range", hint=hint)


def are_within_range(points: Datum, unit: str = "") -> bool:
    """Whether all dates or timestamps lie in the range of their type (and of `unit`)."""
    found = extremes(points)
    if found is None:
        return True
    low, high = bounds_of(points.type, unit)
    return low <= found[0] and found[1] <= high
