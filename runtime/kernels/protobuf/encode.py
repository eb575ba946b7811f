"""Columns as messages of Protocol Buffers, by a program that was compiled from their descriptor.

Messages are written from their end to their begin, so that the length of what stands within is known where it is written: the
program has the last field first.
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import (
    copy_bytes,
    load_8,
    load_32,
    load_64,
    store_8,
    store_32,
    store_64,
)
from sqlstream.runtime.native.kernel import inlined, kernel

# Operations that write an entry of a column, the first argument, and before it the tag, the second one, unless it is 0. With
# the third argument a value that is the default is left out.
WORD, ZIGZAG, ZIGZAG_32, UNSIGNED, BOOLEAN, FIXED_32, FIXED_64, FLOAT, BYTES = range(9)
# OPTION: go to an operation where the entry is NULL. MARK: at this depth, what follows ends here. WRAP: its length, and a tag,
# before what was written since the MARK of a depth. LIST: the elements of a list from the last one on, of this scope and depth;
# go to an operation where there are none. NEXT: go back to an operation for another element. END: the message is whole.
OPTION, MARK, WRAP, LIST, NEXT, END = range(9, 15)
PROGRAM_WIDTH = 5

# The columns: addresses, and the scope. Without NULLs there is no VALID.
VALUES, OFFSETS, VALID, SCOPE = range(4)

_ONE, _SEVEN, _LOW_BITS, _ZERO = np.uint64(1), np.uint64(7), np.uint64(127), np.uint64(0)
_LOW_32 = np.uint64(0xFFFFFFFF)


@inlined
def _put_before(at, word):  # type: ignore[no-untyped-def]
    """Write a number so that it ends at an address; returns where it begins."""
    size = 1
    rest = word >> _SEVEN
    while rest > _ZERO:
        rest >>= _SEVEN
        size += 1
    begin = at - size
    place = begin
    while word > _LOW_BITS:
        store_8(place, (word & _LOW_BITS) | np.uint64(128))
        word >>= _SEVEN
        place += 1
    store_8(place, word)
    return begin


@inlined
def _number(op, values, i):  # type: ignore[no-untyped-def]
    """A value that is written as a number of varying length."""
    if op == BOOLEAN:
        return load_8(values + i)
    word = load_64(values + 8 * i)
    if op == UNSIGNED:
        return word & _LOW_32
    if op in (ZIGZAG, ZIGZAG_32):
        sign = np.uint64(np.int64(word) >> 63)
        word = (word << _ONE) ^ sign
        if op == ZIGZAG_32:
            word &= _LOW_32
    return word


@inlined
def _value(at, op, a, b, c, columns, i):  # type: ignore[no-untyped-def]
    """Write an entry before an address; returns where it begins."""
    values = columns[a, VALUES]
    if op <= BOOLEAN:
        word = _number(op, values, i)
        if c != 0 and word == _ZERO:
            return at
        at = _put_before(at, word)
    elif op == FIXED_64:
        word = load_64(values + 8 * i)
        if c != 0 and word == _ZERO:
            return at
        at -= 8
        store_64(at, word)
    elif op == BYTES:
        begin = np.int64(load_32(columns[a, OFFSETS] + 4 * i))
        length = np.int64(load_32(columns[a, OFFSETS] + 4 * i + 4)) - begin
        if c != 0 and length == 0:
            return at
        at -= length
        copy_bytes(at, values + begin, length)
        at = _put_before(at, np.uint64(length))
    else:
        word = load_32(values + 4 * i) if op == FLOAT else load_64(values + 8 * i) & _LOW_32
        if c != 0 and word == _ZERO:
            return at
        at -= 4
        store_32(at, word)
    if b != 0:
        at = _put_before(at, np.uint64(b))
    return at


@kernel("int64(int64, int64, int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int32[::1])")
def encode_messages(target_end, rows, program, columns, cursors, loops, marks, begins):  # type: ignore[no-untyped-def]
    """Write messages so that the last one ends at an address, behind which there is room for all. `begins` gets how far before
    that address each begins, and 0. Returns how many bytes there are."""
    at = target_end
    begins[rows] = 0
    for row in range(rows - 1, -1, -1):
        cursors[0] = row
        pc = np.int64(0)
        while True:
            op, a, b, c, d = program[pc, 0], program[pc, 1], program[pc, 2], program[pc, 3], program[pc, 4]
            pc += 1
            if op <= BYTES:
                at = _value(at, op, a, b, c, columns, cursors[columns[a, SCOPE]])
            elif op == OPTION:
                i = cursors[columns[a, SCOPE]]
                if columns[a, VALID] != 0 and load_8(columns[a, VALID] + i) == _ZERO:
                    pc = b
            elif op == MARK:
                marks[a] = at
            elif op == WRAP:
                at = _put_before(at, np.uint64(marks[a] - at))
                at = _put_before(at, np.uint64(b))
            elif op == LIST:
                i = cursors[columns[a, SCOPE]]
                begin = np.int64(load_32(columns[a, OFFSETS] + 4 * i))
                count = np.int64(load_32(columns[a, OFFSETS] + 4 * i + 4)) - begin
                if count == 0:
                    pc = b
                else:
                    cursors[d] = begin + count - 1
                    loops[c] = count
            elif op == NEXT:
                cursors[c] -= 1
                loops[b] -= 1
                if loops[b] > 0:
                    pc = a
            else:
                break
        begins[row] = np.int32(target_end - at)
    return target_end - at
