"""Python values as SQL literals that mean the same, whatever the settings of the session."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Mapping
from typing import Any

from sqlstream.client.dbapi.errors import DataError, ProgrammingError

DECIMAL_DIGITS_MAX = 38
NESTING_MAX = 32
_DAY_MS = 86_400_000


def sql_literal(value: Any) -> str:
    """The literal of a parameter. ProgrammingError for a type that has none, DataError for a value that SQL cannot hold.

    >>> sql_literal("it's"), sql_literal(datetime.date(2024, 2, 29)), sql_literal([1, None])
    ("'it''s'", "DATE '2024-02-29'", 'ARRAY[1, NULL]')
    """
    return _literal(value, 0)


def _literal(value: Any, depth: int) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return text_literal(value)
        case int():
            return _integer(value)
        case float():
            return _double(value)
        case decimal.Decimal():
            return _decimal(value)
        case bytes() | bytearray() | memoryview():
            return f"X'{bytes(value).hex()}'"
        case datetime.datetime():
            return _timestamp(value)
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case datetime.time():
            return _time(value)
        case datetime.timedelta():
            return _interval(value)
        case uuid.UUID():
            return text_literal(str(value))
        case list() | tuple() | Mapping():
            return _nested(value, depth)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        # A scalar of NumPy; a datetime64 finer than microseconds becomes an integer there and is not what was meant.
        plain = value.item()
        if type(plain) is not type(value) and not (isinstance(plain, int) and value.dtype.kind in "mM"):
            return _literal(plain, depth)
    raise ProgrammingError(
        f'a parameter of type "{type(value).__name__}" has no SQL literal',
        hint="give None, bool, int, float, Decimal, str, bytes, date, time, datetime, timedelta, UUID, list, tuple or dict",
    )


def text_literal(text: str) -> str:
    """A string literal."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"a parameter holds half of a surrogate pair at character {error.start}",
            hint="give text that can be encoded as UTF-8",
        ) from None
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


def _integer(value: int) -> str:
    if abs(value) >= 10**DECIMAL_DIGITS_MAX:
        raise DataError(
            f"an integer parameter has more than DECIMAL's {DECIMAL_DIGITS_MAX} digits",
            hint="give it as float or as text",
        )
    # In brackets: `x - -1` would begin a comment without the blank.
    return f"({value})" if value < 0 else str(value)


def _double(value: float) -> str:
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{name}' AS DOUBLE)"
    text = repr(float(value)).upper()
    text = text if "E" in text else f"{text}E0"
    return f"({text})" if text.startswith("-") else text


def _decimal(value: decimal.Decimal) -> str:
    if not value.is_finite():
        raise DataError(f"DECIMAL has no {value}", hint="give a float for NaN and infinities")
    text = f"{value:f}"
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    scale = len(text.partition(".")[2])
    if max(len(digits), scale) > DECIMAL_DIGITS_MAX:
        raise DataError(
            f"a Decimal parameter has more than DECIMAL's {DECIMAL_DIGITS_MAX} digits",
            hint="round it, or give a float",
        )
    text = text if scale else f"{text}."
    return f"({text})" if text.startswith("-") else text


def _timestamp(value: datetime.datetime) -> str:
    if value != value:  # pandas.NaT
        return "NULL"
    if getattr(value, "nanosecond", 0):
        raise DataError(
            "a parameter has nanoseconds, which Python's datetime cannot carry",
            hint="round it to microseconds",
        )
    if value.tzinfo is None:
        return f"TIMESTAMP '{value.isoformat(sep=' ', timespec='microseconds')}'"
    moment = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)  # noqa: UP017
    text = moment.isoformat(sep=" ", timespec="microseconds")
    return f"TO_TIMESTAMP_LTZ('{text}', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'UTC')"


def _time(value: datetime.time) -> str:
    if value.tzinfo is not None:
        raise DataError("TIME has no time zone", hint="give a time without tzinfo")
    if value.microsecond % 1000:
        raise DataError("TIME has milliseconds at most", hint="round the time to milliseconds")
    return f"TIME '{value.isoformat(timespec='milliseconds')}'"


def _interval(value: datetime.timedelta) -> str:
    milliseconds, rest = divmod(value, datetime.timedelta(milliseconds=1))
    if rest:
        raise DataError("an interval has milliseconds at most", hint="round the timedelta to milliseconds")
    days, of_day = divmod(abs(milliseconds), _DAY_MS)
    clock = (datetime.datetime.min + datetime.timedelta(milliseconds=of_day)).time()
    sign = "-" if milliseconds < 0 else ""
    return f"INTERVAL '{sign}{days} {clock.isoformat(timespec='milliseconds')}' DAY TO SECOND(3)"


def _nested(value: Any, depth: int) -> str:
    if depth >= NESTING_MAX:
        raise DataError(f"a parameter is nested more than {NESTING_MAX} levels deep")
    if not value:
        kind = "MAP" if isinstance(value, Mapping) else "ROW" if isinstance(value, tuple) else "ARRAY"
        raise DataError(
            f"an empty {kind} has no literal",
            hint="its type is unknown: write CAST(NULL AS …) in the statement",
        )
    if isinstance(value, Mapping):
        items = [_literal(x, depth + 1) for pair in value.items() for x in pair]
        return f"MAP[{', '.join(items)}]"
    items = [_literal(x, depth + 1) for x in value]
    return f"ROW({', '.join(items)})" if isinstance(value, tuple) else f"ARRAY[{', '.join(items)}]"
