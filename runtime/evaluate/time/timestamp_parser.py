"""Texts as timestamps by Java's date patterns ('yyyy-MM-dd HH:mm'), and by other regular expressions."""

from __future__ import annotations

import contextlib
import dataclasses
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.by_parameter import rows_by_code
from sqlstream.runtime.evaluate.kernel import Values, null_mask, numbers
from sqlstream.runtime.evaluate.time.local_time import from_local
from sqlstream.runtime.evaluate.time.time_operations import FIELDS
from sqlstream.runtime.evaluate.time.time_programs import reading_program
from sqlstream.runtime.kernels.buffers import view_buffer, view_offsets
from sqlstream.text.date_pattern import DAY_NAMES, MONTH_NAMES, SHORT_YEARS, Token, parse_tokens
from sqlstream.times import (
    DATE_MAX,
    DATE_MIN,
    DATE_TEXT,
    DAY_S,
    FALLBACK_TEXT,
    PER_SECOND,
    TIME_TEXT,
    TIMESTAMP_TEXT,
    time_zone_of,
    timestamp_bounds,
)

_NANOSECONDS = 1_000_000_000


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
    """Text to points in time, by a regular expression; most become a program.

    Its groups are y (or Y, of two digits) M d H (or h and a) m s S; k (or K, of two digits), w and e for the year, the week and
    the day of a week, and E for its name; X for the distance to UTC, z and V for names of time zones. A month is a number or a
    name. A name of a day must be that of the date, unless `is_lenient`.
    """

    def __init__(self, regex: str, *, is_lenient: bool = False) -> None:
        self._is_lenient = is_lenient
        self._regex = rf"\A{regex}\z"
        self._program = reading_program(regex)
        self._fields = frozenset(re.findall(r"\?P<(\w)>", regex))
        self._names_month = "(?P<M>\\d" not in regex and "M" in self._fields

    @staticmethod
    def of_pattern(pattern: str, *, has_rest: bool = False) -> TimestampParser:
        """`has_rest`: the pattern may match the beginning of the text only (Java's SimpleDateFormat)."""
        tokens = parse_tokens(pattern, is_simple=has_rest)
        regex = "".join(_token_regex(t, has_rest) for t in tokens)
        return TimestampParser(regex + "(?s:.*)" if has_rest else regex, is_lenient=has_rest)

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
        from sqlstream.runtime.kernels.text.time_texts import read_times_into

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
        days = first + day - 1
        if "w" in self._fields:
            days, is_week = self._days_of_weeks(found)
            valid = valid & is_week
        elif "E" in self._fields and "d" in self._fields and not self._is_lenient:
            valid = valid & (self._day_of_week(found) == (days + 3) % 7 + 1)
        offset_s = self._offset(found, days, nanoseconds)
        if offset_s is not None:
            valid = valid & (np.abs(offset_s) <= _OFFSET_MAX_S)
        return Parsed(days, nanoseconds, valid, None if offset_s is None else np.where(valid, offset_s, 0))

    def _day_of_week(self, found: pa.Array) -> Values:
        """From 1 for Monday; 0 where there is no such name."""
        names = pc.utf8_slice_codeunits(pc.utf8_capitalize(self._text(found, "E")), 0, 3)
        places = pc.index_in(names, value_set=pa.array([d[:3] for d in DAY_NAMES]))
        return numbers(pc.fill_null(places, -1), np.int64) + 1

    def _days_of_weeks(self, found: pa.Array) -> tuple[Values, Values]:
        """Days since the epoch by year and week of ISO 8601, and which are valid. A week without a day is its Monday, and week 53
        of a year with 52 is the last one, as in Java."""
        year = (
            self._number(found, "K", 0) + SHORT_YEARS
            if "K" in self._fields
            else self._number(found, "k", 1970)
        )
        week = self._number(found, "w", 1)
        day = self._day_of_week(found) if "E" in self._fields else self._number(found, "e", 1)
        first, following = (_first_mondays(y) for y in (year, year + 1))
        weeks = np.minimum(week, (following - first) // 7)
        return first + 7 * (weeks - 1) + day - 1, (week >= 1) & (week <= 53) & (day >= 1) & (day <= 7)

    def _offset(self, found: pa.Array, days: Values, nanoseconds: Values) -> Values | None:
        """Seconds ahead of UTC; more than there are for an unknown time zone, and None where the pattern has none."""
        distances = self._distances(found) if "X" in self._fields else None
        if "z" in self._fields:
            zones = pa.array(list(_ZONES.values()))
            names = zones.take(pc.index_in(self._text(found, "z"), value_set=pa.array(list(_ZONES))))
            named = self._offsets_of_zones(pc.fill_null(names, ""), days, nanoseconds)
            has_name = numbers(pc.fill_null(names.is_valid(), False), np.bool_)
            return named if distances is None else np.where(has_name, named, distances)
        if "V" in self._fields:
            return self._offsets_of_zones(self._text(found, "V"), days, nanoseconds)
        return distances

    def _distances(self, found: pa.Array) -> Values:
        """What Z, x, X and O read: '+08', '+0830', '-08:30', 'GMT+8', and Z for none."""
        parts = pc.extract_regex(self._text(found, "X"), _OFFSET_PARTS)
        padded = _with_zeros(parts)
        hours, minutes, seconds = (
            numbers(pc.cast(pc.fill_null(pc.struct_field(padded, n), "0"), pa.int64()), np.int64)
            for n in ("h", "m", "s")
        )
        is_behind = numbers(pc.fill_null(pc.equal(pc.struct_field(parts, "sign"), "-"), False), np.bool_)
        wrong = np.where((minutes > 59) | (seconds > 59), _OFFSET_MAX_S + 1, 0)
        return np.where(is_behind, -1, 1) * (hours * 3600 + minutes * 60 + seconds) + wrong

    def _offsets_of_zones(self, names: pa.Array, days: Values, nanoseconds: Values) -> Values:
        """By the names of zones, of which a batch has few."""
        zones = names.dictionary_encode()
        codes = numbers(zones.indices, np.int64)
        seconds = days * DAY_S + nanoseconds // _NANOSECONDS
        offsets = np.full(len(codes), _OFFSET_MAX_S + 1, np.int64)
        for rows in rows_by_code(codes):
            name = zones.dictionary[int(codes[rows[0]])].as_py()
            local = pa.array(seconds[rows], pa.int64()).view(pa.timestamp("s"))
            with contextlib.suppress(UserError):
                instants = from_local(local, pa.timestamp("s", tz="UTC"), time_zone_of(name))
                offsets[rows] = seconds[rows] - numbers(instants, np.int64)
        return offsets

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


def _first_mondays(years: Values) -> Values:
    """The Monday of the week with January 4th, in days since the epoch."""
    fourth = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64) + 3
    return fourth - (fourth + 3) % 7


