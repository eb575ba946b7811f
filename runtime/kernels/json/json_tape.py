"""Reads JSON documents into a tape: a row of numbers for each value, with links to its parent, first child and next sibling.

The grammar is RFC 8259's: no comments, no leading zeros, no NaN, nothing behind the document. Half a surrogate pair is a question
mark, as Java writes it. Functions have Jackson's limits: `DEPTH_MAX` levels and numbers of `NUMBER_CHARACTERS_MAX` characters.
Formats have none (`is_strict`).
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import escaped_character, put_utf8
from sqlstream.runtime.native.kernel import READ_BYTES, inlined, kernel

STRING, NUMBER, TRUE, FALSE, NULL, ARRAY, OBJECT = range(7)
"""Kinds of values."""

KIND, START, END, KEY, KEY_END, PARENT, FIRST, SIBLING = range(8)
"""What a row of the tape holds: the kind; the place of the text, that of a string without its quotes; the place of the name in
an object, or -1; the parent, the first child and the next sibling, each -1 for none."""
WIDTH = 8

DEPTH_MAX = 1_000
NUMBER_CHARACTERS_MAX = 1_000
FEW_MEMBERS_MAX = 16
"""Names of objects with no more members are compared with each other, those of others are hashed."""
_PLAIN_ZEROS_MAX = 6

_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _POINT, _SLASH = 34, 92, 44, 58, 45, 46, 47
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = 123, 125, 91, 93
_HASH_START, _HASH_FACTOR = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


@inlined
def _after_blanks(data, i, end):  # type: ignore[no-untyped-def]
    while i < end and (data[i] == 32 or data[i] == 10 or data[i] == 13 or data[i] == 9):
        i += 1
    return i


@inlined
def _closing_quote(data, i, end):  # type: ignore[no-untyped-def]
    """The place of the quote that ends the string from `i` on, and whether it has escapes; -1 for a malformed string."""
    has_escape = 0
    while i < end:
        c = data[i]
        if c == _QUOTE:
            return i, has_escape
        if c < 32:
            return -1, 0
        if c == _BACKSLASH:
            has_escape = 1
            start = data.ctypes.data
            code, behind = escaped_character(start + i, start + end)
            if code == -1:
                return -1, 0
            i = behind - start
        else:
            i += 1
    return -1, 0


@inlined
def _after_digits(data, i, end):  # type: ignore[no-untyped-def]
    while i < end and 48 <= data[i] <= 57:
        i += 1
    return i


@inlined
def _after_number(data, start, end, is_strict):  # type: ignore[no-untyped-def]
    """The place behind a number, and whether Java prints it otherwise than it is written; -1 for a malformed number."""
    first = start + 1 if data[start] == _MINUS else start
    i = _after_digits(data, first, end)
    whole = i - first
    if whole == 0 or (whole > 1 and data[first] == 48):
        return -1, 0
    is_zero = data[first] == 48
    if i >= end or (data[i] != _POINT and data[i] | 32 != 101):
        return (-1 if i - start > NUMBER_CHARACTERS_MAX and not is_strict else i), (
            1 if is_zero and first > start else 0
        )
    is_odd = 1 if is_zero and first > start else 0
    if data[i] == _POINT:
        part = i + 1
        i = _after_digits(data, part, end)
        if i == part:
            return -1, 0
        nonzero = part
        while nonzero < i and data[nonzero] == 48:
            nonzero += 1
        if is_zero and nonzero - part >= _PLAIN_ZEROS_MAX:
            is_odd = 1
    if i < end and data[i] | 32 == 101:
        is_odd = 1
        i += 1
        if i < end and (data[i] == 43 or data[i] == _MINUS):
            i += 1
        digits = i
        i = _after_digits(data, i, end)
        if i == digits:
            return -1, 0
    return (-1 if i - start > NUMBER_CHARACTERS_MAX and not is_strict else i), is_odd


@inlined
def _word_kind(data, i, end):  # type: ignore[no-untyped-def]
    """The kind of the word true, false or null at `i`; -1 for another."""
    if i + 4 <= end and data[i] == 116 and data[i + 1] == 114 and data[i + 2] == 117 and data[i + 3] == 101:
        return TRUE
    if i + 4 <= end and data[i] == 110 and data[i + 1] == 117 and data[i + 2] == 108 and data[i + 3] == 108:
        return NULL
    if (
        i + 5 <= end
        and data[i] == 102
        and data[i + 1] == 97
        and data[i + 2] == 108
        and data[i + 3] == 115
        and data[i + 4] == 101
    ):
        return FALSE
    return -1


@inlined
def _open(tape, t, parent, start, key, key_end):  # type: ignore[no-untyped-def]
    """Begin a value behind the last child of its parent, which stands in the parent's END until the parent is closed."""
    tape[t, START], tape[t, KEY], tape[t, KEY_END] = start, key, key_end
    tape[t, PARENT], tape[t, FIRST], tape[t, SIBLING] = parent, -1, -1
    if parent >= 0:
        last = tape[parent, END]
        if last < 0:
            tape[parent, FIRST] = t
        else:
            tape[last, SIBLING] = t
        tape[parent, END] = t


