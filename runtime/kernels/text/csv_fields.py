"""Plainly written CSV as column buffers, and where its last whole record ends.

A record is plain when what follows a closing quote ends the field, when it has as many fields as it should, and when its wanted
integers are written without blanks or a plus. Text with other records is for `csv_records`, so no record is rejected here.

Delimiters, quotes and line ends are found 64 bytes at a time. `plain_end` and `read_fields` go from one to the next.
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import (
    byte_places,
    copy_bytes,
    equal_bytes,
    load_8,
    load_32,
    load_64,
    lowest_bit,
    number_of_digits,
    other_than_digits,
    store_8,
    store_32,
    store_64,
)
from sqlstream.runtime.native.kernel import READ_BYTES, always_inlined, inlined, kernel

SKIPPED, INTEGER, TEXT = 0, 1, 2
"""Forms of columns."""

FORM, LIMIT, VALUES, OFFSETS, VALID, NULLS, EMPTY_IS_NULL = range(7)
"""What a column's row of `columns` holds: its form; the greatest INTEGER; the addresses of its int64 values or its text, of its
int32 offsets and of its validity (one byte per row); how many rows are NULL; whether an empty field is."""
COLUMN_WIDTH = 7

SLACK = 64
"""Bytes that a text buffer has more than `data`."""

ODD = -1
_WIDTH = 64
_LF, _CR, _MINUS = 10, 13, 45
_NOTHING = np.uint64(0)
_ONE = np.uint64(1)
_ZEROS = np.uint64(0x3030303030303030)
_EIGHT_DIGITS = np.uint64(100_000_000)


@always_inlined
def _byte(address):  # type: ignore[no-untyped-def]
    return np.int64(load_8(address))


@inlined
def _places_at_end(base, n, chunk, delimiter, quote):  # type: ignore[no-untyped-def]
    """As in `_next_place`, of fewer than 64 bytes."""
    mask = _NOTHING
    for place in range(n - chunk):
        c = _byte(base + chunk + place)
        if c == delimiter or c == quote or c == _LF or c == _CR:  # noqa: SIM109 (one comparison after the other)
            mask |= _ONE << np.uint64(place)
    return mask


@always_inlined
def _next_place(base, n, chunk, mask, delimiter, quote):  # type: ignore[no-untyped-def]
    """The next place of a delimiter, quote or line end, `n` when there is none; and `chunk` and `mask` for the next call. Bit i
    of `mask` says that byte i behind `chunk` is a place to come.
    """
    while mask == _NOTHING:
        chunk += _WIDTH
        if chunk >= n:
            return n, chunk, mask
        if chunk + _WIDTH <= n:
            at = base + chunk
            mask = byte_places(at, np.uint8(delimiter)) | byte_places(at, np.uint8(_LF))
            mask |= byte_places(at, np.uint8(_CR))
            if quote >= 0:
                mask |= byte_places(at, np.uint8(quote))
        else:
            mask = _places_at_end(base, n, chunk, delimiter, quote)
    return chunk + lowest_bit(mask), chunk, mask & (mask - _ONE)


@always_inlined
def _next_field(base, n, start, chunk, mask, delimiter, quote):  # type: ignore[no-untyped-def]
    """Find the end of the field that begins at `start`.

    Returns (the place of the delimiter or line end behind it, `n` for none, ODD for other text behind a closing quote; first and
    end of its text, the end ODD for a quote that is open; whether the text has doubled quotes; `chunk` and `mask`).
    """
    i, chunk, mask = _next_place(base, n, chunk, mask, delimiter, quote)
    first, is_doubled = start, False
    if i == start and i < n and _byte(base + i) == quote:
        first = start + 1
        while True:
            i, chunk, mask = _next_place(base, n, chunk, mask, delimiter, quote)
            if i >= n:
                return n, first, ODD, is_doubled, chunk, mask
            if _byte(base + i) != quote:
                continue
            if i + 1 < n and _byte(base + i + 1) == quote:
                is_doubled = True
                _, chunk, mask = _next_place(base, n, chunk, mask, delimiter, quote)
            else:
                break
        end = i
        i, chunk, mask = _next_place(base, n, chunk, mask, delimiter, quote)
        return (i if i == end + 1 else ODD), first, end, is_doubled, chunk, mask
    while i < n and _byte(base + i) == quote:
        i, chunk, mask = _next_place(base, n, chunk, mask, delimiter, quote)
    return i, first, i, is_doubled, chunk, mask


@kernel(f"int64({READ_BYTES}, int64, int64, boolean)")
def plain_end(data, delimiter, quote, is_last):  # type: ignore[no-untyped-def]
    """Bytes up to the end of the last whole record, its line end included; ODD where text stands behind a closing quote.

    `quote` is -1 for none. With `is_last` the data goes to the end of the file; a quote that is open there is ODD too.
    """
    base, n = data.ctypes.data, len(data)
    start, whole, chunk, mask = np.int64(0), np.int64(0), np.int64(-_WIDTH), _NOTHING
    while start < n:
        i, _, end, _, chunk, mask = _next_field(base, n, start, chunk, mask, delimiter, quote)
        if i == ODD:
            return np.int64(ODD)
        if i >= n:
            if not is_last:
                return whole
            return n if end != ODD else np.int64(ODD)
        c = _byte(base + i)
        start = i + 1
        if c == delimiter:
            continue
        if c == _CR:
            if start == n and not is_last:
                return whole
            if start < n and _byte(base + start) == _LF:
                _, chunk, mask = _next_place(base, n, chunk, mask, delimiter, quote)
                start += 1
        whole = start
    return n if is_last else whole


@always_inlined
def _eight_digits(word):  # type: ignore[no-untyped-def]
    """Eight digits as a number; whether they are digits."""
    return number_of_digits(word), other_than_digits(word) == _NOTHING


@always_inlined
def _word_before(at, length, base):  # type: ignore[no-untyped-def]
    """The `length` bytes, at most eight, before an address as one word, with digits 0 in front of them."""
    if at - 8 >= base:
        word = load_64(at - 8)
    else:
        word = _NOTHING
        for place in range(length):
            word |= load_8(at - 1 - place) << np.uint64(56 - 8 * place)
    if length == 8:
        return word
    kept = np.uint64(64 - 8 * length)
    return ((word >> kept) << kept) | (_ZEROS >> np.uint64(8 * length))


@always_inlined
def _number(at, length, base):  # type: ignore[no-untyped-def]
    """Digits as a number, and whether they are 1 to 19 digits."""
    if length < 1 or length > 19:
        return _NOTHING, False
    end = at + length
    value, is_number = _eight_digits(_word_before(end, min(length, 8), base))
    if length > 8:
        more, is_also = _eight_digits(_word_before(end - 8, min(length - 8, 8), base))
        value += more * _EIGHT_DIGITS
        is_number = is_number and is_also
    if length > 16:
        more, is_also = _eight_digits(_word_before(end - 16, length - 16, base))
        value += more * _EIGHT_DIGITS * _EIGHT_DIGITS
        is_number = is_number and is_also
    return value, is_number


@always_inlined
def _integer(at, length, base, limit):  # type: ignore[no-untyped-def]
    """An integer; whether it is one of the column's type."""
    negative = np.int64(length > 0 and _byte(at) == _MINUS)
    size, is_number = _number(at + negative, length - negative, base)
    is_number = is_number and size <= np.uint64(limit) + np.uint64(negative)
    return (-np.int64(size) if negative else np.int64(size)), is_number


