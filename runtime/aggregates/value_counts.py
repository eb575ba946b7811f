"""Counts of values per slot, with which DISTINCT and retractable extremes retract rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from runtime.kernels.accumulate import add_into
from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.chains import Chains
from runtime.kernels.group import group
from runtime.kernels.growing import GrowingArray
from runtime.kernels.index import KeyIndex
from runtime.state.arrays import Array
from runtime.state.changes import Changes, TableLock


class ValueCounts:
    """A multiset of values per slot; a struct value is compared by its fields, none of which is NULL in a counted row.

    State: one entry per (slot, value) whose count is not zero, and once values of a slot were dropped or read, a chain of its
    entries per slot.
    """

    def __init__(self, value_type: pa.DataType) -> None:
        self.value_type = value_type
        self._index = KeyIndex([pa.int64(), *_parts_of(value_type)])
        self._counts = GrowingArray(np.int64)
        self._chains: Chains | None = None
        self.changes = Changes(self)
        self._key_groups: Callable[[Array], Array] = lambda slots: np.zeros(len(slots), dtype=np.int32)

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
        with self.changes.lock:
            entries, is_new = self._index.get_or_insert([k.take(pa.array(representatives)) for k in keys])
            self._counts.reserve(self._index.slot_count)
            if self.changes.is_counting:
                self.changes.created(entries[is_new])
                self.changes.writing(entries)
            if self._chains is not None:
                self._chains.append(slots[rows[representatives[is_new]]], entries[is_new])
            counts = self._counts.values
            before = counts[entries]
            after = before + deltas
            counts[entries] = after
            self._forget(entries[after == 0])
        first_rows = rows[representatives]
        return first_rows[(before <= 0) & (after > 0)], first_rows[(before > 0) & (after <= 0)]

    def _forget(self, entries: Array) -> None:
        if len(entries):
            self.changes.forgetting(entries)
            self._counts.values[entries] = 0
            self._index.delete(entries)
            if self._chains is not None:
                self._chains.remove(entries)

    def _entries_of(self, slots: Array) -> Array:
        """The entries of distinct slots."""
        if self._chains is None:
            # Made when it is first needed: over insert-only rows without a time to live it never is.
            self._chains = Chains()
            live = self._index.slots()
            self._chains.append(view_values(self._index.keys(live, [0])[0], np.int64), live)
        return self._chains.match(slots)[1]

    def values_of(self, slots: Array) -> tuple[Array, pa.Array]:
        """(slot, value) of the entries of distinct slots that have a positive count."""
        entries = self._entries_of(slots)
        entries = entries[self._counts.values[entries] > 0]
        owners, *values = self._index.keys(entries)
        return view_values(owners, np.int64), self._whole(values)

    def counted_values_of(self, slots: Array) -> tuple[Array, pa.Array, Array]:
        """(slot, value, count) of the entries of distinct slots that have a positive count."""
        entries = self._entries_of(slots)
        entries = entries[self._counts.values[entries] > 0]
        owners, *values = self._index.keys(entries)
        return view_values(owners, np.int64), self._whole(values), self._counts.values[entries]

    def drop(self, slots: Array) -> None:
        """Forget all values of distinct slots."""
        with self.changes.lock:
            self._forget(self._entries_of(slots))

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        """Take over saved columns, of which the first are the `slots`; the entries of several old subtasks may come in several
        calls."""
        values, counts = columns
        entries, _ = self._index.get_or_insert([to_array(pa.int64(), slots), *_parts(values)])
        self._counts.reserve(self._index.slot_count)
        self._counts.values[entries] = view_values(counts, np.int64)

    def nbytes(self) -> int:
        chains = 0 if self._chains is None else self._chains.nbytes
        return self._index.nbytes + self._counts.nbytes + chains + self.changes.nbytes

    # -- what a keyed table and its changes read: implements `SlotPart` and `ChangeSource` --------------

    def belong_to(self, lock: TableLock, key_groups: Callable[[Array], Array]) -> None:
        self.changes.lock, self._key_groups = lock, key_groups

    @property
    def slot_count(self) -> int:
        return self._index.slot_count

    @property
    def row_count(self) -> int:
        return len(self._index)

    def is_live(self, slots: Array) -> Array:
        return self._index.is_live(slots)

    def key_groups(self, slots: Array) -> Array:
        return self._key_groups(self._owners(slots))

    @property
    def saved_names(self) -> list[str]:
        return ["$owner", "value", "count"]

    def saved(self, slots: Array) -> tuple[Array, list[pa.Array]]:
        """Also entries of negative counts (retracted before they were added)."""
        owners, *values = self._index.keys(slots)
        counts = to_array(pa.int64(), self._counts.values[slots])
        return slots, [owners.cast(pa.int32()), self._whole(values), counts]

    def _owners(self, entries: Array) -> Array:
        return view_values(self._index.keys(entries, [0])[0], np.int64)

    def _whole(self, parts: list[pa.Array]) -> pa.Array:
        if not pa.types.is_struct(self.value_type):
            return parts[0]
        return pa.StructArray.from_arrays(parts, fields=list(self.value_type))


def _parts_of(value_type: pa.DataType) -> list[pa.DataType]:
    return [f.type for f in value_type] if pa.types.is_struct(value_type) else [value_type]


def _parts(values: pa.Array) -> list[pa.Array]:
    return values.flatten() if pa.types.is_struct(values.type) else [values]
