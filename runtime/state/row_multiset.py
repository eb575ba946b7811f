"""Rows with counts, looked up by content: the table that a changelog describes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runtime.kernels.accumulate import add_into
from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.index import KeyIndex
from runtime.state.arrays import Array, grown
from runtime.state.key_group_column import key_group_column
from runtime.state.operator_state import NeverExpires
from runtime.state.snapshot import KEY_GROUP_COLUMN, SavedTables
from sqlstream.arrow import is_accumulate, row_kinds, without_row_kinds
from sqlstream.errors import UserError

_SAVED_ROWS = 1 << 17
"""Rows that are copied at once for a snapshot: their strings fit one array."""


class RowMultiset(NeverExpires):
    """A table as a multiset of whole rows. State: one entry per distinct row, until its count is zero.

    A slot is the number of a distinct row; `sequence` orders the slots by arrival. A row that is retracted before it arrives
    has a negative count, and its entry is removed when it arrives. Declared as a table `name`, it is that of one subtask.
    UserError SS3090 for a schema with nested columns.
    """

    def __init__(self, schema: pa.Schema, name: str = "rows") -> None:
        self.schema = schema
        self.name = name
        _check_comparable(schema)
        self._index = KeyIndex([field.type for field in schema])
        self.counts: Array = np.empty(0, dtype=np.int64)
        self.sequence: Array = np.empty(0, dtype=np.int64)
        self._next_sequence = 0

    def apply(self, batch: pa.RecordBatch) -> tuple[Array, Array]:
        """Add and retract the batch's rows; returns the slot of each row, and the numbers of the rows that made a new entry.

        Entries of count zero remain until `sweep`.
        """
        signs = np.where(is_accumulate(row_kinds(batch)), 1, -1).astype(np.int64)
        slots, is_new = self._index.get_or_insert(without_row_kinds(batch).columns)
        capacity = self._index.slot_count
        self.counts = grown(self.counts, capacity)
        self.sequence = grown(self.sequence, capacity)
        new_rows = np.flatnonzero(is_new)
        self.counts[slots[new_rows]] = 0
        self.sequence[slots[new_rows]] = self._next_sequence + new_rows
        self._next_sequence += batch.num_rows
        add_into(self.counts, slots, signs)
        return slots, new_rows

    def sweep(self, slots: Array) -> Array:
        """Forget and return the slots among these whose count is zero."""
        empty = np.unique(slots)
        empty = empty[self.counts[empty] == 0]
        if len(empty):
            self._index.delete(empty)
        return empty

    def delete(self, slots: Array) -> None:
        """Forget these slots, whatever their counts."""
        self._index.delete(slots)

    def slots(self) -> Array:
        """All slots, in order of first arrival."""
        slots = self._index.slots()
        return slots[np.argsort(self.sequence[slots], kind="stable")]

    def take(self, slots: Array) -> pa.RecordBatch:
        """The rows of slots."""
        return pa.RecordBatch.from_arrays(self._index.keys(slots), schema=self.schema)

    def columns(self, slots: Array, numbers: list[int]) -> list[pa.Array]:
        """These columns of the rows of slots."""
        return self._index.keys(slots, numbers)

    def rows(self) -> pa.RecordBatch:
        """All rows, each repeated by its count, in order of first arrival."""
        slots = self.slots()
        return self.take(np.repeat(slots, np.maximum(self.counts[slots], 0)))

    # -- what the runtime calls ----------------------------------------------------------------------

    def save(self) -> SavedTables:
        """The counts, also those below zero, then the rows, in order of first arrival; all in key group 0."""
        names = [KEY_GROUP_COLUMN, *self.saved_names]
        batches = [
            pa.RecordBatch.from_arrays([key_group_column([], len(slots), 1), *columns], names=names)
            for slots, columns in self.saved_parts()
        ]
        return SavedTables(keyed={self.name: pa.Table.from_batches(batches)} if batches else {})

    def load(self, saved: SavedTables) -> None:
        for batch in saved.batches(self.name):
            self.load_part(batch.columns[1:])

    def nbytes(self) -> int:
        return int(self._index.nbytes) + int(self.counts.nbytes + self.sequence.nbytes)

    # -- for a table that these rows are part of -----------------------------------------------------

    @property
    def saved_names(self) -> list[str]:
        return ["$count", *self.schema.names]

    def saved_parts(self) -> Iterator[tuple[Array, list[pa.Array]]]:
        """All slots, in order of first arrival and in parts whose strings fit one array, with their columns `saved_names`."""
        slots = self.slots()
        for start in range(0, len(slots), _SAVED_ROWS):
            part = slots[start : start + _SAVED_ROWS]
            yield part, [to_array(pa.int64(), self.counts[part]), *self.take(part).columns]

    def load_part(self, columns: list[pa.Array]) -> tuple[pa.RecordBatch, Array]:
        """Add saved rows, none of which is there; returns the rows and their slots."""
        batch = pa.RecordBatch.from_arrays(columns[1:], schema=self.schema)
        slots, _ = self.apply(batch)
        self.counts[slots] = view_values(columns[0], np.int64)
        return batch, slots


def _check_comparable(schema: pa.Schema) -> None:
    for field in schema:
        if pa.types.is_nested(field.type):
            raise UserError(
                "SS3090",
                f'rows with column "{field.name}" cannot be retracted: values of nested types cannot be compared',
                hint="select the elements or fields that are needed, or print the changes with --changelog",
            )
