"""The hash index of keyed state: key → dense slot, for whole batches of keys.

An open-addressing table, at most half full and probed linearly. An entry is (low half of the hash) << 32 | (slot + 1), a
uint64; 0 is empty. The low half of the hash is both the place and the tag, so the table grows and
deletes without reading the keys. The keys are stored by slot in rows of words, of which the first is the
whole hash (see `RowLayout`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.errors import InternalError
from sqlstream.runtime.kernels.buffers import to_array, validity_buffer
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.intrinsics import (
    IN_ARENA,
    NULL_HASH,
    copy_bytes,
    is_same_row,
    load_8,
    load_64,
    prefetch,
    store_8,
    store_64,
)
from sqlstream.runtime.kernels.keys.hashing import hash_columns
from sqlstream.runtime.kernels.keys.words import (
    RowLayout,
    WordColumn,
    array_from_words,
    is_bytes_type,
    is_whole_number,
    plain_array,
    plain_type,
    read_column,
    zero_nulls,
)
from sqlstream.runtime.memory.array_memory import memory_in_force, order_of_parts
from sqlstream.runtime.native.kernel import inlined, kernel

_TABLE_SIZE_MIN = 256
_SLOTS_MAX = 1 << 31
_ARENA_SIZE_MIN = 4096
_LOW = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)
_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_BLOCK = 32
_NO_PAYLOADS = np.zeros(2, dtype=np.uint8)

# Positions in the state vector that the kernels and KeyIndex share.
_LIVE, _NEXT, _FREE, _ARENA_USED = 0, 1, 2, 3


class KeyIndex:
    """A growing map of keys to slots. NULL is a key value like another, as in GROUP BY.

    Slots are dense: 0, 1, 2, … in order of arrival of the keys; the slot of a deleted key is reused for the next new key.
    State: the table, one row of words per slot, and an arena with the bytes of strings longer than eight. Only `delete`
    forgets keys; memory of deleted keys is reused, and released when more than half of the arena is garbage.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(plain_type(data_type) for data_type in types)
        self._word_types = [_word_type(data_type) for data_type in self.types]
        self._are_null = tuple(pa.types.is_null(data_type) for data_type in types)
        self._is_single = (
            len(self.types) == 1 and not is_bytes_type(self.types[0]) and self.types[0].bit_width <= 64
        )
        self._layout = RowLayout.of(self.types)
        self._memory = memory_in_force()
        self._table = self._memory.zeros(_TABLE_SIZE_MIN, np.uint64, is_read_mostly=True)
        width = 2 if self._is_single else self._layout.width
        self._rows = GrowingArray(np.uint64, width, is_read_mostly=True)
        self._live = GrowingArray(np.uint8, is_read_mostly=True)
        self._reserve_slots()
        self._free = np.empty(0, dtype=np.int64)
        self._arena = self._new_arena(_ARENA_SIZE_MIN if self._layout.has_bytes else 0)
        self._arena_garbage = 0
        self._state = np.zeros(4, dtype=np.int64)

    def __len__(self) -> int:
        return int(self._state[_LIVE])

    @property
    def slot_count(self) -> int:
        """One more than the highest slot ever assigned: the length that columns addressed by slot need."""
        return int(self._state[_NEXT])

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        slots = sum(array.nbytes_of(self.slot_count) for array in (self._rows, self._live))
        arena = self._arena.nbytes_of(int(self._state[_ARENA_USED]))
        return int(self._table.nbytes + self._free.nbytes) + slots + arena

    def get_or_insert(
        self, columns: Sequence[pa.Array], hashes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(slots int64[n], is_new bool[n]): the slot of each row's key; is_new marks the first row of each
        absent key.

        `hashes`, where the caller has them, are `hash_columns(columns)`.
        """
        arrays, hashes = self._read(columns, hashes)
        if self._memory.is_scarce:
            return self._get_or_insert_in_order(arrays, hashes)
        if not self._is_single:
            return self._insert(*self._packed(arrays, hashes))
        count, words = len(hashes), self._words(arrays[0])
        slots = np.empty(count, dtype=np.int64)
        is_new = np.zeros(count, dtype=np.bool_)
        done = 0
        while True:
            done = _insert_words(
                self._table, self._rows.values, self._live.values, self._free, self._state, hashes, words, done,
                slots, is_new,
            )  # fmt: skip
            if done == count:
                return slots, is_new
            self._grow(2 * len(self._table))

    def _packed(self, arrays: list[pa.Array], hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows of words as they are stored, which words are payloads)."""
        if self._is_single:
            return np.column_stack([hashes, self._words(arrays[0])]), _NO_PAYLOADS
        return self._layout.pack(arrays, hashes), self._layout.payloads

    def _insert(self, rows: np.ndarray, payloads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `get_or_insert`, of rows of words."""
        count = len(rows)
        slots = np.empty(count, dtype=np.int64)
        is_new = np.zeros(count, dtype=np.bool_)
        self._reserve_arena(rows)
        done = 0
        while True:
            done = _insert_rows(
                self._table, self._rows.values, self._live.values, self._free, self._state, self._arena.values,
                payloads, rows, done, slots, is_new,
            )  # fmt: skip
            if done == count:
                return slots, is_new
            self._grow(2 * len(self._table))

    def _get_or_insert_in_order(
        self, arrays: list[pa.Array], hashes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        rows, payloads = self._packed(arrays, hashes)
        slots, is_new = self._find_in_order(rows, payloads, hashes), np.zeros(len(hashes), dtype=np.bool_)
        others = np.flatnonzero(slots < 0)
        if len(others):
            slots[others], is_new[others] = self._insert(rows[others], payloads)
        return slots, is_new

    def _find_in_order(self, rows: np.ndarray, payloads: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """int64[n]: the slots of keys, -1 for those that are absent and for a few others. The table is read in the order of its
        file, then the rows in that of theirs: so a part is mapped once per batch, however few may be."""
        slots = np.empty(len(hashes), dtype=np.int64)
        places = (hashes & np.uint64(len(self._table) - 1)).view(np.int64)
        _find_tags(self._table, hashes, order_of_parts(places, 8), slots)
        order = order_of_parts(slots, 8 * rows.shape[1])
        _compare_rows(self._rows.values, self._arena.values, payloads, rows, order, slots)
        return slots

    def insert_new(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """int64[n]: the slots of the rows' keys, of which the caller knows that they are distinct and absent, as those of saved
        state are: no key is read."""
        arrays, hashes = self._read(columns, None)
        self.reserve(len(hashes))
        slots = np.empty(len(hashes), dtype=np.int64)
        rows, payloads = self._packed(arrays, hashes)
        self._reserve_arena(rows)
        _fill_rows(
            self._table, self._rows.values, self._live.values, self._free, self._state, self._arena.values,
            payloads, rows, slots,
        )  # fmt: skip
        return slots

    def reserve(self, count: int) -> None:
        """Have room for so many more keys."""
        size = len(self._table)
        while size // 2 < len(self) + count:
            size *= 2
        if size > len(self._table):
            self._grow(size)

    def get(self, columns: Sequence[pa.Array], hashes: np.ndarray | None = None) -> np.ndarray:
        """int64[n]: the slot of each row's key, -1 where it is absent."""
        arrays, hashes = self._read(columns, hashes)
        slots = np.empty(len(hashes), dtype=np.int64)
        if self._is_single and not self._memory.is_scarce:
            _find_words(self._table, self._rows.values, hashes, self._words(arrays[0]), slots)
            return slots
        rows, payloads = self._packed(arrays, hashes)
        if not self._memory.is_scarce:
            _find_rows(self._table, self._rows.values, self._arena.values, payloads, rows, slots)
            return slots
        slots = self._find_in_order(rows, payloads, hashes)
        others = np.flatnonzero(slots < 0)
        found = np.empty(len(others), dtype=np.int64)
        _find_rows(self._table, self._rows.values, self._arena.values, payloads, rows[others], found)
        slots[others] = found
        return slots

    def keys(self, slots: np.ndarray, numbers: Sequence[int] | None = None) -> list[pa.Array]:
        """The key columns (only those of `numbers`, unless None) of live slots, in the plain types (`types`).

        A key column of type NULL has that type.
        """
        rows = self._rows.values.take(slots, axis=0)
        return [
            pa.nulls(len(slots)) if self._are_null[number] else self._key_column(rows, number)
            for number in (range(len(self.types)) if numbers is None else numbers)
        ]

    def stored(self, number: int) -> tuple[np.ndarray, np.ndarray, int]:
        """(rows of words by slot, arena, word of a row where key column `number` begins), for kernels. They are valid until the
        next key is inserted or deleted."""
        return self._rows.values, self._arena.values, 1 if self._is_single else self._layout.columns[number]

    def hashes(self, slots: np.ndarray) -> np.ndarray:
        """uint64[n]: the stored hashes of live slots."""
        return np.ascontiguousarray(self._rows.values[slots, 0])

    def slots(self) -> np.ndarray:
        """int64[len(self)]: the live slots, ascending."""
        return np.flatnonzero(self._live.values[: self.slot_count])

    def is_live(self, slots: np.ndarray) -> np.ndarray:
        """bool[n]: which of these slots, below `slot_count`, have a key."""
        return self._live.values[slots] != 0

    def delete(self, slots: np.ndarray) -> None:
        """Forget the keys of these slots. A slot that is not live, or occurs twice, is ignored."""
        slots = np.ascontiguousarray(slots, dtype=np.int64)
        needed = int(self._state[_FREE]) + len(slots)
        if len(self._free) < needed:
            free = self._memory.empty(max(needed, 2 * len(self._free)), np.int64)
            free[: len(self._free)] = self._free
            self._free = free
        self._arena_garbage += _delete(
            self._table,
            self._rows.values,
            self._live.values,
            self._free,
            self._state,
            self._layout.payloads,
            slots,
        )
        if self._arena_garbage > _ARENA_SIZE_MIN and 2 * self._arena_garbage > self._state[_ARENA_USED]:
            self._compact_arena()

    def _read(
        self, columns: Sequence[pa.Array], hashes: np.ndarray | None
    ) -> tuple[list[pa.Array], np.ndarray]:
        if len(columns) != len(self.types):
            raise InternalError(f"{len(columns)} key columns for an index of {len(self.types)}")
        arrays = [plain_array(column) for column in columns]
        if [_word_type(array.type) for array in arrays] != self._word_types:
            given = [array.type for array in arrays]
            raise InternalError(f"key columns of types {given} for an index of {list(self.types)}")
        return arrays, hash_columns(arrays) if hashes is None else hashes

    def _words(self, array: pa.Array) -> np.ndarray:
        column = read_column(array)
        assert isinstance(column, WordColumn)
        return zero_nulls(column.words, column.bitmap, column.bit) if len(column.bitmap) else column.words

    def _key_column(self, rows: np.ndarray, number: int) -> pa.Array:
        if self._is_single:
            is_null = (rows[:, 1] == 0) & (rows[:, 0] == NULL_HASH)
            return array_from_words(self.types[0], rows[:, 1], ~is_null if is_null.any() else None)
        data_type, place = self.types[number], self._layout.columns[number]
        valid = (rows[:, 1 + (number >> 6)] >> np.uint64(number & 63)) & _ONE == 0
        mask = None if valid.all() else valid
        if is_bytes_type(data_type):
            offsets, data = copy_out(rows, place, self._arena.values, data_type)
            buffers = [validity_buffer(mask), pa.py_buffer(offsets), pa.py_buffer(data)]
            return pa.Array.from_buffers(data_type, len(rows), buffers)
        if pa.types.is_decimal128(data_type):
            return to_array(data_type, rows[:, place : place + 2], mask)
        return array_from_words(data_type, rows[:, place], mask)

    def _grow(self, size: int) -> None:
        if size // 2 >= _SLOTS_MAX:
            raise InternalError(f"a key index cannot hold more than {_SLOTS_MAX} keys in one subtask")
        self._memory.require(8 * size)
        table = self._memory.zeros(size, np.uint64, is_read_mostly=True)
        _rehash(self._table, table)
        self._table = table
        self._reserve_slots()

    def _reserve_slots(self) -> None:
        """Have room for as many slots as the table can hold at most."""
        self._rows.reserve(len(self._table) // 2)
        self._live.reserve(len(self._table) // 2)

    def _reserve_arena(self, rows: np.ndarray) -> None:
        if not self._layout.has_bytes:
            return
        needed = int(self._state[_ARENA_USED]) + arena_bytes(rows, self._layout.payloads)
        self._arena.reserve(needed)

    def _new_arena(self, size: int) -> GrowingArray:
        arena = GrowingArray(np.uint8, memory=self._memory, is_read_mostly=True)
        arena.reserve(size)
        return arena

    def _compact_arena(self) -> None:
        live = self.slots()
        used = int(self._state[_ARENA_USED]) - self._arena_garbage
        arena = self._new_arena(max(_ARENA_SIZE_MIN, used))
        self._state[_ARENA_USED] = move_into(
            self._rows.values, live, self._layout.payloads, self._arena.values, arena.values
        )
        self._arena = arena
        self._arena_garbage = 0


def _word_type(data_type: pa.DataType) -> str:
    """How the index treats a type: types with one word type are interchangeable (timestamp and bigint)."""
    if is_whole_number(data_type):
        return "word"
    if is_bytes_type(data_type):
        return "bytes"
    if pa.types.is_decimal128(data_type):
        return "decimal"
    return "float" if pa.types.is_floating(data_type) else "word"


# The helpers below take addresses, not arrays: numba would count references to passed arrays for each row.


@inlined
def _find_word(table, mask, rows, hashed, word):  # type: ignore[no-untyped-def]
    tag = hashed & _LOW
    place = tag & mask
    while True:
        entry = load_64(table + np.int64(place) * 8)
        if entry == _ZERO:
            return np.int64(-1)
        if entry >> _S32 == tag:
            slot = np.int64(entry & _LOW) - 1
            # Compare the whole hash too: it distinguishes NULL from the value whose word is 0.
            if load_64(rows + slot * 16 + 8) == word and load_64(rows + slot * 16) == hashed:
                return slot
        place = (place + _ONE) & mask


@inlined
def _find_row(table, mask, stored, row, arena, payloads, width):  # type: ignore[no-untyped-def]
    tag = load_64(row) & _LOW
    place = tag & mask
    while True:
        entry = load_64(table + np.int64(place) * 8)
        if entry == _ZERO:
            return np.int64(-1)
        if entry >> _S32 == tag:
            slot = np.int64(entry & _LOW) - 1
            if is_same_row(row, stored + slot * width * 8, arena, payloads, width):
                return slot
        place = (place + _ONE) & mask


@inlined
def _warm_lines(table, mask, rows, row_bytes, hashes, stride, count):  # type: ignore[no-untyped-def]
    """Load the cache lines that a block of look-ups will read, so that their memory accesses overlap."""
    for i in range(count):
        prefetch(table + np.int64(load_64(hashes + i * stride) & _LOW & mask) * 8)
    for i in range(count):
        entry = load_64(table + np.int64(load_64(hashes + i * stride) & _LOW & mask) * 8)
        if entry != _ZERO:
            prefetch(rows + (np.int64(entry & _LOW) - 1) * row_bytes)


@inlined
def _enter(table, mask, hashed, slot):  # type: ignore[no-untyped-def]
    tag = hashed & _LOW
    place = tag & mask
    while load_64(table + np.int64(place) * 8) != _ZERO:
        place = (place + _ONE) & mask
    store_64(table + np.int64(place) * 8, (tag << _S32) | np.uint64(slot + 1))


@inlined
def _next_slot(live, free, state):  # type: ignore[no-untyped-def]
    """A slot for a key, marked as live."""
    if state[_FREE] > 0:
        state[_FREE] -= 1
        slot = free[state[_FREE]]
    else:
        slot = state[_NEXT]
        state[_NEXT] += 1
    state[_LIVE] += 1
    live[slot] = 1
    return slot


@inlined
def _store_row(target, row, arena, used, payloads, width):  # type: ignore[no-untyped-def]
    """Copy a row and its long values; returns how much of the arena is used then."""
    for w in range(width):
        word = load_64(row + w * 8)
        if load_8(payloads + w) != _ZERO and load_64(row + w * 8 - 8) > _EIGHT:
            length = np.int64(load_64(row + w * 8 - 8))
            copy_bytes(arena + used, np.int64(word), length)
            word = np.uint64(used) | IN_ARENA
            used += length
        store_64(target + w * 8, word)
    return used


@inlined
def _remove_entry(table, mask, tag, slot):  # type: ignore[no-untyped-def]
    """Empty the slot's place and shift back what probed past it (Knuth 6.4, algorithm R): no tombstones."""
    hole = tag & mask
    wanted = (tag << _S32) | np.uint64(slot + 1)
    while load_64(table + np.int64(hole) * 8) != wanted:
        hole = (hole + _ONE) & mask
    place = hole
    while True:
        place = (place + _ONE) & mask
        entry = load_64(table + np.int64(place) * 8)
        if entry == _ZERO:
            break
        home = (entry >> _S32) & mask
        if ((place - home) & mask) >= ((place - hole) & mask):
            store_64(table + np.int64(hole) * 8, entry)
            hole = place
    store_64(table + np.int64(hole) * 8, _ZERO)


@kernel("void(uint64[::1], uint64[:, ::1], uint64[::1], uint64[::1], int64[::1])")
def _find_words(table, rows, hashes, words, slots):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(table) - 1)
    table_at, rows_at, hashes_at = table.ctypes.data, rows.ctypes.data, hashes.ctypes.data
    for start in range(0, len(slots), _BLOCK):
        stop = min(start + _BLOCK, len(slots))
        _warm_lines(table_at, mask, rows_at, 16, hashes_at + start * 8, 8, stop - start)
        for i in range(start, stop):
            slots[i] = _find_word(table_at, mask, rows_at, hashes[i], words[i])


@kernel("void(uint64[::1], uint64[:, ::1], uint8[::1], uint8[::1], uint64[:, ::1], int64[::1])")
def _find_rows(table, stored, arena, payloads, rows, slots):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(table) - 1)
    width = rows.shape[1]
    table_at, stored_at, rows_at = table.ctypes.data, stored.ctypes.data, rows.ctypes.data
    arena_at, payloads_at = arena.ctypes.data, payloads.ctypes.data
    for start in range(0, len(slots), _BLOCK):
        stop = min(start + _BLOCK, len(slots))
        first = rows_at + start * width * 8
        _warm_lines(table_at, mask, stored_at, width * 8, first, width * 8, stop - start)
        for i in range(start, stop):
            row = rows_at + i * width * 8
            slots[i] = _find_row(table_at, mask, stored_at, row, arena_at, payloads_at, width)


@kernel("void(uint64[::1], uint64[::1], int64[::1], int64[::1])")
def _find_tags(table, hashes, order, slots):  # type: ignore[no-untyped-def]
    """In this order, the slot of the first entry with the tag of each hash, or -1. Its key is seldom another."""
    mask = np.uint64(len(table) - 1)
    for i in order:
        tag = hashes[i] & _LOW
        place = tag & mask
        while table[place] != _ZERO and table[place] >> _S32 != tag:
            place = (place + _ONE) & mask
        slots[i] = np.int64(table[place] & _LOW) - 1


@kernel("void(uint64[:, ::1], uint8[::1], uint8[::1], uint64[:, ::1], int64[::1], int64[::1])")
def _compare_rows(stored, arena, payloads, rows, order, slots):  # type: ignore[no-untyped-def]
    """In this order, slots of other keys than those of the rows become -1."""
    width = rows.shape[1]
    stored_at, rows_at = stored.ctypes.data, rows.ctypes.data
    arena_at, payloads_at = arena.ctypes.data, payloads.ctypes.data
    for i in order:
        if slots[i] >= 0:
            target = stored_at + slots[i] * width * 8
            if not is_same_row(rows_at + i * width * 8, target, arena_at, payloads_at, width):
                slots[i] = -1


@kernel(
    "int64(uint64[::1], uint64[:, ::1], uint8[::1], int64[::1], int64[::1], "
    "uint64[::1], uint64[::1], int64, int64[::1], boolean[::1])"
)
def _insert_words(  # type: ignore[no-untyped-def]
    table, rows, live, free, state, hashes, words, done, slots, is_new
):
    """Rows from `done` on; returns where it stopped because the table is full, or n."""
    mask = np.uint64(len(table) - 1)
    table_at, rows_at, hashes_at = table.ctypes.data, rows.ctypes.data, hashes.ctypes.data
    for start in range(done, len(slots), _BLOCK):
        stop = min(start + _BLOCK, len(slots))
        _warm_lines(table_at, mask, rows_at, 16, hashes_at + start * 8, 8, stop - start)
        for i in range(start, stop):
            slot = _find_word(table_at, mask, rows_at, hashes[i], words[i])
            if slot < 0:
                if state[_LIVE] == len(live):
                    return i
                slot = _next_slot(live, free, state)
                _enter(table_at, mask, hashes[i], slot)
                rows[slot, 0] = hashes[i]
                rows[slot, 1] = words[i]
                is_new[i] = True
            slots[i] = slot
    return len(slots)


@kernel(
    "int64(uint64[::1], uint64[:, ::1], uint8[::1], int64[::1], int64[::1], uint8[::1], "
    "uint8[::1], uint64[:, ::1], int64, int64[::1], boolean[::1])"
)
def _insert_rows(  # type: ignore[no-untyped-def]
    table, stored, live, free, state, arena, payloads, rows, done, slots, is_new
):
    """As `_insert_words` for rows of words; the arena has room for the bytes of all of them."""
    mask = np.uint64(len(table) - 1)
    width = rows.shape[1]
    table_at, stored_at, rows_at = table.ctypes.data, stored.ctypes.data, rows.ctypes.data
    arena_at, payloads_at = arena.ctypes.data, payloads.ctypes.data
    for start in range(done, len(slots), _BLOCK):
        stop = min(start + _BLOCK, len(slots))
        first = rows_at + start * width * 8
        _warm_lines(table_at, mask, stored_at, width * 8, first, width * 8, stop - start)
        for i in range(start, stop):
            row = rows_at + i * width * 8
            slot = _find_row(table_at, mask, stored_at, row, arena_at, payloads_at, width)
            if slot < 0:
                if state[_LIVE] == len(live):
                    return i
                slot = _next_slot(live, free, state)
                _enter(table_at, mask, rows[i, 0], slot)
                target = stored_at + slot * width * 8
                state[_ARENA_USED] = _store_row(target, row, arena_at, state[_ARENA_USED], payloads_at, width)
                is_new[i] = True
            slots[i] = slot
    return len(slots)


@kernel(
    "void(uint64[::1], uint64[:, ::1], uint8[::1], int64[::1], int64[::1], uint8[::1], uint8[::1], "
    "uint64[:, ::1], int64[::1])"
)
def _fill_rows(  # type: ignore[no-untyped-def]
    table, stored, live, free, state, arena, payloads, rows, slots
):
    """Distinct keys that are absent, for which table and arena have room."""
    mask = np.uint64(len(table) - 1)
    width = rows.shape[1]
    table_at, stored_at, rows_at = table.ctypes.data, stored.ctypes.data, rows.ctypes.data
    arena_at, payloads_at = arena.ctypes.data, payloads.ctypes.data
    for start in range(0, len(slots), _BLOCK):
        stop = min(start + _BLOCK, len(slots))
        for i in range(start, stop):
            prefetch(table_at + np.int64(rows[i, 0] & _LOW & mask) * 8)
        for i in range(start, stop):
            slot = _next_slot(live, free, state)
            _enter(table_at, mask, rows[i, 0], slot)
            target = stored_at + slot * width * 8
            row = rows_at + i * width * 8
            state[_ARENA_USED] = _store_row(target, row, arena_at, state[_ARENA_USED], payloads_at, width)
            slots[i] = slot


@kernel("void(uint64[::1], uint64[::1])")
def _rehash(old, table):  # type: ignore[no-untyped-def]
    """Walking the old table in order writes two ascending streams into one of twice the size."""
    mask = np.uint64(len(table) - 1)
    for at in range(len(old)):
        entry = old[at]
        if entry != _ZERO:
            place = (entry >> _S32) & mask
            while table[place] != _ZERO:
                place = (place + _ONE) & mask
            table[place] = entry


@kernel("int64(uint64[::1], uint64[:, ::1], uint8[::1], int64[::1], int64[::1], uint8[::1], int64[::1])")
def _delete(table, rows, live, free, state, payloads, slots):  # type: ignore[no-untyped-def]
    """Returns the bytes of the arena that became garbage."""
    mask = np.uint64(len(table) - 1)
    table_at = table.ctypes.data
    garbage = np.int64(0)
    for i in range(len(slots)):
        slot = slots[i]
        if slot < 0 or slot >= state[_NEXT] or live[slot] == 0:
            continue
        _remove_entry(table_at, mask, rows[slot, 0] & _LOW, slot)
        live[slot] = 0
        free[state[_FREE]] = slot
        state[_FREE] += 1
        state[_LIVE] -= 1
        if rows.shape[1] == len(payloads):
            for w in range(len(payloads)):
                if payloads[w] != 0 and rows[slot, w - 1] > _EIGHT:
                    garbage += np.int64(rows[slot, w - 1])
    return garbage


# Bytes of variable-width keys: counts them for a batch, copies them out as Arrow buffers, and moves them for
# compaction.


_INT32_MAX = 2**31 - 1


def copy_out(
    rows: np.ndarray, place: int, arena: np.ndarray, data_type: pa.DataType
) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, bytes) of the variable-width key whose length is word `place` of each row."""
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(rows[:, place].view(np.int64), out=offsets[1:])
    data = np.empty(int(offsets[-1]), dtype=np.uint8)
    _copy_out(rows, place, arena, offsets, data)
    if pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type):
        return offsets, data
    if len(data) > _INT32_MAX:
        raise InternalError(f"{len(data)} bytes of keys do not fit one array of type {data_type}")
    return offsets.astype(np.int32), data


@kernel("int64(uint64[:, ::1], uint8[::1])")
def arena_bytes(rows, payloads):  # type: ignore[no-untyped-def]
    """The number of bytes of packed rows that are outside of the rows themselves."""
    total = np.int64(0)
    for w in range(len(payloads)):
        if payloads[w] != 0:
            for i in range(rows.shape[0]):
                if rows[i, w - 1] > _EIGHT:
                    total += np.int64(rows[i, w - 1])
    return total


@kernel("void(uint64[:, ::1], int64, uint8[::1], int64[::1], uint8[::1])")
def _copy_out(rows, place, arena, offsets, data):  # type: ignore[no-untyped-def]
    source = np.int64(arena.ctypes.data)
    target = np.int64(data.ctypes.data)
    for i in range(rows.shape[0]):
        length = offsets[i + 1] - offsets[i]
        word = rows[i, place + 1]
        if length > 8:
            copy_bytes(target + offsets[i], source + np.int64(word & ~IN_ARENA), length)
        else:
            for at in range(length):
                store_8(target + offsets[i] + at, word >> np.uint64(8 * at))


@kernel("int64(uint64[:, ::1], int64[::1], uint8[::1], uint8[::1], uint8[::1])")
def move_into(rows, live, payloads, arena, target):  # type: ignore[no-untyped-def]
    """Move the bytes of live rows to another arena and point the rows there; returns the bytes moved."""
    source_address = np.int64(arena.ctypes.data)
    target_address = np.int64(target.ctypes.data)
    used = np.int64(0)
    for i in range(len(live)):
        slot = live[i]
        for w in range(len(payloads)):
            if payloads[w] != 0 and rows[slot, w - 1] > _EIGHT:
                length = np.int64(rows[slot, w - 1])
                copy_bytes(
                    target_address + used, source_address + np.int64(rows[slot, w] & ~IN_ARENA), length
                )
                rows[slot, w] = np.uint64(used) | IN_ARENA
                used += length
    return used