@inlined
def _scalar(data, i, end, tape, t, is_strict):  # type: ignore[no-untyped-def]
    """Read a string, number or word; returns the place behind it, -1 for none, and whether its text is not canonical."""
    if data[i] == _QUOTE:
        close, is_odd = _closing_quote(data, i + 1, end)
        tape[t, KIND], tape[t, START], tape[t, END] = STRING, i + 1, close
        return (-1 if close < 0 else close + 1), is_odd
    kind = _word_kind(data, i, end)
    if kind >= 0:
        stop = i + 5 if kind == FALSE else i + 4
        tape[t, KIND], tape[t, END] = kind, stop
        return stop, 0
    stop, is_odd = _after_number(data, i, end, is_strict)
    tape[t, KIND], tape[t, END] = NUMBER, stop
    return stop, is_odd


@inlined
def _closed(data, i, end, tape, parent):  # type: ignore[no-untyped-def]
    """Close what ends from `i` on, up to a comma; returns the place behind it, -1 for malformed text, and the open parent."""
    while parent >= 0:
        i = _after_blanks(data, i, end)
        if i >= end:
            return -1, parent
        if data[i] == _COMMA and tape[parent, FIRST] >= 0:
            return i + 1, parent
        if data[i] != (_CLOSE_OBJECT if tape[parent, KIND] == OBJECT else _CLOSE_ARRAY):
            return -1, parent
        i += 1
        tape[parent, END] = i
        parent = np.int64(tape[parent, PARENT])
    return (i if _after_blanks(data, i, end) == end else -1), parent


@inlined
def _document(data, i, end, tape, first, marked, marks, is_strict):  # type: ignore[no-untyped-def]
    """Read one document; returns the counts of values and marks, `first` for a malformed one."""
    count, parent, depth = first, np.int64(-1), 0
    while True:
        key, key_end, is_odd_key = np.int64(-1), np.int64(-1), 0
        i = _after_blanks(data, i, end)
        if parent >= 0 and tape[parent, KIND] == OBJECT:
            if i >= end or data[i] != _QUOTE:
                return first, marks
            key = i + 1
            key_end, is_odd_key = _closing_quote(data, key, end)
            i = _after_blanks(data, key_end + 1, end)
            if key_end < 0 or i >= end or data[i] != _COLON:
                return first, marks
            i = _after_blanks(data, i + 1, end)
        if i >= end:
            return first, marks
        t = count
        count += 1
        _open(tape, t, parent, i, key, key_end)
        if is_odd_key:
            marked[marks] = 2 * t + 1
            marks += 1
        if data[i] == _OPEN_OBJECT or data[i] == _OPEN_ARRAY:
            depth += 1
            tape[t, KIND], tape[t, END] = (OBJECT if data[i] == _OPEN_OBJECT else ARRAY), -1
            parent = np.int64(t)
            i = _after_blanks(data, i + 1, end)
            if (depth > DEPTH_MAX and not is_strict) or i >= end:
                return first, marks
            if data[i] != _CLOSE_OBJECT and data[i] != _CLOSE_ARRAY:
                continue
        else:
            i, is_odd = _scalar(data, i, end, tape, t, is_strict)
            if i < 0:
                return first, marks
            if is_odd:
                marked[marks] = 2 * t
                marks += 1
        before = parent
        i, parent = _closed(data, i, end, tape, parent)
        while before != parent and before >= 0:
            depth -= 1
            before = np.int64(tape[before, PARENT])
        if i < 0:
            return first, marks
        if parent < 0:
            return count, marks


