"""The rows that a changelog leaves, by key: the state of a Top-N over rows that may be retracted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.chains import Chains
from runtime.kernels.index import KeyIndex
from runtime.state.arrays import Array, grown
from runtime.state.key_group_column import slot_key_groups
from runtime.state.operator_state import StateScope
from runtime.state.row_multiset import RowMultiset
from runtime.state.snapshot import KEY_GROUP_COLUMN, SavedTables
from runtime.state.state_ttl import TOUCHED_COLUMN, StateTtl

NO_NUMBER = -1


class KeyedMultiset:
    """Distinct rows with counts under their keys, and per key a list of numbers that the operator derives from its rows.

    `keys` are columns of the rows; without any all rows have one key, with slot 0. `rows` are numbered by row slots, keys by key
    slots; `lists` is int64[key slots, list_length], NO_NUMBER where there is none. The lists are not saved: the operator
    makes them again from the rows.
    State: all rows with a count, by key, and the lists. A row is forgotten when its count is zero, a key with its last row or
    `ttl_ms` (0: never) after it was last written.
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
    ) -> None:
        self.name = name
        self.rows = RowMultiset(schema)
        self.lists: Array = np.full((0, list_length), NO_NUMBER, dtype=np.int64)
        self._keys = keys
        self._scope = scope
        self._index = KeyIndex([schema.field(k).type for k in keys]) if keys else None
        self._chains = Chains()
        self._ttl = StateTtl(ttl_ms, scope.now_ms)

    # -- what operators call -------------------------------------------------------------------------

    def apply(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """Add and retract the batch's rows; returns the key slot and the row slot of each. Rows of count zero remain until
        `sweep`."""
        keys = self._key_slots([batch.column(k) for k in self._keys], batch.num_rows)
        row_slots, new_rows = self.rows.apply(batch)
        self._chains.append(keys[new_rows], row_slots[new_rows])
        return keys, row_slots

    def writing(self, keys: Array) -> None:
        """Call this once per batch for the distinct key slots that it changes."""
        self._ttl.touch(keys)

    def match(self, keys: Array) -> tuple[Array, Array]:
        """(positions int64[m], row slots int64[m]): all rows of these keys, by position in `keys`, then by age."""
        return self._chains.match(keys)

    def sweep(self, row_slots: Array) -> None:
        """Forget the rows among these whose count is zero, and the keys that have no row left."""
        emptied = self._chains.remove(self.rows.sweep(row_slots))
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
            keys, _ = self._index.get_or_insert(columns)
        self.lists = grown(self.lists, int(keys.max(initial=0)) + 1, NO_NUMBER)
        return keys

    def _delete(self, keys: Array) -> None:
        self.lists[keys] = NO_NUMBER
        if self._index is not None:
            self._index.delete(keys)

    # -- what the runtime calls ----------------------------------------------------------------------

    def save(self) -> SavedTables:
        """Key group, time and count, then the columns."""
        names = [KEY_GROUP_COLUMN, TOUCHED_COLUMN, *self.rows.saved_names]
        batches = []
        for row_slots, columns in self.rows.saved_parts():
            keys = self._chains.slots_of(row_slots)
            groups = slot_key_groups(self._index, keys, self._scope.max_parallelism)
            fixed = [to_array(pa.int32(), groups), to_array(pa.int64(), self._ttl.touched_ms(keys))]
            batches.append(pa.RecordBatch.from_arrays([*fixed, *columns], names=names))
        return SavedTables(keyed={self.name: pa.Table.from_batches(batches)} if batches else {})

    def load(self, saved: SavedTables) -> None:
        for part in saved.batches(self.name):
            batch, row_slots = self.rows.load_part(part.columns[2:])
            keys = self._key_slots([batch.column(k) for k in self._keys], batch.num_rows)
            self._chains.append(keys, row_slots)
            self._ttl.load(keys, view_values(part.column(1), np.int64))

    def nbytes(self) -> int:
        index = 0 if self._index is None else int(self._index.nbytes)
        return index + self.rows.nbytes() + self._ttl.nbytes() + int(self.lists.nbytes + self._chains.nbytes)

    @property
    def next_sweep_ms(self) -> int | None:
        return self._ttl.next_sweep_ms

    def expire(self) -> int:
        keys = self._ttl.take_expired()
        _, row_slots = self._chains.match(keys)
        self._chains.remove(row_slots)
        self.rows.delete(row_slots)
        self._delete(keys)
        return len(keys)
