"""The hash map of DISTINCT over rows that are never retracted: (slot, value) → marks, one bit for each that has seen the value.

An entry is two words: the value, and the slot above its marks. Entries are dense, in order of arrival. An open-addressing table,
at most five eighths full and probed linearly, has 32 bits a place: the low ones, as many as its size takes, are the entry's
number and one more (0: empty); the others are a part of the hash, which spares most looks at other entries. So a pair takes 22
to 29 bytes.
"""

from __future__ import annotations

import numpy as np

from sqlstream.errors import InternalError
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.intrinsics import GOLDEN, SECRET_0, load_32, load_64, mix, prefetch, store_32
from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.native.kernel import inlined, kernel

USERS_MAX = 32
_TABLE_SIZE_MIN = 256
_ENTRIES_MAX = 1 << 30
_BLOCK = 32
_LOW = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_NEXT, _FREE = 0, 1
"""Positions in the state vector: the first entry never used, and how many are free again."""


class ValueMarks:
    """Marks of values, which are one word each, by slot (below 2^31).

    State: the table and the entries, of which one without marks is free. It never shrinks.
    """

    def __init__(self) -> None:
        self._memory = memory_in_force()
        self._table = self._memory.zeros(_TABLE_SIZE_MIN, np.uint32, is_read_mostly=True)
        self._entries = GrowingArray(np.uint64, 2)
        self._entries.reserve(_room(_TABLE_SIZE_MIN))
        self._free = GrowingArray(np.int64)
        self._free.reserve(1)
        self._state = np.zeros(2, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._state[_NEXT] - self._state[_FREE])

    @property
    def entry_count(self) -> int:
        """One more than the highest entry ever in use."""
        return int(self._state[_NEXT])

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return int(self._table.nbytes) + self._entries.nbytes_of(self.entry_count) + self._free.nbytes

    def mark(self, slots: np.ndarray, words: np.ndarray, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add `marks` (uint32[n]; 0 skips the row) to those of each slot and word.

        Returns the marks that each row was the first to set, and the entries that are new."""
        fresh = np.zeros(len(slots), dtype=np.uint32)
        hashes = np.empty(_BLOCK, dtype=np.uint64)
        next_before, free_before = self._state.tolist()
        done = 0
        while True:
            done = _mark(
                self._table, self._entries.values, self._free.values, self._state, hashes, slots, words, marks,
                done, _room(len(self._table)), fresh,
            )  # fmt: skip
            if done == len(slots):
                break
            self._grow()
        reused = self._free.values[int(self._state[_FREE]) : free_before]
        return fresh, np.concatenate([reused, np.arange(next_before, self.entry_count)])

    def find_changing(self, slots: np.ndarray, words: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """The entries, which may repeat, that `mark` with these arguments would add marks to."""
        found = np.empty(len(slots), dtype=np.int64)
        hashes = np.empty(_BLOCK, dtype=np.uint64)
        count = _find_changing(self._table, self._entries.values, hashes, slots, words, marks, found)
        return found[:count]

    def slots(self, entries: np.ndarray) -> np.ndarray:
        """int64[n]: the slots of entries that are not free."""
        owners: np.ndarray = (self._entries.values[entries, 1] >> _S32).view(np.int64)
        return owners

    def words(self, entries: np.ndarray) -> np.ndarray:
        """uint64[n]: their values."""
        return np.ascontiguousarray(self._entries.values[entries, 0])

    def marks(self, entries: np.ndarray) -> np.ndarray:
        """uint64[n]: the marks of entries below `entry_count`; 0 where one is free."""
        found: np.ndarray = self._entries.values[entries, 1] & _LOW
        return found

    def live(self) -> np.ndarray:
        """int64: the entries that are not free, ascending."""
        return np.flatnonzero(self._entries.values[: self.entry_count, 1] & _LOW)

    def delete(self, entries: np.ndarray) -> None:
        """Forget distinct entries that are not free."""
        self._free.reserve(int(self._state[_FREE]) + len(entries))
        _delete(self._table, self._entries.values, self._free.values, self._state, entries)

    def _grow(self) -> None:
        size = 2 * len(self._table)
        if size > _ENTRIES_MAX:
            raise InternalError(f"more than {_room(_ENTRIES_MAX)} distinct values in one subtask")
        self._memory.require(4 * size)
        # Made anew from the entries: the old one is gone before memory of the new one is touched.
        self._table = self._memory.zeros(size, np.uint32, is_read_mostly=True)
        self._entries.reserve(_room(size))
        _fill(self._table, self._entries.values, np.empty(_BLOCK, dtype=np.uint64), self.entry_count)


def _room(size: int) -> int:
    return size // 8 * 5


@kernel("boolean(uint32[::1], int8[::1], uint64)")
def add_bit(marks, weights, bit):  # type: ignore[no-untyped-def]
    """Add a bit to the marks of rows whose weight is positive; returns whether one is negative."""
    signs, mark = np.int8(0), np.uint32(bit)
    for i in range(len(marks)):
        signs |= weights[i]
        marks[i] |= mark if weights[i] > 0 else np.uint32(0)
    return signs < 0


@kernel("void(uint32[::1], uint64, int8[::1])")
def bit_weights(marks, bit, weights):  # type: ignore[no-untyped-def]
    """weights[i] = 1 where the marks have a bit, else 0."""
    mark = np.uint32(bit)
    for i in range(len(marks)):
        weights[i] = np.int8(1) if marks[i] & mark else np.int8(0)


# The helpers below take addresses, not arrays: numba would count references to passed arrays for each row.


@inlined
def _hash(slot, word):  # type: ignore[no-untyped-def]
    return mix(word + GOLDEN + np.uint64(slot) * SECRET_0)


@inlined
def _hash_of(entry):  # type: ignore[no-untyped-def]
    return _hash(np.int64(load_64(entry + 8) >> _S32), load_64(entry))


@inlined
def _place(table, mask, entries, hashed, slot, word):  # type: ignore[no-untyped-def]
    """The address of the place that names the pair's entry, or of the empty one where it belongs."""
    tag = (hashed >> _S32) & ~mask & _LOW
    place = hashed & mask
    while True:
        at = table + np.int64(place) * 4
        named = load_32(at)
        if named == _ZERO:
            return at
        if named & ~mask == tag:
            entry = entries + (np.int64(named & mask) - 1) * 16
            if load_64(entry) == word and np.int64(load_64(entry + 8) >> _S32) == slot:
                return at
        place = (place + _ONE) & mask


@inlined
def _enter(table, mask, hashed, number):  # type: ignore[no-untyped-def]
    place = hashed & mask
    while load_32(table + np.int64(place) * 4) != _ZERO:
        place = (place + _ONE) & mask
    tag = (hashed >> _S32) & ~mask & _LOW
    store_32(table + np.int64(place) * 4, tag | np.uint64(number + 1))


@inlined
def _warm(table, mask, entries, hashes, slots, words, start, stop):  # type: ignore[no-untyped-def]
    """Hash a block of pairs, and load the lines that it will read, so that their memory accesses overlap."""
    for i in range(start, stop):
        hashed = _hash(slots[i], words[i])
        hashes[i - start] = hashed
        prefetch(table + np.int64(hashed & mask) * 4)
    for i in range(start, stop):
        hashed = hashes[i - start]
        named = load_32(table + np.int64(hashed & mask) * 4)
        if named != _ZERO and named & ~mask == (hashed >> _S32) & ~mask & _LOW:
            prefetch(entries + (np.int64(named & mask) - 1) * 16)


@kernel(
    "int64(uint32[::1], uint64[:, ::1], int64[::1], int64[::1], uint64[::1], int64[::1], uint64[::1], "
    "uint32[::1], int64, int64, uint32[::1])"
)
def _mark(  # type: ignore[no-untyped-def]
    table, entries, free, state, hashes, slots, words, marks, done, room, fresh
):
    """Rows from `done` on; returns where it stopped because the table has as many entries as it has `room` for, or n."""
    mask = np.uint64(len(table) - 1)
    table_at, entries_at = table.ctypes.data, entries.ctypes.data
    for start in range(done, len(slots), _BLOCK):
        stop = min(start + _BLOCK, len(slots))
        _warm(table_at, mask, entries_at, hashes, slots, words, start, stop)
        for i in range(start, stop):
            added = np.uint64(marks[i])
            if added == _ZERO:
                continue
            hashed = hashes[i - start]
            at = _place(table_at, mask, entries_at, hashed, slots[i], words[i])
            named = load_32(at)
            if named != _ZERO:
                number = np.int64(named & mask) - 1
                held = entries[number, 1]
                fresh[i] = np.uint32(added & ~held)
                entries[number, 1] = held | added
                continue
            if state[_NEXT] - state[_FREE] >= room:
                return i
            if state[_FREE] > 0:
                state[_FREE] -= 1
                number = free[state[_FREE]]
            else:
                number = state[_NEXT]
                state[_NEXT] += 1
            store_32(at, ((hashed >> _S32) & ~mask & _LOW) | np.uint64(number + 1))
            entries[number, 0] = words[i]
            entries[number, 1] = (np.uint64(slots[i]) << _S32) | added
            fresh[i] = np.uint32(added)
    return len(slots)


@kernel("int64(uint32[::1], uint64[:, ::1], uint64[::1], int64[::1], uint64[::1], uint32[::1], int64[::1])")
def _find_changing(table, entries, hashes, slots, words, marks, found):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(table) - 1)
    table_at, entries_at = table.ctypes.data, entries.ctypes.data
    count = 0
    for start in range(0, len(slots), _BLOCK):
        stop = min(start + _BLOCK, len(slots))
        _warm(table_at, mask, entries_at, hashes, slots, words, start, stop)
        for i in range(start, stop):
            named = load_32(_place(table_at, mask, entries_at, hashes[i - start], slots[i], words[i]))
            if named != _ZERO:
                number = np.int64(named & mask) - 1
                if np.uint64(marks[i]) & ~entries[number, 1]:
                    found[count] = number
                    count += 1
    return count