@kernel(f"int64({READ_BYTES})")
def count_starts(data):  # type: ignore[no-untyped-def]
    """How many commas and opening brackets there are: no more values begin within documents."""
    count = np.int64(0)
    for i in range(len(data)):
        c = data[i]
        count += (c == _COMMA) | (c == _OPEN_ARRAY) | (c == _OPEN_OBJECT)
    return count


@kernel(
    f"UniTuple(int64, 2)({READ_BYTES}, int32[::1], uint8[::1], int32[::1], int32[:, ::1], int32[::1], boolean)",
)
def read_documents_into(data, offsets, is_valid, roots, tape, marked, is_strict):  # type: ignore[no-untyped-def]
    """Read the documents `data[offsets[n]:offsets[n + 1]]`; returns the counts of values and of marks.

    `roots`: the value that is the whole document, -1 where it is malformed or not valid (`is_valid` is empty where all are).
    `tape` has a row for each document, comma and opening bracket. `marked`, twice as long: 2 * value for a text that is not
    canonical, 2 * value + 1 for a name that is not.
    """
    count, marks = np.int64(0), np.int64(0)
    for row in range(len(roots)):
        roots[row] = -1
        if len(is_valid) and not is_valid[row]:
            continue
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        stop, after = _document(data, start, end, tape, count, marked, marks, is_strict)
        if stop > count:
            roots[row] = count
            count, marks = np.int64(stop), np.int64(after)
    return count, marks


@inlined
def _put_utf8(out, o, code):  # type: ignore[no-untyped-def]
    start = out.ctypes.data
    return put_utf8(start + o, code) - start


@inlined
def _escape_letter(code):  # type: ignore[no-untyped-def]
    """The letter of the short escape of a control character; 0 for none."""
    if code == 8:
        return 98
    if code == 9:
        return 116
    if code == 10:
        return 110
    if code == 12:
        return 102
    return 114 if code == 13 else 0


@inlined
def _put_escaped(out, o, code):  # type: ignore[no-untyped-def]
    """Write a character of a string as Jackson does."""
    letter = code if code in (_QUOTE, _BACKSLASH) else _escape_letter(code)
    if letter:
        out[o], out[o + 1] = _BACKSLASH, letter
        return o + 2
    if code >= 32:
        return _put_utf8(out, o, code)
    out[o], out[o + 1], out[o + 2], out[o + 3] = _BACKSLASH, 117, 48, 48
    low = code & 15
    out[o + 4], out[o + 5] = 48 + (code >> 4), (48 + low if low < 10 else 55 + low)
    return o + 6


@inlined
def _escaped_code(data, i, end):  # type: ignore[no-untyped-def]
    """The character that the escape at `i` stands for, and the place behind it; half a surrogate pair is a question mark."""
    start = data.ctypes.data
    code, behind = escaped_character(start + i, start + end)
    return (code if code >= 0 else np.int64(63)), behind - start


@kernel(f"void(uint8[::1], int32[::1], {READ_BYTES}, int32[::1], int32[::1])")
def canonical_strings_into(out, offsets, data, starts, ends):  # type: ignore[no-untyped-def]
    """Write valid JSON strings, without quotes, with the escapes that Jackson writes; none becomes longer."""
    o = np.int64(0)
    offsets[0] = 0
    for n in range(len(starts)):
        i, end = np.int64(starts[n]), np.int64(ends[n])
        while i < end:
            if data[i] == _BACKSLASH:
                code, i = _escaped_code(data, i, end)
                o = _put_escaped(out, o, code)
            else:
                out[o] = data[i]
                o += 1
                i += 1
        offsets[n + 1] = o