def _with_zeros(parts: pa.Array) -> pa.Array:
    """The parts of a distance to UTC, of which those that are missing are 0."""
    names = ("h", "m", "s")
    columns = [pc.struct_field(parts, n) for n in names]
    return pa.StructArray.from_arrays([pc.if_else(pc.equal(c, ""), "0", c) for c in columns], names)


_OFFSET_MAX_S = 18 * 3_600
_OFFSET_PARTS = r"\A(?:GMT|UTC)?(?:Z|(?P<sign>[+-])(?P<h>\d{1,2}):?(?P<m>\d{2})?:?(?P<s>\d{2})?)?\z"
_HOURS = r"Z|[+-]\d{2}"
_OFFSETS = (
    r"[+-]\d{2}(?:\d{2})?", r"[+-]\d{4}", r"[+-]\d{2}:\d{2}", r"[+-]\d{4}(?:\d{2})?", r"[+-]\d{2}:\d{2}(?::\d{2})?",
)  # fmt: skip
"""What x to xxxxx match; X and ZZZZZ also Z."""
_GMT = r"GMT(?:[+-]\d{1,2}(?::\d{2}){0,2})?"
_ZONES = {
    **dict.fromkeys(("UTC", "GMT", "UT", "Z"), "UTC"),
    **dict.fromkeys(("EST", "EDT"), "America/New_York"),
    **dict.fromkeys(("CST", "CDT"), "America/Chicago"),
    **dict.fromkeys(("MST", "MDT"), "America/Denver"),
    **dict.fromkeys(("PST", "PDT"), "America/Los_Angeles"),
    **dict.fromkeys(("AKST", "AKDT"), "America/Anchorage"),
    **dict.fromkeys(("WET", "WEST"), "Europe/Lisbon"),
    **dict.fromkeys(("CET", "CEST"), "Europe/Paris"),
    **dict.fromkeys(("EET", "EEST"), "Europe/Athens"),
    **dict.fromkeys(("AEST", "AEDT"), "Australia/Sydney"),
    **dict.fromkeys(("NZST", "NZDT"), "Pacific/Auckland"),
    "BST": "Europe/London",
    "MSK": "Europe/Moscow",
    "IST": "Asia/Kolkata",
    "SGT": "Asia/Singapore",
    "HKT": "Asia/Hong_Kong",
    "JST": "Asia/Tokyo",
    "KST": "Asia/Seoul",
    "HST": "Pacific/Honolulu",
}
"""Names of time zones that z reads: as in Java, PST in summer is the time that there is in Los Angeles then."""


