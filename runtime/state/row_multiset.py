"""Rows with counts, looked up by content: the table that a changelog describes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.accumulate import add_into
from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.index import KeyIndex
from runtime.state.arrays import Array, grown
from sqlstream.arrow import is_accumulate, row_kinds, without_row_kinds
from sqlstream.errors import UserError


class RowMultiset:
    """A table as a multiset of whole rows. State: one entry per distinct row, until its count is zero.

    A slot is the number of a distinct row; `sequence` orders the slots by arrival. A row that is retracted before it arrives
    has a negative count, and its entry is removed when it arrives. UserError SS3090 for a schema with nested columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
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

    def save(self) -> tuple[list[pa.Array], list[str]]:
        """Columns and names of a snapshot: the counts, also those below zero, then the rows."""
        slots = self.slots()
        rows = self.take(slots)
        columns = [to_array(pa.int64(), self.counts[slots]), *rows.columns]
        return columns, ["count", *(f"c{i}" for i in range(rows.num_columns))]

    def load(self, columns: list[pa.Array]) -> tuple[pa.RecordBatch, Array]:
        """The inverse of `save`, on an empty multiset; returns the distinct rows and their slots."""
        batch = pa.RecordBatch.from_arrays(columns[1:], schema=self.schema)
        slots, _ = self.apply(batch)
        self.counts[slots] = view_values(columns[0], np.int64)
        return batch, slots

    def nbytes(self) -> int:
        return int(self._index.nbytes) + int(self.counts.nbytes + self.sequence.nbytes)


def _check_comparable(schema: pa.Schema) -> None:
    for field in schema:
        if pa.types.is_nested(field.type):
            raise UserError(
                "SS3090",
                f'rows with column "{field.name}" cannot be retracted: values of nested types cannot be compared',
                hint="select the elements or fields that are needed, or print the changes with --changelog",
            )
