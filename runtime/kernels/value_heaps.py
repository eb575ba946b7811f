"""A pairing heap of index entries per slot: the least or greatest of values that come and go (Fredman, Sedgewick, Sleator and
Tarjan, 1986)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runtime.kernels.growing import GrowingArray
from runtime.kernels.index import KeyIndex
from runtime.kernels.intrinsics import IN_ARENA, load_8, load_64
from runtime.kernels.words import is_bytes_type
from runtime.native.kernel import inlined, kernel

_CHILD, _NEXT, _BEFORE = 0, 1, 2
_INTEGER, _FLOAT, _DECIMAL, _BYTES = 0, 1, 2, 3
_SIGN = np.uint64(1 << 63)

Array = np.ndarray[Any, Any]


class ValueHeaps:
    """The best entry of each slot, by the value that key column `number` of an index has there; the best of equal ones is any.

    An entry comes in constant time and goes in the logarithm of the entries of its slot (amortised), whichever of them it is. Its
    key must be in the index meanwhile. NaN is greater than every number.
    State: three int32 per entry, its first child and the neighbours among its siblings, and one per slot, its best entry.
    """

    def __init__(self, index: KeyIndex, number: int, *, is_min: bool) -> None:
        self._index, self._number, self._is_min = index, number, is_min
        self._kind = _kind_of(index.types[number])
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


def _kind_of(value_type: pa.DataType) -> int:
    if is_bytes_type(value_type):
        return _BYTES
    if pa.types.is_decimal(value_type):
        return _DECIMAL
    return _FLOAT if pa.types.is_floating(value_type) else _INTEGER


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
def _signed(x, y):  # type: ignore[no-untyped-def]
    return 0 if x == y else (-1 if x < y else 1)


@inlined
def _bytes_at(value, arena):  # type: ignore[no-untyped-def]
    """The address of a value's bytes: at most eight are in the row."""
    if np.int64(load_64(value)) <= 8:
        return value + 8
    return arena + np.int64(load_64(value + 8) & ~IN_ARENA)


@inlined
def _compared_bytes(left, left_length, right, right_length):  # type: ignore[no-untyped-def]
    shorter = min(left_length, right_length)
    for at in range(shorter):
        x, y = load_8(left + at), load_8(right + at)
        if x != y:
            return -1 if x < y else 1
    return _signed(left_length, right_length)


@inlined
def _compared(a, b, arena, kind):  # type: ignore[no-untyped-def]
    """Negative, 0 or positive: the order of the values at two addresses, each as a row of words has it."""
    x, y = load_64(a), load_64(b)
    if kind == _INTEGER:
        return _signed(np.int64(x), np.int64(y))
    if kind == _FLOAT:
        # The bits of a positive double are in its order, those of a negative one in reverse; the one NaN is above infinity.
        x = ~x if x & _SIGN else x | _SIGN
        y = ~y if y & _SIGN else y | _SIGN
        return 0 if x == y else (-1 if x < y else 1)
    if kind == _DECIMAL:
        high = _signed(np.int64(load_64(a + 8)), np.int64(load_64(b + 8)))
        return high if high != 0 else (0 if x == y else (-1 if x < y else 1))
    return _compared_bytes(_bytes_at(a, arena), np.int64(x), _bytes_at(b, arena), np.int64(y))


@inlined
def _is_better(stored, stride, arena, place, kind, is_min, one, other):  # type: ignore[no-untyped-def]
    a = stored + np.int64(one) * stride + place * 8
    b = stored + np.int64(other) * stride + place * 8
    order = _compared(a, b, arena, kind)
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
