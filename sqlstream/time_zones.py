"""Names of time zones."""

from __future__ import annotations

import functools
import re

from sqlstream.errors import UserError


def is_utc(time_zone: str) -> bool:
    return time_zone.upper() in ("UTC", "Z", "ETC/UTC", "GMT", "UTC+0", "+00:00")


@functools.cache
def check_time_zone(time_zone: str) -> str:
    """The zone in Arrow's form (`+08:00` for `GMT+08:00`); UserError SS4020 for a zone that does not exist."""
    zone = re.sub(r"\A(?:GMT|UTC)(?=[+-]\d\d:\d\d\Z)", "", time_zone)
    if is_utc(zone):
        return zone
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        # Not `local_timestamp`, which takes points without a zone, those of the zone "", as they are.
        pc.assume_timezone(pa.array([0]).view(pa.timestamp("ms")), zone)
    except pa.ArrowInvalid as error:
        raise UserError(
            "SS4020",
            f'time zone "{time_zone}" does not exist',
            hint="use a name as Europe/Berlin or an offset as GMT+08:00",
        ) from error
    return zone
