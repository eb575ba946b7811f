"""Timestamps in another unit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.time_range import require_range

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
