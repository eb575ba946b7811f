"""The values of DATE, TIME, TIMESTAMP and INTERVAL literals."""

from __future__ import annotations

import datetime
import itertools
import re

from sqlstream import types
from sqlstream.errors import UserError
from sqlstream.planner.dialect.nodes import DateTimeLiteral, IntervalLiteral, span_of
from sqlstream.times import DAY_S, PER_SECOND, UNIT_MONTHS, UNIT_MS
from sqlstream.types import LogicalType

UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_DAY_TIME = ("DAY", "HOUR", "MINUTE", "SECOND")
_SECOND = r"(\d{1,2}(?:\.\d{1,9})?)"
_INTERVAL_CHARACTERS_MAX = 1_000
_EPOCH = datetime.date(1970, 1, 1)


def is_interval_range(unit: str, to: str) -> bool:
    """Whether `unit TO to` is a qualifier of standard SQL."""
    if (unit, to) == ("YEAR", "MONTH"):
        return True
    return unit in _DAY_TIME and to in _DAY_TIME and _DAY_TIME.index(unit) < _DAY_TIME.index(to)


def interval_value(node: IntervalLiteral) -> tuple[LogicalType, int]:
    """The type of an interval literal, and its milliseconds (day-time) or months (year-month).

    Raises UserError SS1001 when the text does not have the form that the units require.
    """
    unit, to, text = str(node.args["unit"]), node.args.get("to"), str(node.this).strip()
    is_negative = bool(node.args.get("is_negative"))
    if text[:1] in ("+", "-"):
        is_negative ^= text[0] == "-"
        text = text[1:].strip()
    if len(text) > _INTERVAL_CHARACTERS_MAX:
        message = f"an interval of {len(text)} characters is too long"
        raise UserError("SS1001", message, span=span_of(node), hint="write fewer digits")
    value = _single(unit, text) if to is None else _range(unit, str(to), text)
    if value is None:
        shape = unit if to is None else f"{unit} TO {to}"
        hint = "write it such as " + _example(unit, None if to is None else str(to))
        message = f"illegal interval literal '{node.this}' for {shape}"
        raise UserError("SS1001", message, span=span_of(node), hint=hint)
    if value >= 1 << (31 if unit in UNIT_MONTHS else 63):
        message = f"interval '{node.this}' {unit} is too long"
        raise UserError("SS1001", message, span=span_of(node), hint="write fewer digits")
    result_type = types.INTERVAL_YEAR_MONTH if unit in UNIT_MONTHS else types.INTERVAL_DAY_TIME
    return result_type.not_null(), -value if is_negative else value


def _example(unit: str, to: str | None) -> str:
    if to is None:
        return f"INTERVAL '10' {unit}"
    if to == "MONTH":
        return "INTERVAL '2-3' YEAR TO MONTH"
    parts = {"DAY": "1", "HOUR": "10", "MINUTE": "30", "SECOND": "15"}
    chosen = _DAY_TIME[_DAY_TIME.index(unit) : _DAY_TIME.index(to) + 1]
    separators = ["" if i == 0 else " " if chosen[i - 1] == "DAY" else ":" for i in range(len(chosen))]
    text = "".join(s + parts[f] for s, f in zip(separators, chosen, strict=True))
    return f"INTERVAL '{text}' {unit} TO {to}"


def _single(unit: str, text: str) -> int | None:
    if unit == "SECOND":
        return _seconds(text) if re.fullmatch(r"\d+(\.\d{1,9})?", text) else None
    if not re.fullmatch(r"\d+", text):
        return None
    return int(text) * (UNIT_MONTHS[unit] if unit in UNIT_MONTHS else UNIT_MS[unit])


def _seconds(text: str) -> int:
    whole, _, fraction = text.partition(".")
    # Day-time intervals have a precision of 3; Flink truncates further digits.
    return int(whole) * 1000 + int(fraction[:3].ljust(3, "0"))


