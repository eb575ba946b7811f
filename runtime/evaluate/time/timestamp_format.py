"""Timestamps as texts by Java's date patterns ('yyyy-MM-dd HH:mm')."""

from __future__ import annotations

import datetime
import zoneinfo
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.by_parameter import rows_by_code
from sqlstream.runtime.evaluate.kernel import BATCH_BYTES_MAX, Values, null_mask, numbers
from sqlstream.runtime.evaluate.time.local_time import to_local
from sqlstream.runtime.evaluate.time.time_operations import FIELDS
from sqlstream.runtime.evaluate.time.time_programs import writing_program
from sqlstream.runtime.kernels.buffers import validity_buffer, view_values
from sqlstream.text.date_pattern import DAY_NAMES, MONTH_NAMES, Token, format_tokens
from sqlstream.times import DAY_S, PER_SECOND, timestamp_bounds

_STEP_S = {"H": 3_600, "h": 3_600, "k": 3_600, "K": 3_600, "a": 43_200, "m": 60, "s": 1}
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
_NANOSECONDS = 1_000_000_000
_BUCKETS_MAX = 65_536
_ROWS_PER_BUCKET = 8
"""Rows of one value of the finest unit, from where a text is rather copied than written."""


class TimestampFormat:
    """Timestamps to text, where it pays once per distinct value of the pattern's finest unit: 'yyyy-MM-dd' once per day."""

    def __init__(self, pattern: str | tuple[Token, ...], *, has_zone: bool = False) -> None:
        self._tokens = format_tokens(pattern, has_zone=has_zone) if isinstance(pattern, str) else pattern
        self._has_zone = any(t.is_zone for t in self._tokens)
        self._program = None if self._has_zone else writing_program(self._tokens)
        self._last: tuple[Any, pa.Array] = (None, pa.nulls(0))

    def format_shown(self, values: pa.Array, time_zone: str) -> pa.Array:
        """Text of timestamps; of instants, as they are shown in a time zone."""
        local = to_local(values, time_zone)
        if not self._has_zone:
            return self.format(local)
        per_second = PER_SECOND[values.type.unit]
        offsets = (numbers(local, np.int64) - numbers(values, np.int64)) // per_second
        texts, rows = [], []
        # A zone has few distances to UTC; its letters are text then.
        for chosen in rows_by_code(offsets):
            first = values[int(chosen[0])]
            seconds = first.value // per_second if first.is_valid else 0
            tokens = tuple(_zone_text(t, int(offsets[chosen[0]]), time_zone, seconds) for t in self._tokens)
            texts.append(TimestampFormat(tokens).format(local.take(pa.array(chosen))))
            rows.append(chosen)
        if not rows:
            return pa.nulls(0, pa.string())
        order = np.argsort(np.concatenate(rows), kind="stable")
        return pa.concat_arrays(texts).take(pa.array(order))

    def format(self, timestamps: pa.Array) -> pa.Array:
        """Text of TIMESTAMP values (wall clock, no time zone)."""
        rows = len(timestamps)
        bounds = pc.min_max(timestamps)
        if not bounds["min"].is_valid:
            return pa.nulls(rows, pa.string())
        step = self._step(timestamps.type.unit)
        low, high = (b.value // step for b in (bounds["min"], bounds["max"]))
        if low == high:
            same = self._repeated(low * step, timestamps.type, rows)
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

    def _repeated(self, time: int, data_type: pa.DataType, rows: int) -> pa.Array:
        """The text of a time for so many rows: that of the batch before, where it is of this time and not much longer."""
        key = (time, data_type)
        before, texts = self._last
        if before != key or not rows <= len(texts) < 2 * rows:
            text = texts[0] if before == key else self._format_each(np.array([time]), data_type)[0]
            texts = pa.repeat(text, rows)
            # At once: other threads format too.
            self._last = (key, texts)
        return texts.slice(0, rows)

    def _are_written(self, bounds: pa.StructScalar, rows: int, unit: str) -> bool:
        """Whether there is a program, and it can write these times."""
        if self._program is None:
            return False
        low, high = timestamp_bounds(unit)
        is_in_range = bounds["min"].value >= low and bounds["max"].value <= high
        return is_in_range and rows * self._program[1] <= BATCH_BYTES_MAX

    def _write(self, timestamps: pa.Array) -> pa.Array:
        from sqlstream.runtime.kernels.text.time_texts import write_times_into

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
        case "Y":
            year = pc.iso_year(timestamps)
            return _padded(numbers(year, np.int64) % 100, 2) if width == 2 else _padded(year, width)
        case "w":
            return _padded(pc.iso_week(timestamps), width)
        case "W":
            return _padded(_week_of_month(timestamps), width)
        case "e" | "c" if width < 3:
            return _padded(pc.day_of_week(timestamps, count_from_zero=False), width)
        case "M" | "L":
            return (
                _padded(pc.month(timestamps), width)
                if width < 3
                else _named(MONTH_NAMES, pc.month(timestamps), width)
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
        case "E" | "e" | "c":
            return _named(DAY_NAMES, pc.day_of_week(timestamps, count_from_zero=False), width)
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


def _week_of_month(timestamps: pa.Array) -> Values:
    """Weeks from Monday; days before the first one with four days are of week 0 (Java: WeekFields.ISO)."""
    day = numbers(pc.day(timestamps), np.int64)
    before = (day - numbers(pc.day_of_week(timestamps, count_from_zero=False), np.int64)) % 7
    return (7 + np.where(before > 3, 7 - before, -before) + day - 1) // 7


def _zone_text(token: Token, offset_s: int, time_zone: str, seconds: int) -> Token:
    """A letter of the zone as the text that it stands for at this distance to UTC, and at this instant."""
    if not token.is_zone:
        return token
    if token.letter == "V":
        return Token("", time_zone)
    if token.letter == "z":
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone(
            zoneinfo.ZoneInfo(time_zone)
        )
        return Token("", moment.tzname() or time_zone)
    sign, minutes = "-" if offset_s < 0 else "+", abs(offset_s) // 60
    hours, rest, seconds_left = minutes // 60, minutes % 60, abs(offset_s) % 60
    if token.letter == "O" or token.text == "ZZZZ":
        is_short = token.text == "O"
        if not offset_s:
            return Token("", "GMT")
        more = f":{rest:02}" if rest or not is_short else ""
        more += f":{seconds_left:02}" if seconds_left else ""
        return Token("", f"GMT{sign}{hours if is_short else f'{hours:02}'}{more}")
    if not offset_s and (token.letter == "X" or token.text == "ZZZZZ"):
        return Token("", "Z")
    width = {"Z": 5 if token.width == 5 else 2}.get(token.letter, token.width)
    colon = ":" if width in (3, 5) else ""
    text = f"{sign}{hours:02}" + (f"{colon}{rest:02}" if width > 1 or rest else "")
    return Token("", text + (f"{colon}{seconds_left:02}" if width > 3 and seconds_left else ""))


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
