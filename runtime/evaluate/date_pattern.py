"""Java's date patterns ('yyyy-MM-dd HH:mm'): columns of timestamps to text, and of text to timestamps."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.kernel import BATCH_BYTES_MAX, Values, null_mask, numbers
from runtime.evaluate.local_time import from_local
from runtime.evaluate.time_operations import FIELDS
from runtime.evaluate.time_programs import reading_program, writing_program
from runtime.kernels.buffers import validity_buffer, view_buffer, view_offsets, view_values
from sqlstream.date_pattern import SHORT_YEARS, Token, format_tokens, parse_tokens
from sqlstream.time_range import DATE_MAX, DATE_MIN, timestamp_bounds
from sqlstream.time_texts import DATE_TEXT, FALLBACK_TEXT, TIME_TEXT, TIMESTAMP_TEXT
from sqlstream.time_units import DAY_S, PER_SECOND

_STEP_S = {"H": 3_600, "h": 3_600, "k": 3_600, "K": 3_600, "a": 43_200, "m": 60, "s": 1}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
_NANOSECONDS = 1_000_000_000
_BUCKETS_MAX = 65_536
_ROWS_PER_BUCKET = 8
"""Rows of one value of the finest unit, from where a text is rather copied than written."""


class TimestampFormat:
    """Timestamps to text, where it pays once per distinct value of the pattern's finest unit: 'yyyy-MM-dd' once per day."""

    def __init__(self, pattern: str) -> None:
        self._tokens = format_tokens(pattern)
        self._program = writing_program(self._tokens)

    def format(self, timestamps: pa.Array) -> pa.Array:
        """Text of TIMESTAMP values (wall clock, no time zone)."""
        rows = len(timestamps)
        bounds = pc.min_max(timestamps)
        if not bounds["min"].is_valid:
            return pa.nulls(rows, pa.string())
        step = self._step(timestamps.type.unit)
        low, high = (b.value // step for b in (bounds["min"], bounds["max"]))
        if low == high:
            text = self._format_each(np.array([low * step]), timestamps.type)[0]
            same = pa.repeat(text, rows)
            return same if not timestamps.null_count else pc.if_else(pc.is_valid(timestamps), same, None)
        nulls = null_mask(timestamps)
        is_written = self._are_written(bounds, rows, timestamps.type.unit)
        if high - low < min(_BUCKETS_MAX, rows // _ROWS_PER_BUCKET if is_written else rows):
            texts = self._format_each(np.arange(low, high + 1) * step, timestamps.type)
            buckets = np.floor_divide(numbers(timestamps, np.int64), step)
            codes = pa.array((buckets - low).astype(np.int32), mask=nulls)
            return texts.take(codes)
        if is_written:
            return self._write(timestamps)
        buckets = np.floor_divide(numbers(timestamps, np.int64), step)
        distinct = pa.array(buckets, mask=nulls).dictionary_encode()
        texts = self._format_each(distinct.dictionary.to_numpy() * step, timestamps.type)
        return texts.take(distinct.indices)

    def _are_written(self, bounds: pa.StructScalar, rows: int, unit: str) -> bool:
        """Whether there is a program, and it can write these times."""
        if self._program is None:
            return False
        low, high = timestamp_bounds(unit)
        is_in_range = bounds["min"].value >= low and bounds["max"].value <= high
        return is_in_range and rows * self._program[1] <= BATCH_BYTES_MAX

    def _write(self, timestamps: pa.Array) -> pa.Array:
        from runtime.kernels.time_texts import write_times_into

        assert self._program is not None
        program, size = self._program
        rows, nulls = len(timestamps), null_mask(timestamps)
        valid = np.ones(rows, np.bool_) if nulls is None else ~nulls
        out, offsets = np.empty(rows * size, np.uint8), np.empty(rows + 1, np.int32)
        fields = np.empty(FIELDS, np.int64)
        per_second = PER_SECOND[timestamps.type.unit]
        values = view_values(timestamps, np.int64)
        write_times_into(out, offsets, values, valid, per_second, program, fields)
        bitmap = None if nulls is None else validity_buffer(valid)
        return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(out), bitmap)

    def _step(self, unit: str) -> int:
        """The finest unit that the pattern shows, in units of the column."""
        per_second = PER_SECOND[unit]
        steps = [DAY_S * per_second]
        for token in self._tokens:
            if token.letter == "S":
                steps.append(max(per_second // 10**token.width, 1))
            elif token.letter in ("n", "N"):
                steps.append(1)
            elif token.letter == "A":
                steps.append(max(per_second // 1000, 1))
            elif token.letter in _STEP_S and token.letter:
                steps.append(_STEP_S[token.letter] * per_second)
        return min(steps)

    def _format_each(self, values: Values, timestamp_type: pa.DataType) -> pa.Array:
        timestamps = pa.array(values, pa.int64()).view(timestamp_type)
        parts = [_format_token(t, timestamps) for t in self._tokens]
        if not any(isinstance(p, pa.Array) for p in parts):
            return pa.repeat("".join(p.as_py() for p in parts), len(values))
        return pc.binary_join_element_wise(*parts, "")


def _format_token(token: Token, timestamps: pa.Array) -> Any:
    width = token.width
    match token.letter:
        case "":
            return pa.scalar(token.text)
        case "y" | "u":
            year = pc.year(timestamps)
            return _padded(numbers(year, np.int64) % 100, 2) if width == 2 else _padded(year, width)
        case "M" | "L":
            return (
                _padded(pc.month(timestamps), width)
                if width < 3
                else _named(_MONTHS, pc.month(timestamps), width)
            )
        case "Q" | "q":
            return _quarter(pc.quarter(timestamps), width)
        case "G":
            # No year before the first has a TIMESTAMP.
            return pa.scalar("AD" if width < 4 else "Anno Domini" if width == 4 else "A")
        case "n":
            return _padded(pa.array(_nanoseconds(timestamps) % _NANOSECONDS), width)
        case "A" | "N":
            return _padded(
                pa.array(_nanoseconds(timestamps) // (1 if token.letter == "N" else 1_000_000)), width
            )
        case "E":
            return _named(_DAYS, pc.day_of_week(timestamps, count_from_zero=False), width)
        case "a":
            return pa.array(["AM", "PM"]).take(pa.array(numbers(pc.hour(timestamps), np.int64) // 12))
        case "S":
            return _fraction(timestamps, width)
        case "d":
            return _padded(pc.day(timestamps), width)
        case "D":
            return _padded(pc.day_of_year(timestamps), width)
        case "m":
            return _padded(pc.minute(timestamps), width)
        case "s":
            return _padded(pc.second(timestamps), width)
        case _:
            return _padded(_hour(token.letter, numbers(pc.hour(timestamps), np.int64)), width)


def _hour(letter: str, hours: Values) -> Values:
    """H from 0 to 23, k from 1 to 24, K from 0 to 11, h from 1 to 12."""
    if letter == "H":
        return hours
    if letter == "k":
        return np.where(hours == 0, 24, hours)
    return hours % 12 if letter == "K" else (hours + 11) % 12 + 1


def _padded(values: Any, width: int) -> pa.Array:
    values = values if isinstance(values, pa.Array) else pa.array(values)
    return pc.utf8_lpad(pc.cast(values, pa.string()), width, "0")


def _nanoseconds(timestamps: pa.Array) -> Values:
    """Nanoseconds since midnight."""
    per_second = PER_SECOND[timestamps.type.unit]
    return numbers(timestamps, np.int64) % (DAY_S * per_second) * (_NANOSECONDS // per_second)


def _quarter(quarters: pa.Array, width: int) -> pa.Array:
    if width in (1, 2, 5):
        return _padded(quarters, 2 if width == 2 else 1)
    names = ("Q1", "Q2", "Q3", "Q4") if width == 3 else _QUARTERS
    return pa.array(names).take(pc.subtract(quarters, 1))


def _named(names: tuple[str, ...], numbers_from_one: pa.Array, width: int) -> pa.Array:
    texts = pa.array([n[0] if width == 5 else n if width > 3 else n[:3] for n in names])
    return texts.take(pc.subtract(numbers_from_one, 1))


def _fraction(timestamps: pa.Array, digits: int) -> pa.Array:
    per_second = PER_SECOND[timestamps.type.unit]
    fraction = numbers(timestamps, np.int64) % per_second * (1_000_000_000 // per_second)
    text = pc.utf8_lpad(pc.cast(pa.array(fraction), pa.string()), 9, "0")
    return pc.utf8_slice_codeunits(text, 0, digits) if digits <= 9 else pc.utf8_rpad(text, digits, "0")


@dataclasses.dataclass(frozen=True)
class Parsed:
    """Points in time as days since the epoch and nanoseconds of the day; points that could not be read are not valid."""

    days: Values
    nanoseconds: Values
    valid: Values
    offset_s: Values | None = None
    """How far the text says that it is ahead of UTC; None where the pattern does not ask for it."""

    def instants(self, unit: str, time_zone: str) -> pa.Array:
        """The points in UTC, as TIMESTAMP_LTZ: by the offset in the text, or else as local times of the time zone."""
        target = pa.timestamp(unit, tz="UTC")
        local = self.timestamps(unit)
        if self.offset_s is None:
            return from_local(local, target, time_zone)
        moved = numbers(local, np.int64) - self.offset_s * PER_SECOND[unit]
        return pa.array(moved, mask=null_mask(local)).view(target)

    def or_else(self, other: Parsed) -> Parsed:
        """These points, and those of `other` where these are not valid."""
        return Parsed(
            np.where(self.valid, self.days, other.days),
            np.where(self.valid, self.nanoseconds, other.nanoseconds),
            self.valid | other.valid,
            None if self.offset_s is None else np.where(self.valid, self.offset_s, 0),
        )

    def timestamps(self, unit: str) -> pa.Array:
        """In units of a timestamp column; digits beyond the unit are cut off, and a point out of its range is NULL."""
        per_second = PER_SECOND[unit]
        low, high = (bound // (DAY_S * per_second) for bound in timestamp_bounds(unit))
        fits = (self.days >= low) & (self.days <= high)
        days = np.where(fits, self.days, 0)
        values = days * (DAY_S * per_second) + self.nanoseconds // (1_000_000_000 // per_second)
        return pa.array(values, mask=~(self.valid & fits)).view(pa.timestamp(unit))

    def dates(self) -> pa.Array:
        fits = (self.days >= DATE_MIN) & (self.days <= DATE_MAX)
        return pa.array(self.days.astype(np.int32), mask=~(self.valid & fits)).view(pa.date32())

    def times(self) -> pa.Array:
        values = (self.nanoseconds // 1_000_000).astype(np.int32)
        return pa.array(values, mask=~self.valid).view(pa.time32("ms"))


class TimestampParser:
    """Text to points in time, by a regular expression with the groups y (or Y, of two digits) M d H (or h and a) m s S;
    most become a program. A month is a number or a name.
    """

    def __init__(self, regex: str) -> None:
        self._regex = rf"\A{regex}\z"
        self._program = reading_program(regex)
        self._fields = frozenset(re.findall(r"\?P<(\w)>", regex))
        self._names_month = "(?P<M>\\d" not in regex and "M" in self._fields

    @staticmethod
    def of_pattern(pattern: str, *, has_rest: bool = False) -> TimestampParser:
        """`has_rest`: the pattern may match the beginning of the text only (Java's SimpleDateFormat)."""
        tokens = parse_tokens(pattern, is_simple=has_rest)
        regex = "".join(_token_regex(t, has_rest) for t in tokens)
        return TimestampParser(regex + "(?s:.*)" if has_rest else regex)

    @staticmethod
    def of_sql_timestamp() -> TimestampParser:
        return TimestampParser(TIMESTAMP_TEXT)

    @staticmethod
    def of_sql_fallback() -> TimestampParser:
        return TimestampParser(FALLBACK_TEXT)

    @staticmethod
    def of_sql_date() -> TimestampParser:
        return TimestampParser(DATE_TEXT)

    @staticmethod
    def of_sql_time() -> TimestampParser:
        return TimestampParser(TIME_TEXT)

    def parse(self, text: pa.Array) -> Parsed:
        return self._by_regex(text) if self._program is None else self._by_program(text, self._program)

    def _by_program(self, text: pa.Array, program: Values) -> Parsed:
        from runtime.kernels.time_texts import read_times_into

        rows, nulls = len(text), null_mask(text)
        offsets, _ = view_offsets(text)
        data = view_buffer(text.buffers()[2], np.uint8, 0, int(offsets[-1]))
        days, nanoseconds = np.empty(rows, np.int64), np.empty(rows, np.int64)
        valid = np.ones(rows, np.bool_) if nulls is None else ~nulls
        fields = np.empty(FIELDS, np.int64)
        read_times_into(days, nanoseconds, valid, data, offsets, program, fields)
        return Parsed(days, nanoseconds, valid)

    def _by_regex(self, text: pa.Array) -> Parsed:
        found = pc.extract_regex(text, self._regex)
        valid = numbers(pc.is_valid(found), np.bool_)
        year, day, hour, minute, second = (
            self._number(found, name, default)
            for name, default in zip("ydHms", (1970, 1, 0, 0, 0), strict=True)
        )
        month = self._month(found) if self._names_month else self._number(found, "M", 1)
        if "Y" in self._fields:
            year = self._number(found, "Y", 0) + SHORT_YEARS
        if "h" in self._fields:
            of_half = self._number(found, "h", 12)
            valid = valid & (of_half >= 1) & (of_half <= 12)
            is_afternoon = numbers(pc.equal(pc.utf8_upper(self._text(found, "a")), "PM"), np.bool_)
            hour = of_half % 12 + np.where(is_afternoon, 12, 0)
        fraction = self._fraction(found)
        valid = (
            valid & (month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second < 60) & (day >= 1)
        )
        start = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
        first = start.astype("datetime64[D]").astype(np.int64)
        length = (start + 1).astype("datetime64[D]").astype(np.int64) - first
        valid = valid & (day <= length)
        nanoseconds = ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + fraction
        offset_s = self._offset(found) if "X" in self._fields else None
        return Parsed(first + day - 1, nanoseconds, valid, offset_s)

    def _offset(self, found: pa.Array) -> Values:
        """Seconds ahead of UTC of 'Z', '+08', '+0830' and '-08:30'."""
        digits = pc.replace_substring(pc.utf8_ltrim(self._text(found, "X"), "+-Z"), ":", "")
        digits = numbers(pc.cast(pc.utf8_rpad(digits, 4, "0"), pa.int64()), np.int64)
        sign = np.where(numbers(pc.starts_with(self._text(found, "X"), "-"), np.bool_), -1, 1)
        return sign * (digits // 100 * 3600 + digits % 100 * 60)

    def _text(self, found: pa.Array, name: str) -> pa.Array:
        return pc.fill_null(pc.struct_field(found, name), "")

    def _month(self, found: pa.Array) -> Values:
        """By its name, of which three letters suffice; 0 where there is none."""
        names = pc.utf8_slice_codeunits(pc.utf8_capitalize(self._text(found, "M")), 0, 3)
        places = pc.index_in(names, value_set=pa.array(_SHORT_MONTHS))
        return numbers(pc.fill_null(places, -1), np.int64) + 1

    def _number(self, found: pa.Array, name: str, default: int) -> Values:
        if name not in self._fields:
            return np.full(len(found), default, dtype=np.int64)
        text = self._text(found, name)
        return numbers(pc.cast(pc.if_else(pc.equal(text, ""), str(default), text), pa.int64()), np.int64)

    def _fraction(self, found: pa.Array) -> Values:
        if "S" not in self._fields:
            return np.zeros(len(found), dtype=np.int64)
        return numbers(pc.cast(pc.utf8_rpad(self._text(found, "S"), 9, "0"), pa.int64()), np.int64)


_HOURS = r"Z|[+-]\d{2}"
_OFFSETS = {1: r"Z|[+-]\d{2}(?:\d{2})?", 2: r"Z|[+-]\d{4}", 3: r"Z|[+-]\d{2}:\d{2}"}
"""What X, XX and XXX match."""


_SHORT_MONTHS = tuple(name[:3] for name in _MONTHS)


def _token_regex(token: Token, is_simple: bool) -> str:
    if not token.letter:
        return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", token.text)
    if token.letter == "X":
        # SimpleDateFormat reads the hours alone for one X.
        offset = _HOURS if is_simple and token.width == 1 else _OFFSETS[min(token.width, 3)]
        return f"(?P<X>{offset})"
    if token.is_month_name:
        # SimpleDateFormat reads both forms, in any case.
        names = _MONTHS + _SHORT_MONTHS if is_simple else _MONTHS if token.width > 3 else _SHORT_MONTHS
        choice = "|".join(names)
        return f"(?P<M>(?i:{choice}))" if is_simple else f"(?P<M>{choice})"
    if token.letter == "a":
        # SimpleDateFormat reads it in any case.
        return "(?P<a>(?i:AM|PM))" if is_simple else "(?P<a>AM|PM)"
    if token.is_short_year:
        return r"(?P<Y>\d{2})"
    name = "y" if token.letter == "u" else token.letter
    if name == "y" and token.width != 4:
        return f"(?P<y>\\d{{{token.width},9}})"
    width = f"{token.width}" if token.width > 1 else "1,2"
    return f"(?P<{name}>\\d{{{width}}})"
