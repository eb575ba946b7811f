"""Writes rows as text: the values of columns between constant pieces, one row after the other, as CSV and JSON have them.

Each column is a line of an int64 table, whose entries are numbered below: where its values lie, as what they are written, and the
constant text before them. Constants are padded to eight bytes. Texts are copied 64 bytes at a time and looked through for
special characters on the way; what is copied too much is overwritten, so that the room has `SLACK` bytes more than rows take.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream.runtime.kernels.intrinsics import (
    load_8,
    load_32,
    load_64,
    lowest_bit,
    store_8,
    store_32,
    store_64,
)
from sqlstream.runtime.native.kernel import always_inlined, inlined, instruction, kernel

# The entries of a column.
KIND, VALUES, OFFSETS, LIMIT, BITMAP, BIT, PREFIX, PREFIX_BYTES, QUOTING, SCALE, FRACTION_DIGITS, SUFFIX = (
    range(12)
)
COLUMN_ENTRIES = 12
# KIND: int64; the low words of decimal128; days; seconds, or fractions of them; bytes of UTF-8.
INTEGER, DECIMAL, DATE, TIMESTAMP, TEXT = range(5)
# QUOTING: as they are, in quotes, in quotes where they need them, as JSON strings.
PLAIN, ENCLOSED, CSV, JSON = range(4)
# The entries of `layout`.
(
    OPENING,
    OPENING_BYTES,
    END,
    END_BYTES,
    NULL,
    NULL_BYTES,
    FIXED_BYTES,
    LEAVES_OUT_NULLS,
    QUOTES_EMPTY,
    SEPARATOR,
) = range(10)
LAYOUT_ENTRIES = 10
# The entries of `marks`.
DELIMITER, QUOTE, ESCAPE = range(3)

SLACK = 128
NUMBER_BYTES_MAX = 40
"""What a value that is no text takes at most: 20 digits, sign, point; 29 characters of a timestamp and its suffix."""
GROWTH = 6
"""A byte of text becomes at most so many: \\u0001."""
_WIDTH = 64
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_ASCII_ZEROS = np.uint64(0x3030303030303030)
_E4, _E8, _E16 = np.uint64(10**4), np.uint64(10**8), np.uint64(10**16)


def _copied(ir: Any, builder: Any, target: Any, source: Any) -> tuple[Any, Any]:
    """64 bytes, copied from one address to another, and their type."""
    vector = ir.VectorType(ir.IntType(8), _WIDTH)
    loaded = builder.load(builder.inttoptr(source, vector.as_pointer()), align=1, typ=vector)
    builder.store(loaded, builder.inttoptr(target, vector.as_pointer()), align=1)
    return loaded, vector


def _every(ir: Any, builder: Any, vector: Any, byte: Any) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, byte, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), _WIDTH), [0] * _WIDTH)
    return builder.shuffle_vector(one, undefined, lanes)


@instruction("uint64(int64, int64, uint8, uint8, uint8)")
def _copy_csv(ir: Any, builder: Any, target: Any, source: Any, a: Any, b: Any, c: Any) -> Any:
    """Copy 64 bytes. Bit i: whether byte i is one of three, or ends a line."""
    loaded, vector = _copied(ir, builder, target, source)
    ends = [ir.Constant(ir.IntType(8), code) for code in b"\r\n"]
    found = None
    for byte in (a, b, c, *ends):
        same = builder.icmp_unsigned("==", loaded, _every(ir, builder, vector, byte))
        found = same if found is None else builder.or_(found, same)
    return builder.bitcast(found, ir.IntType(_WIDTH))


@instruction("uint64(int64, int64)")
def _copy_json(ir: Any, builder: Any, target: Any, source: Any) -> Any:
    """Copy 64 bytes. Bit i: whether byte i is written in another way in a JSON string."""
    loaded, vector = _copied(ir, builder, target, source)
    found = builder.icmp_unsigned("<", loaded, ir.Constant(vector, [0x20] * _WIDTH))
    for code in b'"\\':
        same = builder.icmp_unsigned("==", loaded, ir.Constant(vector, [code] * _WIDTH))
        found = builder.or_(found, same)
    return builder.bitcast(found, ir.IntType(_WIDTH))


@instruction("void(int64, int64)")
def _copy_64(ir: Any, builder: Any, target: Any, source: Any) -> None:
    _copied(ir, builder, target, source)


@always_inlined
def _digits(number):  # type: ignore[no-untyped-def]
    """The eight decimal digits of a number below 10^8, one a byte, the first in the lowest.

    Halves, quarters and eighths of the number are divided side by side, by multiplication.
    """
    high = number // _E4
    word = high | ((number - high * _E4) << np.uint64(32))
    high = ((word * np.uint64(10486)) >> np.uint64(20)) & np.uint64(0x0000007F0000007F)
    word = high | ((word - np.uint64(100) * high) << np.uint64(16))
    high = ((word * np.uint64(103)) >> np.uint64(10)) & np.uint64(0x000F000F000F000F)
    return high | ((word - np.uint64(10) * high) << np.uint64(8))


@always_inlined
def _write_small(at, number):  # type: ignore[no-untyped-def]
    """Write a number below 10^8 without leading zeros; returns the address behind it."""
    word = _digits(number)
    skipped = lowest_bit(word | (_ONE << np.uint64(56))) >> 3
    store_64(at, (word | _ASCII_ZEROS) >> np.uint64(skipped << 3))
    return at + 8 - skipped


@always_inlined
def _write_number(at, number):  # type: ignore[no-untyped-def]
    """Write a uint64; returns the address behind it."""
    if number < _E8:
        return _write_small(at, number)
    if number < _E16:
        high = number // _E8
        at = _write_small(at, high)
        store_64(at, _digits(number - high * _E8) | _ASCII_ZEROS)
        return at + 8
    top = number // _E16
    rest = number - top * _E16
    at = _write_small(at, top)
    high = rest // _E8
    store_64(at, _digits(high) | _ASCII_ZEROS)
    store_64(at + 8, _digits(rest - high * _E8) | _ASCII_ZEROS)
    return at + 16


@inlined
def _write_two(at, number):  # type: ignore[no-untyped-def]
    tens = number // 10
    store_8(at, np.uint64(48 + tens))
    store_8(at + 1, np.uint64(48 + number - tens * 10))


@inlined
def _write_date(at, days):  # type: ignore[no-untyped-def]
    """Write yyyy-MM-dd of a day since 1970 in the years 0 to 9999 (Hinnant, "chrono-compatible low-level date algorithms")."""
    shifted = days + 719468
    era = shifted // 146097
    of_era = shifted - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    century = year // 100
    _write_two(at, century)
    _write_two(at + 2, year - century * 100)
    store_8(at + 4, np.uint64(45))
    _write_two(at + 5, month)
    store_8(at + 7, np.uint64(45))
    _write_two(at + 8, day)


@inlined
def _write_second(at, second, separator):  # type: ignore[no-untyped-def]
    """Write yyyy-MM-dd HH:mm:ss of a second since 1970."""
    days = second // 86400
    rest = second - days * 86400
    _write_date(at, days)
    store_8(at + 10, np.uint64(separator))
    hour = rest // 3600
    minute = (rest - hour * 3600) // 60
    _write_two(at + 11, hour)
    store_8(at + 13, np.uint64(58))
    _write_two(at + 14, minute)
    store_8(at + 16, np.uint64(58))
    _write_two(at + 17, rest - hour * 3600 - minute * 60)


@always_inlined
def _write_constant(at, source, length):  # type: ignore[no-untyped-def]
    """Copy a padded constant; returns the address behind it."""
    for i in range(0, length, 8):
        store_64(at + i, load_64(source + i))
    return at + length


@always_inlined
def _in_range(found, left):  # type: ignore[no-untyped-def]
    """The bits of the first `left` bytes."""
    return found if left >= _WIDTH else found & ((_ONE << np.uint64(left)) - _ONE)


@always_inlined
def _copy_plain(at, source, length, limit):  # type: ignore[no-untyped-def]
    for i in range(0, length, _WIDTH):
        if source + i + _WIDTH <= limit:
            _copy_64(at + i, source + i)
        else:
            for j in range(i, length):
                store_8(at + j, load_8(source + j))


@inlined
def _write_json(at, source, length, limit):  # type: ignore[no-untyped-def]
    """Write a JSON string; returns the address behind it."""
    store_8(at, np.uint64(34))
    at += 1
    found = _ZERO
    for i in range(0, length, _WIDTH):
        if source + i + _WIDTH <= limit:
            found |= _in_range(_copy_json(at + i, source + i), length - i)
        else:
            for j in range(i, length):
                byte = load_8(source + j)
                store_8(at + j, byte)
                if byte < np.uint64(32) or byte == np.uint64(34) or byte == np.uint64(92):
                    found = _ONE
    if found == _ZERO:
        store_8(at + length, np.uint64(34))
        return at + length + 1
    for j in range(length):
        byte = load_8(source + j)
        if byte >= np.uint64(32) and byte != np.uint64(34) and byte != np.uint64(92):
            store_8(at, byte)
            at += 1
            continue
        letter = byte
        if byte == np.uint64(10):
            letter = np.uint64(110)
        elif byte == np.uint64(13):
            letter = np.uint64(114)
        elif byte == np.uint64(9):
            letter = np.uint64(116)
        store_8(at, np.uint64(92))
        if letter >= np.uint64(32):
            store_8(at + 1, letter)
            at += 2
        else:
            store_32(at + 1, np.uint64(0x30303075))
            digit = byte & np.uint64(15)
            store_8(at + 4, np.uint64(48) + (byte >> np.uint64(4)))
            store_8(at + 5, digit + np.uint64(48 if digit < np.uint64(10) else 87))
            at += 6
    store_8(at, np.uint64(34))
    return at + 1


@inlined
def _is_blank(byte):  # type: ignore[no-untyped-def]
    return (
        byte == np.uint64(32)
        or byte == np.uint64(9)
        or byte == np.uint64(10)
        or byte == np.uint64(12)
        or byte == np.uint64(13)
    )


@inlined
def _is_null_text(source, length, layout):  # type: ignore[no-untyped-def]
    same = length == layout[NULL_BYTES]
    for i in range(length if same else 0):
        same = same and load_8(source + i) == load_8(layout[NULL] + i)
    return same


@inlined
def _write_csv(at, source, length, limit, layout, marks):  # type: ignore[no-untyped-def]
    """Write a field, in quotes where it needs them; returns the address behind it."""
    if length == 0:
        if layout[QUOTES_EMPTY] == 0:
            return at
        store_8(at, np.uint64(marks[QUOTE]))
        store_8(at + 1, np.uint64(marks[QUOTE]))
        return at + 2
    first = load_8(source)
    is_special = first == np.uint64(35) or _is_blank(first) or _is_blank(load_8(source + length - 1))
    if not is_special:
        is_special = _is_null_text(source, length, layout)
    found = _ONE if is_special else _ZERO
    for i in range(0, length, _WIDTH):
        if source + i + _WIDTH <= limit:
            bits = _copy_csv(at + i, source + i, marks[DELIMITER], marks[QUOTE], marks[ESCAPE])
            found |= _in_range(bits, length - i)
        else:
            for j in range(i, length):
                byte = np.uint8(load_8(source + j))
                store_8(at + j, np.uint64(byte))
                if (
                    byte == marks[DELIMITER]
                    or byte == marks[QUOTE]
                    or byte == marks[ESCAPE]
                    or byte == np.uint8(10)
                    or byte == np.uint8(13)
                ):
                    found = _ONE
    if found == _ZERO:
        return at + length
    store_8(at, np.uint64(marks[QUOTE]))
    at += 1
    for j in range(length):
        byte = np.uint8(load_8(source + j))
        store_8(at, np.uint64(byte))
        at += 1
        if byte == marks[QUOTE] or byte == marks[ESCAPE]:
            store_8(at, np.uint64(byte))
            at += 1
    store_8(at, np.uint64(marks[QUOTE]))
    return at + 1


@always_inlined
def _write_timestamp(at, value, columns, c, seconds, text, separator):  # type: ignore[no-untyped-def]
    """Write a timestamp. `seconds` and `text` keep the last second that was written, as neighbours often share it."""
    per_second = columns[c, SCALE]
    rest = value - seconds[c, 0]
    if seconds[c, 1] == 0 or rest < 0 or rest >= per_second:
        second = value // per_second
        rest = value - second * per_second
        seconds[c, 0] = second * per_second
        seconds[c, 1] = 1
        _write_second(text, second, separator)
    store_64(at, load_64(text))
    store_64(at + 8, load_64(text + 8))
    store_64(at + 11, load_64(text + 11))
    at += 19
    digits = columns[c, FRACTION_DIGITS]
    if digits > 0:
        store_8(at, np.uint64(46))
        at += 1
        eight = rest
        ninth = np.int64(0)
        if per_second == 1_000_000_000:
            eight = rest // 10
            ninth = rest - eight * 10
        elif per_second == 1_000_000:
            eight = rest * 100
        elif per_second == 1_000:
            eight = rest * 100_000
        store_64(at, _digits(np.uint64(eight)) | _ASCII_ZEROS)
        store_8(at + 8, np.uint64(48 + ninth))
        at += digits
    if columns[c, SUFFIX] != 0:
        store_8(at, np.uint64(columns[c, SUFFIX]))
        at += 1
    return at


@always_inlined
def _write_decimal(at, value, power, digits):  # type: ignore[no-untyped-def]
    """Write an unscaled value with `digits` (at most eight) behind its point; `power` is 10^digits."""
    if value < 0:
        store_8(at, np.uint64(45))
        at += 1
        size = _ZERO - np.uint64(value)
    else:
        size = np.uint64(value)
    if digits == 0:
        return _write_number(at, size)
    whole = size // np.uint64(power)
    rest = size - whole * np.uint64(power)
    at = _write_number(at, whole)
    store_8(at, np.uint64(46))
    store_64(at + 1, _digits(rest * (_E8 // np.uint64(power))) | _ASCII_ZEROS)
    return at + 1 + digits


@kernel(
    "UniTuple(int64, 2)(int64[:, ::1], int64[::1], uint8[::1], int64, int64, int64[:, ::1], uint8[:, ::1], uint8[::1])"
)
def write_rows(columns, layout, marks, start, rows, seconds, texts, out):  # type: ignore[no-untyped-def]
    """Write rows from `start` on, as many as surely have room; returns the row behind them and how many bytes they have.

    `seconds` (zeros, two for each column) and `texts` (32 bytes for each column) are scratch memory.
    """
    base = out.ctypes.data
    at = base
    room = base + len(out) - SLACK
    for row in range(start, rows):
        need = layout[FIXED_BYTES]
        for c in range(len(columns)):
            if columns[c, KIND] == TEXT:
                offsets = columns[c, OFFSETS] + 4 * row
                need += (np.int64(load_32(offsets + 4)) - np.int64(load_32(offsets))) * GROWTH
        if at + need > room:
            return row, at - base
        at = _write_constant(at, layout[OPENING], layout[OPENING_BYTES])
        opened = at
        for c in range(len(columns)):
            if columns[c, BITMAP] != 0:
                place = columns[c, BIT] + row
                is_valid = (load_8(columns[c, BITMAP] + (place >> 3)) >> np.uint64(place & 7)) & _ONE != _ZERO
                if not is_valid:
                    if layout[LEAVES_OUT_NULLS] == 0:
                        at = _write_constant(at, columns[c, PREFIX], columns[c, PREFIX_BYTES])
                        at = _write_constant(at, layout[NULL], layout[NULL_BYTES])
                    continue
            is_first = layout[LEAVES_OUT_NULLS] != 0 and at == opened
            if is_first:
                # Every prefix begins with a comma.
                at = _write_constant(at - 1, columns[c, PREFIX], columns[c, PREFIX_BYTES])
                store_8(opened - 1, load_8(layout[OPENING] + layout[OPENING_BYTES] - 1))
            else:
                at = _write_constant(at, columns[c, PREFIX], columns[c, PREFIX_BYTES])
            kind = columns[c, KIND]
            if kind == TEXT:
                begin = np.int64(load_32(columns[c, OFFSETS] + 4 * row))
                length = np.int64(load_32(columns[c, OFFSETS] + 4 * row + 4)) - begin
                source = columns[c, VALUES] + begin
                quoting = columns[c, QUOTING]
                if quoting == CSV:
                    at = _write_csv(at, source, length, columns[c, LIMIT], layout, marks)
                elif quoting == JSON:
                    at = _write_json(at, source, length, columns[c, LIMIT])
                else:
                    _copy_plain(at, source, length, columns[c, LIMIT])
                    at += length
                continue
            if columns[c, QUOTING] == ENCLOSED:
                store_8(at, np.uint64(34))
                at += 1
            if kind == DECIMAL:
                value = np.int64(load_64(columns[c, VALUES] + 16 * row))
                at = _write_decimal(at, value, columns[c, SCALE], columns[c, FRACTION_DIGITS])
            else:
                value = np.int64(load_64(columns[c, VALUES] + 8 * row))
                if kind == INTEGER:
                    at = _write_decimal(at, value, 1, 0)
                elif kind == DATE:
                    _write_date(at, value)
                    at += 10
                else:
                    text = texts.ctypes.data + 32 * c
                    at = _write_timestamp(at, value, columns, c, seconds, text, layout[SEPARATOR])
            if columns[c, QUOTING] == ENCLOSED:
                store_8(at, np.uint64(34))
                at += 1
        at = _write_constant(at, layout[END], layout[END_BYTES])
    return rows, at - base
