"""Reads texts as points in time and writes points in time as texts, by programs: an int64 row for each operation, the operation
first."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import (
    days_in,
    days_of,
    load_8,
    small_buffer,
    store_64,
    timestamp_at,
)
from sqlstream.runtime.native.kernel import READ_BYTES, inlined, kernel

# Operations and fields, as constants of machine code: those of sqlstream.runtime.evaluate.time.time_operations.
_BYTE, _FIELD, _BLANKS, _SPACES, _DIGITS, _OPTION, _END, _NUMBER = range(8)
_YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND, _FRACTION = range(7)
_DAY_OF_YEAR, _SHORT_YEAR, _HOUR_OF_12, _HOUR_FROM_1, _HOUR_OF_12_FROM_1 = range(7, 12)
_DAY_S, _BILLION = 86_400, 1_000_000_000


@inlined
def _is_digit(byte):  # type: ignore[no-untyped-def]
    return 48 <= byte <= 57


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
        is_day = 1 <= month <= 12 and 1 <= day <= days_in(year, month)
        valid[row] = valid[row] and is_day and hour < 24 and minute < 60 and second < 60
        if valid[row]:
            days[row] = days_of(year, month, day)
            nanoseconds[row] = ((hour * 60 + minute) * 60 + second) * _BILLION + fields[_FRACTION]


@kernel(f"boolean(int64[::1], boolean[::1], {READ_BYTES}, int32[::1], int64, boolean)")
def read_plain_times_into(out, valid, data, offsets, digits, has_zone):  # type: ignore[no-untyped-def]
    """Read texts with `timestamp_at`, as parts of a second of so many digits since the epoch. With `has_zone` each ends in `Z`.

    False, with `out` unfinished, where a text that `valid` says is there is written in another way or is beyond the range of the
    type.
    """
    kept = small_buffer()
    store_64(kept + 8, np.uint64(0))
    base = np.int64(data.ctypes.data)
    for row in range(len(out)):
        out[row] = 0
        if not valid[row]:
            continue
        end = base + np.int64(offsets[row + 1]) - np.int64(has_zone)
        after, value = timestamp_at(base + np.int64(offsets[row]), end, base + len(data), kept, digits)
        if after != end or (has_zone and load_8(end) != np.uint64(90)):
            return False
        out[row] = value
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
    fields[_DAY_OF_YEAR] = days - days_of(year, np.int64(1), np.int64(1)) + 1


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
