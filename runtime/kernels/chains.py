"""The multi-map of joins: for each key slot a chain of row ids, in order of insertion."""

from __future__ import annotations

import numpy as np

from runtime.kernels.growing import GrowingArray
from runtime.native.kernel import kernel

_HEAD, _TAIL, _COUNT = 0, 1, 2
_NEXT, _BEFORE, _SLOT = 0, 1, 2


class Chains:
    """Doubly linked chains of rows, one per slot.

    State: three int64 per slot (head, tail, length) and three per row (next, before, slot). The caller assigns row ids and may
    reuse them once removed, which bounds the arrays by the greatest number of rows that were live at once; they do not shrink.
    """

    def __init__(self) -> None:
        # -1: no row in the chain (_COUNT is then read as 0), the row in no chain.
        self._heads = GrowingArray(np.int64, 3, fill=-1)
        self._links = GrowingArray(np.int64, 3, fill=-1)
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._heads.nbytes + self._links.nbytes

    def append(self, slots: np.ndarray, row_ids: np.ndarray) -> None:
        """Append row_ids[i], which must be in no chain, to the chain of slots[i]."""
        if len(slots) == 0:
            return
        self._heads.reserve(int(slots.max()) + 1)
        self._links.reserve(int(row_ids.max()) + 1)
        _append(self._heads.values, self._links.values, slots, row_ids)
        self._rows += len(row_ids)

    def counts(self, slots: np.ndarray) -> np.ndarray:
        """int64[n]: the length of each slot's chain; 0 for slot -1."""
        counts = np.empty(len(slots), dtype=np.int64)
        _count(self._heads.values[: self._heads.count], slots, counts)
        return counts

    def match(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(probe_indices int64[m], row_ids int64[m]): every row of every slot, ordered by probe, then by
        insertion.

        `slots` may hold -1, which matches nothing.
        """
        counts = self.counts(slots)
        total = int(counts.sum())
        probe_indices = np.empty(total, dtype=np.int64)
        row_ids = np.empty(total, dtype=np.int64)
        _match(self._heads.values, self._links.values, slots, counts, probe_indices, row_ids)
        return probe_indices, row_ids

    def slots_of(self, row_ids: np.ndarray) -> np.ndarray:
        """int64[n]: the slot in whose chain each row is; -1 where it is in none."""
        slots: np.ndarray = self._links.values[row_ids, _SLOT]
        return slots

    def first_rows(self, slots: np.ndarray) -> np.ndarray:
        """int64[n]: the oldest row of each slot's chain, which is not empty."""
        rows: np.ndarray = self._heads.values[slots, _HEAD]
        return rows

    def last_rows(self, slots: np.ndarray, count: int) -> np.ndarray:
        """int64[n, count]: the youngest rows of each slot's chain, which has as many, by age."""
        rows = np.empty((len(slots), count), dtype=np.int64)
        _last(self._heads.values, self._links.values, slots, rows)
        return rows

    def rows_from(self, row_ids: np.ndarray, count: int) -> np.ndarray:
        """int64[n, count]: each row and those behind it in its chain, which has as many."""
        rows = np.empty((len(row_ids), count), dtype=np.int64)
        _following(self._links.values, row_ids, rows)
        return rows

    def remove(self, row_ids: np.ndarray) -> np.ndarray:
        """Remove rows from their chains; returns the slots whose chain became empty. Rows in no chain are ignored."""
        emptied = np.empty(len(row_ids), dtype=np.int64)
        removed, empty_count = _remove(self._heads.values, self._links.values, row_ids, emptied)
        self._rows -= removed
        return emptied[:empty_count]


@kernel("void(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1])")
def _append(heads, links, slots, row_ids):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        slot = slots[i]
        row = row_ids[i]
        tail = heads[slot, _TAIL]
        links[row, _NEXT] = -1
        links[row, _BEFORE] = tail
        links[row, _SLOT] = slot
        if tail < 0:
            heads[slot, _HEAD] = row
            heads[slot, _COUNT] = 1
        else:
            links[tail, _NEXT] = row
            heads[slot, _COUNT] += 1
        heads[slot, _TAIL] = row


@kernel("void(int64[:, ::1], int64[::1], int64[::1])")
def _count(heads, slots, counts):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        slot = slots[i]
        known = 0 <= slot < heads.shape[0]
        counts[i] = max(heads[slot, _COUNT], 0) if known else 0


@kernel("void(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def _match(heads, links, slots, counts, probe_indices, row_ids):  # type: ignore[no-untyped-def]
    at = 0
    for i in range(len(slots)):
        if counts[i] > 0:
            row = heads[slots[i], _HEAD]
            for _ in range(counts[i]):
                probe_indices[at] = i
                row_ids[at] = row
                at += 1
                row = links[row, _NEXT]


@kernel("void(int64[:, ::1], int64[:, ::1], int64[::1], int64[:, ::1])")
def _last(heads, links, slots, rows):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        row = heads[slots[i], _TAIL]
        for j in range(rows.shape[1]):
            rows[i, rows.shape[1] - 1 - j] = row
            row = links[row, _BEFORE]


@kernel("void(int64[:, ::1], int64[::1], int64[:, ::1])")
def _following(links, row_ids, rows):  # type: ignore[no-untyped-def]
    for i in range(len(row_ids)):
        row = row_ids[i]
        for j in range(rows.shape[1]):
            rows[i, j] = row
            row = links[row, _NEXT]


@kernel("UniTuple(int64, 2)(int64[:, ::1], int64[:, ::1], int64[::1], int64[::1])")
def _remove(heads, links, row_ids, emptied):  # type: ignore[no-untyped-def]
    removed = 0
    empty_count = 0
    for i in range(len(row_ids)):
        row = row_ids[i]
        slot = links[row, _SLOT]
        if slot < 0:
            continue
        after, before = links[row, _NEXT], links[row, _BEFORE]
        if before < 0:
            heads[slot, _HEAD] = after
        else:
            links[before, _NEXT] = after
        if after < 0:
            heads[slot, _TAIL] = before
        else:
            links[after, _BEFORE] = before
        links[row, _SLOT] = -1
        heads[slot, _COUNT] -= 1
        removed += 1
        if heads[slot, _COUNT] == 0:
            emptied[empty_count] = slot
            empty_count += 1
    return removed, empty_count
