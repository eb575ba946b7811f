"""A pairing heap of index entries per slot: the least or greatest of values that come and go (Fredman, Sedgewick, Sleator and
Tarjan, 1986)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.intrinsics import compared_values
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.keys.words import order_of
from sqlstream.runtime.native.kernel import inlined, kernel

_CHILD, _NEXT, _BEFORE = 0, 1, 2

Array = np.ndarray[Any, Any]


class ValueHeaps:
    """The best entry of each slot, by the value that key column `number` of an index has there; the best of equal ones is any.

    An entry comes in constant time and goes in the logarithm of the entries of its slot (amortised), whichever of them it is. Its
    key must be in the index meanwhile. NaN is greater than every number.
    State: three int32 per entry, its first child and the neighbours among its siblings, and one per slot, its best entry.
    """

    def __init__(self, index: KeyIndex, number: int, *, is_min: bool) -> None:
        self._index, self._number, self._is_min = index, number, is_min
        self._kind = order_of(index.types[number])
        # -1: no entry.
        self._roots = GrowingArray(np.int32, fill=-1)
        self._links = GrowingArray(np.int32, 3, fill=-1)

    @property
    def nbytes(self) -> int:
        return self._roots.nbytes + self._links.nbytes

    def resize(self, slots: int) -> None:
        self._roots.reserve(slots)

    def insert(self, slots: Array, entries: Array) -> None:
        """Enter distinct entries that are in no heap."""
        self._run(_insert, slots, entries)

    def remove(self, slots: Array, entries: Array) -> None:
        """Take distinct entries out of the heaps of their slots."""
        self._run(_remove, slots, entries)

    def clear(self, slots: Array) -> None:
        """Forget all entries of these slots."""
        self._roots.values[slots] = -1

    def best(self, slots: Array) -> Array:
        """int32[n]: the best entry of each slot, -1 where there is none."""
        found: Array = self._roots.values[slots]
        return found

    def _run(self, change: Any, slots: Array, entries: Array) -> None:
        if len(entries) == 0:
            return
        self._roots.reserve(int(slots.max()) + 1)
        self._links.reserve(self._index.slot_count)
        rows, arena, place = self._index.stored(self._number)
        change(
            self._roots.values, self._links.values, rows, arena, place, self._kind, self._is_min,
            slots, entries,
        )  # fmt: skip


@inlined
def _adopt(links, parent, child):  # type: ignore[no-untyped-def]
    """Make a heap the first child of another."""
    first = links[parent, _CHILD]
    links[child, _NEXT] = first
    links[child, _BEFORE] = parent
    if first >= 0:
        links[first, _BEFORE] = child
    links[parent, _CHILD] = child


@inlined
def _is_better(stored, stride, arena, place, kind, is_min, one, other):  # type: ignore[no-untyped-def]
    a = stored + np.int64(one) * stride + place * 8
    b = stored + np.int64(other) * stride + place * 8
    order = compared_values(a, b, arena, kind)
    return order < 0 if is_min else order > 0


_SIGNATURE = "void(int32[::1], int32[:, ::1], uint64[:, ::1], uint8[::1], int64, int64, boolean, int64[::1], int64[::1])"


@kernel(_SIGNATURE)
def _insert(roots, links, rows, arena, place, kind, is_min, slots, entries):  # type: ignore[no-untyped-def]
    stored, stride, bytes_at = (
        np.int64(rows.ctypes.data),
        np.int64(rows.shape[1] * 8),
        np.int64(arena.ctypes.data),
    )
    for i in range(len(entries)):
        entry = np.int32(entries[i])
        links[entry, _CHILD] = -1
        links[entry, _NEXT] = -1
        links[entry, _BEFORE] = -1
        root = roots[slots[i]]
        if root < 0:
            roots[slots[i]] = entry
        elif _is_better(stored, stride, bytes_at, place, kind, is_min, entry, root):
            _adopt(links, entry, root)
            roots[slots[i]] = entry
        else:
            _adopt(links, root, entry)


@kernel(_SIGNATURE)
def _remove(roots, links, rows, arena, place, kind, is_min, slots, entries):  # type: ignore[no-untyped-def]
    stored, stride, bytes_at = (
        np.int64(rows.ctypes.data),
        np.int64(rows.shape[1] * 8),
        np.int64(arena.ctypes.data),
    )
    for i in range(len(entries)):
        entry = np.int32(entries[i])
        # The children become one heap: pairs of neighbours from the left, which are stacked by `next`, then all from the top.
        stack = np.int32(-1)
        left = links[entry, _CHILD]
        while left >= 0:
            right = links[left, _NEXT]
            if right < 0:
                links[left, _NEXT] = stack
                stack = left
                break
            rest = links[right, _NEXT]
            if _is_better(stored, stride, bytes_at, place, kind, is_min, right, left):
                left, right = right, left
            _adopt(links, left, right)
            links[left, _NEXT] = stack
            stack = left
            left = rest
        merged = stack
        if merged >= 0:
            stack = links[merged, _NEXT]
            while stack >= 0:
                rest = links[stack, _NEXT]
                if _is_better(stored, stride, bytes_at, place, kind, is_min, stack, merged):
                    _adopt(links, stack, merged)
                    merged = stack
                else:
                    _adopt(links, merged, stack)
                stack = rest
            links[merged, _NEXT] = -1
            links[merged, _BEFORE] = -1
        root = roots[slots[i]]
        if root == entry:
            roots[slots[i]] = merged
            continue
        before, after = links[entry, _BEFORE], links[entry, _NEXT]
        if links[before, _CHILD] == entry:
            links[before, _CHILD] = after
        else:
            links[before, _NEXT] = after
        if after >= 0:
            links[after, _BEFORE] = before
        if merged >= 0:
            # What was below the root is not better than it.
            _adopt(links, root, merged)
