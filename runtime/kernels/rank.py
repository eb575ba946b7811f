"""Ranks rows within groups, finds the best row of each group, and the changes between two lists of ranked rows."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import kernel


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], boolean)")
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


def rank_within(ranks: np.ndarray, groups: np.ndarray, count: int) -> None:
    """ranks[i] = 1 + the number of rows of the same group before row i; `count` is the number of groups."""
    _rank_within(ranks, groups, np.zeros(count, dtype=np.int64))


@kernel("void(int64[::1], int64[::1], int64[::1])")
def _rank_within(ranks, groups, seen):  # type: ignore[no-untyped-def]
    for i in range(len(groups)):
        seen[groups[i]] += 1
        ranks[i] = seen[groups[i]]


@kernel("int64(uint8[::1], int64[::1], int64[::1])")
def distinct_into(marks, slots, out):  # type: ignore[no-untyped-def]
    """The distinct slots in order of first occurrence; returns how many. `marks`, one per slot, is all 0 before and after."""
    count = 0
    for i in range(len(slots)):
        if marks[slots[i]] == 0:
            marks[slots[i]] = 1
            out[count] = slots[i]
            count += 1
    for i in range(count):
        marks[out[i]] = 0
    return count


@kernel("int64(uint8[::1], int64[:, ::1], int64[:, ::1], int64[::1])")
def missing_into(marks, items, others, out):  # type: ignore[no-untyped-def]
    """The items other than -1 that are not in `others`, in order; returns how many. `marks`, one per id, is all 0 before and
    after.
    """
    for i in range(others.shape[0]):
        for j in range(others.shape[1]):
            if others[i, j] >= 0:
                marks[others[i, j]] = 1
    count = 0
    for i in range(items.shape[0]):
        for j in range(items.shape[1]):
            if items[i, j] >= 0 and marks[items[i, j]] == 0:
                out[count] = items[i, j]
                count += 1
    for i in range(others.shape[0]):
        for j in range(others.shape[1]):
            if others[i, j] >= 0:
                marks[others[i, j]] = 0
    return count


@kernel("int64(int64[:, ::1], int64[:, ::1], int64, boolean, int64[::1], int64[::1], int8[::1])")
def rank_changes_into(before, after, first, keeps_updates_before, ids, ranks, kinds):  # type: ignore[no-untyped-def]
    """The changes at each rank from `first` (0-based) on between two lists of ids, -1 where there is none: id, rank and row
    kind of each change, list by list. Returns how many; at most two per rank.
    """
    count = 0
    for i in range(before.shape[0]):
        for j in range(first, before.shape[1]):
            old, new = before[i, j], after[i, j]
            if old == new:
                continue
            if old >= 0 and (new < 0 or keeps_updates_before):
                ids[count] = old
                ranks[count] = j + 1
                kinds[count] = 3 if new < 0 else 1
                count += 1
            if new >= 0:
                ids[count] = new
                ranks[count] = j + 1
                kinds[count] = 0 if old < 0 else 2
                count += 1
    return count


@kernel("void(int64[:, ::1], int64[:, ::1], int64, boolean[:, ::1])")
def missing_in_row(items, others, nothing, is_missing):  # type: ignore[no-untyped-def]
    """is_missing[i, j]: whether items[i, j] is not `nothing` and not in others[i].

    Each search begins behind what the last one found: lists whose common items are in one order are read once.
    """
    width = others.shape[1]
    for i in range(items.shape[0]):
        at = 0
        for j in range(items.shape[1]):
            item = items[i, j]
            is_missing[i, j] = item != nothing
            if item == nothing:
                continue
            for _ in range(width):
                is_found = others[i, at] == item
                at = at + 1 if at + 1 < width else 0
                if is_found:
                    is_missing[i, j] = False
                    break