@always_inlined
def _copy_text(target, source, length, end):  # type: ignore[no-untyped-def]
    """Copy a text to where 64 bytes more may be written; it is read up to `end` at most."""
    if source + length + 32 <= end:
        at = np.int64(0)
        while at < length:
            for word in range(0, 32, 8):
                store_64(target + at + word, load_64(source + at + word))
            at += 32
    else:
        copy_bytes(target, source, length)


@inlined
def _copy_doubled(target, source, length, quote):  # type: ignore[no-untyped-def]
    """Copy a text in which quotes are doubled; returns its length without."""
    at, size = np.int64(0), np.int64(0)
    while at < length:
        c = load_8(source + at)
        store_8(target + size, c)
        at += 2 if np.int64(c) == quote else 1
        size += 1
    return size


@always_inlined
def _store_text(values, offset, at, length, end, quote):  # type: ignore[no-untyped-def]
    """Append a text, in which quotes are doubled unless `quote` is -1; `offset` is the address of its first offset."""
    place = np.int64(load_32(offset))
    if quote >= 0:
        length = _copy_doubled(values + place, at, length, quote)
    else:
        _copy_text(values + place, at, length, end)
    store_32(offset + 4, np.uint64(place + length))


@kernel(f"UniTuple(int64, 2)({READ_BYTES}, int64, int64, {READ_BYTES}, boolean, int64[:, ::1])")
def read_fields(data, delimiter, quote, null, has_null, columns):  # type: ignore[no-untyped-def]
    """Read the records of `data`, which ends with a newline, into columns; returns (rows, ODD).

    (ODD, column) says that a value of this column is not plain, and (ODD, ODD) that a record is not. `null` is the text that
    stands for NULL, if there is one. Each field of a record has its row in `columns`.
    """
    base, n = data.ctypes.data, len(data)
    null_address, null_bytes = null.ctypes.data, len(null) if has_null else ODD
    row, field = np.int64(0), np.int64(0)
    start, chunk, mask = np.int64(0), np.int64(-_WIDTH), _NOTHING
    while start < n:
        begin = start
        i, first, end, is_doubled, chunk, mask = _next_field(base, n, start, chunk, mask, delimiter, quote)
        if i >= n or i == ODD:
            return np.int64(ODD), np.int64(ODD)
        c = _byte(base + i)
        is_row, start = c != delimiter, i + 1
        if c == _CR and start < n and _byte(base + start) == _LF:
            _, chunk, mask = _next_place(base, n, chunk, mask, delimiter, quote)
            start += 1
        if is_row != (field == len(columns) - 1):
            if is_row and field == 0 and i == begin:
                # An empty line.
                continue
            return np.int64(ODD), np.int64(ODD)
        form, at, length = columns[field, FORM], base + first, end - first
        if form != SKIPPED:
            is_null = length == null_bytes and (length == 0 or equal_bytes(at, null_address, length))
            is_null = is_null or (length == 0 and columns[field, EMPTY_IS_NULL] != 0)
            store_8(columns[field, VALID] + row, np.uint64(not is_null))
            columns[field, NULLS] += is_null
            if form == TEXT:
                offset = columns[field, OFFSETS] + 4 * row
                length = 0 if is_null else length
                _store_text(columns[field, VALUES], offset, at, length, base + n, quote if is_doubled else -1)
            else:
                value, is_plain = np.int64(0), True
                if not is_null:
                    value, is_plain = _integer(at, length, base, columns[field, LIMIT])
                if not is_plain:
                    return np.int64(ODD), field
                store_64(columns[field, VALUES] + 8 * row, np.uint64(value))
        field += 1
        if is_row:
            field = np.int64(0)
            row += 1
    return row, np.int64(ODD)
