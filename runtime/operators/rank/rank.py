"""Top-N per key: the rows whose ROW_NUMBER() lies between two ranks, updated with each batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.aggregates.numbers import number_class
from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.index import KeyIndex
from runtime.kernels.rank import distinct_into, missing_into, rank_within, top_n_into
from runtime.operators.batch_groups import batch_groups
from runtime.operators.expiring import ExpiringOperator
from runtime.operators.operator import Operator, OperatorContext, Output
from runtime.operators.order.ordering import is_single_number, sort_indices, sort_keys
from runtime.operators.rank.rank_changes import RankChanges
from runtime.operators.rank.retractable_rank import RetractableRank
from runtime.state.arrays import Array, grown
from runtime.state.columns import RowStore
from runtime.state.key_group_column import slot_key_groups
from runtime.state.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.arrow import to_arrow_schema
from sqlstream.specs.rank import RankPhase, RankSpec

NO_ROW = -1
_WHOLE_BATCH_MIN = 0.9
"""If at least this share of a batch's rows enters a list, the batch is stored whole: cheaper than copying those rows."""


def make_rank(spec: RankSpec, context: OperatorContext) -> Operator[RankSpec]:
    """The operator for the spec's phase and for insert-only or retracting input."""
    if spec.phase is RankPhase.LOCAL:
        return LocalRank(spec, context)
    return RetractableRank(spec, context) if spec.is_retracting else AppendRank(spec, context)


class LocalRank(Operator[RankSpec]):
    """Drops the rows of a batch that rank after `rank_end` rows of the same key and batch. No state."""

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        groups, first_rows = batch_groups([batch.column(k) for k in self.spec.partition_keys], batch.num_rows)
        if len(first_rows) == batch.num_rows:
            output.emit(batch)
            return
        rows = self._best(batch, groups, len(first_rows))
        if len(rows) == batch.num_rows:
            output.emit(batch)
        else:
            output.emit_rows(batch, rows.astype(np.int32))

    def _best(self, batch: pa.RecordBatch, groups: Array, count: int) -> Array:
        lists = TopLists(self.spec, self.context)
        lists.resize(count)
        lists.insert(batch, groups, 0, None)
        kept = lists.rows[:count]
        return np.sort(kept[kept != NO_ROW])


class TopLists:
    """The best `rank_end` rows of each slot, best first, as row ids. State: one list per slot."""

    def __init__(self, spec: RankSpec, context: OperatorContext) -> None:
        self._spec = spec
        self._types = context.input_schemas[0].types
        self._is_number = is_single_number(spec.order, self._types)
        self._slots = 0
        self._keys: Array = np.empty((0, spec.rank_end), dtype=np.int64)
        self.rows: Array = np.empty((0, spec.rank_end), dtype=np.int64)
        self._lengths: Array = np.empty(0, dtype=np.int64)

    def resize(self, slots: int) -> None:
        """Make room for slots 0 … slots - 1; those beyond are not initialised."""
        if slots <= self._slots:
            return
        if slots > len(self._lengths):
            capacity = max(slots, 2 * len(self._lengths))
            # Lists are wide, so memory is initialised when its slot is first used, not in advance.
            self._keys, self.rows, self._lengths = (
                self._copy(a, capacity) for a in (self._keys, self.rows, self._lengths)
            )
        self.rows[self._slots : slots] = NO_ROW
        self._lengths[self._slots : slots] = 0
        self._slots = slots

    def _copy(self, array: Array, capacity: int) -> Array:
        larger = np.empty((capacity, *array.shape[1:]), dtype=array.dtype)
        larger[: self._slots] = array[: self._slots]
        return larger

    def insert(self, batch: pa.RecordBatch, slots: Array, first_row: int, store: RowStore | None) -> None:
        """Enter row i of the batch as `first_row + i`; `store` finds the rows already in the lists."""
        if self._is_number:
            key = self._spec.order[0]
            keys = sort_keys(batch.column(key.column), key, number_class(self._types[key.column]))
            if keys is not None:
                top_n_into(self._keys, self.rows, self._lengths, slots, keys, first_row)
                return
            # The sort key of such a value is that of NULL: from here on rows are compared by their columns.
            self._is_number = False
        self._insert_sorted(batch, slots, first_row, store)

    def _insert_sorted(
        self, batch: pa.RecordBatch, slots: Array, first_row: int, store: RowStore | None
    ) -> None:
        """For any ORDER BY: sort the rows of the touched lists and the new rows in one go."""
        touched = np.unique(slots)
        held = self.rows[touched]
        present = held != NO_ROW
        ids = np.concatenate([held[present], first_row + np.arange(batch.num_rows)])
        owners = np.concatenate([np.repeat(touched, present.sum(axis=1)), slots])
        columns = self._order_columns(batch, held[present], store)
        order = sort_indices([owners], columns, self._spec.order)
        owners, ids = owners[order], ids[order]
        positions = np.searchsorted(touched, owners)
        ranks = np.empty(len(owners), dtype=np.int64)
        rank_within(ranks, positions, len(touched))
        kept = ranks <= self._spec.rank_end
        self.rows[touched] = NO_ROW
        self.rows[owners[kept], ranks[kept] - 1] = ids[kept]
        self._lengths[touched] = np.minimum(
            np.bincount(positions, minlength=len(touched)), self._spec.rank_end
        )

    def _order_columns(self, batch: pa.RecordBatch, held: Array, store: RowStore | None) -> list[pa.Array]:
        # Rows of the lists come first, so that the stable sort ranks the older of equal rows first.
        fresh = [batch.column(k.column) for k in self._spec.order]
        if store is None or len(held) == 0:
            return fresh
        old = store.gather(held)
        return [
            pa.concat_arrays([old.column(k.column), column])
            for k, column in zip(self._spec.order, fresh, strict=True)
        ]

    def clear(self, slots: Array) -> None:
        self.rows[slots] = NO_ROW
        self._lengths[slots] = 0

    def nbytes(self) -> int:
        return self._slots * (2 * self._spec.rank_end + 1) * 8


