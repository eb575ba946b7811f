"""The best rows of each key as state, and the changes that they make to a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.rank import missing_in_row, missing_into, rank_changes_into, rank_within
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.order.ordering import are_numbers, sort_indices, sort_keys
from sqlstream.runtime.state.handed_over import HandedOver
from sqlstream.runtime.state.operator_state import OnExpiring, StateScope, nothing_expires
from sqlstream.runtime.state.snapshots.changes import Changes, SavedByChanges
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.snapshot import SavedTables, slot_key_groups
from sqlstream.runtime.state.state_ttl import TOUCHED_COLUMN, StateTtl
from sqlstream.runtime.state.storage.arrays import Array, grown
from sqlstream.runtime.state.storage.columns import RowStore
from sqlstream.runtime.state.storage.id_lists import NO_ROW, IdLists
from sqlstream.specs.rank import RankSpec


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
        self.on_expiring: OnExpiring = nothing_expires
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

    def key_groups_of(self, slots: Array) -> Array:
        """int32[n]: the key groups of these keys."""
        return slot_key_groups(self._index, slots, self._max_parallelism)

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
            slots = self._ttl.take_expired(self._expiring)
            lists = self.lists.lists(slots)
            rows = lists[lists != NO_ROW]
            self.rows.delete(rows)
            self.lists.clear(slots)
            if self._index is not None:
                self._index.delete(slots)
            return len(rows)

    def _expiring(self, slots: Array) -> None:
        self._changes.forgetting(slots)
        self.on_expiring(self, slots)

    # -- what its changes read: implements `ChangeSource` ---------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

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


def has_sort_keys(spec: RankSpec, context: OperatorContext) -> bool:
    """Whether rows are compared by sort keys, as long as no value of them has that of NULL."""
    return len(spec.order) > 0 and are_numbers(spec.order, context.input_schemas[0].types)


def key_width(spec: RankSpec, context: OperatorContext) -> int:
    """The `width` of the lists for this spec."""
    return len(spec.order) if has_sort_keys(spec, context) else 1


class TopLists:
    """The best rows of each slot by the spec's order; of equal rows the older one is better.

    State: the caller's `lists`; whether their sort keys are kept, which compare rows faster than their columns."""

    def __init__(self, spec: RankSpec, context: OperatorContext, lists: IdLists) -> None:
        self.lists = lists
        self._order = spec.order
        self._types = context.input_schemas[0].types
        self._has_sort_keys = has_sort_keys(spec, context)

    def insert(
        self, batch: pa.RecordBatch | DeferredRows, slots: Array, first_row: int, store: RowStore | None
    ) -> None:
        """Enter row i of the batch as id `first_row + i`; `store` has the rows that are in the lists."""
        if self._has_sort_keys:
            keys = self._sort_keys([batch.column(key.column) for key in self._order])
            if keys is not None:
                self.lists.insert(slots, keys, first_row)
                return
            # The sort key of such a value is that of NULL: from here on rows are compared by their columns.
            self._has_sort_keys = False
        self._insert_sorted(batch, slots, first_row, store)

    def rebuild_sort_keys(self, state: RowLists) -> None:
        """Compute the sort keys of all rows in the lists."""
        if not self._has_sort_keys:
            return
        slots = state.live_slots()
        lists = self.lists.lists(slots)
        columns = [key.column for key in self._order]
        keys = self._sort_keys(state.rows.columns(lists[lists != NO_ROW], columns))
        if keys is None:
            self._has_sort_keys = False
        else:
            self.lists.set_sort_keys(slots, keys)

    def _sort_keys(self, columns: list[pa.Array]) -> Array | None:
        return sort_keys(columns, self._order, self._types)

    def _insert_sorted(
        self, batch: pa.RecordBatch | DeferredRows, slots: Array, first_row: int, store: RowStore | None
    ) -> None:
        """For any ORDER BY: sort the rows of the touched lists and the new rows in one go."""
        lists = self.lists
        touched = np.unique(slots)
        held = lists.lists(touched)
        present = held != NO_ROW
        ids = np.concatenate([held[present], first_row + np.arange(batch.num_rows)])
        owners = np.concatenate([np.repeat(touched, present.sum(axis=1)), slots])
        columns = self._order_columns(batch, held[present], store)
        order = sort_indices([owners], columns, self._order)
        owners, ids = owners[order], ids[order]
        positions = np.searchsorted(touched, owners)
        ranks = np.empty(len(owners), dtype=np.int64)
        rank_within(ranks, positions, len(touched))
        kept = ranks <= lists.size
        best = np.full((len(touched), int(ranks[kept].max(initial=0))), NO_ROW, dtype=np.int64)
        best[positions[kept], ranks[kept] - 1] = ids[kept]
        lists.set(touched, best)

    def _order_columns(
        self, batch: pa.RecordBatch | DeferredRows, held: Array, store: RowStore | None
    ) -> list[pa.Array]:
        # Rows of the lists come first, so that the stable sort ranks the older of equal rows first.
        numbers = [key.column for key in self._order]
        fresh = [batch.column(number) for number in numbers]
        if store is None or len(held) == 0:
            return fresh
        return [
            pa.concat_arrays([old, new]) for old, new in zip(store.columns(held, numbers), fresh, strict=True)
        ]


