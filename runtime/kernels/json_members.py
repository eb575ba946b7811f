"""Finds what DuckDB's lenient reader accepts in lines of JSON: repeated members, trailing commas, malformed numbers.

Of members with one name in an object the last is used, as in Jackson and in Python: the others are overwritten with blanks,
including their commas. Other malformed JSON is left to the reader, which must first have read the unchanged lines.
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import inlined, kernel

FINE, TRAILING_COMMA, NO_NUMBER = 0, 1, 2
"""What is wrong with a line: a comma before a closing bracket; NaN, Infinity or the like without quotes."""

START, END, KEY, KEY_END, OBJECT, HASH = range(6)
"""What a row of `members` holds: where a member begins and where it ends, behind its comma; where its unescaped name stands
in `names`; the number of its object; the hash of both."""
MEMBER_WIDTH = 6

_QUOTE, _BACKSLASH, _COMMA, _COLON, _BLANK = 34, 92, 44, 58, 32
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = 123, 125, 91, 93
_HASH_START, _HASH_FACTOR = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


@inlined
def _code_unit(data, i, end):  # type: ignore[no-untyped-def]
    """The four hexadecimal digits at `i` as a number; 0 where they are none, which the reader behind refuses."""
    code = np.int64(0)
    for place in range(i, min(i + 4, end)):
        c = np.int64(data[place]) | 32
        code = code * 16 + (c - 87 if c >= 97 else (c - 16) & 15)
    return code


@inlined
def _unescape(data, i, end, names, o):  # type: ignore[no-untyped-def]
    """Write what the escape at `i` stands for to `names[o:]`; returns the places behind both."""
    c = data[i + 1]
    if c != 117:
        control = (
            8 if c == 98 else 12 if c == 102 else 10 if c == 110 else 13 if c == 114 else 9 if c == 116 else c
        )
        names[o] = control
        return i + 2, o + 1
    code = _code_unit(data, i + 2, end)
    i += 6
    if 0xD800 <= code < 0xDC00 and i + 1 < end and data[i] == _BACKSLASH and data[i + 1] == 117:
        low = _code_unit(data, i + 2, end)
        if 0xDC00 <= low < 0xE000:
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            i += 6
    if code < 0x80:
        names[o] = code
        return i, o + 1
    if code < 0x800:
        names[o], names[o + 1] = 0xC0 | (code >> 6), 0x80 | (code & 63)
        return i, o + 2
    if code < 0x10000:
        names[o], names[o + 1], names[o + 2] = (
            0xE0 | (code >> 12),
            0x80 | ((code >> 6) & 63),
            0x80 | (code & 63),
        )
        return i, o + 3
    names[o], names[o + 1] = 0xF0 | (code >> 18), 0x80 | ((code >> 12) & 63)
    names[o + 2], names[o + 3] = 0x80 | ((code >> 6) & 63), 0x80 | (code & 63)
    return i, o + 4


@inlined
def _is_same(names, members, one, other):  # type: ignore[no-untyped-def]
    """Whether two members have the same name and stand in the same object."""
    if members[one, HASH] != members[other, HASH] or members[one, OBJECT] != members[other, OBJECT]:
        return False
    length = members[one, KEY_END] - members[one, KEY]
    if members[other, KEY_END] - members[other, KEY] != length:
        return False
    for place in range(length):  # noqa: SIM110 (kernels know no generators)
        if names[members[one, KEY] + place] != names[members[other, KEY] + place]:
            return False
    return True


@inlined
def _enter(data, names, members, slots, member, before):  # type: ignore[no-untyped-def]
    """Enter a member into the hash table, and blank out the one of the same name before it; returns how many (0 or 1).

    `before`: members of earlier lines, whose slots are free.
    """
    h = _HASH_START ^ np.uint64(members[member, OBJECT])
    for place in range(members[member, KEY], members[member, KEY_END]):
        h = (h ^ np.uint64(names[place])) * _HASH_FACTOR
    h ^= h >> np.uint64(32)
    members[member, HASH] = np.int64(h)
    mask = len(slots) - 1
    slot = np.int64(h) & mask
    while slots[slot] >= before:
        other = slots[slot] - before
        if _is_same(names, members, member, other):
            for i in range(members[other, START], members[other, END]):
                data[i] = _BLANK
            slots[slot] = before + member
            return 1
        slot = (slot + 1) & mask
    slots[slot] = before + member
    return 0


@inlined
def _after_string(data, i, end, is_name, names, o):  # type: ignore[no-untyped-def]
    """Write the string whose first character is at `i` to `names[o:]` when it is a name; returns the places behind both."""
    while i < end and data[i] != _QUOTE:
        if data[i] == _BACKSLASH and i + 1 < end:
            if is_name:
                i, o = _unescape(data, i, end, names, o)
            else:
                i += 2
        else:
            if is_name:
                names[o] = data[i]
                o += 1
            i += 1
    return i + 1, o


@inlined
def _is_no_number(data, i, end):  # type: ignore[no-untyped-def]
    """Whether NaN, Infinity or the like begins at `i`."""
    is_negative = data[i] == 45
    letter = i + is_negative
    if letter >= end:
        return False
    # 105 and 110 are i and n, 78 is N, 97 is a: null is the only word that begins with n.
    c = data[letter] | 32
    follows = data[letter + 1] | 32 if letter + 1 < end else 0
    return c == 105 or (c == 110 and (follows == 97 or data[letter] == 78 or is_negative))


@kernel(
    "int64(uint8[::1], Array(int32, 1, 'C', True), uint8[::1], int64[::1], int64[::1], uint8[::1], int64[:, ::1], int64[::1])"
)
def keep_last_members(data, offsets, faults, objects, current, names, members, slots):  # type: ignore[no-untyped-def]
    """Blank out repeated members of the lines `data[offsets[n]:offsets[n + 1]]`; returns how many.

    `faults`: what is wrong with each line (FINE …). Memory to work with: `objects` and `current` as long as brackets are
    deep, `names` 8 bytes longer than the longest line, a row of `members` for each colon of the line that has most, and `slots`,
    a power of 2 above that, all -1.
    """
    count, before, serial, repeated = 0, 0, 0, 0
    for line in range(len(offsets) - 1):
        before, count, o = before + count, 0, 0
        i, end, depth = np.int64(offsets[line]), np.int64(offsets[line + 1]), 0
        faults[line] = FINE
        last = np.uint8(0)
        while i < end:
            c = data[i]
            if c == _QUOTE:
                # A name stands behind an opening brace, or behind a comma in an object.
                is_name = depth > 0 and objects[depth - 1] > 0 and (last in (_OPEN_OBJECT, _COMMA))
                start, first_name = i, o
                i, o = _after_string(data, i + 1, end, is_name, names, o)
                last = c
                if is_name and i < end and count < len(members):
                    members[count, START], members[count, END] = start, i
                    members[count, KEY], members[count, KEY_END] = first_name, o
                    members[count, OBJECT] = objects[depth - 1]
                    repeated += _enter(data, names, members, slots, count, before)
                    current[depth - 1] = count
                    count += 1
                continue
            if c in (_OPEN_OBJECT, _OPEN_ARRAY):
                serial += 1
                # Arrays are negative: they have no names.
                objects[depth] = serial if c == _OPEN_OBJECT else -serial
                current[depth] = -1
                depth += 1
            elif c in (_CLOSE_OBJECT, _CLOSE_ARRAY):
                if last == _COMMA:
                    faults[line] = TRAILING_COMMA
                if depth == 0 or faults[line] != FINE:
                    break
                depth -= 1
            elif c == _COMMA:
                if depth > 0 and current[depth - 1] >= 0:
                    members[current[depth - 1], END] = i + 1
            elif c > _BLANK and c != _COLON:
                if _is_no_number(data, i, end):
                    faults[line] = NO_NUMBER
                    break
                while (
                    i + 1 < end
                    and data[i + 1] > _BLANK
                    and data[i + 1] not in (_COMMA, _CLOSE_OBJECT, _CLOSE_ARRAY)
                ):
                    i += 1
            if c > _BLANK:
                last = c
            i += 1
    return repeated
