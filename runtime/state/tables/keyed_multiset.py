"""Rows that may be retracted, with their counts, by key; and in order within each key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.expressions import SortKey
from sqlstream.runtime.evaluate.nested_keys import identities, identity_types
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.keys.row_order import RowOrder
from sqlstream.runtime.kernels.slots.chains import Chains
from sqlstream.runtime.state.operator_state import OnExpiring, StateScope, nothing_expires
from sqlstream.runtime.state.snapshots.changes import SavedByChanges
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.snapshot import SavedTables, slot_key_groups
from sqlstream.runtime.state.state_ttl import TOUCHED_COLUMN, StateTtl
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.id_lists import IdLists
from sqlstream.runtime.state.tables.row_multiset import Arrival, RowMultiset


class KeyedMultiset(SavedByChanges):
    """Distinct rows with counts under their keys, and per key a list of ids that the operator derives from its rows.

    `keys` are columns of the rows, nested ones found by their encodings; without any all rows have one key, with slot 0. `rows`
    are numbered by row slots, keys by key slots; `lists` has at most `list_length` ids per key slot. The lists are not saved:
    the operator makes them again from the rows.
    State: all rows with a count, by key, and the lists. A row is forgotten when its count is zero, a key with its last row or
    `ttl_ms` (0: never) after it was last written; rows that expire are counted each as often as it is there.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: tuple[int, ...],
        scope: StateScope,
        *,
        list_length: int,
        ttl_ms: int = 0,
        arrival: Arrival = Arrival.OF_ENTRY,
    ) -> None:
        self.name = name
        self.rows = RowMultiset(schema, source=self, arrival=arrival)
        self.lists = IdLists(list_length, 0)
        self._keys = keys
        self._scope = scope
        self._index = KeyIndex(identity_types(pa.schema([schema.field(k) for k in keys]))) if keys else None
        self._chains = Chains()
        self._has_ttl = ttl_ms > 0
        self._ttl = StateTtl(ttl_ms, scope.now_ms)
        self._changes = self.rows.changes
        self._expired = 0
        self.on_expiring: OnExpiring = nothing_expires
        super().__init__({name: self._changes})

    # -- what operators call -------------------------------------------------------------------------

    def apply(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """Add and retract the batch's rows; returns the key slot and the row slot of each. Rows of count zero remain until
        `sweep`."""
        with self._changes.lock:
            keys = self._key_slots([batch.column(k) for k in self._keys], batch.num_rows)
            row_slots, new_rows = self.rows.apply(batch)
            self._chains.append(keys[new_rows], row_slots[new_rows])
            return keys, row_slots

    def writing(self, keys: Array) -> None:
        """Call this once per batch for the distinct key slots that it changes."""
        with self._changes.lock:
            self._ttl.touch(keys)

    def match(self, keys: Array) -> tuple[Array, Array]:
        """(positions int64[m], row slots int64[m]): all rows of these keys, by position in `keys`, then by age."""
        return self._chains.match(keys)

    def keys_of(self, row_slots: Array) -> Array:
        """int64[n]: the key slot of each row."""
        return self._chains.slots_of(row_slots)

    def find(self, columns: list[pa.Array]) -> Array:
        """int64[n]: the key slot of each key, nested columns of which are encoded; -1 where it has no row."""
        assert self._index is not None
        return self._index.get(columns)

    def first_rows(self, keys: Array) -> Array:
        """int64[n]: the oldest row of each key."""
        return self._chains.first_rows(keys)

    @property
    def key_slot_count(self) -> int:
        """No key has a slot as high."""
        return 1 if self._index is None else self._index.slot_count

    @property
    def chains(self) -> tuple[Array, Array]:
        """The rows of each key, for kernels: see `Chains.links`."""
        return self._chains.links

    def sweep(self, row_slots: Array) -> None:
        """Forget the rows among these whose count is zero, and the keys that have no row left."""
        with self._changes.lock:
            self._removed(self.rows.sweep(row_slots))

    def forget(self, row_slots: Array) -> None:
        """Forget these distinct rows, whatever their counts, and the keys that have no row left."""
        with self._changes.lock:
            self.rows.delete(row_slots)
            self._removed(row_slots)

    def _removed(self, row_slots: Array) -> None:
        keys = np.unique(self._chains.slots_of(row_slots)) if self._has_ttl else None
        emptied = self._chains.remove(row_slots)
        if keys is not None:
            # The last touch of a key is saved with its rows, and the rows that it came with are gone.
            self._changes.writing(self._chains.first_rows(np.setdiff1d(keys, emptied)))
        self._ttl.forget(emptied)
        self._delete(emptied)

    def key_slots(self) -> Array:
        """The slots of all keys."""
        if self._index is not None:
            return self._index.slots()
        return np.arange(1 if len(self._chains) else 0)

    def _key_slots(self, columns: list[pa.Array], rows: int) -> Array:
        if self._index is None:
            keys = np.zeros(rows, dtype=np.int64)
        else:
            keys, _ = self._index.get_or_insert(identities(columns))
        self.lists.resize(int(keys.max(initial=0)) + 1)
        return keys

    def _delete(self, keys: Array) -> None:
        self.lists.clear(keys)
        if self._index is not None:
            self._index.delete(keys)

    # -- what the runtime calls ----------------------------------------------------------------------

    def load(self, saved: SavedTables) -> None:
        loaded = [self._load_part(batch) for batch in saved.batches(self.name)]
        if loaded:
            keys, row_slots = (np.concatenate(arrays) for arrays in zip(*loaded, strict=True))
            by_age = np.argsort(self.rows.sequence[row_slots], kind="stable")
            self._chains.append(keys[by_age], row_slots[by_age])

    def _load_part(self, part: pa.RecordBatch) -> tuple[Array, Array]:
        first = FIXED_COLUMNS
        batch, row_slots = self.rows.load_part(part.columns[first + 1 :])
        keys = self._key_slots([batch.column(k) for k in self._keys], batch.num_rows)
        self._ttl.load(keys, view_values(part.column(first), np.int64))
        return keys, row_slots

    def nbytes(self) -> int:
        index = 0 if self._index is None else int(self._index.nbytes)
        return (
            index + self.rows.nbytes() + self._ttl.nbytes() + self.lists.nbytes() + int(self._chains.nbytes)
        )

    @property
    def next_sweep_ms(self) -> int | None:
        return self._ttl.next_sweep_ms

    def expire(self) -> int:
        with self._changes.lock:
            keys = self._ttl.take_expired(self._expiring)
            _, row_slots = self._chains.match(keys)
            self._chains.remove(row_slots)
            self._delete(keys)
            expired, self._expired = self._expired, 0
            return expired

    def _expiring(self, keys: Array) -> None:
        _, row_slots = self._chains.match(keys)
        # A retraction that waits for its row is no row that is let go.
        there = row_slots[self.rows.counts[row_slots] > 0]
        self._expired = int(self.rows.counts[there].sum())
        self.on_expiring(self, there)
        self.rows.delete(row_slots)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    # -- what its changes read, by row slot: implements `ChangeSource` ---------------------------------

    @property
    def slot_count(self) -> int:
        return self.rows.slot_count

    @property
    def row_count(self) -> int:
        return self.rows.row_count

    def is_live(self, slots: Array) -> Array:
        return self.rows.is_live(slots)

    def key_groups(self, slots: Array) -> Array:
        return self.key_groups_of(self._chains.slots_of(slots))

    def key_groups_of(self, keys: Array) -> Array:
        """int32[n]: those of the keys with these slots."""
        return slot_key_groups(self._index, keys, self._scope.max_parallelism)

    @property
    def saved_names(self) -> list[str]:
        return [TOUCHED_COLUMN, *self.rows.saved_names]

    def saved(self, slots: Array) -> tuple[Array, list[pa.Array]]:
        touched_ms = self._ttl.touched_ms(self._chains.slots_of(slots))
        return slots, [to_array(pa.int64(), touched_ms), *self.rows.saved(slots)[1]]


class OrderedMultiset(KeyedMultiset):
    """A KeyedMultiset, named "rows", whose rows have places under their keys: by `order`, then by arrival.

    A row has a place from `enter` until `leave`, or until its key is forgotten: the operator calls them as the count of the row
    comes above zero and falls to it. With `is_on_demand` it may leave out keys, for the rows of which `arrange` makes up.
    State: as of KeyedMultiset, and a tree per key, which is made again from the rows and not saved.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: tuple[int, ...],
        scope: StateScope,
        order: Sequence[SortKey],
        *,
        list_length: int,
        ttl_ms: int = 0,
        arrival: Arrival = Arrival.OF_ENTRY,
        is_on_demand: bool = False,
    ) -> None:
        super().__init__("rows", schema, keys, scope, list_length=list_length, ttl_ms=ttl_ms, arrival=arrival)
        self._is_on_demand = is_on_demand
        self.order = RowOrder(self.rows.index, [(k.column, k.is_descending, k.is_nulls_first) for k in order])

    def enter(self, row_slots: Array) -> None:
        """Give places to rows that have none."""
        self.order.insert(self.keys_of(row_slots), row_slots, self.rows.sequence)

    def leave(self, row_slots: Array) -> None:
        """Take the places of rows."""
        self.order.remove(self.keys_of(row_slots), row_slots)

    def arrange(self, keys: Array) -> None:
        """Give places to all rows of keys of which none has one."""
        _, rows = self.match(keys)
        self.enter(rows[self.rows.counts[rows] > 0])

    def load(self, saved: SavedTables) -> None:
        super().load(saved)
        if not self._is_on_demand:
            self.arrange(self.key_slots())

    def nbytes(self) -> int:
        return super().nbytes() + self.order.nbytes

    def _delete(self, keys: Array) -> None:
        self.order.clear(keys)
        super()._delete(keys)
