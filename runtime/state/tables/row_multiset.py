"""Rows with counts, looked up by content: the table that a changelog describes."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, signs_of, without_row_kinds
from sqlstream.runtime.evaluate.nested_keys import identities, identity_types
from sqlstream.runtime.kernels.accumulate import add_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.hashing import hash_columns, key_groups
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.state.operator_state import NeverExpires, StateScope
from sqlstream.runtime.state.snapshots.changes import Changes, SavedByChanges
from sqlstream.runtime.state.snapshots.collection import ChangeSource
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.runtime.state.storage.arrays import Array, distinct, grown
from sqlstream.runtime.state.storage.nested_column import NestedColumn


class Arrival(enum.Enum):
    """What of an entry decides about its place: the row that made it, also when all its rows were retracted and one came again
    within a batch; the row since which there has been one; or the last row that was added."""

    OF_ENTRY = "OF_ENTRY"
    SINCE = "SINCE"
    LAST = "LAST"


class RowMultiset(SavedByChanges, NeverExpires):
    """A table as a multiset of whole rows. State: one entry per distinct row, until its count is zero.

    A slot is the number of a distinct row; `sequence` orders the slots by arrival: see `Arrival`. A row that is retracted
    before it arrives has a negative count, and its entry is removed when it arrives. Declared as a table `name`, it is that of
    one subtask.
    A keyed table that these rows are part of gives itself as `source` of what is saved.
    Nested values are found by their encodings, and kept beside them.
    """

    def __init__(
        self,
        schema: pa.Schema,
        name: str = "rows",
        source: ChangeSource | None = None,
        *,
        arrival: Arrival = Arrival.OF_ENTRY,
    ) -> None:
        self.schema = schema
        self.name = name
        self._nested = {
            number: NestedColumn(field.type)
            for number, field in enumerate(schema)
            if pa.types.is_nested(field.type)
        }
        self._index = KeyIndex(identity_types(schema))
        self._memory = memory_in_force()
        self.counts: Array = np.empty(0, dtype=np.int64)
        self.sequence: Array = np.empty(0, dtype=np.int64)
        self._next_sequence = 0
        self._arrival = arrival
        self.changes = Changes(source or self)
        super().__init__({name: self.changes})

    @property
    def index(self) -> KeyIndex:
        """The rows by slot; a nested column is its encoding."""
        return self._index

    @property
    def next_sequence(self) -> int:
        """What no slot's `sequence` has reached yet: those that the next batch changes will be at least this."""
        return self._next_sequence

    def apply(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """Add and retract the batch's rows; returns the slot of each row, and the numbers of the rows that made a new entry.

        Entries of count zero remain until `sweep`.
        """
        signs = signs_of(row_kinds(batch))
        with self.changes.lock:
            given = without_row_kinds(batch).columns
            slots, is_new = self._index.get_or_insert(identities(given))
            capacity = self._index.slot_count
            self.counts = grown(self.counts, capacity, memory=self._memory)
            self.sequence = grown(self.sequence, capacity, memory=self._memory)
            new_rows = np.flatnonzero(is_new)
            if len(new_rows):
                for number, kept in self._nested.items():
                    kept.put(slots[new_rows], given[number].take(pa.array(new_rows)))
            self.changes.created(slots[new_rows])
            self.changes.writing(slots)
            self.counts[slots[new_rows]] = 0
            self.sequence[slots[new_rows]] = self._next_sequence + new_rows
            if self._arrival is not Arrival.OF_ENTRY:
                rows = (
                    np.flatnonzero(signs > 0)
                    if self._arrival is Arrival.LAST
                    else self._returning(slots, signs)
                )
                np.maximum.at(self.sequence, slots[rows], self._next_sequence + rows)
            self._next_sequence += batch.num_rows
            add_into(self.counts, slots, signs)
        return slots, new_rows

    def _returning(self, slots: Array, signs: Array) -> Array:
        """The rows of the batch that bring a row of which there was none."""
        order = np.argsort(slots, kind="stable")
        by_slot, signs = slots[order], signs[order]
        is_first = np.concatenate([[True], by_slot[1:] != by_slot[:-1]])
        totals = np.cumsum(signs)
        before = (totals - signs)[is_first]
        counts = (
            self.counts[by_slot]
            + totals
            - np.repeat(before, np.diff(np.append(np.flatnonzero(is_first), len(order))))
        )
        return order[(signs > 0) & (counts == 1)]

    def sweep(self, slots: Array) -> Array:
        """Forget and return the slots among these whose count is zero."""
        empty = distinct(slots[self.counts[slots] == 0])
        self.delete(empty)
        return empty

    def delete(self, slots: Array) -> None:
        """Forget these slots, whatever their counts."""
        if len(slots):
            with self.changes.lock:
                self.changes.forgetting(slots)
                self._index.delete(slots)
                for kept in self._nested.values():
                    kept.delete(slots)

    def slots(self) -> Array:
        """All slots, in order of first arrival."""
        slots = self._index.slots()
        return slots[np.argsort(self.sequence[slots], kind="stable")]

    def take(self, slots: Array) -> pa.RecordBatch:
        """The rows of slots."""
        return pa.RecordBatch.from_arrays(self.columns(slots, range(len(self.schema))), schema=self.schema)

    def columns(self, slots: Array, numbers: Sequence[int]) -> list[pa.Array]:
        """These columns of the rows of slots."""
        if not self._nested:
            return self._index.keys(slots, list(numbers))
        simple = [number for number in numbers if number not in self._nested]
        found = dict(zip(simple, self._index.keys(slots, simple), strict=True)) if simple else {}
        found.update({n: self._nested[n].gather(slots) for n in numbers if n in self._nested})
        return [found[number] for number in numbers]

    def rows(self) -> pa.RecordBatch:
        """All rows, each repeated by its count, in order of first arrival."""
        slots = self.slots()
        return self.take(np.repeat(slots, np.maximum(self.counts[slots], 0)))

    # -- what the runtime calls ----------------------------------------------------------------------

    def load(self, saved: SavedTables) -> None:
        for batch in saved.batches(self.name):
            self.load_part(batch.columns[FIXED_COLUMNS:])

    def nbytes(self) -> int:
        arrays = int(self.counts.nbytes + self.sequence.nbytes)
        nested = sum(kept.nbytes for kept in self._nested.values())
        return int(self._index.nbytes) + arrays + nested + self.changes.nbytes

    def load_part(self, columns: list[pa.Array]) -> tuple[pa.RecordBatch, Array]:
        """Add saved rows, none of which is there; returns the rows and their slots."""
        counts, sequence = (view_values(column, np.int64) for column in columns[:2])
        batch = pa.RecordBatch.from_arrays(columns[2:], schema=self.schema)
        slots, _ = self.apply(batch)
        self.counts[slots], self.sequence[slots] = counts, sequence
        self._next_sequence = max(self._next_sequence, int(sequence.max()) + 1)
        return batch, slots

    # -- what its changes read: implements `ChangeSource` ---------------------------------------------

    @property
    def slot_count(self) -> int:
        return self._index.slot_count

    @property
    def row_count(self) -> int:
        return len(self._index)

    def is_live(self, slots: Array) -> Array:
        return self._index.is_live(slots)

    def key_groups(self, slots: Array) -> Array:
        return np.zeros(len(slots), dtype=np.int32)

    @property
    def saved_names(self) -> list[str]:
        return ["$count", "$sequence", *self.schema.names]

    def saved(self, slots: Array) -> tuple[Array, list[pa.Array]]:
        """Also rows whose count is below zero."""
        numbers = [to_array(pa.int64(), array[slots]) for array in (self.counts, self.sequence)]
        return slots, [*numbers, *self.take(slots).columns]


class PlacedMultiset(RowMultiset):
    """A RowMultiset whose rows are distributed among subtasks by the values of the columns `placement`. State: the same."""

    def __init__(self, schema: pa.Schema, name: str, placement: tuple[int, ...], scope: StateScope) -> None:
        super().__init__(schema, name)
        self._placement = placement
        self._scope = scope

    def key_groups(self, slots: Array) -> Array:
        return key_groups(hash_columns(self.columns(slots, self._placement)), self._scope.max_parallelism)
