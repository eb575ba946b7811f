"""Reads texts as points in time and writes points in time as texts, by programs: an int64 row for each operation, the operation
first."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import load_8, load_64
from sqlstream.runtime.native.kernel import READ_BYTES, always_inlined, inlined, kernel

# Operations and fields, as constants of machine code: those of sqlstream.runtime.evaluate.time.time_operations.
_BYTE, _FIELD, _BLANKS, _SPACES, _DIGITS, _OPTION, _END, _NUMBER = range(8)
_YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND, _FRACTION = range(7)
_DAY_OF_YEAR, _SHORT_YEAR, _HOUR_OF_12, _HOUR_FROM_1, _HOUR_OF_12_FROM_1 = range(7, 12)
_DAY_S, _BILLION = 86_400, 1_000_000_000
_NANOSECONDS_REACH_S = 9_223_372_035


@inlined
def _is_digit(byte):  # type: ignore[no-untyped-def]
    return 48 <= byte <= 57


@inlined
def _days_of(year, month, day):  # type: ignore[no-untyped-def]
    """Days since 1970-01-01 in the proleptic Gregorian calendar, by years that begin in March."""
    year -= 1 if month <= 2 else 0
    cycle = year // 400
    of_cycle = year - cycle * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return cycle * 146_097 + of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + of_year - 719_468


@inlined
def _days_in(year, month):  # type: ignore[no-untyped-def]
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 + ((month + (month >> 3)) & 1)


@inlined
def _is_read(data, i, end, program, fields):  # type: ignore[no-untyped-def]
    """Fill the fields from `data[i:end]`; whether the text is as the program says."""
    at, resumed, target = np.int64(0), np.int64(-1), np.int64(0)
    while True:
        operation = program[at, 0]
        fits = True
        if operation == _BYTE:
            fits = i < end and (data[i] == program[at, 1] or data[i] == program[at, 2])
            i += 1
        elif operation == _FIELD:
            start, stop, number = i, min(end, i + program[at, 3]), np.int64(0)
            while i < stop and _is_digit(data[i]):
                number = number * 10 + (data[i] - 48)
                i += 1
            fits = i - start >= program[at, 2]
            if program[at, 1] == _FRACTION:
                for _ in range(i - start, 9):
                    number *= 10
            fields[program[at, 1]] = number
        elif operation == _BLANKS:
            while i < end and (data[i] == 32 or 9 <= data[i] <= 10 or 12 <= data[i] <= 13):
                i += 1
        elif operation == _SPACES:
            fits = i < end and data[i] == 32
            while i < end and data[i] == 32:
                i += 1
        elif operation == _DIGITS:
            while i < end and _is_digit(data[i]):
                i += 1
        elif operation == _OPTION:
            resumed, target = i, program[at, 1]
        else:
            return i == end or program[at, 1] == 1
        if fits:
            at += 1
        elif resumed >= 0:
            i, at, resumed = resumed, target, np.int64(-1)
        else:
            return False


@kernel(f"void(int64[::1], int64[::1], boolean[::1], {READ_BYTES}, int32[::1], int64[:, ::1], int64[::1])")
def read_times_into(days, nanoseconds, valid, data, offsets, program, fields):  # type: ignore[no-untyped-def]
    """Read the texts `data[offsets[n]:offsets[n + 1]]` as days since the epoch and nanoseconds of the day.

    `valid`, where false, says that a text is NULL; it becomes false for a text of another form, and for one that is no point in
    time. `fields` is memory to work with.
    """
    for row in range(len(days)):
        days[row], nanoseconds[row] = 0, 0
        if not valid[row]:
            continue
        for field in range(len(fields)):
            fields[field] = 0
        fields[_YEAR], fields[_MONTH], fields[_DAY] = 1970, 1, 1
        valid[row] = _is_read(data, np.int64(offsets[row]), np.int64(offsets[row + 1]), program, fields)
        year, month, day = fields[_YEAR], fields[_MONTH], fields[_DAY]
        hour, minute, second = fields[_HOUR], fields[_MINUTE], fields[_SECOND]
        is_day = 1 <= month <= 12 and 1 <= day <= _days_in(year, month)
        valid[row] = valid[row] and is_day and hour < 24 and minute < 60 and second < 60
        if valid[row]:
            days[row] = _days_of(year, month, day)
            nanoseconds[row] = ((hour * 60 + minute) * 60 + second) * _BILLION + fields[_FRACTION]


# Words of eight characters, the first in the lowest byte: "YYYY-MM-" and "hh:mm:ss". Masks of what is no digit, and what it is.
_DATE_MARKS, _DATE_MARK = np.uint64(0xFF0000FF00000000), np.uint64(0x2D00002D00000000)
_CLOCK_MARKS, _CLOCK_MARK = np.uint64(0x0000FF0000FF0000), np.uint64(0x00003A00003A0000)
_ZEROS, _HIGHS, _ABOVE_NINE = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0x80, 0x76))
_EIGHT, _TEN, _BYTES = np.uint64(8), np.uint64(10), np.uint64(0xFF)


@always_inlined
def _pairs(word, marks, mark):  # type: ignore[no-untyped-def]
    """Whether a word has these marks and digits elsewhere; in each byte that begins two digits, the number that they are."""
    digits = ((word & ~marks) | (_ZEROS & marks)) ^ _ZEROS
    fits = (word & marks) == mark and ((digits + _ABOVE_NINE) | digits) & _HIGHS == np.uint64(0)
    return fits, digits * _TEN + (digits >> _EIGHT)


@always_inlined
def _pair(pairs, place):  # type: ignore[no-untyped-def]
    return np.int64((pairs >> np.uint64(8 * place)) & _BYTES)


@always_inlined
def _two_digits(at):  # type: ignore[no-untyped-def]
    """The number that two characters are; above 99 where they are no digits."""
    ten, one = np.int64(load_8(at)) - 48, np.int64(load_8(at + 1)) - 48
    return ten * 10 + one if 0 <= ten <= 9 and 0 <= one <= 9 else np.int64(100)


@kernel(f"boolean(int64[::1], boolean[::1], {READ_BYTES}, int32[::1], int64, boolean)")
def read_plain_times_into(out, valid, data, offsets, digits, has_zone):  # type: ignore[no-untyped-def]
    """Read texts as timestamps are mostly written, `YYYY-MM-DD hh:mm:ss`, with `T` for the blank, and with a fraction of at most
    `digits` digits, as parts of a second of so many digits since the epoch. With `has_zone` each ends in `Z`.

    False, with `out` unfinished, where a text that `valid` says is there is written in another way or is no point in time of the
    years 1 to 9999.
    """
    # No text has this day.
    date, of_month, days = np.uint64(0), np.int64(-1), np.int64(0)
    scale = np.int64(1)
    for _ in range(digits):
        scale *= 10
    base = data.ctypes.data
    for row in range(len(out)):
        out[row] = 0
        if not valid[row]:
            continue
        at, end = base + np.int64(offsets[row]), base + np.int64(offsets[row + 1])
        if has_zone:
            end -= 1
        if end < at + 19 or end > at + 20 + digits or (has_zone and load_8(end) != np.uint64(90)):
            return False
        word, day = load_64(at), _two_digits(at + 8)
        if word != date or day != of_month:
            fits, pairs = _pairs(word, _DATE_MARKS, _DATE_MARK)
            year, month = _pair(pairs, 0) * 100 + _pair(pairs, 2), _pair(pairs, 5)
            if not fits or year < 1 or month < 1 or month > 12 or day < 1 or day > _days_in(year, month):
                return False
            date, of_month, days = word, day, _days_of(year, month, day)
        fits, pairs = _pairs(load_64(at + 11), _CLOCK_MARKS, _CLOCK_MARK)
        hour, minute, second = _pair(pairs, 0), _pair(pairs, 3), _pair(pairs, 6)
        between = load_8(at + 10)
        is_separated = between == np.uint64(32) or between == np.uint64(84)
        if not fits or not is_separated or hour > 23 or minute > 59 or second > 59:
            return False
        fraction, left = np.int64(0), scale
        if end > at + 19:
            if load_8(at + 19) != np.uint64(46) or end == at + 20:
                return False
            for place in range(at + 20, end):
                digit = np.int64(load_8(place)) - 48
                if digit < 0 or digit > 9:
                    return False
                fraction = fraction * 10 + digit
                left //= 10
        seconds = days * _DAY_S + (hour * 60 + minute) * 60 + second
        # Nanoseconds do not reach all these years.
        if digits == 9 and abs(seconds) > _NANOSECONDS_REACH_S:
            return False
        out[row] = seconds * scale + fraction * left
    return True


@inlined
def _split(value, per_second, fields):  # type: ignore[no-untyped-def]
    """Fill the fields of a point in time."""
    seconds = value // per_second
    fields[_FRACTION] = (value - seconds * per_second) * (_BILLION // per_second)
    days = seconds // _DAY_S
    seconds -= days * _DAY_S
    fields[_HOUR], fields[_MINUTE], fields[_SECOND] = seconds // 3600, seconds // 60 % 60, seconds % 60
    fields[_HOUR_OF_12] = fields[_HOUR] % 12
    fields[_HOUR_FROM_1] = fields[_HOUR] if fields[_HOUR] > 0 else 24
    fields[_HOUR_OF_12_FROM_1] = fields[_HOUR_OF_12] if fields[_HOUR_OF_12] > 0 else 12
    shifted = days + 719_468
    cycle = shifted // 146_097
    of_cycle = shifted - cycle * 146_097
    year = (of_cycle - of_cycle // 1460 + of_cycle // 36_524 - of_cycle // 146_096) // 365
    of_year = of_cycle - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    fields[_DAY] = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year += cycle * 400 + (1 if month <= 2 else 0)
    fields[_YEAR], fields[_MONTH], fields[_SHORT_YEAR] = year, month, year % 100
    fields[_DAY_OF_YEAR] = days - _days_of(year, np.int64(1), np.int64(1)) + 1


@kernel(
    "void(uint8[::1], int32[::1], int64[::1], boolean[::1], int64, int64[:, ::1], int64[::1])",
)
def write_times_into(out, offsets, values, valid, per_second, program, fields):  # type: ignore[no-untyped-def]
    """Write points in time, counted in parts of a second since the epoch, one after another; nothing where not `valid`.

    `out` has room for all, `fields` is memory to work with.
    """
    o = np.int64(0)
    offsets[0] = 0
    for row in range(len(values)):
        if valid[row]:
            _split(values[row], per_second, fields)
            for at in range(len(program)):
                if program[at, 0] == _BYTE:
                    out[o] = program[at, 1]
                    o += 1
                elif program[at, 0] == _NUMBER:
                    number, count = fields[program[at, 1]] // program[at, 3], program[at, 2]
                    rest = number
                    for _ in range(count):
                        rest //= 10
                    while rest > 0:
                        rest //= 10
                        count += 1
                    for place in range(count):
                        out[o + count - 1 - place] = 48 + number % 10
                        number //= 10
                    o += count
                else:
                    out[o], out[o + 1] = 65 if fields[_HOUR] < 12 else 80, 77
                    o += 2
        offsets[row + 1] = o
