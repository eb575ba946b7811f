"""Names of time zones."""

from __future__ import annotations

import functools
import re

from sqlstream.errors import UserError


def is_utc(time_zone: str) -> bool:
    return time_zone.upper() in ("UTC", "Z", "ETC/UTC", "GMT", "UTC+0", "+00:00")


_SHORT = {
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
    "AST": "America/Anchorage",
    "PST": "America/Los_Angeles",
    "PNT": "America/Phoenix",
    "CST": "America/Chicago",
    "IET": "America/Indiana/Indianapolis",
    "PRT": "America/Puerto_Rico",
    "CNT": "America/St_Johns",
    "BET": "America/Sao_Paulo",
    "AGT": "America/Argentina/Buenos_Aires",
    "ECT": "Europe/Paris",
    "ART": "Africa/Cairo",
    "CAT": "Africa/Harare",
    "EAT": "Africa/Addis_Ababa",
    "NET": "Asia/Yerevan",
    "PLT": "Asia/Karachi",
    "IST": "Asia/Kolkata",
    "BST": "Asia/Dhaka",
    "VST": "Asia/Ho_Chi_Minh",
    "CTT": "Asia/Shanghai",
    "JST": "Asia/Tokyo",
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "SST": "Pacific/Guadalcanal",
    "NST": "Pacific/Auckland",
    "MIT": "Pacific/Apia",
}
"""What abbreviations mean, as in Java (ZoneId.SHORT_IDS)."""
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d\d))?")

_OFFSET_MAX_MIN = 18 * 60
"""As in Java (ZoneOffset)."""


def time_zone_of(text: str) -> str:
    """The zone that an argument of a function names, as `check_time_zone` gives it; here also by Java's abbreviations and
    offsets without minutes.

    >>> time_zone_of("PST"), time_zone_of("GMT-8"), time_zone_of("+0530")
    ('America/Los_Angeles', '-08:00', '+05:30')
    """
    offset = _OFFSET.fullmatch(text)
    return _existing(
        f"{offset[1]}{offset[2]:0>2}:{offset[3] or '00'}" if offset else _SHORT.get(text, text), text
    )


def check_time_zone(time_zone: str) -> str:
    """The zone in Arrow's form (`+08:00` for `GMT+08:00`); UserError SS4020 for a zone that does not exist."""
    return _existing(re.sub(r"\A(?:GMT|UTC)(?=[+-]\d\d:\d\d\Z)", "", time_zone), time_zone)


@functools.cache
def _existing(zone: str, written: str) -> str:
    if is_utc(zone):
        return zone
    if (offset := _OFFSET.fullmatch(zone)) and int(offset[2]) * 60 + int(offset[3] or 0) > _OFFSET_MAX_MIN:
        raise UserError(
            "SS4020", f'time zone "{written}" does not exist', hint="offsets are from -18:00 to +18:00"
        )
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        # Not `local_timestamp`, which takes points without a zone, those of the zone "", as they are.
        pc.assume_timezone(pa.array([0]).view(pa.timestamp("ms")), zone)
    except pa.ArrowInvalid as error:
        raise UserError(
            "SS4020",
            f'time zone "{written}" does not exist',
            hint="use a name as Europe/Berlin or an offset as GMT+08:00",
        ) from error
    return zone
