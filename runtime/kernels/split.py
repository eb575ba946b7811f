"""Find and copy the n-th part of delimited strings."""

from __future__ import annotations

import numpy as np

from runtime.native.kernel import inlined, kernel


@inlined
def _next_delimiter(data, at, end, delimiter):  # type: ignore[no-untyped-def]
    """Where the next delimiter starts in data[at:end], or `end`."""
    width = len(delimiter)
    first = delimiter[0]
    last = end - width
    while at <= last:
        if data[at] == first:
            matched = 1
            while matched < width and data[at + matched] == delimiter[matched]:
                matched += 1
            if matched == width:
                return at
        at += 1
    return end


@kernel("void(int32[::1], int32[::1], uint8[::1], uint8[::1], int32[::1], uint8[::1], int64)")
def find_parts_into(starts, ends, is_found, data, offsets, delimiter, index):  # type: ignore[no-untyped-def]
    """Part `index` of row i begins at byte starts[i] and has ends[i + 1] - ends[i] bytes."""
    total = np.int64(0)
    ends[0] = 0
    width = np.int64(len(delimiter))
    for i in range(len(starts)):
        start, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        is_found[i] = 0
        starts[i] = start
        if end > start:
            part = np.int64(0)
            stop = np.int64(_next_delimiter(data, start, end, delimiter))
            while part < index and stop < end:
                start = stop + width
                stop = np.int64(_next_delimiter(data, start, end, delimiter))
                part += 1
            if part == index:
                is_found[i] = 1
                starts[i] = start
                total += stop - start
        ends[i + 1] = total


@kernel("void(uint8[::1], int32[::1], int32[::1], uint8[::1])")
def copy_parts_into(parts, starts, ends, data):  # type: ignore[no-untyped-def]
    """parts[ends[i]:ends[i + 1]] = the bytes of data from starts[i] on."""
    for i in range(len(starts)):
        source = starts[i] - ends[i]
        for at in range(ends[i], ends[i + 1]):
            parts[at] = data[source + at]
