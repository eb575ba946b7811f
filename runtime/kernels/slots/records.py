"""Writes rows of Arrow columns as records of bytes, one after the other, and reads records back into columns.

A record: row id (4 bytes), its own size (4 bytes), one bit per column that is 1 for NULL, then the columns in order: values of
fixed width, and for a value of variable width its length (4 bytes). The bytes of those values follow, in order of their
columns, up to a multiple of 8 bytes.

The place of a record, an int64, has its size in the highest 12 bits (in words of 8 bytes; 0 when it is larger than that), then
20 bits of its segment and 31 bits of its offset there (in words). So a record can be forgotten without reading it.
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import (
    copy_32,
    copy_bytes,
    load_8,
    load_32,
    load_64,
    prefetch,
    store_8,
    store_32,
    store_64,
)
from sqlstream.runtime.native.kernel import always_inlined, inlined, kernel

BLOCK = 64
"""Rows that are worked on column by column; their records fit the processor's first two caches."""

FIXED, BITS, BYTES, LARGE_BYTES = 0, 1, 2, 3
"""Kinds of columns: fixed width, packed booleans (in a record one byte), variable width with offsets of 32 or of 64 bits."""

# Columns of `layout`, one row per column of the schema.
_KIND, _WIDTH, _PLACE = 0, 1, 2
# Columns of `source`: addresses of values or offsets, of the validity bitmap (0: no NULL) and of the bytes; the array's offset.
_VALUES, _VALIDITY, _DATA, _OFFSET = 0, 1, 2, 3
# Columns of `target`: addresses as above (values 0: not wanted; validity is one byte per row), room for bytes, how many are
# written, and how many more the next block has.
VALUES, VALIDITY, DATA, ROOM, END, NEEDED = 0, 1, 2, 3, 4, 5

_HEADER_BYTES = 8
_LINE_BYTES = 64
SEGMENTS_MAX = 1 << 20
_SEGMENT_SHIFT, _SIZE_SHIFT = 31, 51
_SEGMENT_MASK, _OFFSET_MASK = SEGMENTS_MAX - 1, (1 << 31) - 1
_SIZE_WORDS_MAX = (1 << 12) - 1
_ONE, _ZERO = np.uint64(1), np.uint64(0)


@inlined
def _copy(target, source, length):  # type: ignore[no-untyped-def]
    if length < 32:
        copy_bytes(target, source, length)
        return
    at = 0
    while at + 32 <= length:
        copy_32(target + at, source + at)
        at += 32
    copy_32(target + length - 32, source + length - 32)


@always_inlined
def _is_null(bitmap, position):  # type: ignore[no-untyped-def]
    """Whether a row is NULL by Arrow's bitmap at an address; there is none at address 0."""
    return bitmap != 0 and (load_8(bitmap + (position >> 3)) >> np.uint64(position & 7)) & _ONE == _ZERO


@always_inlined
def _arrow_offset(offsets, row, kind):  # type: ignore[no-untyped-def]
    if kind == BYTES:
        return np.int64(load_32(offsets + row * 4))
    return np.int64(load_64(offsets + row * 8))


@always_inlined
def _copy_fixed(target, source, width):  # type: ignore[no-untyped-def]
    if width == 8:
        store_64(target, load_64(source))
    elif width == 4:
        store_32(target, load_32(source))
    elif width == 1:
        store_8(target, load_8(source))
    else:
        copy_bytes(target, source, width)


@always_inlined
def _place_of(segment, offset, size):  # type: ignore[no-untyped-def]
    words = size >> 3 if size >> 3 <= _SIZE_WORDS_MAX else 0
    return words << _SIZE_SHIFT | segment << _SEGMENT_SHIFT | offset >> 3


@always_inlined
def _segment_of(place):  # type: ignore[no-untyped-def]
    return place >> _SEGMENT_SHIFT & _SEGMENT_MASK


@always_inlined
def _address_of(bases, place):  # type: ignore[no-untyped-def]
    return bases[_segment_of(place)] + ((place & _OFFSET_MASK) << 3)


@always_inlined
def _size_of(bases, place):  # type: ignore[no-untyped-def]
    size = place >> _SIZE_SHIFT << 3
    return size if size != 0 else np.int64(load_32(_address_of(bases, place) + 4))


@inlined
def _add_lengths(sizes, rows, count, offsets, validity, offset, kind):  # type: ignore[no-untyped-def]
    for j in range(count):
        row = rows[j] + offset
        if not _is_null(validity, row):
            sizes[j] += _arrow_offset(offsets, row + 1, kind) - _arrow_offset(offsets, row, kind)


@inlined
def _write_values(records, rows, count, place, width, values, offset):  # type: ignore[no-untyped-def]
    for j in range(count):
        _copy_fixed(records[j] + place, values + (rows[j] + offset) * width, width)


