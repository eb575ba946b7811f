"""Rows in Avro's binary encoding as columns, by a program that was compiled from their schema.

Each row of `program` is an operation and its arguments. A column has its entries in a scope: that of the rows, or that of the
elements of a list, whose count is its cursor. Nothing is read behind the end of a message. What a malformed one has written is
written over by the next one.
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import (
    copy_bytes,
    is_text,
    load_8,
    load_32,
    load_64,
    load_float,
    store_8,
    store_32,
    store_64,
    store_double,
)
from sqlstream.runtime.native.kernel import inlined, kernel

# Operations that read a value into a column, the first argument. INTEGER and AS_REAL: least and greatest value; INTEGER then: a
# factor, or a divisor where it is negative. FIXED: a length. DECIMAL: the high and the low word of the first value that is too
# large, and a length, −1 where it is written. SYMBOL: the place of the first of the texts, and how many there are.
INTEGER, AS_REAL, FLOAT, DOUBLE, BOOLEAN, DECIMAL, BYTES, TEXT, FIXED, SYMBOL = range(10)
# An entry is NULL: its bytes, 0 for one of variable length, −1 for one without a value of its own; or it is there.
NULL, MARK = 10, 11
# Pass over a number, over bytes with their length, over so many bytes.
SKIP_NUMBER, SKIP_BYTES, SKIP = 12, 13, 14
# BRANCH: go to one of so many operations below. JUMP: go to an operation. FAIL: a branch that the column cannot have.
BRANCH, JUMP, FAIL = 15, 16, 17
# BLOCK: an element of a list at a depth follows, or (second argument) what comes behind the list. NEXT: an element of this scope
# is whole. LIST: a list in this column has all elements, of this scope. END: the row is whole.
BLOCK, NEXT, LIST, END = 18, 19, 20, 21
PROGRAM_WIDTH = 5

# The entries of a column: addresses, the number of NULLs, and the scope.
VALUES, OFFSETS, VALID, NULLS, SCOPE = range(5)

# Why a message is rejected.
TOO_SHORT, NO_LENGTH, NO_BRANCH, NO_TEXT, OUT_OF_RANGE, NO_COLUMN, LEFT_OVER = range(-1, -8, -1)

_SEVEN, _LOW_BITS = np.uint64(7), np.uint64(127)
_ONE = np.uint64(1)


@inlined
def _number(at, end):  # type: ignore[no-untyped-def]
    """A number and the address behind it, which is TOO_SHORT or NO_LENGTH when there is none."""
    word = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        byte = load_8(at)
        at += 1
        word |= (byte & _LOW_BITS) << shift
        if byte <= _LOW_BITS:
            return np.int64(word >> _ONE) ^ -np.int64(word & _ONE), at
        shift += _SEVEN
        if shift >= np.uint64(70):
            return np.int64(0), np.int64(NO_LENGTH)
    return np.int64(0), np.int64(TOO_SHORT)


@inlined
def _decimal(at, length, target, limit_high, limit_low):  # type: ignore[no-untyped-def]
    """Write a number of big-endian bytes as two words; whether its amount is below the limit."""
    sign = np.uint64(0)
    if length > 0 and load_8(at) >= np.uint64(128):
        sign = ~sign
    high, low = sign, sign
    fits = True
    for place in range(length):
        # Bytes that leave the words are those of the sign.
        if high >> np.uint64(56) != sign & np.uint64(255):
            fits = False
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | load_8(at + place)
    if (high >> np.uint64(63)) != (sign & _ONE):
        fits = False
    store_64(target, low)
    store_64(target + 8, high)
    if sign:
        low = ~low + _ONE
        high = ~high + (_ONE if low == np.uint64(0) else np.uint64(0))
    return fits and (high < limit_high or (high == limit_high and low < limit_low))


@inlined
def _bytes(at, end, op, b, c, values, offset, texts):  # type: ignore[no-untyped-def]
    """Read a value of variable length, which begins at what the offset at an address says; returns the address behind it."""
    if op == FIXED:
        length = b
    else:
        length, at = _number(at, end)
        if at < 0:
            return at
    source = at
    if op == SYMBOL:
        if length < 0 or length >= c:
            return np.int64(NO_BRANCH)
        source = texts[b + length, 0]
        length = texts[b + length, 1]
    else:
        if length < 0:
            return np.int64(NO_LENGTH)
        if length > end - at:
            return np.int64(TOO_SHORT)
        if op == TEXT and not is_text(at, at + length):
            return np.int64(NO_TEXT)
        at += length
    begin = np.int64(load_32(offset))
    copy_bytes(values + begin, source, length)
    store_32(offset + 4, np.uint64(begin + length))
    return at


@inlined
def _value(at, end, op, a, b, c, d, columns, cursors, texts):  # type: ignore[no-untyped-def]
    """Read a value into a column; returns the address behind it, or why there is none."""
    i = cursors[columns[a, SCOPE]]
    values = columns[a, VALUES]
    store_8(columns[a, VALID] + i, _ONE)
    if op == INTEGER:
        number, at = _number(at, end)
        if at < 0:
            return at
        if number < b or number > c:
            return np.int64(OUT_OF_RANGE)
        if d > 1:
            number *= d
        elif d < 0:
            number //= -d
        store_64(values + 8 * i, np.uint64(number))
    elif op >= BYTES:
        return _bytes(at, end, op, b, c, values, columns[a, OFFSETS] + 4 * i, texts)
    elif op == FLOAT:
        if end - at < 4:
            return np.int64(TOO_SHORT)
        store_double(values + 8 * i, load_float(at))
        at += 4
    elif op == DOUBLE:
        if end - at < 8:
            return np.int64(TOO_SHORT)
        store_64(values + 8 * i, load_64(at))
        at += 8
    elif op == BOOLEAN:
        if end - at < 1:
            return np.int64(TOO_SHORT)
        if load_8(at) > _ONE:
            return np.int64(OUT_OF_RANGE)
        store_8(values + i, load_8(at))
        at += 1
    elif op == AS_REAL:
        number, at = _number(at, end)
        if at < 0:
            return at
        if number < b or number > c:
            return np.int64(OUT_OF_RANGE)
        store_double(values + 8 * i, np.float64(number))
    else:
        length = d
        if length < 0:
            length, at = _number(at, end)
            if at < 0:
                return at
            if length < 0:
                return np.int64(NO_LENGTH)
        if length > end - at:
            return np.int64(TOO_SHORT)
        if not _decimal(at, length, values + 16 * i, np.uint64(b), np.uint64(c)):
            return np.int64(OUT_OF_RANGE)
        at += length
    return at


@inlined
def _null(a, b, columns, i):  # type: ignore[no-untyped-def]
    """Have an entry of a column NULL."""
    store_8(columns[a, VALID] + i, np.uint64(0))
    columns[a, NULLS] += 1
    if b == 0:
        offsets = columns[a, OFFSETS] + 4 * i
        store_32(offsets + 4, load_32(offsets))
    elif b == 1:
        store_8(columns[a, VALUES] + i, np.uint64(0))
    elif b > 0:
        for place in range(0, b, 8):
            store_64(columns[a, VALUES] + b * i + place, np.uint64(0))


@inlined
def _count(at, end):  # type: ignore[no-untyped-def]
    """The number of elements of a block, each of which has a byte or more, and the address behind it."""
    number, at = _number(at, end)
    if at >= 0 and number < 0:
        # What follows is how many bytes the block has.
        size, at = _number(at, end)
        number = -number
        if at >= 0 and (size < 0 or number < 0):
            return np.int64(0), np.int64(NO_LENGTH)
    if at >= 0 and number > end - at:
        return np.int64(0), np.int64(TOO_SHORT)
    return number, at


@inlined
def _row(at, end, program, columns, cursors, loops, texts):  # type: ignore[no-untyped-def]
    """Read a row; returns the address behind it, or why there is none."""
    pc = np.int64(0)
    while True:
        op, a, b, c, d = program[pc, 0], program[pc, 1], program[pc, 2], program[pc, 3], program[pc, 4]
        pc += 1
        if op <= SYMBOL:
            at = _value(at, end, op, a, b, c, d, columns, cursors, texts)
            if at < 0:
                return at
        elif op == BRANCH:
            number, at = _number(at, end)
            if at < 0:
                return at
            if number < 0 or number >= a:
                return np.int64(NO_BRANCH)
            pc += number
        elif op == JUMP:
            pc = a
        elif op == NULL:
            _null(a, b, columns, cursors[columns[a, SCOPE]])
        elif op == END:
            return at
        elif op == MARK:
            store_8(columns[a, VALID] + cursors[columns[a, SCOPE]], _ONE)
        elif op == SKIP_NUMBER:
            number, at = _number(at, end)
            if at < 0:
                return at
        elif SKIP_BYTES <= op <= SKIP:
            length = a
            if op == SKIP_BYTES:
                length, at = _number(at, end)
                if at < 0:
                    return at
                if length < 0:
                    return np.int64(NO_LENGTH)
            if length > end - at:
                return np.int64(TOO_SHORT)
            at += length
        elif op == BLOCK:
            if loops[a] == 0:
                number, at = _count(at, end)
                if at < 0:
                    return at
                loops[a] = number
            if loops[a] == 0:
                pc = b
            else:
                loops[a] -= 1
        elif op == NEXT:
            cursors[a] += 1
        elif op == LIST:
            i = cursors[columns[a, SCOPE]]
            store_8(columns[a, VALID] + i, _ONE)
            store_32(columns[a, OFFSETS] + 4 * i + 4, np.uint64(cursors[b]))
        else:
            return np.int64(NO_COLUMN)


@inlined
def _take_back(columns, lists, cursors, loops):  # type: ignore[no-untyped-def]
    """Forget the elements of a row that is not whole. Lists stand before those in their elements."""
    for depth in range(len(loops)):
        loops[depth] = 0
    for scope in range(1, len(cursors)):
        column = lists[scope]
        place = columns[column, OFFSETS] + 4 * cursors[columns[column, SCOPE]]
        cursors[scope] = np.int64(load_32(place))


@kernel(
    "UniTuple(int64, 2)(int64, int32[::1], int64, int64[::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1],"
    " int64[:, ::1], int64[::1], int64[:, ::1])"
)
def decode_rows(  # type: ignore[no-untyped-def]
    data, bounds, header, counts, program, columns, lists, cursors, loops, texts, owners, rejected
):
    """Read the rows of messages: message m is the bytes `bounds[m]` to `bounds[m + 1]` behind the address `data`. Behind a
    header of so many bytes it has `counts[m]` rows one after the other; −1 for one row, behind which there may be more bytes.

    `lists` has the list of each scope. `owners` gets the message of each row, `rejected` message and reason of each that is
    malformed. Returns how many there are of both.
    """
    rows, failures = np.int64(0), np.int64(0)
    for m in range(len(counts)):
        at, end = data + np.int64(bounds[m]) + header, data + np.int64(bounds[m + 1])
        left = max(counts[m], -counts[m])
        while left > 0:
            at = _row(at, end, program, columns, cursors, loops, texts)
            if at < 0:
                break
            owners[rows] = m
            rows += 1
            cursors[0] = rows
            left -= 1
        if at >= 0 and counts[m] >= 0 and at != end:
            at = np.int64(LEFT_OVER)
        if at < 0:
            _take_back(columns, lists, cursors, loops)
            rejected[failures, 0] = m
            rejected[failures, 1] = at
            failures += 1
    return rows, failures
