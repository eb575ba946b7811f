"""The rows of each key in order: a treap per key over the rows that an index holds (Seidel and Aragon, 1996)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.intrinsics import NULL_HASH, compared_values, load_64, mix
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.keys.words import order_of
from sqlstream.runtime.native.kernel import inlined, kernel

_LEFT, _RIGHT, _PARENT, _SIZE = 0, 1, 2, 3
_PLACE, _KIND, _NULL_BIT, _DESCENDING, _NULLS_FIRST = 0, 1, 2, 3, 4
_SINGLE = -1
"""As the bit of NULL: a row of one word has none, its hash tells."""
_ONE = np.uint64(1)

Array = np.ndarray[Any, Any]


class RowOrder:
    """Which rows a key has, in order of some columns of `index`, then of a sequence.

    `order`: (column, is descending, whether NULLs come first) each; NaN is greater than every number. A row that comes or goes,
    its place and the row at a place cost the logarithm of the number of rows of its key. Neither its columns nor its number in
    the sequence may change meanwhile.
    State: four int32 per row (its children and parent in the tree of its key, and the number of rows below) and one per key.
    """

    def __init__(self, index: KeyIndex, order: Sequence[tuple[int, bool, bool]]) -> None:
        self._index = index
        self._order = list(order)
        # Row r is node r + 1: node 0 stands for none, and has no rows below.
        self._roots = GrowingArray(np.int32)
        self._links = GrowingArray(np.int32, 4)
        self._links.reserve(1)

    @property
    def nbytes(self) -> int:
        return self._roots.nbytes + self._links.nbytes

    def insert(self, keys: Array, rows: Array, sequence: Array) -> None:
        """Enter distinct rows that have no place yet; `sequence` is by row, also of rows that have one."""
        if len(rows):
            self._roots.reserve(int(keys.max()) + 1)
            self._links.reserve(int(rows.max()) + 2)
            _insert(self._roots.values, self._links.values, *self._stored(), sequence, keys, rows)

    def remove(self, keys: Array, rows: Array) -> None:
        """Take out distinct rows that have a place."""
        _remove(self._roots.values, self._links.values, keys, rows)

    def clear(self, keys: Array) -> None:
        """Forget all rows of these keys, which the index may have forgotten before."""
        self._roots.values[keys[keys < self._roots.count]] = 0

    def sizes(self, keys: Array) -> Array:
        """int64[n]: the number of rows of each key."""
        self._roots.reserve(int(keys.max(initial=-1)) + 1)
        found: Array = self._links.values[self._roots.values[keys], _SIZE].astype(np.int64)
        return found

    def places(self, rows: Array) -> Array:
        """int64[n]: how many rows of its key are before each of these."""
        found = np.empty(len(rows), dtype=np.int64)
        _places(self._links.values, rows, found)
        return found

    def peers(self, keys: Array, rows: Array, *, is_end: bool) -> Array:
        """int64[n]: the place of the first row of the key whose columns are those of `rows`, or (`is_end`) of the one behind the
        last such."""
        found = np.empty(len(rows), dtype=np.int64)
        _peers(self._roots.values, self._links.values, *self._stored(), keys, rows, is_end, found)
        return found

    def bounds(self, keys: Array, targets: Array, *, is_end: bool) -> Array:
        """int64[n]: the place of the first row whose value of the first column, an integer or a time, is not less than the target
        (`is_end`: is greater). `targets` and values of a descending column are compared as their complements, ~value."""
        found = np.empty(len(keys), dtype=np.int64)
        _bounds(self._roots.values, self._links.values, *self._stored(), keys, targets, is_end, found)
        return found

    def between(self, keys: Array, firsts: Array, ends: Array) -> tuple[Array, Array]:
        """(position in `keys`, row) of the rows at the places from firsts[i] to ends[i] (exclusive) of key i, in order."""
        counts = np.maximum(ends - firsts, 0)
        rows = np.empty(int(counts.sum()), dtype=np.int64)
        _between(self._roots.values, self._links.values, keys, firsts, counts, rows)
        return np.repeat(np.arange(len(keys)), counts), rows

    def _stored(self) -> tuple[Array, Array, Array]:
        """The rows of words, the arena and the order, for kernels."""
        rows, arena, order = self._index.stored(0)[0], self._index.stored(0)[1], []
        is_single = rows.shape[1] == 2
        for column, is_descending, is_nulls_first in self._order:
            kind = order_of(self._index.types[column])
            null_bit = _SINGLE if is_single else column
            order.append(
                (self._index.stored(column)[2], kind, null_bit, int(is_descending), int(is_nulls_first))
            )
        return rows, arena, np.array(order, dtype=np.int64).reshape(-1, 5)


@inlined
def _is_null(row, null_bit):  # type: ignore[no-untyped-def]
    if null_bit < 0:
        return load_64(row) == NULL_HASH and load_64(row + 8) == 0
    return (load_64(row + 8 + (null_bit >> 6) * 8) >> np.uint64(null_bit & 63)) & _ONE != 0


@inlined
def _compared(stored, stride, arena, order, one, other):  # type: ignore[no-untyped-def]
    """Negative, 0 or positive: the order of two rows by the columns of the order."""
    a, b = stored + np.int64(one) * stride, stored + np.int64(other) * stride
    for k in range(order.shape[0]):
        a_null, b_null = _is_null(a, order[k, _NULL_BIT]), _is_null(b, order[k, _NULL_BIT])
        if a_null or b_null:
            if a_null and b_null:
                continue
            return -1 if a_null == (order[k, _NULLS_FIRST] != 0) else 1
        at = order[k, _PLACE] * 8
        found = compared_values(a + at, b + at, arena, order[k, _KIND])
        if found != 0:
            return -found if order[k, _DESCENDING] else found
    return 0


@inlined
def _priority(node):  # type: ignore[no-untyped-def]
    return mix(np.uint64(node))


@inlined
def _rotate_up(roots, links, key, node, parent):  # type: ignore[no-untyped-def]
    """Make a node the parent of its parent."""
    above = links[parent, _PARENT]
    if links[parent, _LEFT] == node:
        child = links[node, _RIGHT]
        links[parent, _LEFT] = child
        links[node, _RIGHT] = parent
    else:
        child = links[node, _LEFT]
        links[parent, _RIGHT] = child
        links[node, _LEFT] = parent
    if child != 0:
        links[child, _PARENT] = parent
    links[parent, _PARENT] = node
    links[node, _PARENT] = above
    if above == 0:
        roots[key] = node
    elif links[above, _LEFT] == parent:
        links[above, _LEFT] = node
    else:
        links[above, _RIGHT] = node
    links[node, _SIZE] = links[parent, _SIZE]
    links[parent, _SIZE] = 1 + links[links[parent, _LEFT], _SIZE] + links[links[parent, _RIGHT], _SIZE]


_TREES = "int32[::1], int32[:, ::1]"
_STORED = "uint64[:, ::1], uint8[::1], int64[:, ::1]"


@kernel(f"void({_TREES}, {_STORED}, int64[::1], int64[::1], int64[::1])")
def _insert(roots, links, stored_rows, arena_bytes, order, sequence, keys, rows):  # type: ignore[no-untyped-def]
    stored, stride = np.int64(stored_rows.ctypes.data), np.int64(stored_rows.shape[1] * 8)
    arena = np.int64(arena_bytes.ctypes.data)
    for i in range(len(rows)):
        row, key = rows[i], keys[i]
        node = np.int32(row + 1)
        parent, at = np.int32(0), roots[key]
        is_left = False
        while at != 0:
            found = _compared(stored, stride, arena, order, row, at - 1)
            is_left = found < 0 or (found == 0 and sequence[row] < sequence[at - 1])
            links[at, _SIZE] += 1
            parent = at
            at = links[at, _LEFT] if is_left else links[at, _RIGHT]
        links[node, _LEFT] = 0
        links[node, _RIGHT] = 0
        links[node, _PARENT] = parent
        links[node, _SIZE] = 1
        if parent == 0:
            roots[key] = node
            continue
        links[parent, _LEFT if is_left else _RIGHT] = node
        priority = _priority(node)
        while parent != 0 and priority > _priority(parent):
            _rotate_up(roots, links, key, node, parent)
            parent = links[node, _PARENT]


@kernel(f"void({_TREES}, int64[::1], int64[::1])")
def _remove(roots, links, keys, rows):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        node = np.int32(rows[i] + 1)
        while True:
            left, right = links[node, _LEFT], links[node, _RIGHT]
            if left == 0 and right == 0:
                break
            if right == 0 or (left != 0 and _priority(left) > _priority(right)):
                _rotate_up(roots, links, keys[i], left, node)
            else:
                _rotate_up(roots, links, keys[i], right, node)
        parent = links[node, _PARENT]
        if parent == 0:
            roots[keys[i]] = 0
        elif links[parent, _LEFT] == node:
            links[parent, _LEFT] = 0
        else:
            links[parent, _RIGHT] = 0
        while parent != 0:
            links[parent, _SIZE] -= 1
            parent = links[parent, _PARENT]


@kernel("void(int32[:, ::1], int64[::1], int64[::1])")
def _places(links, rows, places):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        node = np.int32(rows[i] + 1)
        place = np.int64(links[links[node, _LEFT], _SIZE])
        parent = links[node, _PARENT]
        while parent != 0:
            if links[parent, _RIGHT] == node:
                place += np.int64(links[links[parent, _LEFT], _SIZE]) + 1
            node = parent
            parent = links[node, _PARENT]
        places[i] = place


@kernel(f"void({_TREES}, {_STORED}, int64[::1], int64[::1], boolean, int64[::1])")
def _peers(roots, links, stored_rows, arena_bytes, order, keys, rows, is_end, places):  # type: ignore[no-untyped-def]
    stored, stride = np.int64(stored_rows.ctypes.data), np.int64(stored_rows.shape[1] * 8)
    arena = np.int64(arena_bytes.ctypes.data)
    for i in range(len(rows)):
        at, place = roots[keys[i]], np.int64(0)
        while at != 0:
            found = _compared(stored, stride, arena, order, at - 1, rows[i])
            if found < 0 or (is_end and found == 0):
                place += np.int64(links[links[at, _LEFT], _SIZE]) + 1
                at = links[at, _RIGHT]
            else:
                at = links[at, _LEFT]
        places[i] = place


@kernel(f"void({_TREES}, {_STORED}, int64[::1], int64[::1], boolean, int64[::1])")
def _bounds(roots, links, stored_rows, arena_bytes, order, keys, targets, is_end, places):  # type: ignore[no-untyped-def]
    stored, stride = np.int64(stored_rows.ctypes.data), np.int64(stored_rows.shape[1] * 8)
    for i in range(len(keys)):
        at, place, target = roots[keys[i]], np.int64(0), targets[i]
        while at != 0:
            row = stored + np.int64(at - 1) * stride
            if _is_null(row, order[0, _NULL_BIT]):
                is_before = order[0, _NULLS_FIRST] != 0
            else:
                value = np.int64(load_64(row + order[0, _PLACE] * 8))
                if order[0, _DESCENDING]:
                    value = ~value
                is_before = value < target or (is_end and value == target)
            if is_before:
                place += np.int64(links[links[at, _LEFT], _SIZE]) + 1
                at = links[at, _RIGHT]
            else:
                at = links[at, _LEFT]
        places[i] = place


@kernel(f"void({_TREES}, int64[::1], int64[::1], int64[::1], int64[::1])")
def _between(roots, links, keys, firsts, counts, rows):  # type: ignore[no-untyped-def]
    found = 0
    for i in range(len(keys)):
        if counts[i] == 0:
            continue
        at, place = roots[keys[i]], firsts[i]
        while True:
            before = np.int64(links[links[at, _LEFT], _SIZE])
            if place < before:
                at = links[at, _LEFT]
            elif place == before:
                break
            else:
                place -= before + 1
                at = links[at, _RIGHT]
        for _ in range(counts[i]):
            rows[found] = at - 1
            found += 1
            if links[at, _RIGHT] != 0:
                at = links[at, _RIGHT]
                while links[at, _LEFT] != 0:
                    at = links[at, _LEFT]
            else:
                child = at
                at = links[at, _PARENT]
                while at != 0 and links[at, _RIGHT] == child:
                    child = at
                    at = links[at, _PARENT]


# Counting sort of rows by a dense group id.


def argsort_stable_by(group_ids: np.ndarray, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """(order int64[n], starts int64[n_groups + 1]): rows in order of group, and within a group in their own
    order.

    The rows of group g are `order[starts[g]:starts[g + 1]]`. Every id is in 0 … n_groups - 1.
    """
    group_ids = np.ascontiguousarray(group_ids)
    if group_ids.dtype != np.int32:
        group_ids = group_ids.astype(np.int64, copy=False)
    order = np.empty(len(group_ids), dtype=np.int64)
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    _argsort_into(group_ids, order, starts, np.empty(n_groups, dtype=np.int64))
    return order, starts


@kernel(
    "void(int32[::1], int64[::1], int64[::1], int64[::1])",
    "void(int64[::1], int64[::1], int64[::1], int64[::1])",
)
def _argsort_into(group_ids, order, starts, place):  # type: ignore[no-untyped-def]
    """`starts` must be zeros; `place`, one entry per group, is scratch memory."""
    for i in range(len(group_ids)):
        starts[group_ids[i] + 1] += 1
    for g in range(len(place)):
        place[g] = starts[g]
        starts[g + 1] += starts[g]
    for i in range(len(group_ids)):
        g = group_ids[i]
        order[place[g]] = i
        place[g] += 1
