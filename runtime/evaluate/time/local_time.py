"""TIMESTAMP_LTZ as the wall clock of the session's time zone shows it, and back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.times import is_utc

Datum = Any
"""A `pa.Array` or a `pa.Scalar`."""


def to_local(datum: Datum, time_zone: str) -> Datum:
    """A TIMESTAMP of the local wall clock; values without a time zone pass unchanged."""
    if not pa.types.is_timestamp(datum.type) or datum.type.tz is None:
        return datum
    unit = datum.type.unit
    if is_utc(time_zone):
        return pc.cast(datum, pa.timestamp(unit))
    return pc.local_timestamp(pc.cast(datum, pa.timestamp(unit, tz=time_zone)))


def from_local(datum: Datum, target: pa.DataType, time_zone: str) -> Datum:
    """The inverse, for a target with a time zone. A time in a gap moves forward by the gap's length; a repeated time
    is the earlier instant."""
    if not pa.types.is_timestamp(target) or target.tz is None or datum.type == target:
        return datum
    if is_utc(time_zone):
        return pc.cast(datum, target)
    try:
        zoned = pc.assume_timezone(datum, time_zone, ambiguous="earliest", nonexistent="raise")
    except pa.ArrowInvalid:
        return _from_local_with_gaps(datum, target, time_zone)
    return pc.cast(zoned, target)


def _from_local_with_gaps(datum: Datum, target: pa.DataType, time_zone: str) -> Datum:
    """A time in a gap is read by the offset before the gap, so that it moves forward by the gap's length (as in Java)."""

    def read(nonexistent: str) -> Datum:
        return pc.assume_timezone(datum, time_zone, ambiguous="earliest", nonexistent=nonexistent)

    before, after = read("earliest"), read("latest")
    offset = pc.subtract(pc.local_timestamp(before), pc.cast(before, pa.timestamp(datum.type.unit)))
    moved = pc.cast(pc.subtract(datum, offset), target)
    return pc.if_else(pc.equal(before, after), pc.cast(before, target), moved)
