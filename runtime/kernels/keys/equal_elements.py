"""Finds equal elements in the lists of a column: the distinct ones of each list, and those of one list that another has.

The elements of list `n` are at `places[bounds[n]:bounds[n + 1]]` of one memory, and are compared by their codes there: equal
elements have equal int64. For texts the codes are hashes, and the bytes `data[offsets[place]:offsets[place + 1]]` decide;
`offsets` is empty where the codes decide alone.
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import equal_bytes, mix
from sqlstream.runtime.native.kernel import READ_BYTES, inlined, kernel

FEW_MAX = 16
"""Elements of lists that are no longer are compared with each other, those of others are hashed."""

NULL_CODE = -(2**63)
"""The code of NULL, which no other element has."""

_NULL = np.int64(NULL_CODE)


@inlined
def _is_same(codes, data, offsets, one, other):  # type: ignore[no-untyped-def]
    if codes[one] != codes[other]:
        return False
    if len(offsets) == 0 or codes[one] == _NULL:
        return True
    start, other_start = np.int64(offsets[one]), np.int64(offsets[other])
    length = np.int64(offsets[one + 1]) - start
    if np.int64(offsets[other + 1]) - other_start != length:
        return False
    address = data.ctypes.data
    return equal_bytes(address + start, address + other_start, length)


@inlined
def _is_among(codes, data, offsets, place, others, start, end):  # type: ignore[no-untyped-def]
    """Whether an element equals one of those at `others[start:end]`."""
    for i in range(start, end):  # noqa: SIM110 (kernels know no generators)
        if _is_same(codes, data, offsets, place, others[i]):
            return True
    return False


@inlined
def _slot_of(codes, data, offsets, place, others, start, slots):  # type: ignore[no-untyped-def]
    """The slot of an element: taken by an equal one of `others[start:]`, or free. A slot holds an index in `others`, one before
    `start` is of a list before."""
    mask = np.int64(len(slots) - 1)
    slot = np.int64(mix(np.uint64(codes[place]))) & mask
    while slots[slot] >= start and not _is_same(codes, data, offsets, place, others[slots[slot]]):
        slot = (slot + 1) & mask
    return slot


@kernel(
    f"int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], {READ_BYTES}, int32[::1], int32[::1], boolean)"
)
def distinct_into(kept, counts, places, bounds, codes, data, offsets, slots, is_last):  # type: ignore[no-untyped-def]
    """`kept`: list by list, the places of the elements that no earlier element of their list equals (no later one if `is_last`).

    `counts`: how many each list has. Returns how many they are. `slots`, all -1, is a power of 2 above twice the longest list.
    It may be empty when no list has more than `FEW_MAX` elements.
    """
    o = np.int64(0)
    for row in range(len(counts)):
        start, end, begun = bounds[row], bounds[row + 1], o
        if end - start <= FEW_MAX:
            for i in range(start, end):
                if is_last:
                    is_known = _is_among(codes, data, offsets, places[i], places, i + 1, end)
                else:
                    is_known = _is_among(codes, data, offsets, places[i], kept, begun, o)
                if not is_known:
                    kept[o] = places[i]
                    o += 1
        else:
            # The last ones are found from the end, and first written where the elements of this list end.
            left = end
            for step in range(end - start):
                i = end - 1 - step if is_last else start + step
                slot = _slot_of(codes, data, offsets, places[i], places, start, slots)
                if slots[slot] >= start:
                    continue
                slots[slot] = i
                if is_last:
                    left -= 1
                    kept[left] = places[i]
                else:
                    kept[o] = places[i]
                    o += 1
            if is_last:
                for i in range(left, end):
                    kept[o] = kept[i]
                    o += 1
        counts[row] = o - begun
    return o


@kernel(
    f"int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], {READ_BYTES}, int32[::1],"
    " int32[::1], int32[::1], boolean)"
)
def compared_into(  # type: ignore[no-untyped-def]
    kept, counts, places, bounds, others, other_bounds, codes, data, offsets, slots, other_slots, keeps_common
):
    """`kept`: list by list, the places of the distinct elements that the other list of its row has (`keeps_common`), or has not.

    `counts`: how many each list has. Returns how many they are. `slots` and `other_slots` are as in `distinct_into`, for the
    lists and the others.
    """
    o = np.int64(0)
    for row in range(len(counts)):
        start, end, begun = bounds[row], bounds[row + 1], o
        other_start, other_end = other_bounds[row], other_bounds[row + 1]
        is_hashed, is_other_hashed = end - start > FEW_MAX, other_end - other_start > FEW_MAX
        if is_other_hashed and end > start:
            for i in range(other_start, other_end):
                slot = _slot_of(codes, data, offsets, others[i], others, other_start, other_slots)
                if other_slots[slot] < other_start:
                    other_slots[slot] = i
        for i in range(start, end):
            if is_other_hashed:
                slot = _slot_of(codes, data, offsets, places[i], others, other_start, other_slots)
                is_common = other_slots[slot] >= other_start
            else:
                is_common = _is_among(codes, data, offsets, places[i], others, other_start, other_end)
            if is_common != keeps_common:
                continue
            if is_hashed:
                slot = _slot_of(codes, data, offsets, places[i], places, start, slots)
                if slots[slot] >= start:
                    continue
                slots[slot] = i
            elif _is_among(codes, data, offsets, places[i], kept, begun, o):
                continue
            kept[o] = places[i]
            o += 1
        counts[row] = o - begun
    return o


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], int64)")
def places_into(places, cursors, starts, lengths, shift):  # type: ignore[no-untyped-def]
    """Write the places of the elements of each list from its cursor on, and move the cursor behind them; `shift` is added."""
    for row in range(len(starts)):
        o, first = cursors[row], starts[row] + shift
        for i in range(lengths[row]):
            places[o + i] = first + i
        cursors[row] = o + lengths[row]
