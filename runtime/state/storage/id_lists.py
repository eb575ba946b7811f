"""Short lists of row ids by slot, which take as much memory as they need."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.slots.id_lists import (
    CAPACITIES_MAX,
    MISSING,
    USED,
    clear_lists,
    copy_ids,
    insert_sorted,
    lengths_into,
    set_ids,
    set_sort_keys,
)
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.segments import Segments

NO_ROW = -1


class IdLists:
    """At most `size` row ids per slot, each with a sort key of `width` int64, best (least key) first.

    State: one place per slot, and a block of memory for each list that is not empty. It has room for four ids, or for less than
    twice as many as there are. Blocks of lists that have grown or were cleared are used again.
    """

    def __init__(self, size: int, width: int = 1) -> None:
        self.size = size
        self.width = width
        self._places = GrowingArray(np.int64, fill=-1)
        self._segments = Segments()
        self._used: Array = np.zeros(2, dtype=np.int64)
        self._heads: Array = np.full(CAPACITIES_MAX, -1, dtype=np.int64)
        # An operator writes while another thread collects a snapshot.
        self._lock = threading.Lock()

    @property
    def slot_count(self) -> int:
        return self._places.count

    def resize(self, slots: int) -> None:
        """Make room for slots 0 … slots - 1, with empty lists."""
        with self._lock:
            self._places.reserve(slots)

    def insert(self, slots: Array, sort_keys: Array, first_id: int) -> None:
        """Enter row i as id `first_id + i` into the list of its slot, behind the rows with an equal or lesser key; what is then
        beyond `size` leaves the list. `sort_keys`: int64[n, width]."""
        sort_keys = sort_keys.reshape(len(slots), self.width)
        self._run(
            lambda done: insert_sorted(
                slots, sort_keys, first_id, done, self.size, self._places.values, self._segments.bases, self._segments.last,
                self._segments.room, self._used, self._heads,
            ),
            len(slots),
        )  # fmt: skip

    def lists(self, slots: Array) -> Array:
        """int64[n, longest list among them]: the ids of each slot's list, then NO_ROW."""
        lengths = np.empty(len(slots), dtype=np.int64)
        with self._lock:
            longest = lengths_into(lengths, slots, self._places.values, self._segments.bases)
            lists = np.empty((len(slots), longest), dtype=np.int64)
            copy_ids(lists, slots, self._places.values, self._segments.bases)
        return lists

    def set(self, slots: Array, lists: Array) -> None:
        """Put other ids into the lists of distinct slots, given as `lists` returns them. Sort keys stay as they are."""
        self._run(
            lambda done: set_ids(
                lists, slots, done, self.width, self.size, self._places.values, self._segments.bases, self._segments.last,
                self._segments.room, self._used, self._heads,
            ),
            len(slots),
        )  # fmt: skip

    def set_sort_keys(self, slots: Array, sort_keys: Array) -> None:
        """Set the sort keys of the lists of these slots, list by list: int64[n, width]."""
        set_sort_keys(sort_keys.reshape(-1, self.width), slots, self._places.values, self._segments.bases)

    def clear(self, slots: Array) -> None:
        """Empty the lists of distinct slots."""
        with self._lock:
            clear_lists(slots, self._places.values, self._segments.bases, self._heads)

    def nbytes(self) -> int:
        return self._segments.nbytes + self._places.nbytes + int(self._used.nbytes + self._heads.nbytes)

    def _run(self, kernel: Callable[[int], int], rows: int) -> None:
        """Call a kernel until it has done all rows; in between it gets the memory that it needs."""
        done = 0
        with self._lock:
            while (done := kernel(done)) < rows:
                self._segments.open(int(self._used[MISSING]))
                self._used[USED] = 0
