"""Keep the best rows of each slot: sorted insertion for Top-N, and the best row a group for deduplication."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit("void(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64)", nogil=True, cache=True)
def top_n_into(keys, rows, lengths, slots, row_keys, first_row):  # type: ignore[no-untyped-def]
    """Insert rows into the sorted lists of their slots; a list holds at most n = keys.shape[1] entries.

    `keys`, `rows` int64[slots, n] are sorted by key, smallest first, equal keys in order of arrival; `lengths` int64[slots]. Row
    i of the batch has key `row_keys[i]` and is entered as `first_row + i`.
    """
    n = keys.shape[1]
    for i in range(len(slots)):
        slot, key = slots[i], row_keys[i]
        length = lengths[slot]
        if length == n:
            if key >= keys[slot, n - 1]:
                continue
        else:
            lengths[slot] = length + 1
            length += 1
        at = length - 1
        while at > 0 and keys[slot, at - 1] > key:
            keys[slot, at] = keys[slot, at - 1]
            rows[slot, at] = rows[slot, at - 1]
            at -= 1
        keys[slot, at] = key
        rows[slot, at] = first_row + i


@njit("void(int64[::1], int64[::1], int64[::1], int64[::1], boolean)", nogil=True, cache=True)
def best_rows_into(rows, best, groups, times, keeps_last):  # type: ignore[no-untyped-def]
    """rows[group] = the row with the least time (first of equals), or the greatest (last of equals) when `keeps_last`.

    `rows` starts as -1; `best` receives the times.
    """
    for i in range(len(groups)):
        group, time = groups[i], times[i]
        if rows[group] < 0:
            rows[group] = i
            best[group] = time
        elif keeps_last:
            if time >= best[group]:
                rows[group] = i
                best[group] = time
        elif time < best[group]:
            rows[group] = i
            best[group] = time


@njit("void(int64[::1], int64[::1], int64)", nogil=True, cache=True)
def rank_within(ranks, groups, count):  # type: ignore[no-untyped-def]
    """ranks[i] = how many rows of the same group stand before row i, plus one; `count` groups."""
    seen = np.zeros(count, dtype=np.int64)
    for i in range(len(groups)):
        seen[groups[i]] += 1
        ranks[i] = seen[groups[i]]
