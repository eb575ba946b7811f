"""Times of last touch, by slot."""

from __future__ import annotations

from sqlstream.runtime.native.kernel import kernel


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