@kernel(f"int64(uint8[::1], int32[::1], {READ_BYTES}, int32[::1], int32[::1], uint8[::1])")
def texts_into(out, offsets, data, starts, ends, is_escaped):  # type: ignore[no-untyped-def]
    """Copy texts, those that are escaped as the characters they stand for; returns the total length."""
    o = np.int64(0)
    offsets[0] = 0
    for n in range(len(starts)):
        i, end = np.int64(starts[n]), np.int64(ends[n])
        if is_escaped[n]:
            while i < end:
                if data[i] == _BACKSLASH:
                    code, i = _escaped_code(data, i, end)
                    o = _put_utf8(out, o, code)
                else:
                    out[o] = data[i]
                    o += 1
                    i += 1
        else:
            for place in range(i, end):
                out[o] = data[place]
                o += 1
        offsets[n + 1] = o
    return o


@kernel(
    f"int64(uint8[::1], int32[::1], {READ_BYTES}, int32[::1], boolean)",
)
def quote_into(out, offsets, data, text_offsets, escapes_slash):  # type: ignore[no-untyped-def]
    """Write texts as JSON strings with their quotes; returns the total length. A byte becomes 6 at most."""
    o = np.int64(0)
    offsets[0] = 0
    for n in range(len(text_offsets) - 1):
        out[o] = _QUOTE
        o += 1
        for i in range(text_offsets[n], text_offsets[n + 1]):
            c = np.int64(data[i])
            if c >= 128:
                out[o] = c
                o += 1
            elif c == _SLASH and escapes_slash:
                out[o], out[o + 1] = _BACKSLASH, c
                o += 2
            else:
                o = _put_escaped(out, o, c)
        out[o] = _QUOTE
        o += 1
        offsets[n + 1] = o
    return o


@inlined
def _current(tape, member):  # type: ignore[no-untyped-def]
    """The last member of the name of `member`, the first of it: where it has followers, its KEY is -2 - the last of them."""
    return -2 - np.int64(tape[member, KEY]) if tape[member, KEY] <= -2 else member


@inlined
def _is_same_name(data, tape, one, other):  # type: ignore[no-untyped-def]
    length = tape[one, KEY_END] - tape[one, KEY]
    if tape[other, KEY_END] - tape[other, KEY] != length:
        return False
    for place in range(length):  # noqa: SIM110 (kernels know no generators)
        if data[tape[one, KEY] + place] != data[tape[other, KEY] + place]:
            return False
    return True


@inlined
def _is_taken(tape, t, first):  # type: ignore[no-untyped-def]
    """Whether what stands in a slot is a member of object `t`: of another one, it is left from before."""
    return first >= 0 and tape[first, PARENT] == t


@inlined
def _slot_of(data, tape, t, child, slots):  # type: ignore[no-untyped-def]
    """The slot of a member's name in object `t`: taken by the first member of this name, or free."""
    h = _HASH_START
    for place in range(tape[child, KEY], tape[child, KEY_END]):
        h = (h ^ np.uint64(data[place])) * _HASH_FACTOR
    h ^= h >> np.uint64(32)
    mask = np.int64(len(slots) - 1)
    slot = np.int64(h) & mask
    while _is_taken(tape, t, np.int64(slots[slot])):
        if _is_same_name(data, tape, child, _current(tape, np.int64(slots[slot]))):
            return slot
        slot = (slot + 1) & mask
    return slot


@inlined
def _move_to_first(tape, t):  # type: ignore[no-untyped-def]
    """Put the last member of each name of an object where the first stands."""
    before, child = np.int64(-1), np.int64(tape[t, FIRST])
    while child >= 0:
        following = np.int64(tape[child, SIBLING])
        kept = _current(tape, child)
        if before < 0:
            tape[t, FIRST] = kept
        else:
            tape[before, SIBLING] = kept
        tape[kept, SIBLING] = following
        before, child = kept, following


@inlined
def _drop_superseded(tape, t):  # type: ignore[no-untyped-def]
    """Take the members whose KEY_END is -1 out of an object."""
    before, child = np.int64(-1), np.int64(tape[t, FIRST])
    while child >= 0:
        following = np.int64(tape[child, SIBLING])
        if tape[child, KEY_END] >= 0:
            before = child
        elif before < 0:
            tape[t, FIRST] = following
        else:
            tape[before, SIBLING] = following
        child = following