@inlined
def _write_bits(records, rows, count, place, values, offset):  # type: ignore[no-untyped-def]
    for j in range(count):
        row = rows[j] + offset
        store_8(records[j] + place, (load_8(values + (row >> 3)) >> np.uint64(row & 7)) & _ONE)


@inlined
def _write_bytes(records, tails, rows, count, place, source, kind):  # type: ignore[no-untyped-def]
    values, validity, data, offset = source[_VALUES], source[_VALIDITY], source[_DATA], source[_OFFSET]
    for j in range(count):
        row = rows[j] + offset
        start = _arrow_offset(values, row, kind)
        length = _arrow_offset(values, row + 1, kind) - start
        if _is_null(validity, row):
            length = 0
        store_32(records[j] + place, np.uint64(length))
        _copy(tails[j], data + start, length)
        tails[j] += length


@inlined
def _write_nulls(records, rows, count, column, validity, offset):  # type: ignore[no-untyped-def]
    byte, bit = _HEADER_BYTES + (column >> 3), _ONE << np.uint64(column & 7)
    for j in range(count):
        if _is_null(validity, rows[j] + offset):
            store_8(records[j] + byte, load_8(records[j] + byte) | bit)


@inlined
def _write_column(records, tails, rows, count, column, layout, source):  # type: ignore[no-untyped-def]
    kind, width, place = layout[column, _KIND], layout[column, _WIDTH], layout[column, _PLACE]
    values, offset = source[column, _VALUES], source[column, _OFFSET]
    if kind == FIXED:
        # A width that is known where the loop is compiled makes it several times as fast.
        if width == 8:
            _write_values(records, rows, count, place, 8, values, offset)
        elif width == 4:
            _write_values(records, rows, count, place, 4, values, offset)
        else:
            _write_values(records, rows, count, place, width, values, offset)
    elif kind == BITS:
        _write_bits(records, rows, count, place, values, offset)
    elif kind == BYTES:
        _write_bytes(records, tails, rows, count, place, source[column], BYTES)
    else:
        _write_bytes(records, tails, rows, count, place, source[column], LARGE_BYTES)
    if source[column, _VALIDITY] != 0:
        _write_nulls(records, rows, count, column, source[column, _VALIDITY], offset)


@kernel(
    "UniTuple(int64, 3)(int64[::1], int64[::1], int64, int64[:, ::1], int64[:, ::1], int64, int64[::1], int64, int64, "
    "int64, int64[::1], int64[::1], int64[:, ::1])"
)
def write_records(  # type: ignore[no-untyped-def]
    rows, ids, done, source, layout, fixed_bytes, bases, segment, used, room, places, live, scratch
):
    """Write `rows` of the source from number `done` on, with these ids, at byte `used` of a segment that has `room` bytes.

    `places` receives the places; a record that an id had before is no longer live. `live` counts the bytes of live records of
    each segment. Returns (rows done, bytes used, bytes of the record that does not fit; 0 when all are written).
    """
    sizes, records, tails = scratch[0], scratch[1], scratch[2]
    base, mask_bytes = bases[segment], (len(layout) + 7) >> 3
    while done < len(rows):
        count = min(BLOCK, len(rows) - done)
        chosen = rows[done : done + count]
        for j in range(count):
            sizes[j] = fixed_bytes
        for c in range(len(layout)):
            kind = layout[c, _KIND]
            if kind >= BYTES:
                values, validity, offset = source[c, _VALUES], source[c, _VALIDITY], source[c, _OFFSET]
                _add_lengths(sizes, chosen, count, values, validity, offset, kind)
        for j in range(count):
            sizes[j] = (sizes[j] + 7) >> 3 << 3
        fitting = 0
        while fitting < count and used + sizes[fitting] <= room:
            row_id, record = ids[done + fitting], base + used
            old = places[row_id]
            if old >= 0:
                live[_segment_of(old)] -= _size_of(bases, old)
            places[row_id] = _place_of(segment, used, sizes[fitting])
            for at in range(mask_bytes):
                store_8(record + _HEADER_BYTES + at, _ZERO)
            store_32(record, np.uint64(row_id))
            store_32(record + 4, np.uint64(sizes[fitting]))
            records[fitting], tails[fitting] = record, record + fixed_bytes
            live[segment] += sizes[fitting]
            used += sizes[fitting]
            fitting += 1
        for c in range(len(layout)):
            _write_column(records, tails, chosen, fitting, c, layout, source)
        done += fitting
        if fitting < count:
            return done, used, sizes[fitting]
    return done, used, 0


@inlined
def _bytes_of(records, count, place):  # type: ignore[no-untyped-def]
    total = np.int64(0)
    for j in range(count):
        total += np.int64(load_32(records[j] + place))
    return total


@inlined
def _read_values(values, records, count, place, width):  # type: ignore[no-untyped-def]
    for j in range(count):
        _copy_fixed(values + j * width, records[j] + place, width)