def _range(unit: str, to: str, text: str) -> int | None:
    if to == "MONTH":
        match = re.fullmatch(r"(\d+)-(\d{1,2})", text)
        return int(match[1]) * 12 + int(match[2]) if match and int(match[2]) < 12 else None
    chosen = _DAY_TIME[_DAY_TIME.index(unit) : _DAY_TIME.index(to) + 1]
    pattern = r"(\d+)"
    for previous, field in itertools.pairwise(chosen):
        separator = " " if previous == "DAY" else ":"
        pattern += separator + (_SECOND if field == "SECOND" else r"(\d{1,2})")
    match = re.fullmatch(pattern, text)
    if match is None:
        return None
    total = int(match[1]) * UNIT_MS[unit]
    for field, part in zip(chosen[1:], match.groups()[1:], strict=True):
        if int(part.partition(".")[0]) > (23 if field == "HOUR" else 59):
            return None
        total += _seconds(part) if field == "SECOND" else int(part) * UNIT_MS[field]
    return total


def datetime_value(node: DateTimeLiteral) -> tuple[LogicalType, int]:
    """A literal's type and value: days since the epoch | ms of the day | nanoseconds since the epoch.

    TIME and TIMESTAMP get the precision of the digits that were written. Raises SS1001 on a malformed text.
    """
    text, kind = str(node.this).strip(), str(node.args["kind"])
    result = _DATETIME[kind](text)
    if result is None:
        hint = f"write it such as {_DATETIME_EXAMPLES[kind]}"
        if kind == "TIMESTAMP" and _days(text) is not None:
            hint = f"write the time of day too: TIMESTAMP '{text} 00:00:00'"
        elif (
            kind == "DATE"
            and (date := text.replace("/", "-").replace(".", "-")) != text
            and _days(date) is not None
        ):
            hint = f"write DATE '{date}'"
        raise UserError("SS1001", f"illegal {kind} literal '{node.this}'", span=span_of(node), hint=hint)
    return result


_DATETIME_EXAMPLES = {
    "DATE": "DATE '2024-02-29'",
    "TIME": "TIME '23:59:01'",
    "TIMESTAMP": "TIMESTAMP '2024-02-29 23:59:01.123'",
}
_DATE = r"\d{4}-\d{1,2}-\d{1,2}"
_TIME = r"\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d{1,9})?"


def _days(text: str) -> int | None:
    if not re.fullmatch(_DATE, text):
        return None
    year, month, day = (int(p) for p in text.split("-"))
    try:
        return (datetime.date(year, month, day) - _EPOCH).days
    except ValueError:
        return None


def _nanos_of_day(text: str) -> tuple[int, int] | None:
    """Nanoseconds of the day, and the number of digits of the fraction."""
    if not re.fullmatch(_TIME, text):
        return None
    clock, _, fraction = text.partition(".")
    hour, minute, second = (int(p) for p in clock.split(":"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    nanos = ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + int(fraction.ljust(9, "0") or 0)
    return nanos, len(fraction)


def _date(text: str) -> tuple[LogicalType, int] | None:
    days = _days(text)
    return None if days is None else (types.DATE.not_null(), days)


def _time(text: str) -> tuple[LogicalType, int] | None:
    """Digits beyond milliseconds are cut off, as in Flink."""
    parsed = _nanos_of_day(text)
    if parsed is None:
        return None
    return types.time(min(parsed[1], 3)).not_null(), parsed[0] // 1_000_000


def _timestamp(text: str) -> tuple[LogicalType, int] | None:
    match = re.fullmatch(rf"({_DATE})[ T]+({_TIME})", text)
    if match is None:
        return None
    days, parsed = _days(match[1]), _nanos_of_day(match[2])
    if days is None or parsed is None:
        return None
    return types.timestamp(parsed[1]).not_null(), days * DAY_S * PER_SECOND["ns"] + parsed[0]


_DATETIME = {"DATE": _date, "TIME": _time, "TIMESTAMP": _timestamp}
