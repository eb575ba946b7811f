"""Sets of unsigned 32-bit numbers in the portable form of 32-bit Roaring bitmaps, as columns of bytes.

A set is a header, a description (high 16 bits, number of values less 1) of each container, their offsets, and the containers: the
low 16 bits of at most 4,096 values, 8 KiB of bits, or runs. What is written here has no runs, so equal sets have equal bytes.
Source: https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import inlined, kernel

AND, ANDNOT, OR, XOR = range(4)
"""Operations of `combine`."""

_NO_RUNS, _RUNS, _ARRAY_MAX, _BITS_BYTES = 12346, 12347, 4096, 8192


@inlined
def _word16(data, at):  # type: ignore[no-untyped-def]
    return np.int64(data[at]) | (np.int64(data[at + 1]) << 8)


@inlined
def _word32(data, at):  # type: ignore[no-untyped-def]
    return _word16(data, at) | (_word16(data, at + 2) << 16)


@inlined
def _put16(data, at, value):  # type: ignore[no-untyped-def]
    data[at], data[at + 1] = value & 255, (value >> 8) & 255


@inlined
def _put32(data, at, value):  # type: ignore[no-untyped-def]
    _put16(data, at, value & 0xFFFF)
    _put16(data, at + 2, value >> 16)


@inlined
def _header(data, start, end):  # type: ignore[no-untyped-def]
    """The number of containers (-1: malformed), where their run flags (-1: none), their descriptions and their
    data begin."""
    if end - start < 8 and not (end - start >= 4 and _word16(data, start) == _RUNS):
        return -1, -1, -1, -1
    flags, at = -1, start + 4
    if _word16(data, start) == _RUNS:
        count = _word16(data, start + 2) + 1
        flags = at
        at += (count + 7) // 8
        body = at + 4 * count + (4 * count if count >= 4 else 0)
    elif _word32(data, start) == _NO_RUNS:
        count = _word32(data, start + 4)
        at += 4
        body = at + 8 * count
    else:
        return -1, -1, -1, -1
    if count > 65536 or body > end:
        return -1, -1, -1, -1
    return count, flags, at, body


@kernel("int64(uint8[::1], int64[::1], int64[::1])")
def cardinalities_into(data, starts_and_ends, out):  # type: ignore[no-untyped-def]
    """The number of values of each well-formed set between `starts_and_ends[2i]` and `[2i + 1]`; returns the first malformed row,
    or -1."""
    for row in range(len(out)):
        start, end = starts_and_ends[2 * row], starts_and_ends[2 * row + 1]
        out[row] = 0
        if start == end:
            continue
        count, flags, descriptions, at = _header(data, start, end)
        if count < 0:
            return row
        total, key_before = np.int64(0), np.int64(-1)
        for c in range(count):
            key = _word16(data, descriptions + 4 * c)
            size = _word16(data, descriptions + 4 * c + 2) + 1
            if key <= key_before:
                return row
            key_before = key
            if flags >= 0 and (data[flags + c // 8] >> (c % 8)) & 1:
                if at + 2 > end:
                    return row
                runs = _word16(data, at)
                at += 2
                if at + 4 * runs > end:
                    return row
                size, last = 0, np.int64(-1)
                for r in range(runs):
                    first = _word16(data, at + 4 * r)
                    length = _word16(data, at + 4 * r + 2)
                    if first <= last or first + length > 65535:
                        return row
                    last = first + length
                    size += length + 1
                at += 4 * runs
            elif size <= _ARRAY_MAX:
                if at + 2 * size > end:
                    return row
                last = np.int64(-1)
                for i in range(size):
                    value = _word16(data, at + 2 * i)
                    if value <= last:
                        return row
                    last = value
                at += 2 * size
            else:
                if at + _BITS_BYTES > end:
                    return row
                seen = np.int64(0)
                for i in range(_BITS_BYTES):
                    byte = np.int64(data[at + i])
                    byte = (byte & 0x55) + ((byte >> 1) & 0x55)
                    byte = (byte & 0x33) + ((byte >> 2) & 0x33)
                    seen += (byte & 15) + (byte >> 4)
                if seen != size:
                    return row
                at += _BITS_BYTES
            total += size
        out[row] = total
    return -1


@kernel("void(uint8[::1], int64[::1], uint32[::1])")
def values_into(data, starts_and_ends, out):  # type: ignore[no-untyped-def]
    """The values of all sets, row by row, ascending; the sets were checked by `cardinalities_into`."""
    o = 0
    for row in range(len(starts_and_ends) // 2):
        start, end = starts_and_ends[2 * row], starts_and_ends[2 * row + 1]
        if start == end:
            continue
        count, flags, descriptions, at = _header(data, start, end)
        for c in range(count):
            high = _word16(data, descriptions + 4 * c) << 16
            size = _word16(data, descriptions + 4 * c + 2) + 1
            if flags >= 0 and (data[flags + c // 8] >> (c % 8)) & 1:
                runs = _word16(data, at)
                at += 2
                for r in range(runs):
                    first = _word16(data, at + 4 * r)
                    for value in range(first, first + _word16(data, at + 4 * r + 2) + 1):
                        out[o] = high | value
                        o += 1
                at += 4 * runs
            elif size <= _ARRAY_MAX:
                for i in range(size):
                    out[o] = high | _word16(data, at + 2 * i)
                    o += 1
                at += 2 * size
            else:
                for i in range(_BITS_BYTES):
                    byte = np.int64(data[at + i])
                    value = high | (8 * i)
                    while byte:
                        if byte & 1:
                            out[o] = value
                            o += 1
                        byte >>= 1
                        value += 1
                at += _BITS_BYTES


@kernel("void(uint32[::1], int64[::1], int64[::1])")
def sizes_into(values, starts, out):  # type: ignore[no-untyped-def]
    """The bytes of the set of each row, whose values are `values[starts[i]:starts[i + 1]]`, ascending and distinct."""
    for row in range(len(out)):
        at, end = starts[row], starts[row + 1]
        size = 8
        while at < end:
            high, first = values[at] >> np.uint32(16), at
            while at < end and values[at] >> np.uint32(16) == high:
                at += 1
            count = at - first
            size += 8 + (2 * count if count <= _ARRAY_MAX else _BITS_BYTES)
        out[row] = size


@kernel("void(uint32[::1], int64[::1], int64[::1], uint8[::1])")
def sets_into(values, starts, places, out):  # type: ignore[no-untyped-def]
    """Write the sets that `sizes_into` has measured to `out[places[i]:]`, which is zero."""
    for row in range(len(starts) - 1):
        begin, end = starts[row], starts[row + 1]
        containers = 0
        at = begin
        while at < end:
            high = values[at] >> np.uint32(16)
            containers += 1
            while at < end and values[at] >> np.uint32(16) == high:
                at += 1
        start = places[row]
        _put32(out, start, _NO_RUNS)
        _put32(out, start + 4, containers)
        description = start + 8
        offset = description + 4 * containers
        body = offset + 4 * containers
        at = begin
        while at < end:
            high, first = values[at] >> np.uint32(16), at
            while at < end and values[at] >> np.uint32(16) == high:
                at += 1
            count = at - first
            _put16(out, description, np.int64(high))
            _put16(out, description + 2, count - 1)
            _put32(out, offset, body - start)
            description += 4
            offset += 4
            if count <= _ARRAY_MAX:
                for i in range(first, at):
                    _put16(out, body, np.int64(values[i]) & 0xFFFF)
                    body += 2
            else:
                for i in range(first, at):
                    low = np.int64(values[i]) & 0xFFFF
                    out[body + (low >> 3)] |= np.uint8(1 << (low & 7))
                body += _BITS_BYTES


@kernel("int64(int64, uint32[::1], int64[::1], uint32[::1], int64[::1], uint32[::1], int64[::1])")
def combine(operation, left, left_starts, right, right_starts, out, counts):  # type: ignore[no-untyped-def]
    """The values of AND, ANDNOT, OR or XOR of the two sets of each row, row by row; returns how many there are."""
    o = 0
    for row in range(len(counts)):
        first = o
        i, i_end = left_starts[row], left_starts[row + 1]
        j, j_end = right_starts[row], right_starts[row + 1]
        while i < i_end and j < j_end:
            a, b = left[i], right[j]
            if a == b:
                if operation in (AND, OR):
                    out[o] = a
                    o += 1
                i += 1
                j += 1
            elif a < b:
                if operation != AND:
                    out[o] = a
                    o += 1
                i += 1
            else:
                if operation >= OR:
                    out[o] = b
                    o += 1
                j += 1
        if operation != AND:
            while i < i_end:
                out[o] = left[i]
                o += 1
                i += 1
        if operation >= OR:
            while j < j_end:
                out[o] = right[j]
                o += 1
                j += 1
        counts[row] = o - first
    return o
