"""The values that DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ can have; what lies beyond is an error or NULL, never another value.

DATE, TIMESTAMP(0..6) and TIMESTAMP_LTZ(0..6) hold the years 0001 to 9999 (for TIMESTAMP_LTZ in UTC). TIMESTAMP(7..9) and
TIMESTAMP_LTZ(7..9) hold the years 1678 to 2261, because they are counts of nanoseconds in 64 bits. TIME is a time of day.
"""

from __future__ import annotations

from sqlstream.time_units import DAY_S, PER_SECOND

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