def _zone_regex(token: Token, is_simple: bool) -> str:
    letter, width = token.letter, token.width
    if letter == "z" or (is_simple and letter == "Z"):
        names = f"(?P<z>{'|'.join(_ZONES)})"
        # SimpleDateFormat reads distances for z too, and names for Z.
        return rf"(?:(?P<X>[+-]\d{{4}}|GMT[+-]\d{{1,2}}:\d{{2}})|{names})" if is_simple else names
    if letter == "V":
        return r"(?P<V>[A-Za-z][A-Za-z0-9_+\-/]*)"
    if letter == "O" or token.text == "ZZZZ":
        return f"(?P<X>{_GMT})"
    if letter == "X":
        # SimpleDateFormat reads the hours alone for one X.
        return f"(?P<X>{_HOURS if is_simple and width == 1 else f'Z|{_OFFSETS[width - 1]}'})"
    if letter == "Z":
        return f"(?P<X>{f'Z|{_OFFSETS[4]}' if width == 5 else _OFFSETS[1]})"
    return f"(?P<X>{_OFFSETS[width - 1]})"


_SHORT_MONTHS = tuple(name[:3] for name in MONTH_NAMES)


def _token_regex(token: Token, is_simple: bool) -> str:
    if not token.letter:
        return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", token.text)
    if token.is_zone:
        return _zone_regex(token, is_simple)
    if token.is_day_name:
        # SimpleDateFormat reads both forms, in any case.
        short = tuple(name[:3] for name in DAY_NAMES)
        names = DAY_NAMES + short if is_simple else DAY_NAMES if token.width > 3 else short
        return f"(?P<E>(?i:{'|'.join(names)}))" if is_simple else f"(?P<E>{'|'.join(names)})"
    if token.letter == "Y":
        return (
            r"(?P<K>\d{2})"
            if token.width == 2
            else f"(?P<k>\\d{{{token.width}{'' if token.width == 4 else ',9'}}})"
        )
    if token.letter in ("e", "c"):
        return r"(?P<e>\d{2})" if token.width == 2 else r"(?P<e>\d)"
    if token.is_month_name:
        # SimpleDateFormat reads both forms, in any case.
        names = (
            MONTH_NAMES + _SHORT_MONTHS if is_simple else MONTH_NAMES if token.width > 3 else _SHORT_MONTHS
        )
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