_WIDTH_MAX = 1_024
"""Of longer lists, those that were replaced as a whole are found more quickly by sorting."""


class Rows(Protocol):
    """Looks rows up by id."""

    def gather(self, row_ids: Array) -> pa.RecordBatch: ...


KEYS_AT_ONCE = 4_096
"""Of so many keys the lists are computed or emitted together, each as long as the longest among them."""


class RankChanges:
    """Compares lists of row ids, int64[keys, at most rank_end], best first, NO_ROW where a list ends. `key_groups` has those of
    keys.

    State, with `holds_history`: the key groups whose lists have been emitted."""

    def __init__(
        self, spec: RankSpec, context: OperatorContext, key_groups: Callable[[Array], Array]
    ) -> None:
        self._spec = spec
        self._key_groups = key_groups
        self._handed_over = HandedOver(context.state.scope, context.parallelism, holds=spec.holds_history)
        if spec.holds_history:
            context.state.add(self._handed_over)
        self._mode = context.output_mode
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)

    def emit(self, keys: Array, before: Array, after: Array, rows: Rows, output: Output) -> None:
        """Emit the changes of the ranks from rank_start to rank_end of these keys, unless they are held. `rows` must still
        hold the rows of `before`."""
        if not self._handed_over.is_complete:
            # Of a restored state some may have been emitted.
            is_emitted = self._handed_over.of(self._key_groups(keys))
            before, after = before[is_emitted], after[is_emitted]
        self._emit(before, after, rows, output)

    def hand_over(
        self, keys: Callable[[], Array], lists: Callable[[Array], Array], rows: Rows, output: Output
    ) -> None:
        """Emit the lists of all keys that have been held: the histories of the statement have ended."""
        for held in self._handed_over.take_held(keys, self._key_groups, KEYS_AT_ONCE):
            after = lists(held)
            self._emit(np.full_like(after, NO_ROW), after, rows, output)

    def _emit(self, before: Array, after: Array, rows: Rows, output: Output) -> None:
        ids, ranks, kinds = (
            self._by_rank(before, after) if self._spec.outputs_rank else self._by_row(before, after)
        )
        if len(ids) == 0:
            return
        columns = list(rows.gather(ids).columns)
        if self._spec.outputs_rank:
            columns.append(to_array(pa.int64(), ranks))
        if self._mode is not ChangelogMode.INSERT_ONLY:
            columns.append(to_array(pa.int8(), kinds))
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _by_rank(self, before: Array, after: Array) -> tuple[Array, Array, Array]:
        """Per rank: -U then +U where its row is replaced, +I where the rank is new, -D where it no longer exists."""
        first = self._spec.rank_start - 1
        most = 2 * before.shape[0] * max(0, before.shape[1] - first)
        ids, ranks = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        kinds = np.empty(most, dtype=np.int8)
        keeps_updates_before = self._mode is not ChangelogMode.UPSERT
        count = rank_changes_into(before, after, first, keeps_updates_before, ids, ranks, kinds)
        return ids[:count], ranks[:count], kinds[:count]

    def _by_row(self, before: Array, after: Array) -> tuple[Array, Array, Array]:
        """Per row: -D where it leaves the list, +I where it enters it; a row that only changes its rank is not emitted."""
        shown = slice(self._spec.rank_start - 1, self._spec.rank_end)
        before, after = np.ascontiguousarray(before[:, shown]), np.ascontiguousarray(after[:, shown])
        leaving, entering = before[_missing(before, after)], after[_missing(after, before)]
        ids = np.concatenate([leaving, entering])
        kinds = np.full(len(ids), RowKind.INSERT, dtype=np.int8)
        kinds[: len(leaving)] = RowKind.DELETE
        return ids, ids, kinds


def _missing(items: Array, others: Array) -> Array:
    """bool, shaped as `items`: whether there is an id that is not in the same row of `others`."""
    if items.shape[1] > _WIDTH_MAX:
        # An id belongs to one key.
        return (items != NO_ROW) & ~np.isin(items, others)
    is_missing = np.empty(items.shape, dtype=bool)
    missing_in_row(items, others, NO_ROW, is_missing)
    return is_missing
