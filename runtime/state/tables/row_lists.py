"""State with a short ordered list of rows per key, for Top-N: a key index, the lists, and the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.index import KeyIndex
from sqlstream.runtime.kernels.rank import missing_into
from sqlstream.runtime.state.operator_state import StateScope
from sqlstream.runtime.state.snapshots.changes import Changes
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.saved_changes import SavedByChanges
from sqlstream.runtime.state.snapshots.snapshot import SavedTables, slot_key_groups
from sqlstream.runtime.state.state_ttl import TOUCHED_COLUMN, StateTtl
from sqlstream.runtime.state.storage.arrays import Array, grown
from sqlstream.runtime.state.storage.columns import RowStore
from sqlstream.runtime.state.storage.id_lists import NO_ROW, IdLists


class RowLists(SavedByChanges):
    """At most `size` rows per key, in the order that the operator gives them, declared as the table `name`; each has a sort key
    of `key_width` int64, which is not saved.

    The key of a row is in its columns `key_columns`; without any there is one list, that of slot 0. State: index, lists and rows;
    a key is forgotten, with its rows, `ttl_ms` after it was last touched.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        key_columns: Sequence[int],
        size: int,
        ttl_ms: int,
        scope: StateScope,
        key_width: int = 1,
    ) -> None:
        self.name = name
        self.lists = IdLists(size, key_width)
        self.rows = RowStore(schema)
        self._key_columns = tuple(key_columns)
        types = [schema.field(k).type for k in key_columns]
        self._index = KeyIndex(types) if types else None
        self._ttl = StateTtl(ttl_ms, scope.now_ms)
        self._max_parallelism = scope.max_parallelism
        self._marks: Array = np.empty(0, dtype=np.uint8)
        self._changes = Changes(self)
        super().__init__({name: self._changes})
        if self._index is None:
            self.lists.resize(1)

    def slots_of(self, batch: pa.RecordBatch) -> Array:
        """int64[n]: the slot of each row's key, which gets an empty list if it is absent."""
        if self._index is None:
            return np.zeros(batch.num_rows, dtype=np.int64)
        with self._changes.lock:
            slots, is_new = self._index.get_or_insert([batch.column(k) for k in self._key_columns])
            self.lists.resize(self._index.slot_count)
            if self._changes.is_counting:
                self._changes.created(slots[is_new])
        return slots

    def writing(self, slots: Array) -> None:
        """The lists of these distinct slots are about to be written."""
        with self._changes.lock:
            self._changes.writing(slots)
            self._ttl.touch(slots)

    def enter(self, batch: pa.RecordBatch, slots: Array, lists: Array, first_row: int) -> Array:
        """Store the batch's rows that are in these lists of distinct slots: row i as id `first_row + i`, where `first_row` is the
        number of ids so far. The lists get the stored ids, and are returned."""
        is_fresh = lists >= first_row
        fresh = lists[is_fresh] - first_row
        is_entered = np.zeros(batch.num_rows, dtype=bool)
        is_entered[fresh] = True
        entered = np.flatnonzero(is_entered)
        id_of_row = np.empty(batch.num_rows, dtype=np.int64)
        id_of_row[entered] = self.rows.append(batch, entered)
        lists = lists.copy()
        lists[is_fresh] = id_of_row[fresh]
        self.lists.set(slots, lists)
        return lists

    def drop_removed(self, before: Array, after: Array) -> None:
        """Forget the rows with ids of `before` that are not in `after`."""
        self._marks = grown(self._marks, self.rows.id_count)
        removed = np.empty(before.size, dtype=np.int64)
        self.rows.delete(removed[: missing_into(self._marks, before, after, removed)])

    def live_slots(self) -> Array:
        """The slots of all keys, ascending."""
        return np.zeros(1, dtype=np.int64) if self._index is None else self._index.slots()

    # -- declared state ----------------------------------------------------------------------------

    def load(self, saved: SavedTables) -> None:
        for part in saved.batches(self.name):
            batch = pa.RecordBatch.from_arrays(part.columns[FIXED_COLUMNS + 1 :], schema=self.rows.schema)
            slots = self.slots_of(batch)
            # Rows of a key were saved in their order. The ids of an empty store follow each other.
            first_id = self.rows.id_count
            self.rows.append(batch)
            sort_keys = np.zeros((batch.num_rows, self.lists.width), dtype=np.int64)
            sort_keys[:, 0] = first_id + np.arange(batch.num_rows)
            self.lists.insert(slots, sort_keys, first_id)
            self._ttl.load(slots, view_values(part.column(FIXED_COLUMNS), np.int64))

    def nbytes(self) -> int:
        index = 0 if self._index is None else int(self._index.nbytes)
        rows = self.lists.nbytes() + int(self.rows.nbytes) + int(self._marks.nbytes)
        return index + rows + self._ttl.nbytes() + self._changes.nbytes

    @property
    def next_sweep_ms(self) -> int | None:
        return self._ttl.next_sweep_ms

    def expire(self) -> int:
        with self._changes.lock:
            slots = self._ttl.take_expired(self._changes.forgetting)
            rows = self.lists.lists(slots)
            self.rows.delete(rows[rows != NO_ROW])
            self.lists.clear(slots)
            if self._index is not None:
                self._index.delete(slots)
            return len(slots)

    # -- what its changes read: implements `ChangeSource` ---------------------------------------------

    @property
    def slot_count(self) -> int:
        return self.lists.slot_count

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def is_live(self, slots: Array) -> Array:
        return np.ones(len(slots), dtype=bool) if self._index is None else self._index.is_live(slots)

    def key_groups(self, slots: Array) -> Array:
        return slot_key_groups(self._index, slots, self._max_parallelism)

    @property
    def saved_names(self) -> list[str]:
        return [TOUCHED_COLUMN, *self.rows.schema.names]

    def saved(self, slots: Array) -> tuple[Array, list[pa.Array]]:
        """Rows of a key follow each other in the order of its list."""
        lists = self.lists.lists(slots)
        present = lists != NO_ROW
        owners = np.repeat(slots, present.sum(axis=1))
        rows = self.rows.gather(lists[present])
        return owners, [to_array(pa.int64(), self._ttl.touched_ms(owners)), *rows.columns]