class AppendRank(ExpiringOperator[RankSpec]):
    """Top-N over insert-only rows. State: the best `rank_end` rows per key, dropped `state_ttl_ms` after the key's last row."""

    def __init__(self, spec: RankSpec, context: OperatorContext) -> None:
        super().__init__(spec, context, spec.state_ttl_ms)
        self._input_schema = to_arrow_schema(context.input_schemas[0])
        types = [self._input_schema.field(k).type for k in spec.partition_keys]
        self._index = KeyIndex(types) if types else None
        self._lists = TopLists(spec, context)
        self._store = RowStore(self._input_schema)
        self._changes = RankChanges(spec, context)
        self._slot_marks: Array = np.empty(0, dtype=np.uint8)
        self._row_marks: Array = np.empty(0, dtype=np.uint8)
        if self._index is None:
            self._resize(1)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        self.expire()
        slots = self._slots(batch)
        touched = self._distinct(slots)
        self.ttl.touch(touched)
        before = self._lists.rows[touched]
        # Rows of the batch get ids beyond all stored ones; rows that remain in a list are stored and get their stored ids.
        first_row = self._store.id_count
        self._lists.insert(batch, slots, first_row, self._store)
        after = self._lists.rows[touched]
        if np.array_equal(before, after):
            return
        after = self._store_entered(batch, after, first_row)
        self._lists.rows[touched] = after
        self._changes.emit(before, after, self._store, output)
        self._store.delete(self._removed_rows(before, after))

    def _distinct(self, slots: Array) -> Array:
        distinct = np.empty(len(slots), dtype=np.int64)
        return distinct[: distinct_into(self._slot_marks, slots, distinct)]

    def _removed_rows(self, before: Array, after: Array) -> Array:
        """The stored rows of `before` that are not in `after`."""
        self._row_marks = grown(self._row_marks, self._store.id_count)
        removed = np.empty(before.size, dtype=np.int64)
        return removed[: missing_into(self._row_marks, before, after, removed)]

    def _slots(self, batch: pa.RecordBatch) -> Array:
        if self._index is None:
            return np.zeros(batch.num_rows, dtype=np.int64)
        slots, _ = self._index.get_or_insert([batch.column(k) for k in self.spec.partition_keys])
        self._resize(self._index.slot_count)
        return slots

    def _resize(self, capacity: int) -> None:
        self._lists.resize(capacity)
        self._slot_marks = grown(self._slot_marks, capacity)

    def _store_entered(self, batch: pa.RecordBatch, lists: Array, first_row: int) -> Array:
        """Append the batch's rows that are in a list to the store; returns the lists with the stored ids."""
        is_fresh = lists >= first_row
        fresh = lists[is_fresh] - first_row
        is_entered = np.zeros(batch.num_rows, dtype=bool)
        is_entered[fresh] = True
        entered = np.flatnonzero(is_entered)
        id_of_row = np.full(batch.num_rows, NO_ROW, dtype=np.int64)
        if len(entered) >= _WHOLE_BATCH_MIN * batch.num_rows:
            id_of_row[:] = self._store.append(batch)
            self._store.delete(id_of_row[~is_entered])
        else:
            id_of_row[entered] = self._store.append(batch.take(to_array(pa.int64(), entered)))
        lists = lists.copy()
        lists[is_fresh] = id_of_row[fresh]
        return lists

    # -- expiry ------------------------------------------------------------------------------------

    def _live_slots(self) -> Array:
        return np.zeros(1, dtype=np.int64) if self._index is None else self._index.slots()

    def forget_expired(self, slots: Array) -> None:
        rows = self._lists.rows[slots]
        self._store.delete(rows[rows != NO_ROW])
        self._lists.clear(slots)
        if self._index is not None:
            self._index.delete(slots)

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> OperatorSnapshot:
        slots = self._live_slots()
        lists = self._lists.rows[slots]
        present = lists != NO_ROW
        owners = np.repeat(np.arange(len(slots)), present.sum(axis=1))
        groups = slot_key_groups(self._index, slots, self.context.max_parallelism)
        rows = self._store.gather(lists[present])
        columns = [
            pa.array(groups[owners]),
            to_array(pa.int64(), self.ttl.touched_ms(slots[owners])),
            *rows.columns,
        ]
        names = [KEY_GROUP_COLUMN, "touched_ms", *(f"c{i}" for i in range(rows.num_columns))]
        return OperatorSnapshot(keyed={"rows": pa.table(columns, names=names)})

    def restore(self, snapshot: OperatorSnapshot) -> None:
        table = snapshot.keyed.get("rows")
        if table is None or table.num_rows == 0:
            return
        saved = table.combine_chunks().to_batches()[0]
        batch = pa.RecordBatch.from_arrays(saved.columns[2:], schema=self._input_schema)
        slots = self._slots(batch)
        # The saved rows of a key are ordered best first, so inserting them again rebuilds the same lists.
        first_row = self._store.id_count
        self._lists.insert(batch, slots, first_row, self._store)
        touched = self._distinct(slots)
        self._lists.rows[touched] = self._store_entered(batch, self._lists.rows[touched], first_row)
        self.ttl.load(slots, view_values(saved.column(1), np.int64))

    def state_bytes(self) -> int:
        index = 0 if self._index is None else int(self._index.nbytes)
        return index + self._lists.nbytes() + self.ttl.nbytes() + int(self._store.nbytes)
