"""Short sorted lists of row ids by slot, each in a block of memory that is as large as the list needs.

A block of capacity c: one word with c (high half) and the length (low half), c row ids, c sort keys of `width` words each. Keys
are compared word by word. Words are int64. The place of a block is `segment << 32 | offset`;
`places` has that of each slot's list, -1 for an empty one. Capacities are 4, 8, 16, … up to the greatest length of a list; a free
block has the place of the next one of its capacity in its first id, and `heads` the first of each.
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import load_64, prefetch, store_64
from sqlstream.runtime.native.kernel import always_inlined, inlined, kernel

CAPACITIES_MAX = 32
_CAPACITY_MIN = 4
_BLOCK = 32
_MASK = (1 << 32) - 1
_WORD = 8

# Positions in `used`: bytes used of the last segment, and bytes of the block for which it has no room.
USED, MISSING = 0, 1


@always_inlined
def _word(address):  # type: ignore[no-untyped-def]
    return np.int64(load_64(address))


@always_inlined
def _set_word(address, value):  # type: ignore[no-untyped-def]
    store_64(address, np.uint64(value))


@always_inlined
def _address(bases, place):  # type: ignore[no-untyped-def]
    return bases[place >> 32] + (place & _MASK)


@inlined
def _class_of(capacity):  # type: ignore[no-untyped-def]
    """The number of the least doubling of the smallest capacity that is not less."""
    number, least = 0, _CAPACITY_MIN
    while least < capacity:
        number, least = number + 1, 2 * least
    return number


@always_inlined
def _is_before(sort_keys, row, key):  # type: ignore[no-untyped-def]
    """Whether the sort key of a row is less than the one at an address."""
    for word in range(sort_keys.shape[1]):
        held = _word(key + word * _WORD)
        if sort_keys[row, word] != held:
            return sort_keys[row, word] < held
    return False


@inlined
def _allocate(capacity, width, bases, segment, room, used, heads):  # type: ignore[no-untyped-def]
    """The place of an empty block; -1 when the segment has no room for it."""
    number = _class_of(capacity)
    place = heads[number]
    if place >= 0:
        heads[number] = _word(_address(bases, place) + _WORD)
    else:
        size = (1 + (1 + width) * capacity) * _WORD
        if used[USED] + size > room:
            used[MISSING] = size
            return np.int64(-1)
        place = segment << 32 | used[USED]
        used[USED] += size
    _set_word(_address(bases, place), capacity << 32)
    return place


@inlined
def _release(place, bases, heads):  # type: ignore[no-untyped-def]
    block = _address(bases, place)
    number = _class_of(_word(block) >> 32)
    _set_word(block + _WORD, heads[number])
    heads[number] = place


@inlined
def _reserve(slot, length, width, places, size_max, bases, segment, room, used, heads):  # type: ignore[no-untyped-def]
    """Give the list of a slot a block with a capacity of at least `length`; whether there was room for it."""
    place = places[slot]
    if place >= 0 and _word(_address(bases, place)) >> 32 >= length:
        return True
    capacity = np.int64(_CAPACITY_MIN)
    while capacity < length:
        capacity *= 2
    capacity = min(capacity, size_max)
    larger = _allocate(capacity, width, bases, segment, room, used, heads)
    if larger < 0:
        return False
    if place >= 0:
        old, new = _address(bases, place), _address(bases, larger)
        held = _word(old) & _MASK
        _set_word(new, capacity << 32 | held)
        before = _word(old) >> 32
        for at in range(1, held + 1):
            _set_word(new + at * _WORD, _word(old + at * _WORD))
        old_keys, new_keys = old + (1 + before) * _WORD, new + (1 + capacity) * _WORD
        for at in range(held * width):
            _set_word(new_keys + at * _WORD, _word(old_keys + at * _WORD))
        _release(place, bases, heads)
    places[slot] = larger
    return True


@kernel(
    "int64(int64[::1], int64[:, ::1], int64, int64, int64, int64[::1], int64[::1], int64, int64, int64[::1], int64[::1])"
)
def insert_sorted(  # type: ignore[no-untyped-def]
    slots, sort_keys, first_id, done, size_max, places, bases, segment, room, used, heads
):
    """Insert rows from number `done` on into the lists of their slots, which hold at most `size_max`: row i with the id
    `first_id + i` before all with a greater sort key.

    Returns where it stopped because the segment has no room for a block, or the number of rows.
    """
    width = sort_keys.shape[1]
    key_bytes = width * _WORD
    for start in range(done, len(slots), _BLOCK):
        stop = min(start + _BLOCK, len(slots))
        for i in range(start, stop):
            if places[slots[i]] >= 0:
                prefetch(_address(bases, places[slots[i]]))
        for i in range(start, stop):
            slot = slots[i]
            length = np.int64(0)
            if places[slot] >= 0:
                length = _word(_address(bases, places[slot])) & _MASK
            if length == size_max:
                block = _address(bases, places[slot])
                last = block + (1 + size_max) * _WORD + (size_max - 1) * key_bytes
                if not _is_before(sort_keys, i, last):
                    continue
            else:
                length += 1
                if not _reserve(slot, length, width, places, size_max, bases, segment, room, used, heads):
                    return i
                block = _address(bases, places[slot])
            capacity = _word(block) >> 32
            _set_word(block, capacity << 32 | length)
            ids, keys = block + _WORD, block + (1 + capacity) * _WORD
            at = length - 1
            while at > 0 and _is_before(sort_keys, i, keys + (at - 1) * key_bytes):
                for word in range(width):
                    place = keys + at * key_bytes + word * _WORD
                    _set_word(place, _word(place - key_bytes))
                _set_word(ids + at * _WORD, _word(ids + (at - 1) * _WORD))
                at -= 1
            for word in range(width):
                _set_word(keys + at * key_bytes + word * _WORD, sort_keys[i, word])
            _set_word(ids + at * _WORD, first_id + i)
    return len(slots)


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1])")
def lengths_into(lengths, slots, places, bases):  # type: ignore[no-untyped-def]
    """lengths[i] = the length of the list of slots[i]; returns the greatest."""
    longest = np.int64(0)
    for start in range(0, len(slots), _BLOCK):
        stop = min(start + _BLOCK, len(slots))
        for i in range(start, stop):
            if places[slots[i]] >= 0:
                prefetch(_address(bases, places[slots[i]]))
        for i in range(start, stop):
            lengths[i] = 0
            if places[slots[i]] >= 0:
                lengths[i] = _word(_address(bases, places[slots[i]])) & _MASK
            longest = max(longest, lengths[i])
    return longest


@kernel("void(int64[:, ::1], int64[::1], int64[::1], int64[::1])")
def copy_ids(lists, slots, places, bases):  # type: ignore[no-untyped-def]
    """lists[i] = the ids of the list of slots[i], then -1."""
    for i in range(len(slots)):
        length = np.int64(0)
        if places[slots[i]] >= 0:
            block = _address(bases, places[slots[i]])
            length = _word(block) & _MASK
            for at in range(length):
                lists[i, at] = _word(block + (1 + at) * _WORD)
        for at in range(length, lists.shape[1]):
            lists[i, at] = -1


@kernel(
    "int64(int64[:, ::1], int64[::1], int64, int64, int64, int64[::1], int64[::1], int64, int64, int64[::1], int64[::1])"
)
def set_ids(lists, slots, done, width, size_max, places, bases, segment, room, used, heads):  # type: ignore[no-untyped-def]
    """The list of slots[i] = the ids of lists[i] before the first -1, from number `done` on; sort keys stay as they are.

    Returns as `insert_sorted` does.
    """
    for i in range(done, len(slots)):
        length = np.int64(0)
        while length < lists.shape[1] and lists[i, length] >= 0:
            length += 1
        if length == 0 and places[slots[i]] < 0:
            continue
        if not _reserve(slots[i], length, width, places, size_max, bases, segment, room, used, heads):
            return i
        block = _address(bases, places[slots[i]])
        _set_word(block, _word(block) >> 32 << 32 | length)
        for at in range(length):
            _set_word(block + (1 + at) * _WORD, lists[i, at])
    return len(slots)


@kernel("void(int64[:, ::1], int64[::1], int64[::1], int64[::1])")
def set_sort_keys(sort_keys, slots, places, bases):  # type: ignore[no-untyped-def]
    """The sort keys of the lists of these slots, list by list."""
    count, width = 0, sort_keys.shape[1]
    for i in range(len(slots)):
        if places[slots[i]] >= 0:
            block = _address(bases, places[slots[i]])
            keys = block + (1 + (_word(block) >> 32)) * _WORD
            for at in range(_word(block) & _MASK):
                for word in range(width):
                    _set_word(keys + (at * width + word) * _WORD, sort_keys[count, word])
                count += 1


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1])")
def clear_lists(slots, places, bases, heads):  # type: ignore[no-untyped-def]
    """Empty the lists of distinct slots."""
    for i in range(len(slots)):
        if places[slots[i]] >= 0:
            _release(places[slots[i]], bases, heads)
            places[slots[i]] = -1
