"""Columns as rows in Avro's binary encoding, by a program that was compiled from their schema; see `decode`."""

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

# Operations that write an entry of a column, the first argument.
INTEGER, FLOAT, DOUBLE, BOOLEAN, BYTES, DECIMAL = range(6)
# OPTION: the branch of a union; go to an operation where the entry is NULL. LIST: the number of elements of a list, whose scope
# and depth are given; go to an operation where there is none. NEXT: go back to an operation for another element of the list.
OPTION, LIST, NEXT, END = 6, 7, 8, 9
PROGRAM_WIDTH = 5

# The entries of a column: addresses, and the scope. Without NULLs there is no VALID.
VALUES, OFFSETS, VALID, SCOPE = range(4)

_ONE, _SEVEN, _LOW_BITS = np.uint64(1), np.uint64(7), np.uint64(127)


@inlined
def _put_number(at, number):  # type: ignore[no-untyped-def]
    """Write a number; returns the address behind it."""
    word = (np.uint64(number) << _ONE) ^ np.uint64(number >> 63)
    while word > _LOW_BITS:
        store_8(at, (word & _LOW_BITS) | np.uint64(128))
        word >>= _SEVEN
        at += 1
    store_8(at, word)
    return at + 1


@inlined
def _put_decimal(at, place):  # type: ignore[no-untyped-def]
    """Write two words as the fewest big-endian bytes, behind their number."""
    sign = np.uint64(255) if load_8(place + 15) >= np.uint64(128) else np.uint64(0)
    length = 16
    while (
        length > 1
        and load_8(place + length - 1) == sign
        and (load_8(place + length - 2) ^ sign) < np.uint64(128)
    ):
        length -= 1
    at = _put_number(at, np.int64(length))
    for byte in range(length):
        store_8(at + byte, load_8(place + length - 1 - byte))
    return at + length


@kernel("int64(int64, int64, int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int32[::1])")
def encode_rows(target, rows, program, columns, cursors, loops, ends):  # type: ignore[no-untyped-def]
    """Write rows one after the other to an address with room for all. `ends` gets Arrow's offsets; returns how many bytes."""
    at = target
    ends[0] = 0
    for row in range(rows):
        cursors[0] = row
        pc = np.int64(0)
        while True:
            op, a, b, c, d = program[pc, 0], program[pc, 1], program[pc, 2], program[pc, 3], program[pc, 4]
            pc += 1
            if op == END:
                break
            if op == NEXT:
                cursors[c] += 1
                loops[b] -= 1
                if loops[b] > 0:
                    pc = a
                else:
                    at = _put_number(at, np.int64(0))
                continue
            i = cursors[columns[a, SCOPE]]
            values = columns[a, VALUES]
            if op == INTEGER:
                at = _put_number(at, np.int64(load_64(values + 8 * i)))
            elif op == OPTION:
                if columns[a, VALID] != 0 and load_8(columns[a, VALID] + i) == np.uint64(0):
                    store_8(at, np.uint64(0))
                    pc = b
                else:
                    store_8(at, np.uint64(2))
                at += 1
            elif op == BYTES:
                begin = np.int64(load_32(columns[a, OFFSETS] + 4 * i))
                length = np.int64(load_32(columns[a, OFFSETS] + 4 * i + 4)) - begin
                at = _put_number(at, length)
                copy_bytes(at, values + begin, length)
                at += length
            elif op == DOUBLE:
                store_64(at, load_64(values + 8 * i))
                at += 8
            elif op == FLOAT:
                store_32(at, load_32(values + 4 * i))
                at += 4
            elif op == BOOLEAN:
                store_8(at, load_8(values + i))
                at += 1
            elif op == DECIMAL:
                at = _put_decimal(at, values + 16 * i)
            elif op == LIST:
                begin = np.int64(load_32(columns[a, OFFSETS] + 4 * i))
                count = np.int64(load_32(columns[a, OFFSETS] + 4 * i + 4)) - begin
                at = _put_number(at, count)
                if count == 0:
                    pc = b
                else:
                    cursors[d] = begin
                    loops[c] = count
        ends[row + 1] = at - target
    return at - target
