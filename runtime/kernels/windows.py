"""Cut event times into slices, and merge overlapping sessions."""

from __future__ import annotations

import numpy as np

from runtime.native.kernel import kernel


@kernel("void(int64[::1], int64, int64, int64[::1])")
def slice_ends_into(times_ms, slice_ms, offset_ms, ends):  # type: ignore[no-untyped-def]
    """ends[i] = end of the slice [k * slice + offset, (k + 1) * slice + offset) that holds times_ms[i]; floors below zero too."""
    start, end = np.int64(0), np.int64(0)
    for i in range(len(times_ms)):
        time = times_ms[i]
        # Neighbouring rows are mostly of one slice: two comparisons instead of a division.
        if time < start or time >= end:
            start = (time - offset_ms) // slice_ms * slice_ms + offset_ms
            end = start + slice_ms
        ends[i] = end


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def merge_sessions_into(groups, starts, ends, order, sessions):  # type: ignore[no-untyped-def]
    """sessions[row] = dense number of the session of the row; returns how many there are.

    `order` sorts rows by (group, start). Intervals [start, end) of one group that overlap or touch are one session.
    """
    count = np.int64(-1)
    group, reach = np.int64(-1), np.int64(0)
    for i in range(len(order)):
        row = order[i]
        if groups[row] != group or starts[row] > reach:
            count += 1
            group = groups[row]
            reach = ends[row]
        elif ends[row] > reach:
            reach = ends[row]
        sessions[row] = count
    return count + 1


@kernel("int64(int64[::1], int32[::1], int64[::1], int64[::1])")
def renumber_into(ids, scratch, groups, first_rows):  # type: ignore[no-untyped-def]
    """Number the ids that occur densely, in order of first occurrence; returns how many there are.

    `scratch` is int32 zeros for every possible id and is left as zeros; groups[i] is the number of ids[i], first_rows[g] the
    first row with number g.
    """
    count = 0
    for i in range(len(ids)):
        number = scratch[ids[i]]
        if number == 0:
            first_rows[count] = i
            count += 1
            number = np.int32(count)
            scratch[ids[i]] = number
        groups[i] = number - 1
    for number in range(count):
        scratch[ids[first_rows[number]]] = 0
    return count
