"""State with one entry per key: a key index and columns by slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.index import KeyIndex
from runtime.state.arrays import Array
from runtime.state.key_group_column import slot_key_groups
from runtime.state.operator_state import StateScope
from runtime.state.slot_columns import SlotColumn, SlotPart, unique_names
from runtime.state.snapshot import KEY_GROUP_COLUMN, SavedTables
from runtime.state.state_ttl import TOUCHED_COLUMN, StateTtl

SLOT_COLUMN = "$slot"
_SAVED_ROWS = 1 << 18


class KeyedTable:
    """A map of keys to entries, for whole batches of keys; an entry is a slot, and its values are those of `columns` there.

    Without key columns the table has one entry, in slot 0, from its first use on; such an operator runs in one subtask.
    An entry expires `ttl_ms` after it was last written (0: never). Its columns are emptied when it is forgotten.
    Saved as one table: key group, $touched_ms (with a TTL), $slot (with parts), keys, columns; and one table for each of
    `parts`, whose $slot points to the entry. State: the index, the columns with their parts, and a time per slot with a TTL.
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
        if self._index is None:
            slots, is_new = np.zeros(1, dtype=np.int64), np.array([not self._has_only_entry])
            self._has_only_entry = True
            self._resize(1)
            return slots, is_new
        slots, is_new = self._index.get_or_insert(key_columns)
        self._resize(self._index.slot_count)
        return slots, is_new

    def _resize(self, slots: int) -> None:
        if slots > self._slot_count:
            self._slot_count = slots
            for column in self._columns:
                column.resize(slots)

    def writing(self, slots: Array) -> None:
        """Call this once per batch with the distinct slots that are written."""
        self._ttl.touch(slots)

    def forget(self, slots: Array) -> None:
        """Drop the entries of these distinct slots."""
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

    # -- what the runtime calls --------------------------------------------------------------------

    @property
    def next_sweep_ms(self) -> int | None:
        return self._ttl.next_sweep_ms

    def expire(self) -> int:
        slots = self._ttl.take_expired()
        self._drop(slots)
        return len(slots)

    def nbytes(self) -> int:
        index = 0 if self._index is None else self._index.nbytes
        return index + self._ttl.nbytes() + sum(column.nbytes() for column in self._columns)

    def save(self) -> SavedTables:
        slots = self.slots()
        names = self.schema.names
        # Piece by piece: as one array, strings may be too long for Arrow.
        pieces = [
            self._saved_entries(names, slots[start : start + _SAVED_ROWS])
            for start in range(0, max(len(slots), 1), _SAVED_ROWS)
        ]
        keyed = {self.name: pa.concat_tables(pieces)}
        if self._parts:
            group_of_slot = np.zeros(self._slot_count, dtype=np.int32)
            group_of_slot[slots] = slot_key_groups(self._index, slots, self._scope.max_parallelism)
            keyed |= {f"{self.name}.{name}": _saved_part(p, group_of_slot) for name, p in self._parts.items()}
        return SavedTables(keyed=keyed)

    def _saved_entries(self, names: list[str], slots: Array) -> pa.Table:
        groups = slot_key_groups(self._index, slots, self._scope.max_parallelism)
        saved: dict[str, pa.Array] = {KEY_GROUP_COLUMN: pa.array(groups)}
        if self._has_ttl:
            saved[TOUCHED_COLUMN] = to_array(pa.int64(), self._ttl.touched_ms(slots))
        if self._parts:
            saved[SLOT_COLUMN] = to_array(pa.int64(), slots)
        values = [array for column in self._columns for array in column.columns(slots)]
        return pa.table(saved | dict(zip(names, [*self.keys(slots), *values], strict=True)))

    def load(self, saved: SavedTables) -> None:
        # Batch by batch: as one array, strings of several subtasks may be too long for Arrow.
        slots = [self._load_entries(batch) for batch in saved.batches(self.name)]
        if self._parts and slots:
            self._load_parts(saved, np.concatenate(slots))

    def _load_entries(self, entries: pa.RecordBatch) -> Array:
        has_times = TOUCHED_COLUMN in entries.schema.names
        columns = entries.columns[1 + has_times + bool(self._parts) :]
        slots, _ = self.get_or_create(columns[: len(self._keys)])
        self._load_times(slots, entries.column(TOUCHED_COLUMN) if has_times else None)
        first = len(self._keys)
        for column in self._columns:
            width = len(column.fields)
            column.load(slots, columns[first : first + width])
            first += width
        return slots

    def _load_times(self, slots: Array, touched_ms: pa.Array | None) -> None:
        if touched_ms is None:
            # Saved without a TTL: the entries' time begins now.
            self._ttl.touch(slots)
        else:
            self._ttl.load(slots, view_values(touched_ms, np.int64))

    def _load_parts(self, saved: SavedTables, slots: Array) -> None:
        # Slot numbers of several old subtasks overlap, but (key group, slot) is unique: one subtask owned the key group.
        old = KeyIndex([pa.int32(), pa.int64()])
        found = [
            old.get_or_insert([entries.column(0), entries.column(SLOT_COLUMN)])[0]
            for entries in saved.batches(self.name)
        ]
        slot_of_old = np.zeros(len(slots), dtype=np.int64)
        slot_of_old[np.concatenate(found)] = slots
        for name, part in self._parts.items():
            for entries in saved.batches(f"{self.name}.{name}"):
                part.load(slot_of_old[old.get(entries.columns[:2])], entries.columns[2:])


def _saved_part(part: SlotPart, group_of_slot: Array) -> pa.Table:
    owners, columns = part.save()
    fixed = {KEY_GROUP_COLUMN: pa.array(group_of_slot[owners]), SLOT_COLUMN: to_array(pa.int64(), owners)}
    return pa.table(fixed | dict(zip((field.name for field in part.fields), columns, strict=True)))
