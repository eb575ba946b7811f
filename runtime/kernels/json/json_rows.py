"""Lines of JSON objects as column buffers, for the objects that are written plainly.

A line is plain when it is one object whose keys have no escapes and whose values are JSON without doubt. Wanted values have
the form in which their column's type is usually written. Every other line is odd: the caller gets its number and reads it
into a tape (`json_tape`). So no line is rejected here.

Lines resemble each other. The bytes between two values of a line (comma, key, colon, blanks) are compared with those at the
same place of the lines before. That finds the column in one comparison; only what differs is read character by character.

`data` ends with a newline, so that loops over single characters need no bounds; loads of many bytes check them. Strings are
copied 64 bytes at a time, and spill over their end: text buffers have as much slack.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream.runtime.kernels.intrinsics import (
    copy_bytes,
    digits_at,
    equal_bytes,
    escaped_character,
    load_8,
    load_32,
    load_64,
    lowest_bit,
    number_at,
    put_utf8,
    rounded_double,
    small_buffer,
    store_8,
    store_32,
    store_64,
    store_double,
    timestamp_at,
    unscaled_decimal,
)
from sqlstream.runtime.native.kernel import READ_BYTES, always_inlined, inlined, instruction, kernel

INTEGER, BOOLEAN, DOUBLE, TIMESTAMP, DECIMAL, TEXT, NUMBER, NESTED, RECORD, LIST = range(10)
"""Forms of columns. DOUBLE and DECIMAL take numbers of at most 19 digits, also in quotes; a DECIMAL has 18 at most. TIMESTAMP
takes strings that `timestamp_at` reads, with a `Z` behind those of a zone. TEXT takes strings, integers and booleans as text,
NUMBER takes numbers and strings as text, NESTED takes objects and arrays as text. RECORD takes objects: its fields are the
columns behind it. LIST takes arrays: the column behind it, which is no LIST, has their elements."""

NAME, NAME_BYTES, FORM, LIMIT, VALUES, OFFSETS, VALID, NULLS, SEEN, SIZE, FIELDS, LAYOUT = range(12)
"""What a column's row of `columns` holds: the address and length of its name; its form; the greatest INTEGER, the precision of
a DECIMAL and its scale in the byte above, the digits of a second of a TIMESTAMP and 1 in the byte above where it has a zone, or
the most digits of a NUMBER; the addresses of its values (of 8 bytes, of a DECIMAL 16) or its text, of its int32 offsets and of
its validity (one byte per row); how many rows are NULL; the number of the last object that had it, negative when it was null
there; the bytes of its row of `columns` and those of what is within it; of a RECORD, how many fields it has, and the address of
its part of `members`; of a TIMESTAMP, its last date in the place of these two."""
COLUMN_WIDTH = 12
_COLUMN_BYTES = 8 * COLUMN_WIDTH

DEPTH_MAX = 16
"""So many RECORDs may be within each other."""

SLACK = 128
"""Bytes that a text buffer has more than `data`."""

MEMBERS_MAX = 1024
"""The number of members of a line that are compared with those of the lines before."""

TOO_ODD = -1
"""Returned instead of the number of rows when most lines are odd and reading stops."""

# Fields of a member of a line: the bytes before its value, their number, and the address of its column.
_GAP, _GAP_BYTES, _COLUMN = 0, 1, 2
MEMBER_WIDTH = 3
_MEMBER_BYTES = 8 * MEMBER_WIDTH

# What is kept of an object while one within it is read: its columns, their end and number, its part of `members` and the place
# in it, how many fields were found, the column that is expected next, its row and number; and the LIST of which the object
# within it is an element, or 0.
_FRAME_WIDTH = 10
_FRAME_BYTES = 8 * _FRAME_WIDTH
_MEMBER, _FOUND, _NEXT, _ROW, _NUMBER, _IN_LIST = range(4, 10)

_SKIPPED, _CLOSED = -1, -2
_ODD, _BLANK = 0, -1
_BACKSLASH, _QUOTE, _NEWLINE = 92, 34, 10
_DEPTH_MAX = 60
_NUMBER_BYTES_MAX = 40
# Lines that are looked at before TOO_ODD.
_PATIENCE = 1000


_WIDTH = 64
_ONE = np.uint64(1)
_NULL, _TRUE, _ALSE = np.uint64(0x6C6C756E), np.uint64(0x65757274), np.uint64(0x65736C61)


@instruction("int64()")
def _frames(ir: Any, builder: Any) -> Any:
    """The address of memory for the frames of a row, on the stack of the kernel."""
    with builder.goto_entry_block():
        place = builder.alloca(ir.ArrayType(ir.IntType(64), (DEPTH_MAX + 1) * _FRAME_WIDTH))
    return builder.ptrtoint(place, ir.IntType(64))


@always_inlined
def _byte(address):  # type: ignore[no-untyped-def]
    return np.int64(load_8(address))


@always_inlined
def _first_special(at, text):  # type: ignore[no-untyped-def]
    """The address of the first quote, backslash or control character from `at` on. `text`: the addresses of the text and of the
    bitmap of these (`json_index`), and the end of the text."""
    base, specials, _ = text
    place = at - base
    word_at = specials + ((place >> 6) << 3)
    word = load_64(word_at) >> np.uint64(place & 63)
    if word == np.uint64(0):
        at -= place & 63
        while word == np.uint64(0):
            word_at += 8
            at += 64
            word = load_64(word_at)
    return at + lowest_bit(word)


@always_inlined
def _after_blanks(at):  # type: ignore[no-untyped-def]
    c = _byte(at)
    while c == 32 or c == 9 or c == 13:
        at += 1
        c = _byte(at)
    return at


@inlined
def _unescape(at, end, out):  # type: ignore[no-untyped-def]
    """Write the character that the escape at `at` stands for; returns (behind the escape, or 0 when it is odd; behind out)."""
    code, at = escaped_character(at, end)
    if code <= 0:
        return 0, out
    return at, put_utf8(out, code)


@instruction("void(int64, int64)")
def _copy_64(ir: Any, builder: Any, target: Any, source: Any) -> Any:
    """Copy 64 bytes."""
    vector = ir.VectorType(ir.IntType(8), _WIDTH).as_pointer()
    builder.store(
        builder.load(builder.inttoptr(source, vector), align=1), builder.inttoptr(target, vector), align=1
    )


@always_inlined
def _copy_plain(at, after, end, out):  # type: ignore[no-untyped-def]
    """Copy `at` to `after`, and some of what stands behind it, which is within the text."""
    if after + _WIDTH > end:
        copy_bytes(out, at, after - at)
        return
    while at < after:
        _copy_64(out, at)
        at += _WIDTH
        out += _WIDTH


@always_inlined
def _copy_string(at, text, out):  # type: ignore[no-untyped-def]
    """Copy the string whose first character is at `at`; returns (behind its quote, or 0 when it is odd; behind the copy)."""
    while True:
        after = _first_special(at, text)
        _copy_plain(at, after, text[2], out)
        out += after - at
        c = _byte(after)
        if c == _QUOTE:
            return after + 1, out
        if c != _BACKSLASH:
            return 0, out
        at, out = _unescape(after, text[2], out)
        if at == 0:
            return 0, out


@always_inlined
def _after_string(at, text):  # type: ignore[no-untyped-def]
    """Behind the quote of the string whose first character is at `at`; 0 when it is odd."""
    while True:
        at = _first_special(at, text)
        c = _byte(at)
        if c == _QUOTE:
            return at + 1
        if c != _BACKSLASH:
            return 0
        at, _ = _unescape(at, text[2], small_buffer())
        if at == 0:
            return 0


@always_inlined
def _integer(at, end):  # type: ignore[no-untyped-def]
    """An integer as JSON writes it; returns (behind it, or 0 when it is odd; its size; 1 when it is negative)."""
    negative = np.int64(_byte(at) == 45)
    first = at + negative
    at, size, count = digits_at(first, end, end)
    if count == 0 or count > 19 or (_byte(first) == 48 and (count > 1 or negative)):
        return 0, size, negative
    return at, size, negative


@inlined
def _after_number(at, end):  # type: ignore[no-untyped-def]
    """A number as JSON writes it; returns (behind it, or 0 when it is odd; how many digits before an exponent).

    Numbers that are so long or large that a double might not hold them are odd.
    """
    first = at
    negative = np.int64(_byte(at) == 45)
    at += negative
    is_zero = _byte(at) == 48
    at, _, digits = digits_at(at, end, end)
    if digits == 0 or (is_zero and digits > 1):
        return 0, 0
    if _byte(at) == 46:
        at, _, more = digits_at(at + 1, end, end)
        if more == 0:
            return 0, 0
        digits += more
    if _byte(at) | 32 == 101:
        at += 1
        c = _byte(at)
        at += c == 43 or c == 45
        at, _, more = digits_at(at, end, end)
        if more == 0 or more > 2:
            return 0, 0
    # -0 is an integer without a sign to some readers, -0.0 to others.
    if at - first > _NUMBER_BYTES_MAX or (is_zero and negative and at - first == 2):
        return 0, 0
    return at, digits


@inlined
def _after_word(at, end):  # type: ignore[no-untyped-def]
    """Behind null, true or false; 0 when it is none of them."""
    if at + 5 > end:
        return 0
    word = load_32(at)
    if word in (_NULL, _TRUE):
        return at + 4
    return at + 5 if _byte(at) == 102 and load_32(at + 1) == _ALSE else 0


@always_inlined
def _after_scalar(at, text):  # type: ignore[no-untyped-def]
    c = _byte(at)
    if c == _QUOTE:
        return _after_string(at + 1, text)
    if c == 45 or 48 <= c <= 57:
        at, _ = _after_number(at, text[2])
        return at
    return _after_word(at, text[2])


@inlined
def _after_nested(at, text):  # type: ignore[no-untyped-def]
    """Behind the object or array that begins at `at`; 0 when it is odd."""
    depth, objects = 0, np.uint64(0)
    while True:
        # At a value.
        c = _byte(at)
        is_object = c == 123
        if is_object or c == 91:
            if depth == _DEPTH_MAX:
                return 0
            depth += 1
            objects = (objects << _ONE) | np.uint64(is_object)
            at = _after_blanks(at + 1)
            is_empty = _byte(at) == (125 if is_object else 93)
            is_first = not is_empty
        else:
            at = _after_scalar(at, text)
            if at == 0:
                return 0
            at = _after_blanks(at)
            is_first = False
        # Behind a value, or behind an opening bracket.
        while not is_first:
            c = _byte(at)
            is_object = objects & _ONE != np.uint64(0)
            if c == 44:
                at = _after_blanks(at + 1)
                is_first = True
            elif c == (125 if is_object else 93):
                at += 1
                depth -= 1
                objects >>= _ONE
                if depth == 0:
                    return at
                at = _after_blanks(at)
            else:
                return 0
        if objects & _ONE != np.uint64(0):
            if _byte(at) != _QUOTE:
                return 0
            at = _after_string(at + 1, text)
            if at == 0:
                return 0
            at = _after_blanks(at)
            if _byte(at) != 58:
                return 0
            at = _after_blanks(at + 1)


@always_inlined
def _get(table, field):  # type: ignore[no-untyped-def]
    """A field of the row of a table of int64 that begins at an address."""
    return np.int64(load_64(table + 8 * field))


@always_inlined
def _set(table, field, value):  # type: ignore[no-untyped-def]
    store_64(table + 8 * field, np.uint64(value))


@inlined
def _find_column(key, length, columns, columns_end, first):  # type: ignore[no-untyped-def]
    """The column of that name, or _SKIPPED; the columns from `first` on are looked at first."""
    column = first
    while column < columns_end:
        if _get(column, NAME_BYTES) == length and equal_bytes(_get(column, NAME), key, length):
            return column
        column += _get(column, SIZE)
    column = columns
    while column < first:
        if _get(column, NAME_BYTES) == length and equal_bytes(_get(column, NAME), key, length):
            return column
        column += _get(column, SIZE)
    return _SKIPPED


@always_inlined
def _store_text(column, row, text_end):  # type: ignore[no-untyped-def]
    store_32(_get(column, OFFSETS) + 4 * (row + 1), np.uint64(text_end - _get(column, VALUES)))
    store_8(_get(column, VALID) + row, _ONE)


@always_inlined
def _store_number(column, row, word):  # type: ignore[no-untyped-def]
    store_64(_get(column, VALUES) + 8 * row, word)
    store_8(_get(column, VALID) + row, _ONE)


@always_inlined
def _store_decimal(column, row, value):  # type: ignore[no-untyped-def]
    at = _get(column, VALUES) + 16 * row
    store_64(at, np.uint64(value))
    store_64(at + 8, np.uint64(value >> 63))


@inlined
def _store_null(column, row):  # type: ignore[no-untyped-def]
    """Store NULL, also in the fields of a RECORD."""
    end = column + _get(column, SIZE)
    while column < end:
        form = _get(column, FORM)
        if form <= TIMESTAMP:
            store_64(_get(column, VALUES) + 8 * row, np.uint64(0))
        elif form == DECIMAL:
            _store_decimal(column, row, 0)
        elif form != RECORD:
            offsets = _get(column, OFFSETS) + 4 * row
            store_32(offsets + 4, load_32(offsets))
        store_8(_get(column, VALID) + row, np.uint64(0))
        _set(column, NULLS, _get(column, NULLS) + 1)
        # The elements of a LIST have rows of their own.
        column += _get(column, SIZE) if form == LIST else _COLUMN_BYTES


@always_inlined
def _text_place(column, row):  # type: ignore[no-untyped-def]
    return _get(column, VALUES) + np.int64(load_32(_get(column, OFFSETS) + 4 * row))


@always_inlined
def _read_integer(at, end, column, row):  # type: ignore[no-untyped-def]
    at, size, negative = _integer(at, end)
    if at == 0 or size > np.uint64(_get(column, LIMIT)) + np.uint64(negative):
        return 0
    _store_number(column, row, np.uint64(0) - size if negative else size)
    return at


@inlined
def _read_number(at, end, column, row):  # type: ignore[no-untyped-def]
    """Read a number into a row of a DOUBLE or DECIMAL; returns what is behind, or 0 when it is odd."""
    negative = _byte(at) == 45
    first = at + negative
    after, digits, power = number_at(at, end, end)
    # -0 is an integer without a sign to some readers, -0.0 to others.
    is_integer_zero = _byte(first) == 48 and (
        48 <= _byte(first + 1) <= 57 or (negative and after == first + 1)
    )
    if after == 0 or is_integer_zero:
        return 0
    if _get(column, FORM) == DOUBLE:
        found, is_good = rounded_double(digits, power)
        store_double(_get(column, VALUES) + 8 * row, -found if negative else found)
    else:
        limit = _get(column, LIMIT)
        value, is_good = unscaled_decimal(digits, power, limit & 255, limit >> 8)
        _store_decimal(column, row, -value if negative else value)
    store_8(_get(column, VALID) + row, _ONE)
    return after if is_good else 0


@inlined
def _read_timestamp(at, end, column, row):  # type: ignore[no-untyped-def]
    """As `_read_number` for a TIMESTAMP."""
    limit = _get(column, LIMIT)
    at, value = timestamp_at(at, end, end, column + 8 * FIELDS, limit & 255)
    if at == 0:
        return 0
    _store_number(column, row, np.uint64(value))
    if limit >> 8 == 0:
        return at
    return at + 1 if _byte(at) == 90 else 0


@inlined
def _copy_span(at, after, column, row):  # type: ignore[no-untyped-def]
    out = _text_place(column, row)
    copy_bytes(out, at, after - at)
    _store_text(column, row, out + after - at)
    return after


@always_inlined
def _read_string(at, text, column, row):  # type: ignore[no-untyped-def]
    """Read the string whose first character is at `at` into a row of a column; returns what is behind, or 0 when it is odd."""
    form = _get(column, FORM)
    if form == TEXT or form == NUMBER:  # noqa: SIM109
        at, out = _copy_string(at, text, _text_place(column, row))
        _store_text(column, row, out)
        return at
    if form == INTEGER:
        at = _read_integer(at, text[2], column, row)
    elif form == DOUBLE or form == DECIMAL:  # noqa: SIM109
        at = _read_number(at, text[2], column, row)
    elif form == TIMESTAMP:
        at = _read_timestamp(at, text[2], column, row)
    else:
        return 0
    return at + 1 if at != 0 and _byte(at) == _QUOTE else 0


@inlined
def _read_other(at, text, column, row):  # type: ignore[no-untyped-def]
    """As `_read_string` for what is neither a string nor an integer of an INTEGER column nor null."""
    c, form, after = _byte(at), _get(column, FORM), np.int64(0)
    if form == DOUBLE or form == DECIMAL:  # noqa: SIM109
        return _read_number(at, text[2], column, row)
    if form == NUMBER:
        after, digits = _after_number(at, text[2])
        if digits > _get(column, LIMIT):
            return 0
    elif form == NESTED:
        if c == 123 or c == 91:
            after = _after_nested(at, text)
    elif c == 45 or 48 <= c <= 57:
        if form == TEXT:
            after, _, _ = _integer(at, text[2])
    elif form != TIMESTAMP:
        after = _after_word(at, text[2])
        if after != 0 and form == BOOLEAN:
            _store_number(column, row, np.uint64(c == 116))
            return after
    return _copy_span(at, after, column, row) if after != 0 else 0


@always_inlined
def _read_value(at, text, column, row):  # type: ignore[no-untyped-def]
    """As `_read_string` for any value but null."""
    if _byte(at) == _QUOTE:
        return _read_string(at + 1, text, column, row)
    if _get(column, FORM) == INTEGER:
        return _read_integer(at, text[2], column, row)
    return _read_other(at, text, column, row)


@always_inlined
def _read_key(at, text, columns, columns_end, first):  # type: ignore[no-untyped-def]
    """Read a key and its colon; returns (where the value begins, or 0 when they are odd; the column, as `_find_column`)."""
    if _byte(at) != _QUOTE:
        return 0, _SKIPPED
    key = at + 1
    key_end = _first_special(key, text)
    if _byte(key_end) != _QUOTE:
        return 0, _SKIPPED
    column = _find_column(key, key_end - key, columns, columns_end, first)
    at = _after_blanks(key_end + 1)
    if _byte(at) != 58:
        return 0, _SKIPPED
    return _after_blanks(at + 1), column


@inlined
def _store_missing(columns, columns_end, row, number):  # type: ignore[no-untyped-def]
    """Store NULL in the columns that an object does not have, or has as null."""
    column = columns
    while column < columns_end:
        if _get(column, SEEN) != number:
            _store_null(column, row)
        column += _get(column, SIZE)


@inlined
def _after_element(at):  # type: ignore[no-untyped-def]
    """What is behind an element of an array; returns (where the next one begins, 1), or (behind the array, 0), or (0, 0)."""
    at = _after_blanks(at)
    c = _byte(at)
    if c == 44:
        return _after_blanks(at + 1), 1
    return (at + 1 if c == 93 else 0), 0


@inlined
def _read_elements(at, text, column, row):  # type: ignore[no-untyped-def]
    """Read elements, of which the first is at `at`, into rows of a column that is no RECORD; returns (behind the array, or 0 when
    it is odd; the row behind the last one)."""
    more = 1
    while more:
        if _byte(at) == 110:
            at = _after_word(at, text[2])
            _store_null(column, row)
        else:
            at = _read_value(at, text, column, row)
        if at == 0:
            return 0, row
        row += 1
        at, more = _after_element(at)
    return at, row


@inlined
def _next_object(at, text, column, row):  # type: ignore[no-untyped-def]
    """Read elements that are null, of which the first may be at `at`, into rows of a RECORD; returns (where an object begins, its
    row, 1), or (behind the array, or 0 when it is odd; the row behind the last one; 0)."""
    while _byte(at) == 110:
        at = _after_word(at, text[2])
        if at == 0:
            return 0, row, 0
        _store_null(column, row)
        row += 1
        at, more = _after_element(at)
        if not more:
            return at, row, 0
    if _byte(at) != 123:
        return 0, row, 0
    store_8(_get(column, VALID) + row, _ONE)
    return at, row, 1


@inlined
def _begin_list(at, text, column, row):  # type: ignore[no-untyped-def]
    """Read the array that begins at `at`, up to its first object; returns as `_next_object`."""
    store_8(_get(column, VALID) + row, _ONE)
    first = np.int64(load_32(_get(column, OFFSETS) + 4 * row))
    at = _after_blanks(at + 1)
    if _byte(at) == 93:
        return at + 1, first, 0
    element = column + _COLUMN_BYTES
    if _get(element, FORM) == RECORD:
        return _next_object(at, text, element, first)
    at, end = _read_elements(at, text, element, first)
    return at, end, 0


@always_inlined
def _end_list(column, row, end):  # type: ignore[no-untyped-def]
    store_32(_get(column, OFFSETS) + 4 * (row + 1), np.uint64(end))


@always_inlined
def _other_member(at, text, scope, member, next_column):  # type: ignore[no-untyped-def]
    """Read what stands before a value, from the start of an object or from behind the value before; returns (where the value
    begins, its column), or (at the end of the object, _CLOSED), or (0, _ODD or _BLANK).

    `scope` is the object's columns, their end and number, and its part of `members`; `member` the place of the value in there.
    """
    gap = at
    at = _after_blanks(at)
    c = _byte(at)
    if member == scope[3]:
        if c != 123:
            return 0, np.int64(_BLANK if c == _NEWLINE else _ODD)
        at = _after_blanks(at + 1)
        if _byte(at) == 125:
            return at, np.int64(_CLOSED)
    elif c == 44:
        at = _after_blanks(at + 1)
    else:
        return (at, np.int64(_CLOSED)) if c == 125 else (0, np.int64(_ODD))
    at, column = _read_key(at, text, scope[0], scope[1], next_column)
    if at == 0:
        return 0, np.int64(_ODD)
    _set(member, _GAP_BYTES, at - gap)
    _set(member, _GAP, gap)
    _set(member, _COLUMN, column)
    return at, column


@always_inlined
def _keep(frame, scope, place, within):  # type: ignore[no-untyped-def]
    """Fill a frame. `place`: the place in `members`, how many fields were found, the next column, the row and its number."""
    for field in range(4):
        _set(frame, field, scope[field])
    for field in range(5):
        _set(frame, _MEMBER + field, place[field])
    _set(frame, _IN_LIST, within)


@always_inlined
def _scope_of(record):  # type: ignore[no-untyped-def]
    end = record + _get(record, SIZE)
    return record + _COLUMN_BYTES, end, _get(record, FIELDS), _get(record, LAYOUT)


@inlined
def _begin_nested(at, text, column, row):  # type: ignore[no-untyped-def]
    """Read the array or object that begins at `at`, up to its first object; returns (where this begins, or behind an array
    without one, or 0 when it is odd; its row; 1 for an object)."""
    if _byte(at) != (123 if _get(column, FORM) == RECORD else 91):
        return 0, row, 0
    if _get(column, FORM) == RECORD:
        store_8(_get(column, VALID) + row, _ONE)
        return at, row, 1
    at, end, more = _begin_list(at, text, column, row)
    if not more:
        _end_list(column, row, end)
    return at, end, more


@inlined
def _end_object(at, text, frame, row):  # type: ignore[no-untyped-def]
    """Behind an object that a frame was kept for; returns (where the next object of the same array begins; its row; 1), or
    (behind what it is in, or 0 when it is odd; its row; 0)."""
    within, more = _get(frame, _IN_LIST), 0
    if within != 0:
        at, more = _after_element(at)
        row += 1
        if more:
            at, row, more = _next_object(at, text, within + _COLUMN_BYTES, row)
        if not more:
            _end_list(within, _get(frame, _ROW), row)
    return at, row, more


@always_inlined
def _read_row(at, text, scope, needs_all, frames, row, number):  # type: ignore[no-untyped-def]
    """Read one line into a row of the columns, objects within each other in one loop, by frames; returns (where the next line
    begins, _ODD or _BLANK; the number of the last object)."""
    found, next_column, member, frame, last = 0, scope[0], scope[3], frames, number
    while True:
        # The bytes before the value are mostly those of the lines before.
        known = _get(member, _GAP_BYTES)
        if known > 0 and at + known <= text[2] and equal_bytes(at, _get(member, _GAP), known):
            at, column = _after_blanks(at + known), _get(member, _COLUMN)
        else:
            at, column = _other_member(at, text, scope, member, next_column)
            if at == 0:
                return column, last
        if column == _CLOSED:
            at += 1
            if found < scope[2]:
                if needs_all:
                    return _ODD, last
                _store_missing(scope[0], scope[1], row, number)
            if frame == frames:
                break
            at, row, more = _end_object(at, text, frame, row)
            if at == 0:
                return _ODD, last
            if more:
                last += 1
                number, member, found, next_column = last, scope[3], 0, scope[0]
                continue
            scope = _get(frame, 0), _get(frame, 1), _get(frame, 2), _get(frame, 3)
            member, found, next_column = _get(frame, _MEMBER), _get(frame, _FOUND), _get(frame, _NEXT)
            row, number = _get(frame, _ROW), _get(frame, _NUMBER)
            frame -= _FRAME_BYTES
            continue
        # The last place is that of all members from there on.
        if member < scope[3] + (MEMBERS_MAX - 1) * _MEMBER_BYTES:
            member += _MEMBER_BYTES
        c = _byte(at)
        if column == _SKIPPED:
            at = _after_nested(at, text) if c == 123 or c == 91 else _after_scalar(at, text)
            if at == 0:
                return _ODD, last
            continue
        seen = _get(column, SEEN)
        if seen == number or seen == -number:
            return _ODD, last
        next_column = column + _get(column, SIZE)
        # What is null is filled in at the end of the object, with the columns that are missing.
        _set(column, SEEN, -number if c == 110 else number)
        found += c != 110
        if c == 110:
            at = _after_word(at, text[2])
        elif _get(column, FORM) < RECORD:
            at = _read_value(at, text, column, row)
        else:
            at, part_row, more = _begin_nested(at, text, column, row)
            if more:
                is_list = _get(column, FORM) == LIST
                frame += _FRAME_BYTES
                _keep(frame, scope, (member, found, next_column, row, number), column if is_list else 0)
                scope = _scope_of(column + _COLUMN_BYTES if is_list else column)
                last += 1
                row, number, member, found, next_column = part_row, last, scope[3], 0, scope[0]
        if at == 0:
            return _ODD, last
    at = _after_blanks(at)
    return (at + 1 if _byte(at) == _NEWLINE else _ODD), last


@kernel(
    f"UniTuple(int64, 2)({READ_BYTES}, uint64[::1], int32[::1], int64[:, ::1], boolean, int64[:, ::1], int64[:, ::1])"
)
def read_rows(data, specials, ends, columns, needs_all, odd, members):  # type: ignore[no-untyped-def]
    """Decode the lines of `data`, which ends with a newline and is indexed (`json_index`), into `columns`; returns (rows, odd
    lines).

    Odd lines: for each, its number from 0 and how many rows were decoded before it. With `needs_all` a line that lacks a
    wanted field, or has NULL there, is odd. Rows is TOO_ODD when most lines are odd. Blank lines count as lines only.
    `members` is int64[MEMBERS_MAX, MEMBER_WIDTH], and as much again for each RECORD, the kernel's own, and comes as zeros.
    """
    layout = np.int64(members.ctypes.data)
    first_column = np.int64(columns.ctypes.data)
    columns_end = first_column + len(columns) * _COLUMN_BYTES
    wanted, column = 0, first_column
    while column < columns_end:
        wanted += 1
        column += _get(column, SIZE)
    root = (first_column, columns_end, wanted, layout)
    base = np.int64(data.ctypes.data)
    text = (base, np.int64(specials.ctypes.data), base + len(data))
    rows, odds, at, objects, frames = 0, 0, base, 0, _frames()
    for line in range(len(ends)):
        after_line = base + np.int64(ends[line]) + 1
        after, objects = _read_row(at, text, root, needs_all, frames, rows, objects + 1)
        at = after_line
        if after == after_line:
            rows += 1
        elif after != _BLANK:
            odd[0, odds], odd[1, odds] = line, rows
            odds += 1
            if odds > _PATIENCE and 2 * odds > line + 1:
                return TOO_ODD, odds
    return rows, odds
