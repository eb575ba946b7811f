"""Counts of values per slot, with which DISTINCT and retractable extremes retract rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.accumulate import add_into, count_up_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.slots.chains import Chains
from sqlstream.runtime.kernels.slots.value_heaps import ValueHeaps
from sqlstream.runtime.state.snapshots.changes import Changes
from sqlstream.runtime.state.snapshots.collection import TableLock
from sqlstream.runtime.state.storage.arrays import Array

_NONE: Array = np.empty(0, dtype=np.int64)


class ValueCounts:
    """Multisets of values per slot, one for each of `users`; a struct value is compared by its fields, none of which is NULL in a
    counted row.

    `order` MIN or MAX keeps the least or greatest value of each slot at hand, for one user.
    State: one entry with a count for each user per (slot, value) of which not all counts are zero; once values of a slot were
    dropped or read, a chain of its entries per slot; and with an order a heap of those of positive count per slot, which is made
    again on restore.
    """

    def __init__(self, value_type: pa.DataType, order: str = "", users: int = 1) -> None:
        self.value_type = value_type
        self._index = KeyIndex([pa.int64(), *_parts_of(value_type)])
        self._heaps = ValueHeaps(self._index, 1, is_min=order == "MIN") if order else None
        self._counts = [GrowingArray(np.int64) for _ in range(users)]
        self._chains: Chains | None = None
        self.changes = Changes(self)
        self._key_groups: Callable[[Array], Array] = lambda slots: np.zeros(len(slots), dtype=np.int32)

    def add(self, slots: Array, values: pa.Array, weights: Array) -> tuple[Array, Array]:
        """Add `weights` (empty: 1 per row) to the counts of (slot, value); rows of weight 0 are skipped.

        Returns two arrays of row numbers: one row per pair whose count rose from zero, and one per pair whose count fell to zero.
        """
        return self.add_each(slots, values, [weights])[0]

    def add_each(self, slots: Array, values: pa.Array, weights: list[Array]) -> list[tuple[Array, Array]]:
        """As `add` for every user, each with weights of its own."""
        rows = _taking_part(weights)
        if rows is not None:
            slots, values = slots[rows], values.take(to_array(pa.int64(), rows))
            weights = [w[rows] for w in weights]
        with self.changes.lock:
            entries = self._entered([to_array(pa.int64(), slots), *_parts(values)], slots)
            if self.changes.is_counting:
                self.changes.writing(np.unique(entries))
            counted = [self._count(c, entries, w) for c, w in zip(self._counts, weights, strict=True)]
            if self._heaps is not None:
                has_come, has_gone, _ = counted[0]
                self._heaps.insert(slots[has_come], entries[has_come])
                self._heaps.remove(slots[has_gone], entries[has_gone])
            if any(has_zeros for _, _, has_zeros in counted):
                touched = np.unique(entries)
                self._forget(touched[~np.any([c.values[touched] for c in self._counts], axis=0)])
        if rows is None:
            return [(has_come, has_gone) for has_come, has_gone, _ in counted]
        return [(rows[has_come], rows[has_gone]) for has_come, has_gone, _ in counted]

    @staticmethod
    def _count(counts: GrowingArray, entries: Array, weights: Array) -> tuple[Array, Array, bool]:
        """Count for one user; returns what `add` returns, and whether a count may be zero."""
        rows = None if len(weights) == 0 else np.flatnonzero(weights)
        counted = entries if rows is None else entries[rows]
        if rows is None or weights.min(initial=0) == 0 == weights.max(initial=1) - 1:
            first = np.empty(len(counted), dtype=np.int64)
            risen, zeros = count_up_into(counts.values, counted, first)
            first = first[:risen].copy()
            return first if rows is None else rows[first], _NONE, zeros > 0
        groups, firsts = group([to_array(pa.int64(), counted)])
        deltas = np.zeros(len(firsts), dtype=np.int64)
        add_into(deltas, groups, weights[rows].astype(np.int64))
        distinct = counted[firsts]
        before = counts.values[distinct]
        after = before + deltas
        counts.values[distinct] = after
        first = rows[firsts]
        return first[(before <= 0) & (after > 0)], first[(before > 0) & (after <= 0)], True

    def _entered(self, keys: list[pa.Array], slots: Array) -> Array:
        """The entry of each pair, which may occur several times."""
        entries, is_new = self._index.get_or_insert(keys)
        for counts in self._counts:
            counts.reserve(self._index.slot_count)
        if self.changes.is_counting:
            self.changes.created(entries[is_new])
        if self._chains is not None:
            self._chains.append(slots[is_new], entries[is_new])
        return entries

    def _forget(self, entries: Array) -> None:
        if len(entries):
            self.changes.forgetting(entries)
            for counts in self._counts:
                counts.values[entries] = 0
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

    def counted_values_of(self, slots: Array) -> tuple[Array, pa.Array, Array]:
        """(slot, value, count) of the entries of distinct slots that have a positive count."""
        entries = self._entries_of(slots)
        entries = entries[self._counts[0].values[entries] > 0]
        owners, *values = self._index.keys(entries)
        return view_values(owners, np.int64), self._whole(values), self._counts[0].values[entries]

    def drop(self, slots: Array) -> None:
        """Forget all values of distinct slots."""
        with self.changes.lock:
            if self._heaps is not None:
                self._heaps.clear(slots)
            self._forget(self._entries_of(slots))

    def resize(self, slots: int) -> None:
        """Make room for values of so many slots."""
        if self._heaps is not None:
            self._heaps.resize(slots)

    def best_of(self, slots: Array) -> pa.Array:
        """The value of each slot that is first in the order; NULL where there is none."""
        assert self._heaps is not None
        entries = self._heaps.best(slots).astype(np.int64)
        is_there = entries >= 0
        values = self._index.keys(np.maximum(entries, 0), [1])[0] if len(self._index) else None
        if values is None or not is_there.any():
            return pa.nulls(len(slots), self.value_type)
        if not is_there.all():
            values = values.take(to_array(pa.int64(), np.arange(len(slots)), is_there))
        return values if values.type == self.value_type else values.cast(self.value_type)

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        """Take over saved columns, of which the first are the `slots`; the entries of several old subtasks may come in several
        calls."""
        values, *counts = columns
        entries, _ = self._index.get_or_insert([to_array(pa.int64(), slots), *_parts(values)])
        for target, column in zip(self._counts, counts, strict=True):
            target.reserve(self._index.slot_count)
            loaded = view_values(column, np.int64)
            target.values[entries] = loaded
        if self._heaps is not None:
            self._heaps.insert(slots[loaded > 0], entries[loaded > 0])

    def nbytes(self) -> int:
        derived = sum(part.nbytes for part in (self._chains, self._heaps) if part is not None)
        counts = sum(c.nbytes for c in self._counts)
        return self._index.nbytes + counts + derived + self.changes.nbytes

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
        return ["$owner", "value", "count", *(f"count_{n}" for n in range(1, len(self._counts)))]

    def saved(self, slots: Array) -> tuple[Array, list[pa.Array]]:
        """Also entries of negative counts (retracted before they were added)."""
        owners, *values = self._index.keys(slots)
        counts = [to_array(pa.int64(), c.values[slots]) for c in self._counts]
        return slots, [owners.cast(pa.int32()), self._whole(values), *counts]

    def _owners(self, entries: Array) -> Array:
        return view_values(self._index.keys(entries, [0])[0], np.int64)

    def _whole(self, parts: list[pa.Array]) -> pa.Array:
        if not pa.types.is_struct(self.value_type):
            return parts[0]
        return pa.StructArray.from_arrays(parts, fields=list(self.value_type))


def _taking_part(weights: list[Array]) -> Array | None:
    """The rows that any user counts; None for all."""
    if any(len(w) == 0 for w in weights):
        return None
    takes_part = weights[0] != 0
    for others in weights[1:]:
        takes_part = takes_part | (others != 0)
    return None if takes_part.all() else np.flatnonzero(takes_part)


def _parts_of(value_type: pa.DataType) -> list[pa.DataType]:
    return [f.type for f in value_type] if pa.types.is_struct(value_type) else [value_type]


def _parts(values: pa.Array) -> list[pa.Array]:
    return values.flatten() if pa.types.is_struct(values.type) else [values]
