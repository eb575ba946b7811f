"""The units of intervals, and how long they are."""

from __future__ import annotations

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
