"""Counts of values per slot, with which DISTINCT and retractable extremes retract rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runtime.kernels.accumulate import add_into
from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.group import group
from runtime.kernels.index import KeyIndex
from runtime.state.arrays import Array, grown


class ValueCounts:
    """A multiset of values per slot; a struct value is compared by its fields, none of which is NULL in a counted row.

    State: one entry per (slot, value) whose count is not zero.
    """

    def __init__(self, value_type: pa.DataType) -> None:
        self.value_type = value_type
        self._index = KeyIndex([pa.int64(), *_parts_of(value_type)])
        self._counts: Array = np.empty(0, dtype=np.int64)

    def add(self, slots: Array, values: pa.Array, weights: Array) -> tuple[Array, Array]:
        """Add `weights` (empty: 1 per row) to the counts of (slot, value); rows of weight 0 are skipped.

        Returns two arrays of row numbers: one row per pair whose count rose from zero, and one per pair whose count fell to zero.
        """
        rows = np.arange(len(slots)) if len(weights) == 0 else np.flatnonzero(weights)
        amounts = np.ones(len(rows), dtype=np.int64) if len(weights) == 0 else weights[rows].astype(np.int64)
        keys = [to_array(pa.int64(), slots[rows]), *_parts(values.take(pa.array(rows)))]
        groups, representatives = group(keys)
        deltas = np.zeros(len(representatives), dtype=np.int64)
        add_into(deltas, groups, amounts)
        entries, _ = self._index.get_or_insert([k.take(pa.array(representatives)) for k in keys])
        self._counts = grown(self._counts, int(entries.max(initial=-1)) + 1)
        before = self._counts[entries]
        after = before + deltas
        self._counts[entries] = after
        self._forget(entries[after == 0])
        first_rows = rows[representatives]
        return first_rows[(before <= 0) & (after > 0)], first_rows[(before > 0) & (after <= 0)]

    def _forget(self, entries: Array) -> None:
        if len(entries):
            self._counts[entries] = 0
            self._index.delete(entries)

    def entries(self) -> tuple[Array, pa.Array]:
        """(slot, value) of every entry with a positive count."""
        live = self._index.slots()
        live = live[self._counts[live] > 0]
        owners, *values = self._index.keys(live)
        return view_values(owners, np.int64), self._whole(values)

    def values_of(self, slots: Array, capacity: int) -> tuple[Array, pa.Array]:
        """The entries of some slots; `capacity` bounds the slot numbers."""
        owners, values = self.entries()
        wanted = np.zeros(capacity, dtype=bool)
        wanted[slots] = True
        rows = np.flatnonzero(wanted[owners])
        return owners[rows], values.take(pa.array(rows))

    def drop(self, slots: Array, capacity: int) -> None:
        """Forget all values of some slots."""
        live = self._index.slots()
        owners = view_values(self._index.keys(live)[0], np.int64)
        wanted = np.zeros(capacity, dtype=bool)
        wanted[slots] = True
        self._forget(live[wanted[owners]])

    def table(self) -> tuple[Array, pa.Array, Array]:
        """(slot, value, count) of every entry, also of negative counts (retracted before they were added)."""
        live = self._index.slots()
        owners, *values = self._index.keys(live)
        return view_values(owners, np.int64), self._whole(values), self._counts[live]

    def load(self, slots: Array, values: pa.Array, counts: Array) -> None:
        """The inverse of `table` on an empty instance."""
        entries, _ = self._index.get_or_insert([to_array(pa.int64(), slots), *_parts(values)])
        self._counts = grown(self._counts, int(entries.max(initial=-1)) + 1)
        self._counts[entries] = counts

    def nbytes(self) -> int:
        index: Any = self._index
        return int(index.nbytes) + int(self._counts.nbytes)

    def _whole(self, parts: list[pa.Array]) -> pa.Array:
        if not pa.types.is_struct(self.value_type):
            return parts[0]
        return pa.StructArray.from_arrays(parts, fields=list(self.value_type))


def _parts_of(value_type: pa.DataType) -> list[pa.DataType]:
    return [f.type for f in value_type] if pa.types.is_struct(value_type) else [value_type]


def _parts(values: pa.Array) -> list[pa.Array]:
    return values.flatten() if pa.types.is_struct(values.type) else [values]
