"""Positions in a log: int64 by slot or row id, -1 for none."""

from __future__ import annotations

from runtime.native.kernel import kernel


@kernel("int64(int64[::1], int64[::1], int64)")
def point(places, ids, first):  # type: ignore[no-untyped-def]
    """places[ids[i]] = first + i; returns how many had no place before."""
    absent = 0
    for i in range(len(ids)):
        if places[ids[i]] < 0:
            absent += 1
        places[ids[i]] = first + i
    return absent


@kernel("int64(int64[::1], int64[::1], int64[::1])")
def forget(places, ids, forgotten):  # type: ignore[no-untyped-def]
    """places[id] = -1; writes each id that had a place to `forgotten`, once, and returns their number."""
    count = 0
    for i in range(len(ids)):
        if 0 <= ids[i] < len(places) and places[ids[i]] >= 0:
            places[ids[i]] = -1
            forgotten[count] = ids[i]
            count += 1
    return count