@kernel("void(uint32[::1], uint64[:, ::1], uint64[::1], int64)")
def _fill(table, entries, hashes, count):  # type: ignore[no-untyped-def]
    """Enter the first `count` entries into an empty table."""
    mask = np.uint64(len(table) - 1)
    table_at, entries_at = table.ctypes.data, entries.ctypes.data
    for start in range(0, count, _BLOCK):
        stop = min(start + _BLOCK, count)
        for i in range(start, stop):
            hashed = _hash_of(entries_at + i * 16)
            hashes[i - start] = hashed
            prefetch(table_at + np.int64(hashed & mask) * 4)
        for i in range(start, stop):
            if entries[i, 1] & _LOW:
                _enter(table_at, mask, hashes[i - start], i)


@kernel("void(uint32[::1], uint64[:, ::1], int64[::1], int64[::1], int64[::1])")
def _delete(table, entries, free, state, gone):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(table) - 1)
    table_at, entries_at = table.ctypes.data, entries.ctypes.data
    for i in range(len(gone)):
        at = entries_at + gone[i] * 16
        word, slot = load_64(at), np.int64(load_64(at + 8) >> _S32)
        hole = np.uint64((_place(table_at, mask, entries_at, _hash(slot, word), slot, word) - table_at) >> 2)
        # Shift back what probed past it (Knuth 6.4, algorithm R): no tombstones.
        place = hole
        while True:
            place = (place + _ONE) & mask
            named = load_32(table_at + np.int64(place) * 4)
            if named == _ZERO:
                break
            home = _hash_of(entries_at + (np.int64(named & mask) - 1) * 16) & mask
            if ((place - home) & mask) >= ((place - hole) & mask):
                store_32(table_at + np.int64(hole) * 4, named)
                hole = place
        store_32(table_at + np.int64(hole) * 4, _ZERO)
        entries[gone[i], 1] = _ZERO
        free[state[_FREE]] = gone[i]
        state[_FREE] += 1
