"""The multi-map of joins: for each key slot a chain of row ids, in order of insertion."""

from __future__ import annotations

import numpy as np

from sqlstream.errors import InternalError
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.native.kernel import kernel

_HEAD, _TAIL, _COUNT = 0, 1, 2
_NEXT, _BEFORE, _SLOT = 0, 1, 2
# Row ids and slots are stored as one more, so that memory that was never written means none of them.
_NUMBERS_MAX = (1 << 31) - 2


class Chains:
    """Doubly linked chains of rows, one per slot.

    State: three int32 per slot (head, tail, length) and three per row (next, before, slot). The caller assigns row ids and may
    reuse them once removed. So the arrays are as long as the most rows that were live at once; they do not shrink.
    """

    def __init__(self) -> None:
        self._heads = GrowingArray(np.int32, 3)
        self._links = GrowingArray(np.int32, 3)
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
        slot, row_id = int(slots.max()), int(row_ids.max())
        if max(slot, row_id) > _NUMBERS_MAX:
            raise InternalError(f"chains cannot hold more than {_NUMBERS_MAX} rows in one subtask")
        self._heads.reserve(slot + 1)
        self._links.reserve(row_id + 1)
        _append(self._heads.values, self._links.values, slots, row_ids)
        self._rows += len(row_ids)

    @property
    def links(self) -> tuple[np.ndarray, np.ndarray]:
        """For kernels: the first row of each slot is column 0 of the first array, and the next one of a row that of the second.
        Both are one more, and 0 for none."""
        return self._heads.values, self._links.values

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
        counts = np.empty(len(slots), dtype=np.int64)
        total = _count(self._heads.values[: self._heads.count], slots, counts)
        probe_indices = np.empty(total, dtype=np.int64)
        row_ids = np.empty(total, dtype=np.int64)
        _match(self._heads.values, self._links.values, slots, counts, probe_indices, row_ids)
        return probe_indices, row_ids

    def slots_of(self, row_ids: np.ndarray) -> np.ndarray:
        """int64[n]: the slot in whose chain each row is; -1 where it is in none."""
        return self._links.values[row_ids, _SLOT].astype(np.int64) - 1

    def first_rows(self, slots: np.ndarray) -> np.ndarray:
        """int64[n]: the oldest row of each slot's chain, which is not empty."""
        return self._heads.values[slots, _HEAD].astype(np.int64) - 1

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


@kernel("void(int32[:, ::1], int32[:, ::1], int64[::1], int64[::1])")
def _append(heads, links, slots, row_ids):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        slot, row = slots[i], row_ids[i]
        tail = heads[slot, _TAIL]
        links[row, _NEXT] = 0
        links[row, _BEFORE] = tail
        links[row, _SLOT] = np.int32(slot + 1)
        if tail == 0:
            heads[slot, _HEAD] = np.int32(row + 1)
        else:
            links[tail - 1, _NEXT] = np.int32(row + 1)
        heads[slot, _COUNT] += np.int32(1)
        heads[slot, _TAIL] = np.int32(row + 1)


@kernel("int64(int32[:, ::1], int64[::1], int64[::1])")
def _count(heads, slots, counts):  # type: ignore[no-untyped-def]
    """Returns the sum."""
    total = np.int64(0)
    for i in range(len(slots)):
        slot = slots[i]
        counts[i] = heads[slot, _COUNT] if 0 <= slot < heads.shape[0] else 0
        total += counts[i]
    return total


@kernel("void(int32[:, ::1], int32[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def _match(heads, links, slots, counts, probe_indices, row_ids):  # type: ignore[no-untyped-def]
    at = 0
    for i in range(len(slots)):
        if counts[i] > 0:
            row = np.int64(heads[slots[i], _HEAD]) - 1
            for _ in range(counts[i]):
                probe_indices[at] = i
                row_ids[at] = row
                at += 1
                row = np.int64(links[row, _NEXT]) - 1


@kernel("void(int32[:, ::1], int32[:, ::1], int64[::1], int64[:, ::1])")
def _last(heads, links, slots, rows):  # type: ignore[no-untyped-def]
    for i in range(len(slots)):
        row = np.int64(heads[slots[i], _TAIL]) - 1
        for j in range(rows.shape[1]):
            rows[i, rows.shape[1] - 1 - j] = row
            row = np.int64(links[row, _BEFORE]) - 1


@kernel("void(int32[:, ::1], int64[::1], int64[:, ::1])")
def _following(links, row_ids, rows):  # type: ignore[no-untyped-def]
    for i in range(len(row_ids)):
        row = row_ids[i]
        for j in range(rows.shape[1]):
            rows[i, j] = row
            row = np.int64(links[row, _NEXT]) - 1


@kernel("UniTuple(int64, 2)(int32[:, ::1], int32[:, ::1], int64[::1], int64[::1])")
def _remove(heads, links, row_ids, emptied):  # type: ignore[no-untyped-def]
    removed = 0
    empty_count = 0
    for i in range(len(row_ids)):
        row = row_ids[i]
        slot = np.int64(links[row, _SLOT]) - 1
        if slot < 0:
            continue
        after, before = links[row, _NEXT], links[row, _BEFORE]
        if before == 0:
            heads[slot, _HEAD] = after
        else:
            links[before - 1, _NEXT] = after
        if after == 0:
            heads[slot, _TAIL] = before
        else:
            links[after - 1, _BEFORE] = before
        links[row, _SLOT] = 0
        heads[slot, _COUNT] -= np.int32(1)
        removed += 1
        if heads[slot, _COUNT] == 0:
            emptied[empty_count] = slot
            empty_count += 1
    return removed, empty_count
