"""State with one entry per key: a key index and columns by slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.state.operator_state import OnExpiring, StateScope, nothing_expires
from sqlstream.runtime.state.snapshots.changes import Changes, SavedByChanges
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.snapshot import SavedTables, key_group_column, slot_key_groups
from sqlstream.runtime.state.state_ttl import TOUCHED_COLUMN, StateTtl
from sqlstream.runtime.state.storage.arrays import Array, unique_names
from sqlstream.runtime.state.storage.slot_columns import SlotColumn, SlotPart


class KeyedTable(SavedByChanges):
    """A map of keys to entries, for whole batches of keys; an entry is a slot, and its values are those of `columns` there.

    Without key columns the table has one entry, in slot 0, from its first use on; such an operator runs in one subtask.
    The first `placed_by` keys (-1: all) are those by which rows are distributed, and decide the key group of an entry.
    An entry expires `ttl_ms` after it was last written (0: never): `on_expiring` is called with this table and the slots before.
    Its columns are emptied when it is forgotten.
    Saved as one table: the fixed columns, $touched_ms (with a TTL), keys, columns; and one table for each of `parts`, whose
    $owner is the slot of the entry. State: the index, the columns with their parts, a time per slot with a TTL, and which slots
    have changed.
    """

    def __init__(
        self,
        name: str,
        keys: pa.Schema,
        columns: Sequence[SlotColumn],
        scope: StateScope,
        *,
        ttl_ms: int = 0,
        parts: Mapping[str, SlotPart] | None = None,
        placed_by: int = -1,
    ) -> None:
        self.name = name
        self._keys = keys
        self._columns = tuple(columns)
        self._parts = dict(parts or {})
        self._scope = scope
        self._has_ttl = ttl_ms > 0
        self._ttl = StateTtl(ttl_ms, scope.now_ms)
        self._index = KeyIndex(keys.types) if len(keys) else None
        self._slot_count = 0
        self._has_only_entry = False
        self.on_expiring: OnExpiring = nothing_expires
        self._changes = Changes(self)
        self._key_groups = _key_groups_by(self._index, scope.max_parallelism, placed_by)
        for part in self._parts.values():
            part.belong_to(self._changes.lock, self._key_groups)
        super().__init__(
            {name: self._changes, **{f"{name}.{part}": p.changes for part, p in self._parts.items()}}
        )

    @property
    def schema(self) -> pa.Schema:
        """The key columns, then the value columns, under names that are unique."""
        fields = [*self._keys, *(field for column in self._columns for field in column.fields)]
        names = unique_names([field.name for field in fields])
        return pa.schema([field.with_name(name) for field, name in zip(fields, names, strict=True)])

    def __len__(self) -> int:
        return int(self._has_only_entry) if self._index is None else len(self._index)

    # -- access ------------------------------------------------------------------------------------

    def get_or_create(self, key_columns: Sequence[pa.Array]) -> tuple[Array, Array]:
        """(slots int64[n], is_new bool[n]): the entry of each row's key; is_new marks the first row of each absent key.

        Without key columns there is one row, that of the only entry.
        """
        with self._changes.lock:
            if self._index is None:
                slots, is_new = np.zeros(1, dtype=np.int64), np.array([not self._has_only_entry])
                self._has_only_entry = True
            else:
                slots, is_new = self._index.get_or_insert(key_columns)
            self._resize(self.slot_count)
            if self._changes.is_counting:
                self._changes.created(slots[is_new])
            return slots, is_new

    def find(self, key_columns: Sequence[pa.Array]) -> Array:
        """int64[n]: the entry of each row's key, -1 where there is none."""
        if self._index is None:
            return np.array([0 if self._has_only_entry else -1])
        return self._index.get(key_columns)

    def _resize(self, slots: int) -> None:
        if slots > self._slot_count:
            self._slot_count = slots
            for column in self._columns:
                column.resize(slots)

    def writing(self, slots: Array) -> None:
        """Call this once per batch with the distinct slots that are written, before they are."""
        with self._changes.lock:
            self._changes.writing(slots)
            self._ttl.touch(slots)

    def forget(self, slots: Array) -> None:
        """Drop the entries of these distinct slots."""
        with self._changes.lock:
            self._changes.forgetting(slots)
            self._ttl.forget(slots)
            self._drop(slots)

    def _drop(self, slots: Array) -> None:
        for column in self._columns:
            column.reset(slots)
        if self._index is not None:
            self._index.delete(slots)
        elif len(slots):
            self._has_only_entry = False

    def slots(self) -> Array:
        """int64[len(self)]: the slots of all entries, ascending."""
        return np.arange(len(self)) if self._index is None else self._index.slots()

    def keys(self, slots: Array) -> list[pa.Array]:
        """The key columns of these entries."""
        return [] if self._index is None else self._index.keys(slots)

    def stored_keys(self, number: int) -> tuple[Array, Array, int]:
        """Key column `number` for kernels, of a table that has one: see `KeyIndex.stored`."""
        assert self._index is not None
        return self._index.stored(number)

    # -- what the runtime calls --------------------------------------------------------------------

    @property
    def next_sweep_ms(self) -> int | None:
        return self._ttl.next_sweep_ms

    def expire(self) -> int:
        with self._changes.lock:
            slots = self._ttl.take_expired(self._expiring)
            self._drop(slots)
            return len(slots)

    def _expiring(self, slots: Array) -> None:
        self._changes.forgetting(slots)
        self.on_expiring(self, slots)

    def nbytes(self) -> int:
        index = 0 if self._index is None else self._index.nbytes
        columns = sum(column.nbytes() for column in self._columns)
        return index + self._ttl.nbytes() + columns + self._changes.nbytes

    def load(self, saved: SavedTables) -> None:
        # Batch by batch: as one array, strings of several subtasks may be too long for Arrow.
        if self._index is not None:
            # At once: arrays that double on the way leave most of their pages small. But nothing shrinks, and most rows of
            # increments replace others.
            rows = saved.whole_rows(self.name)
            self._index.reserve(rows)
            self._resize(rows)
        identities, slots = [], []
        widths = [len(column.fields) for column in self._columns]
        for entries in saved.batches(self.name):
            slots.append(self._load_entries(entries, widths))
            if self._parts:
                identities.append(entries.columns[:2])
        if identities:
            self._load_parts(saved, identities, np.concatenate(slots))

    def _load_entries(self, entries: pa.RecordBatch, widths: list[int]) -> Array:
        first = FIXED_COLUMNS
        has_times = entries.num_columns > first + len(self._keys) + sum(widths)
        columns = entries.columns[first + has_times :]
        slots = self._insert(columns[: len(self._keys)])
        if has_times:
            self._ttl.load(slots, view_values(entries.column(first), np.int64))
        else:
            self._ttl.touch(slots)
        first = len(self._keys)
        for column, width in zip(self._columns, widths, strict=True):
            column.load(slots, columns[first : first + width])
            first += width
        return slots

    def _insert(self, key_columns: list[pa.Array]) -> Array:
        """The slots of saved keys: each is saved once, by the one subtask that owned its key group."""
        if self._index is None:
            return self.get_or_create(key_columns)[0]
        with self._changes.lock:
            slots = self._index.insert_new(key_columns)
            self._resize(self.slot_count)
            return slots

    def _load_parts(self, saved: SavedTables, identities: list[list[pa.Array]], slots: Array) -> None:
        # Slot numbers of several old subtasks overlap, but (key group, slot) is unique: one subtask owned the key group.
        old = KeyIndex([pa.int32(), pa.int32()])
        found = [old.get_or_insert(columns)[0] for columns in identities]
        slot_of_old = np.zeros(len(slots), dtype=np.int64)
        slot_of_old[np.concatenate(found)] = slots
        for name, part in self._parts.items():
            for values in saved.batches(f"{self.name}.{name}"):
                owners = old.get([values.column(0), values.column(FIXED_COLUMNS)])
                part.load(slot_of_old[owners], values.columns[FIXED_COLUMNS + 1 :])

    # -- what its changes read: implements `ChangeSource` ---------------------------------------------

    @property
    def slot_count(self) -> int:
        return 1 if self._index is None else self._index.slot_count

    @property
    def row_count(self) -> int:
        return len(self)

    def is_live(self, slots: Array) -> Array:
        if self._index is None:
            return np.full(len(slots), self._has_only_entry)
        return self._index.is_live(slots)

    def key_groups(self, slots: Array) -> Array:
        return self._key_groups(slots)

    @property
    def saved_names(self) -> list[str]:
        return [*([TOUCHED_COLUMN] if self._has_ttl else []), *self.schema.names]

    def saved(self, slots: Array) -> tuple[Array, list[pa.Array]]:
        times = [to_array(pa.int64(), self._ttl.touched_ms(slots))] if self._has_ttl else []
        values = [array for column in self._columns for array in column.columns(slots)]
        return slots, [*times, *self.keys(slots), *values]


def _key_groups_by(index: KeyIndex | None, max_parallelism: int, placed_by: int) -> Callable[[Array], Array]:
    # Of the index alone: a reference to the table would keep both until the garbage collector comes.
    if index is None or placed_by < 0:
        return lambda slots: slot_key_groups(index, slots, max_parallelism)
    return lambda slots: view_values(
        key_group_column(index.keys(slots, range(placed_by)), len(slots), max_parallelism), np.int32
    )