@inlined
def _first_of_name(data, tape, t, child):  # type: ignore[no-untyped-def]
    """The first member of object `t` that has the name of `child`, itself or one before it."""
    other = np.int64(tape[t, FIRST])
    while other != child and not _is_same_name(data, tape, child, _current(tape, other)):
        other = np.int64(tape[other, SIBLING])
    return other


@inlined
def _members_of(tape, t):  # type: ignore[no-untyped-def]
    size, child = 0, np.int64(tape[t, FIRST])
    while child >= 0:
        size += 1
        child = np.int64(tape[child, SIBLING])
    return size


@kernel(f"UniTuple(int64, 2)({READ_BYTES}, int32[:, ::1], int32[::1], boolean)")
def keep_last_values(data, tape, slots, stays):  # type: ignore[no-untyped-def]
    """Keep of the members of one name in an object the last: where it stands, or where the first stood.

    Returns how many were repeated, and how many members the largest object of more than `FEW_MEMBERS_MAX` has: such objects are
    left as they are when `slots` is empty. A second call, with `slots` a power of 2 above twice that number, all -1, is for them
    alone.
    """
    repeated, most = np.int64(0), np.int64(0)
    for t in range(len(tape)):
        child = np.int64(tape[t, FIRST])
        if tape[t, KIND] != OBJECT or child < 0 or tape[child, SIBLING] < 0:
            continue
        size = _members_of(tape, t)
        is_hashed = size > FEW_MEMBERS_MAX
        if is_hashed != (len(slots) > 0):
            if is_hashed and size > most:
                most = np.int64(size)
            continue
        before, earlier = np.int64(-1), repeated
        while child >= 0:
            following = np.int64(tape[child, SIBLING])
            slot = np.int64(0)
            if is_hashed:
                slot = _slot_of(data, tape, np.int64(t), child, slots)
                first = np.int64(slots[slot])
                first = first if _is_taken(tape, np.int64(t), first) else child
            else:
                first = _first_of_name(data, tape, np.int64(t), child)
            if first == child:
                if is_hashed:
                    slots[slot] = child
                before = child
            else:
                if stays:
                    tape[_current(tape, first), KEY_END] = -1
                else:
                    tape[before, SIBLING] = following
                tape[first, KEY] = -2 - child
                repeated += 1
            child = following
        if repeated > earlier and stays:
            _drop_superseded(tape, np.int64(t))
        elif repeated > earlier:
            _move_to_first(tape, np.int64(t))
    return repeated, most


@inlined
def _is_before(data, tape, one, other):  # type: ignore[no-untyped-def]
    """Whether the name of one member sorts before that of another, by bytes."""
    i, j = np.int64(tape[one, KEY]), np.int64(tape[other, KEY])
    end, other_end = np.int64(tape[one, KEY_END]), np.int64(tape[other, KEY_END])
    while i < end and j < other_end:
        if data[i] != data[j]:
            return data[i] < data[j]
        i += 1
        j += 1
    return i >= end and j < other_end


@kernel(f"int64({READ_BYTES}, int32[:, ::1], int32[::1])")
def order_names(data, tape, members):  # type: ignore[no-untyped-def]
    """Put the members of each object in the order of their names.

    Returns how many objects are left as they are because they have more members than `members` has places.
    """
    left = np.int64(0)
    for t in range(len(tape)):
        if tape[t, KIND] != OBJECT:
            continue
        size, child = 0, np.int64(tape[t, FIRST])
        while child >= 0 and size < len(members):
            place = size
            while place > 0 and _is_before(data, tape, child, np.int64(members[place - 1])):
                members[place] = members[place - 1]
                place -= 1
            members[place] = child
            size += 1
            child = np.int64(tape[child, SIBLING])
        if child >= 0:
            left += 1
            continue
        for place in range(size):
            member = np.int64(members[place])
            tape[member, SIBLING] = members[place + 1] if place + 1 < size else -1
            if place == 0:
                tape[t, FIRST] = member
    return left
