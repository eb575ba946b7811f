"""Rows with a count each, found by their content: what a changelog leaves when -U and -D have taken rows back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.accumulate import add_into
from runtime.kernels.index import KeyIndex
from runtime.operators.aggregates.accumulator import Array, grown
from sqlstream.arrow import is_accumulate, row_kinds, without_row_kinds


class RowMultiset:
    """A table as a multiset of whole rows. State: one entry a distinct row, until its count is zero.

    A slot names a distinct row; `sequence` says which came first. A row taken back before it came counts below zero and
    vanishes when it comes.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._index = KeyIndex([field.type for field in schema])
        self.counts: Array = np.empty(0, dtype=np.int64)
        self.sequence: Array = np.empty(0, dtype=np.int64)
        self._next_sequence = 0

    def apply(self, batch: pa.RecordBatch) -> Array:
        """Add and take back the batch's rows; returns the slot of each row. Entries of count zero stay until `sweep`."""
        signs = np.where(is_accumulate(row_kinds(batch)), 1, -1).astype(np.int64)
        slots, is_new = self._index.get_or_insert(without_row_kinds(batch).columns)
        capacity = int(slots.max(initial=-1)) + 1
        self.counts = grown(self.counts, capacity)
        self.sequence = grown(self.sequence, capacity)
        new_rows = np.flatnonzero(is_new)
        self.sequence[slots[new_rows]] = self._next_sequence + new_rows
        self._next_sequence += batch.num_rows
        add_into(self.counts, slots, signs)
        return slots

    def sweep(self, slots: Array) -> None:
        """Forget those of the slots whose count is zero."""
        empty = np.unique(slots)
        empty = empty[self.counts[empty] == 0]
        if len(empty):
            self._index.delete(empty)

    def live_slots(self) -> Array:
        """Slots with a positive count."""
        slots = self._index.slots()
        return slots[self.counts[slots] > 0]

    def take(self, slots: Array) -> pa.RecordBatch:
        """The rows of slots."""
        return pa.RecordBatch.from_arrays(self._index.keys(slots), schema=self.schema)

    def rows(self) -> pa.RecordBatch:
        """All rows, each as often as it counts, in order of first arrival."""
        slots = self.live_slots()
        slots = slots[np.argsort(self.sequence[slots], kind="stable")]
        return self.take(np.repeat(slots, self.counts[slots]))

    def nbytes(self) -> int:
        return int(self._index.nbytes) + int(self.counts.nbytes + self.sequence.nbytes)
