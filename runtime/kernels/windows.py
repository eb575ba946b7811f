"""Cuts event times into slices, and merges overlapping sessions."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import kernel


@kernel("void(int64[::1], int64, int64, int64[::1])")
def slice_ends_into(times_ms, slice_ms, offset_ms, ends):  # type: ignore[no-untyped-def]
    """ends[i] = end of the slice [k * slice + offset, (k + 1) * slice + offset) that holds times_ms[i]; floors below zero too."""
    start, end = np.int64(0), np.int64(0)
    for i in range(len(times_ms)):
        time = times_ms[i]
        # Neighbouring rows are usually in one slice: two comparisons instead of a division.
        if time < start or time >= end:
            start = (time - offset_ms) // slice_ms * slice_ms + offset_ms
            end = start + slice_ms
        ends[i] = end


_NO_SESSION_BEFORE = np.int64(-(2**63))


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[::1], int64[::1], int64[::1])"
)
def follow_sessions_into(  # type: ignore[no-untyped-def]
    groups, starts, ends, current, ends_before, sessions, first_rows, least, greatest
):
    """As `merge_sessions_into`, but in the given order of rows.

    Returns -1 when a row lies before the last session of its group without touching it, or reaches back to an earlier one:
    then the rows must be sorted first. `current` is int64[groups] of -1 and holds the last session of each group;
    `ends_before[session]` is where the session before it in its group ends.
    """
    count = np.int64(0)
    for row in range(len(groups)):
        start, end = starts[row], ends[row]
        session = current[groups[row]]
        if session >= 0 and start <= greatest[session]:
            if start < least[session]:
                if end < least[session] or start <= ends_before[session]:
                    return np.int64(-1)
                least[session] = start
            if end > greatest[session]:
                greatest[session] = end
        else:
            ends_before[count] = greatest[session] if session >= 0 else _NO_SESSION_BEFORE
            session = count
            count += 1
            current[groups[row]] = session
            first_rows[session] = row
            least[session] = start
            greatest[session] = end
        sessions[row] = session
    return count


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])"
)
def merge_sessions_into(groups, starts, ends, order, sessions, first_rows, least, greatest):  # type: ignore[no-untyped-def]
    """sessions[row] = dense number of the session of the row; returns how many there are.

    `order` sorts rows by (group, start). Intervals [start, end) of one group that overlap or touch are one session.
    Of each session: the first of its rows in this order, its least start and its greatest end.
    """
    session = np.int64(-1)
    group = np.int64(-1)
    for i in range(len(order)):
        row = order[i]
        if groups[row] != group or starts[row] > greatest[session]:
            session += 1
            group = groups[row]
            first_rows[session] = row
            least[session] = starts[row]
            greatest[session] = ends[row]
        elif ends[row] > greatest[session]:
            greatest[session] = ends[row]
        sessions[row] = session
    return session + 1


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