@inlined
def _read_bytes(target, records, tails, count, start, place, kind):  # type: ignore[no-untyped-def]
    values, data, end = target[VALUES], target[DATA], target[END]
    for j in range(count):
        length = np.int64(load_32(records[j] + place))
        if values != 0:
            _copy(data + end, tails[j], length)
            end += length
            if kind == BYTES:
                store_32(values + (start + j + 1) * 4, np.uint64(end))
            else:
                store_64(values + (start + j + 1) * 8, np.uint64(end))
        tails[j] += length
    target[END] = end


@inlined
def _read_valid(valid, records, count, column):  # type: ignore[no-untyped-def]
    byte, bit = _HEADER_BYTES + (column >> 3), np.uint64(column & 7)
    for j in range(count):
        store_8(valid + j, _ONE - ((load_8(records[j] + byte) >> bit) & _ONE))


@inlined
def _read_column(records, tails, count, start, column, layout, target):  # type: ignore[no-untyped-def]
    kind, width, place = layout[column, _KIND], layout[column, _WIDTH], layout[column, _PLACE]
    values = target[column, VALUES]
    if kind == BYTES:
        _read_bytes(target[column], records, tails, count, start, place, BYTES)
    elif kind == LARGE_BYTES:
        _read_bytes(target[column], records, tails, count, start, place, LARGE_BYTES)
    elif values != 0:
        if width == 8:
            _read_values(values + start * 8, records, count, place, 8)
        elif width == 4:
            _read_values(values + start * 4, records, count, place, 4)
        else:
            _read_values(values + start * width, records, count, place, width)
    if target[column, VALIDITY] != 0:
        _read_valid(target[column, VALIDITY] + start, records, count, column)


@kernel(
    "int64(int64[::1], int64, int64[:, ::1], int64, int64[::1], int64[::1], int64, int64, int64[:, ::1], int64[:, ::1])"
)
def read_records(ids, done, layout, fixed_bytes, bases, places, null_record, record_bytes, target, scratch):  # type: ignore[no-untyped-def]
    """Read the records of ids from number `done` on into the columns of `target`; an id without a place has `null_record`.

    `record_bytes` is about how much of a record is read. Returns where it stopped because a column of bytes has no room for the
    next block, or the number of ids.
    """
    records, tails = scratch[0], scratch[1]
    last_bytes = -1
    for c in range(len(layout)):
        if layout[c, _KIND] >= BYTES and target[c, VALUES] != 0:
            last_bytes = c
    for start in range(done, len(ids), BLOCK):
        count = min(BLOCK, len(ids) - start)
        for j in range(count):
            place = places[ids[start + j]]
            record = null_record if place < 0 else _address_of(bases, place)
            for at in range(0, record_bytes, _LINE_BYTES):
                prefetch(record + at)
            records[j], tails[j] = record, record + fixed_bytes
        for j in range(start + count, min(start + count + BLOCK, len(ids))):
            prefetch(places.ctypes.data + ids[j] * 8)
        has_room = True
        for c in range(len(layout)):
            if layout[c, _KIND] >= BYTES and target[c, VALUES] != 0:
                target[c, NEEDED] = _bytes_of(records, count, layout[c, _PLACE])
                has_room &= target[c, END] + target[c, NEEDED] <= target[c, ROOM]
        if not has_room:
            return start
        for c in range(len(layout)):
            # Those of variable width are walked through to find the one behind them.
            if target[c, VALUES] != 0 or (layout[c, _KIND] >= BYTES and c < last_bytes):
                _read_column(records, tails, count, start, c, layout, target)
    return len(ids)


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def forget_records(ids, bases, places, live, forgotten):  # type: ignore[no-untyped-def]
    """places[id] = -1, and its record is no longer live; writes each id that had a place to `forgotten`, once, and returns
    their number.
    """
    count = 0
    for i in range(len(ids)):
        if 0 <= ids[i] < len(places) and places[ids[i]] >= 0:
            place = places[ids[i]]
            live[_segment_of(place)] -= _size_of(bases, place)
            places[ids[i]] = -1
            forgotten[count] = ids[i]
            count += 1
    return count


@kernel("UniTuple(int64, 3)(int64[::1], int64, int64, int64, int64, int64, int64, int64[::1], int64[::1])")
def move_records(bases, source, at, end, target, used, room, places, live):  # type: ignore[no-untyped-def]
    """Copy the live records between bytes `at` and `end` of segment `source` to byte `used` of segment `target`.

    Returns (where it stopped in the source because the target has no more of its `room` bytes, or `end`; bytes used; bytes of
    the record that had no room, or 0).
    """
    from_base, to_base = bases[source], bases[target]
    while at < end:
        record = from_base + at
        row_id, size = np.int64(load_32(record)), np.int64(load_32(record + 4))
        if places[row_id] == _place_of(source, at, size):
            if used + size > room:
                return at, used, size
            _copy(to_base + used, record, size)
            places[row_id] = _place_of(target, used, size)
            live[source] -= size
            live[target] += size
            used += size
        at += size
    return at, used, np.int64(0)
