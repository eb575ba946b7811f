"""The texts that are read as a DATE, a TIME or a TIMESTAMP: as regular expressions for columns, and as a test of one literal."""

from __future__ import annotations

import calendar
import re

from sqlstream.types import TIMESTAMP_ROOTS, LogicalType, TypeRoot, timestamp

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
