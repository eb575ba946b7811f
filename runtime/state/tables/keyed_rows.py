"""State with many rows per key, for joins: a key index, one chain of row ids per key, and the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from sqlstream.runtime.evaluate.nested_keys import identities, identity_types
from sqlstream.runtime.kernels.accumulate import add_into, add_not_below_zero
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.group import group_repeated
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.slots.chains import Chains
from sqlstream.runtime.state.operator_state import OnExpiring, StateScope, nothing_expires
from sqlstream.runtime.state.snapshots.changes import Changes, SavedByChanges
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.snapshot import SavedTables, slot_key_groups
from sqlstream.runtime.state.state_ttl import TOUCHED_COLUMN, StateTtl
from sqlstream.runtime.state.storage.arrays import Array, distinct
from sqlstream.runtime.state.storage.columns import RowStore

_NUMBERS = ("$count", "$matches", TOUCHED_COLUMN)


class KeyedRows(SavedByChanges):
    """A multi-map of keys to rows, for whole batches; with `counts_matches` each row has a number of matches.

    `keys` are columns of the rows; without any all rows have one key. NULL keys match NULL keys: an operator with SQL's `=`
    must leave those rows out itself. Rows of a key keep their order of arrival, until a restore. A row id is one row; with
    `is_retracting` one distinct row with a count, which is looked up by its content. The retraction of a row that is not there
    (it has expired) is ignored, as in Flink.
    State: index, chains, rows, the numbers of each row, the sum of their counts, and which rows have changed. A row is forgotten
    when its count is zero or `ttl_ms` (0: never) after it came, changed its count or was touched, a key with its last row; memory
    of forgotten rows is reused. As long as an operator sets `keeps_all`, none is forgotten for its age. `on_expired` is called
    with how many are, and before that `on_expiring` with this table and their ids.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: tuple[int, ...],
        scope: StateScope,
        *,
        is_retracting: bool = False,
        counts_matches: bool = False,
        ttl_ms: int = 0,
    ) -> None:
        self.name = name
        self.schema = schema
        self._keys = keys
        self._scope = scope
        # Without key columns all rows have the same constant key.
        self._index = KeyIndex([schema.field(k).type for k in keys] or [pa.int8()])
        self._chains = Chains()
        self._rows = RowStore(schema)
        self._identity = KeyIndex(identity_types(schema)) if is_retracting else None
        self._row_of_slot = GrowingArray(np.int64)
        self._slot_of_row = GrowingArray(np.int64)
        self._counts = GrowingArray(np.int64)
        self._matches = GrowingArray(np.int64) if counts_matches else None
        self._ttl = StateTtl(ttl_ms, scope.now_ms)
        self._changes = Changes(self)
        self._held = 0
        self.keeps_all = False
        self.on_expired: Callable[[int], None] = lambda rows: None
        self.on_expiring: OnExpiring = nothing_expires
        super().__init__({name: self._changes})

    def __len__(self) -> int:
        return len(self._rows)

    # -- probing -----------------------------------------------------------------------------------

    def find(self, keys: list[pa.Array], rows: int) -> Array:
        """int64[rows]: the slot of each probe row's key, -1 where no row has that key."""
        if not keys:
            return self._index.get([_constant(rows)])
        types = self._index.types
        return self._index.get([k if k.type == t else k.cast(t) for k, t in zip(keys, types, strict=True)])

    def match(self, slots: Array) -> tuple[Array, Array]:
        """(probe_indices int64[m], row_ids int64[m]): every pair of a found slot and a row kept under its key, ordered by
        probe, then by age."""
        return self._chains.match(slots)

    def match_counts(self, slots: Array) -> Array:
        """int64[n]: the number of row ids under each found slot's key."""
        return self._chains.counts(slots)

    def gather(self, row_ids: Array) -> pa.RecordBatch:
        """The rows of live ids, in their order, repeats allowed."""
        return self._rows.gather(row_ids)

    def columns(self, row_ids: Array, numbers: Sequence[int]) -> list[pa.Array]:
        """These columns of the rows of live ids."""
        return self._rows.columns(row_ids, numbers)

    def counts_of(self, row_ids: Array) -> Array:
        """int64[n]: how often each row is there."""
        return (
            np.ones(len(row_ids), dtype=np.int64) if self._identity is None else self._counts.values[row_ids]
        )

    def key_slots(self) -> Array:
        """The slots of all keys."""
        return self._index.slots()

    def slots_of(self, row_ids: Array) -> Array:
        """int64[n]: the slot of each row's key; -1 where a row is forgotten."""
        return self._chains.slots_of(row_ids)

    def last_ids(self, slots: Array, count: int) -> Array:
        """int64[n, count]: the youngest rows of each key, which has as many, by age."""
        return self._chains.last_rows(slots, count)

    def row_ids(self) -> Array:
        """The ids of all rows."""
        return np.flatnonzero(self.is_live(np.arange(self.slot_count)))

    # -- changing ----------------------------------------------------------------------------------

    def append(self, batch: pa.RecordBatch) -> Array:
        """Add rows, and return their ids. Only without `is_retracting`."""
        assert self._identity is None
        with self._changes.lock:
            row_ids = self._append(batch)
            self._ttl.touch(row_ids)
            return row_ids

    def touch(self, row_ids: Array) -> None:
        """Have the time to live of these distinct rows begin anew."""
        with self._changes.lock:
            self._changes.writing(row_ids)
            self._ttl.touch(row_ids)

    def remove(self, row_ids: Array) -> None:
        """Forget rows, each once, whatever their counts."""
        with self._changes.lock:
            self._forget(row_ids)

    def apply(self, batch: pa.RecordBatch, signs: Array, matches: Array) -> int:
        """Add (`signs` +1) or retract (-1) rows; `matches` is the number of matches of each row, where these are counted. Returns
        how many rows are not there beyond those before: retractions, and what they took away."""
        if batch.num_rows == 0:
            return 0
        with self._changes.lock:
            if self._identity is None:
                row_ids = self._append(batch)
                self._set_matches(row_ids, matches)
                self._ttl.touch(row_ids)
                return 0
            return batch.num_rows - self._apply(batch, signs, matches)

    def _apply(self, batch: pa.RecordBatch, signs: Array, matches: Array) -> int:
        """Returns how many rows there are more than before."""
        row_ids = self._find_or_append(batch)
        self._changes.writing(row_ids)
        touched = distinct(row_ids)
        before = int(self._counts.values[touched].sum())
        # Row by row: a retraction of a row that has expired takes nothing from one that is added after it.
        add_not_below_zero(self._counts.values, row_ids, signs)
        counts = self._counts.values[touched]
        gained = int(counts.sum()) - before
        self._held += gained
        self._set_matches(row_ids, matches)
        self._ttl.touch(touched)
        self._forget(touched[counts <= 0])
        return gained

    def add_matches(self, row_ids: Array, amounts: Array) -> tuple[Array, Array, Array]:
        """Add `amounts` to the numbers of matches; returns the distinct row ids, their numbers before and those after."""
        assert self._matches is not None
        touched = distinct(row_ids)
        matches = self._matches.values
        before = matches[touched]
        with self._changes.lock:
            self._changes.writing(touched)
            add_into(matches, np.ascontiguousarray(row_ids), amounts)
        return touched, before, matches[touched]

    def _append(self, batch: pa.RecordBatch) -> Array:
        keys = [batch.column(k) for k in self._keys] or [_constant(batch.num_rows)]
        repeated = group_repeated(keys)
        if repeated is None:
            slots, _ = self._index.get_or_insert(keys)
        else:
            groups, first_rows = repeated
            slots = self._index.get_or_insert([key.take(pa.array(first_rows)) for key in keys])[0].take(
                groups
            )
        row_ids = self._rows.append(batch)
        self._changes.created(row_ids)
        self._chains.append(slots, row_ids)
        return row_ids

    def _set_matches(self, row_ids: Array, matches: Array) -> None:
        if self._matches is not None:
            self._matches.reserve(self._rows.id_count)
            self._matches.values[row_ids] = matches

    def _find_or_append(self, batch: pa.RecordBatch) -> Array:
        """The id of each row; the count of a row that was not there is 0."""
        assert self._identity is not None
        slots, is_new = self._identity.get_or_insert(identities(batch.columns))
        self._row_of_slot.reserve(self._identity.slot_count)
        new = np.flatnonzero(is_new)
        added = self._append(batch.take(to_array(pa.int64(), new)))
        self._row_of_slot.values[slots[new]] = added
        self._slot_of_row.reserve(self._rows.id_count)
        self._slot_of_row.values[added] = slots[new]
        self._counts.reserve(self._rows.id_count)
        self._counts.values[added] = 0
        return self._row_of_slot.values[slots]

    def _forget(self, row_ids: Array) -> None:
        if len(row_ids) == 0:
            return
        self._changes.forgetting(row_ids)
        if self._identity is not None:
            self._held -= int(self._counts.values[row_ids].sum())
            self._identity.delete(self._slot_of_row.values[row_ids])
        self._ttl.forget(row_ids)
        self._index.delete(self._chains.remove(row_ids))
        self._rows.delete(row_ids)

    # -- what the runtime calls --------------------------------------------------------------------

    def load(self, saved: SavedTables) -> None:
        for batch in saved.batches(self.name):
            counts, matches, touched_ms = (
                view_values(batch.column(FIXED_COLUMNS + i), np.int64) for i in range(len(_NUMBERS))
            )
            columns = batch.columns[FIXED_COLUMNS + len(_NUMBERS) :]
            rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
            if self._identity is None:
                row_ids = self._append(rows)
            else:
                row_ids = self._find_or_append(rows)
                self._counts.values[row_ids] = counts
                self._held += int(counts.sum())
            self._set_matches(row_ids, matches)
            self._ttl.load(row_ids, touched_ms)

    def nbytes(self) -> int:
        identity = 0 if self._identity is None else int(self._identity.nbytes)
        matches = 0 if self._matches is None else self._matches.nbytes
        numbers = self._counts.nbytes + self._row_of_slot.nbytes + self._slot_of_row.nbytes + matches
        structure = self._index.nbytes + self._chains.nbytes + self._rows.nbytes
        return int(structure) + identity + int(numbers) + self._ttl.nbytes() + self._changes.nbytes

    @property
    def next_sweep_ms(self) -> int | None:
        return None if self.keeps_all else self._ttl.next_sweep_ms

    def expire(self) -> int:
        if self.keeps_all:
            return 0
        with self._changes.lock:
            row_ids = self._ttl.take_expired(self._expiring)
            if len(row_ids):
                self.on_expired(int(self.counts_of(row_ids).sum()))
            self._forget(row_ids)
            return len(row_ids)

    def _expiring(self, row_ids: Array) -> None:
        self._changes.writing(row_ids)
        self.on_expiring(self, row_ids)

    # -- what its changes read: implements `ChangeSource` ---------------------------------------------

    @property
    def slot_count(self) -> int:
        return self._rows.id_count

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def held(self) -> int:
        """All rows, each as often as it is there."""
        return len(self._rows) if self._identity is None else self._held

    def is_live(self, slots: Array) -> Array:
        return self._chains.slots_of(slots) >= 0

    def key_groups(self, slots: Array) -> Array:
        keys = self._chains.slots_of(slots)
        return slot_key_groups(self._index if self._keys else None, keys, self._scope.max_parallelism)

    @property
    def saved_names(self) -> list[str]:
        return [*_NUMBERS, *self.schema.names]

    def saved(self, slots: Array) -> tuple[Array, list[pa.Array]]:
        matches = (
            np.zeros(len(slots), dtype=np.int64) if self._matches is None else self._matches.values[slots]
        )
        numbers = (self.counts_of(slots), matches, self._ttl.touched_ms(slots))
        rows = self._rows.gather(slots)
        return slots, [*(to_array(pa.int64(), n) for n in numbers), *rows.columns]


def _constant(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, dtype=np.int8))
