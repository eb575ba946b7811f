"""Finds the entries of an operator's state that have not been touched for the state's time to live (TTL)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.slots.changes import load_into, touch_into
from sqlstream.runtime.memory.array_memory import ArrayMemory, memory_in_force
from sqlstream.runtime.state.storage.arrays import Array

TOUCHED_COLUMN = "$touched_ms"
"""The last touch of an entry in a saved table."""

NO_TIME = -1
"""What a table without a TTL saves as the last touch."""

_BUCKETS = 64
"""Buckets per time to live: few enough to scan, small enough that live slots are seldom read again."""

_GONE = np.iinfo(np.int64).min
_NO_SLOTS: Array = np.empty(0, dtype=np.int64)


class StateTtl:
    """When each slot (of a key or a row) was last touched, and which slots have expired.

    A slot expires `ttl_ms` after its last touch, to the millisecond. A slot is in one bucket, which spans a 64th of the TTL. A
    touch does not move it; when its bucket is due, it expires or moves to the bucket of its last touch. So a sweep reads only
    the slots that are due, and a live slot is read about once per TTL.
    State: per slot one time and one bucket entry, until it expires or is forgotten; none without a TTL (0).
    """

    def __init__(self, ttl_ms: int, now_ms: Callable[[], int]) -> None:
        self._ttl_ms = ttl_ms
        self._bucket_ms = max(1, ttl_ms // _BUCKETS)
        self._now_ms = now_ms
        self._memory = memory_in_force()
        self._times = GrowingArray(np.int64, fill=_GONE)
        self._waiting = GrowingArray(bool)
        self._buckets: dict[int, _Bucket] = {}
        # Slots of buckets that are already open, and their times, in order of time.
        self._next_slots = self._next_times = _NO_SLOTS

    def touch(self, slots: Array) -> None:
        """Set the last touch of these distinct slots to now."""
        if self._ttl_ms and len(slots):
            now_ms = self._now_ms()
            self._reserve(slots)
            fresh = np.empty_like(slots)
            count = touch_into(self._times.values, self._waiting.values, slots, now_ms, fresh)
            if count:
                self._bucket(now_ms // self._bucket_ms).append(fresh[:count], now_ms)

    def load(self, slots: Array, touched_ms: Array) -> None:
        """Restore the last touches, the latest of a slot that occurs twice. Those of a snapshot without a TTL are NO_TIME: the
        time begins at the restore."""
        if self._ttl_ms and len(slots):
            self._reserve(slots)
            times = np.where(touched_ms == NO_TIME, self._now_ms(), touched_ms)
            fresh = np.empty_like(slots)
            count = load_into(self._times.values, self._waiting.values, slots, times, fresh)
            self._wait(fresh[:count])

    def forget(self, slots: Array) -> None:
        """Remove slots that the caller has dropped for another reason than their age."""
        if self._ttl_ms:
            self._times.values[slots] = _GONE

    @property
    def next_sweep_ms(self) -> int | None:
        """The earliest time at which a slot may expire; None when no slot is waiting."""
        firsts = [int(self._next_times[0])] if len(self._next_times) else []
        if self._buckets:
            firsts.append(self._buckets[min(self._buckets)].first_ms)
        return min(firsts) + self._ttl_ms if firsts else None

    def take_expired(self, forgetting: Callable[[Array], None] = lambda slots: None) -> Array:
        """Remove and return the slots that have expired; the caller drops their state. `forgetting` is called with them while
        their times are still there."""
        limit_ms = self._now_ms() - self._ttl_ms
        count = int(np.searchsorted(self._next_times, limit_ms, side="right"))
        due = [self._next_slots[:count]]
        self._next_slots, self._next_times = self._next_slots[count:], self._next_times[count:]
        last = limit_ms // self._bucket_ms
        due += [self._buckets.pop(bucket).slots for bucket in [b for b in self._buckets if b <= last]]
        slots = np.concatenate(due)
        touched = self._times.values[slots]
        self._waiting.values[slots] = False
        is_there = touched != _GONE
        is_expired = is_there & (touched <= limit_ms)
        is_next = ~is_expired & is_there & (touched // self._bucket_ms <= last)
        expired = slots[is_expired]
        forgetting(expired)
        self._times.values[expired] = _GONE
        self._line_up(slots[is_next], touched[is_next])
        self._wait(slots[is_there & ~is_expired & ~is_next])
        return expired

    def _line_up(self, slots: Array, times: Array) -> None:
        if len(slots) == 0:
            return
        slots, times = np.concatenate([self._next_slots, slots]), np.concatenate([self._next_times, times])
        order = np.argsort(times, kind="stable")
        self._next_slots, self._next_times = slots[order], times[order]
        self._waiting.values[slots] = True

    def _wait(self, slots: Array) -> None:
        """Put distinct slots that are in no bucket into the buckets of their times."""
        if len(slots) == 0:
            return
        order = np.argsort(self._times.values[slots], kind="stable")
        slots = slots[order]
        times = self._times.values[slots]
        buckets = times // self._bucket_ms
        starts = np.flatnonzero(np.diff(buckets, prepend=buckets[0] - 1))
        for start, part in zip(starts.tolist(), np.split(slots, starts[1:]), strict=True):
            self._bucket(int(buckets[start])).append(part, int(times[start]))
        self._waiting.values[slots] = True

    def _bucket(self, number: int) -> _Bucket:
        return self._buckets.setdefault(number, _Bucket(self._memory))

    def _reserve(self, slots: Array) -> None:
        capacity = int(slots.max()) + 1
        self._times.reserve(capacity)
        self._waiting.reserve(capacity)

    def touched_ms(self, slots: Array) -> Array:
        """int64[n]: the last touch of each slot, for a snapshot; NO_TIME without a TTL."""
        return self._times.values[slots] if self._ttl_ms else np.full(len(slots), NO_TIME)

    def nbytes(self) -> int:
        buckets = sum(bucket.nbytes for bucket in self._buckets.values())
        waiting = self._waiting.nbytes + self._next_slots.nbytes + self._next_times.nbytes
        return self._times.nbytes + int(waiting) + buckets


class _Bucket:
    """A growing array of slots, and the earliest of their times."""

    def __init__(self, memory: ArrayMemory) -> None:
        self.first_ms = np.iinfo(np.int64).max
        self._slots = GrowingArray(np.int64, memory=memory)

    @property
    def slots(self) -> Array:
        return self._slots.values[: self._slots.count]

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes

    def append(self, slots: Array, first_ms: int) -> None:
        self.first_ms = min(self.first_ms, first_ms)
        start = self._slots.count
        self._slots.reserve(start + len(slots))
        self._slots.values[start : self._slots.count] = slots
