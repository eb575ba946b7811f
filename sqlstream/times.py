"""The values that DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ can have; what lies beyond is an error or NULL, never another value.

DATE, TIMESTAMP(0..6) and TIMESTAMP_LTZ(0..6) hold the years 0001 to 9999 (for TIMESTAMP_LTZ in UTC). TIMESTAMP(7..9) and
TIMESTAMP_LTZ(7..9) hold the years 1678 to 2261, because they are counts of nanoseconds in 64 bits. TIME is a time of day.
"""

from __future__ import annotations

import calendar
import functools
import re

from sqlstream.errors import UserError
from sqlstream.types import TIMESTAMP_ROOTS, LogicalType, TypeRoot, timestamp

DATE_MIN, DATE_MAX = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970-01-01."""

_NANOSECOND_DATE_MIN, _NANOSECOND_DATE_MAX = -106_650, 106_650
"""1678-01-01 and 2261-12-31."""


def timestamp_bounds(unit: str) -> tuple[int, int]:
    """The least and the greatest timestamp that a column in `unit` (s, ms, us, ns) may hold, in that unit since 1970.

    >>> timestamp_bounds("s")
    (-62135596800, 253402300799)
    """
    first, last = (_NANOSECOND_DATE_MIN, _NANOSECOND_DATE_MAX) if unit == "ns" else (DATE_MIN, DATE_MAX)
    per_day = DAY_S * PER_SECOND[unit]
    return first * per_day, (last + 1) * per_day - 1


def timestamp_bounds_ns(precision: int) -> tuple[int, int]:
    """The least and the greatest TIMESTAMP of this precision as literals are written: nanoseconds since 1970, which for a
    precision up to 6 take more than 64 bits."""
    if precision > 6:
        return timestamp_bounds("ns")
    low, high = timestamp_bounds("us")
    return low * 1_000, high * 1_000 + 999


def timestamp_years(unit: str) -> str:
    """The range in words, for errors."""
    return "1678 to 2261" if unit == "ns" else "0001 to 9999"


# The texts that are read as a DATE, a TIME or a TIMESTAMP: as regular expressions for columns, and as a test of one
# literal.


_DAY = r"(?P<y>\d{1,4})-(?P<M>\d{1,2})-(?P<d>\d{1,2})"
_CLOCK = r"(?P<H>\d{1,2}):(?P<m>\d{1,2})(?::(?P<s>\d{1,2})(?:\.(?P<S>\d{1,9})\d*)?)?"
_EXACT_CLOCK = r"(?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<S>\d{1,9}))?"

TIMESTAMP_TEXT = rf"\s*{_DAY}(?:[ T]{_CLOCK})?\s*"
"""'2024-01-31 10:20:30.123': the time, its seconds and its fraction may be missing."""
FALLBACK_TEXT = rf"\s*{_DAY}(?: +{_EXACT_CLOCK})?\s*"
"""'1999-9-10 05:20:10.123' or '1999-9-10': what TO_TIMESTAMP reads besides its pattern."""
DATE_TEXT = rf"\s*(?P<y>\d{{1,4}})(?:-(?P<M>\d{{1,2}})(?:-(?P<d>\d{{1,2}})(?:[ T]{_CLOCK})?)?)?\s*"
"""'2024-01-31', also with a time, which is cut off; the day, or the month and the day, may be missing."""
TIME_TEXT = rf"\s*{_CLOCK}\s*"


def is_time_text(text: str, t: LogicalType) -> bool:
    """Whether CAST reads the text as a value of a DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ.

    >>> from sqlstream.types import DATE
    >>> is_time_text("2024-02-29", DATE), is_time_text("2023-02-29", DATE)
    (True, False)
    """
    regex = {TypeRoot.DATE: DATE_TEXT, TypeRoot.TIME: TIME_TEXT}.get(t.root, TIMESTAMP_TEXT)
    found = re.fullmatch(regex, text, re.ASCII)
    if found is None:
        return False
    given = found.groupdict()
    year, month, day, hour, minute, second = (
        int(given.get(name) or default) for name, default in zip("yMdHms", (1970, 1, 1, 0, 0, 0), strict=True)
    )
    first, last = (1678, 2261) if t.root is not TypeRoot.DATE and t.precision > 6 else (1, 9999)
    is_day = first <= year <= last and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]
    return is_day and hour < 24 and minute < 60 and second < 60


def what_it_is_not(text: str, t: LogicalType) -> str:
    """The type as errors show it, with its years where they are why it cannot hold the text.

    >>> from sqlstream.types import timestamp
    >>> what_it_is_not("9999-12-31 00:00:00", timestamp(9))
    'TIMESTAMP(9), which holds the years 1678 to 2261; TIMESTAMP(6) holds all'
    """
    name = str(t.without_time_attribute().with_nullable(True))
    is_fine = t.root in TIMESTAMP_ROOTS and t.precision > 6
    if not is_fine or not is_time_text(text, timestamp(6)):
        return name
    return f"{name}, which holds the years 1678 to 2261; {name.partition('(')[0]}(6) holds all"


# The units of intervals, and how long they are.


DAY_S = 86_400
DAY_MS = 86_400_000

UNIT_MS: dict[str, int] = {
    "WEEK": 7 * DAY_MS,
    "DAY": DAY_MS,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1_000,
    "MILLISECOND": 1,
}
UNIT_NS: dict[str, int] = {"MICROSECOND": 1_000, "NANOSECOND": 1}
"""The units finer than those of intervals."""
UNIT_MONTHS: dict[str, int] = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}

PER_SECOND: dict[str, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""By Arrow's name of a unit."""


# Names of time zones.


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
