"""Where in their partitions the rows are whose results a change can change."""

from __future__ import annotations

import dataclasses

import numpy as np

from sqlstream.expressions import SortKey
from sqlstream.runtime.operators.over.frame_bounds import order_values
from sqlstream.runtime.operators.over.reach import Reach
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.ordered_multiset import OrderedMultiset


@dataclasses.dataclass(frozen=True)
class ChangedRows:
    """Stretches of partitions from one changed row to another, or the same: their keys, ascending, and how many rows these have;
    the two rows, and their places."""

    keys: Array
    sizes: Array
    first_rows: Array
    last_rows: Array
    first: Array
    last: Array

    @staticmethod
    def each(table: OrderedMultiset, rows: Array) -> ChangedRows:
        """Every row for itself, in order; `rows`, distinct, all have a place."""
        keys, places = table.keys_of(rows), table.order.places(rows)
        by_place = np.lexsort((places, keys))
        keys, places, rows = keys[by_place], places[by_place], rows[by_place]
        return ChangedRows(keys, table.order.sizes(keys), rows, rows, places, places)

    def by_key(self) -> ChangedRows:
        """From the first to the last of each key."""
        return self._from(np.append(True, self.keys[1:] != self.keys[:-1]))

    def together(self, first: Array, end: Array, distance: int) -> tuple[ChangedRows, Array, Array]:
        """Those whose affected rows, from `first` to `end`, are at most `distance` apart, as one; with its affected rows."""
        begins = np.append(True, self.keys[1:] != self.keys[:-1])
        begins[1:] |= first[1:] > end[:-1] + distance
        last = np.append(np.flatnonzero(begins)[1:], len(begins)) - 1
        return self._from(begins), first[begins], end[last]

    def _from(self, begins: Array) -> ChangedRows:
        last = np.append(np.flatnonzero(begins)[1:], len(begins)) - 1
        return ChangedRows(
            self.keys[begins],
            self.sizes[begins],
            self.first_rows[begins],
            self.last_rows[last],
            self.first[begins],
            self.last[last],
        )


class AffectedRows:
    """Finds the places of the rows whose results changed rows may change, and of those that these read. No state."""

    def __init__(self, reach: Reach, order: tuple[SortKey, ...], table: OrderedMultiset) -> None:
        self._reach, self._order, self._table = reach, order, table

    def first(self, changed: ChangedRows) -> Array:
        """The first row whose result may differ."""
        if self._reach.is_whole:
            return np.zeros_like(changed.first)
        found = np.minimum(
            self._start(changed.keys, changed.first_rows, changed.first, self._reach.high), changed.first
        )
        return np.maximum(found - self._reach.after, 0)

    def read_from(self, changed: ChangedRows, first: Array) -> Array:
        """The first row that the results from `first` on read, when accumulators stand for all rows before it."""
        if self._reach.is_whole or self._reach.reads_all:
            return np.zeros_like(first)
        places = np.maximum(first - self._reach.before, 0)
        if self._reach.has_range:
            rows = self._rows_at(changed.keys, first)
            places = np.minimum(places, self._start(changed.keys, rows, first, -self._reach.low))
        if self._reach.has_peers:
            rows = self._rows_at(changed.keys, places)
            places = self._start(changed.keys, rows, places, 0)
        return places

    def changed_until(self, changed: ChangedRows) -> Array:
        """The end of the changed rows and their peers."""
        return self._end(changed.keys, changed.last_rows, changed.last + 1, 0)

    def end(self, changed: ChangedRows, is_settled: Array | None = None) -> Array:
        """The end of the rows whose results may differ; where not `is_settled`, running results behind the changed rows may."""
        if self._reach.is_whole:
            return changed.sizes
        ends = self._end(changed.keys, changed.last_rows, changed.last + 1, -self._reach.low)
        ends = np.minimum(ends + self._reach.before, changed.sizes)
        return ends if is_settled is None else np.where(is_settled, ends, changed.sizes)

    def read_until(self, changed: ChangedRows, ends: Array) -> Array:
        """The end of the rows that the results until `ends` read."""
        if self._reach.is_whole:
            return changed.sizes
        places = np.minimum(ends + self._reach.after, changed.sizes)
        if self._reach.has_range:
            rows = self._rows_at(changed.keys, ends - 1)
            places = np.maximum(places, self._end(changed.keys, rows, ends, self._reach.high))
        if self._reach.has_peers:
            rows = self._rows_at(changed.keys, places - 1)
            places = self._end(changed.keys, rows, places, 0)
        return places

    def _rows_at(self, keys: Array, places: Array) -> Array:
        return self._table.order.between(keys, places, places + 1)[1]

    def _start(self, keys: Array, rows: Array, places: Array, distance: float) -> Array:
        """The place of the first row that is at most `distance` before these rows, which are at `places`, or their peer."""
        return self._bounds(keys, rows, -distance, is_end=False) if self._looks_at_order else places

    def _end(self, keys: Array, rows: Array, places: Array, distance: float) -> Array:
        """As `_start` the end of the rows at most `distance` behind, exclusive."""
        return self._bounds(keys, rows, distance, is_end=True) if self._looks_at_order else places

    @property
    def _looks_at_order(self) -> bool:
        return self._reach.has_peers or self._reach.has_range

    def _bounds(self, keys: Array, rows: Array, step: float, *, is_end: bool) -> Array:
        order = self._table.order
        if not step:
            return order.peers(keys, rows, is_end=is_end)
        key = self._order[0]
        (column,) = self._table.rows.columns(rows, [key.column])
        per_unit, values = order_values(column)
        values = ~values if key.is_descending else values
        distance = int(step * per_unit)
        limit = np.iinfo(np.int64)
        targets = np.clip(values, limit.min - min(distance, 0), limit.max - max(distance, 0)) + distance
        found = order.bounds(keys, targets, is_end=is_end)
        if column.null_count:
            # A NULL is in reach of NULLs alone.
            is_null = np.asarray(column.is_null())
            found[is_null] = order.peers(keys[is_null], rows[is_null], is_end=is_end)
        return found
