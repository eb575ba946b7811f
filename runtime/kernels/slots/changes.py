"""In which interval between two snapshots each slot of a table was last written: one byte per slot."""

from __future__ import annotations

from sqlstream.runtime.native.kernel import kernel


@kernel("void(uint8[::1], int64[::1], int64)")
def mark(epochs, slots, epoch):  # type: ignore[no-untyped-def]
    """epochs[slot] = epoch. Most slots of a batch have it already: they are read, and their cache lines stay clean."""
    for i in range(len(slots)):
        if epochs[slots[i]] != epoch:
            epochs[slots[i]] = epoch


@kernel("int64(uint8[::1], int64[::1], int64, int64, int64, int64, int64[::1])")
def mark_uncollected(epochs, slots, epoch, after, first, end, found):  # type: ignore[no-untyped-def]
    """As `mark`; writes the slots from `first` to `end` (excluded) that had another epoch, one above `after`, to `found`, each
    once, and returns their number."""
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        old = epochs[slot]
        if old != epoch:
            epochs[slot] = epoch
            if first <= slot < end and old > after:
                found[count] = slot
                count += 1
    return count


@kernel("UniTuple(int64, 2)(uint8[::1], int64, int64, int64, int64, int64[::1])")
def find_changed(epochs, first, end, after, until, found):  # type: ignore[no-untyped-def]
    """Write the slots from `first` on whose epoch is above `after` and at most `until` to `found`; returns (where it stopped
    because `found` is full, or `end`; their number)."""
    count = 0
    for slot in range(first, end):
        if after < epochs[slot] <= until:
            if count == len(found):
                return slot, count
            found[count] = slot
            count += 1
    return end, count


@kernel("void(int64[::1], int64[::1], int64[::1])")
def newest_into(newest, entries, versions):  # type: ignore[no-untyped-def]
    """newest[entry] = the greatest of it and the versions of its rows, whose sign does not count."""
    for i in range(len(entries)):
        newest[entries[i]] = max(newest[entries[i]], abs(versions[i]))


# Times of last touch, by slot.


@kernel("int64(int64[::1], boolean[::1], int64[::1], int64, int64[::1])")
def touch_into(times, is_waiting, slots, now_ms, fresh):  # type: ignore[no-untyped-def]
    """times[slot] = now_ms; slots that do not wait yet wait from now on, are written to `fresh`, once, and counted."""
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        times[slot] = now_ms
        if not is_waiting[slot]:
            is_waiting[slot] = True
            fresh[count] = slot
            count += 1
    return count


@kernel("int64(int64[::1], boolean[::1], int64[::1], int64[::1], int64[::1])")
def load_into(times, is_waiting, slots, touched_ms, fresh):  # type: ignore[no-untyped-def]
    """times[slot] = the latest of its touches; slots that do not wait yet are treated as by `touch_into`."""
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        times[slot] = max(times[slot], touched_ms[i])
        if not is_waiting[slot]:
            is_waiting[slot] = True
            fresh[count] = slot
            count += 1
    return count
