"""One side of a regular join: its rows by key, each with its count and its number of matches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.accumulate import add_into
from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.index import KeyIndex
from runtime.operators.join.equal_pairs import complete_rows
from runtime.state.arrays import Array, grown
from runtime.state.key_group_column import key_group_column
from runtime.state.keyed_rows import KeyedRows
from runtime.state.snapshot import KEY_GROUP_COLUMN
from runtime.state.state_ttl import StateTtl


class JoinSide:
    """Looks rows up by join key and, for a retracting input, also by their whole content.

    A row id is the number of one row (retracting input: of one distinct row, with a count). A row with a NULL in its key never
    matches, so it is not stored. The retraction of a row that is not stored (it has expired) is ignored, as in Flink.
    State: one entry per row id, until its count is zero or it expires.
    """

    def __init__(self, schema: pa.Schema, keys: tuple[int, ...], is_retracting: bool, ttl: StateTtl) -> None:
        self.schema = schema
        self._keys = keys
        # Without key columns all rows have the same constant key.
        key_types = [schema.field(k).type for k in keys] or [pa.int8()]
        self._rows = KeyedRows(key_types, schema)
        self._identity = KeyIndex([field.type for field in schema]) if is_retracting else None
        self._row_of_slot: Array = np.empty(0, dtype=np.int64)
        self._slot_of_row: Array = np.empty(0, dtype=np.int64)
        self._counts: Array = np.empty(0, dtype=np.int64)
        self._matches: Array = np.empty(0, dtype=np.int64)
        self.ttl = ttl

    # -- probing -----------------------------------------------------------------------------------

    def find(self, keys: list[pa.Array], rows: int) -> Array:
        """int64[n]: the slot of each probe row's key, -1 where no row has that key; NULL equals nothing."""
        if not keys:
            return self._rows.find([_constant(rows)])
        types = self._rows.index.types
        # Rows with a NULL key are not stored, so a NULL probe finds none.
        return self._rows.find([k if k.type == t else k.cast(t) for k, t in zip(keys, types, strict=True)])

    def match(self, found: Array) -> tuple[Array, Array]:
        """(probe rows, row ids) of all pairs with equal keys."""
        return self._rows.match(found)

    def match_counts(self, found: Array) -> Array:
        """int64[n]: the number of rows that each probe row matches."""
        return self._rows.counts(found)

    def gather(self, row_ids: Array) -> pa.RecordBatch:
        return self._rows.gather(row_ids)

    def counts_of(self, row_ids: Array) -> Array:
        """int64[n]: the count of each row."""
        return self._counts[row_ids]

    def add_matches(self, row_ids: Array, amounts: Array) -> tuple[Array, Array, Array]:
        """Add `amounts` to the numbers of matches; returns the distinct row ids, their numbers before and those after."""
        touched = np.unique(row_ids)
        before = self._matches[touched]
        add_into(self._matches, np.ascontiguousarray(row_ids), amounts)
        return touched, before, self._matches[touched]

    # -- changing ----------------------------------------------------------------------------------

    def apply(self, batch: pa.RecordBatch, signs: Array, matches: Array) -> None:
        """Add (`signs` +1) or retract (-1) rows; `matches` is the number of matches per row."""
        if self._keys:
            kept = complete_rows([batch.column(k) for k in self._keys])
            if kept is not None:
                batch, signs, matches = batch.take(to_array(pa.int64(), kept)), signs[kept], matches[kept]
        if batch.num_rows == 0:
            return
        if self._identity is None:
            row_ids = self._append(batch)
            self._counts[row_ids] = 1
        else:
            row_ids = self._find_or_append(batch, signs)
        self._matches[row_ids] = matches
        if self._identity is None:
            self.ttl.touch(row_ids)
        else:
            touched = np.unique(row_ids)
            self.ttl.touch(touched)
            self._forget(touched[self._counts[touched] <= 0])

    def _append(self, batch: pa.RecordBatch) -> Array:
        keys = [batch.column(k) for k in self._keys] or [_constant(batch.num_rows)]
        row_ids = self._rows.append(batch, keys)
        capacity = self._rows.id_count
        self._counts = grown(self._counts, capacity)
        self._matches = grown(self._matches, capacity)
        self._slot_of_row = grown(self._slot_of_row, capacity, -1)
        return row_ids

    def _find_or_append(self, batch: pa.RecordBatch, signs: Array) -> Array:
        assert self._identity is not None
        slots, is_new = self._identity.get_or_insert(batch.columns)
        self._row_of_slot = grown(self._row_of_slot, self._identity.slot_count, -1)
        new = np.flatnonzero(is_new)
        added = self._append(batch.take(to_array(pa.int64(), new)))
        self._row_of_slot[slots[new]] = added
        self._slot_of_row[added] = slots[new]
        self._counts[added] = 0
        row_ids = self._row_of_slot[slots]
        add_into(self._counts, row_ids, signs)
        return row_ids

    def _forget(self, row_ids: Array) -> None:
        if len(row_ids) == 0:
            return
        if self._identity is not None:
            self._identity.delete(self._slot_of_row[row_ids])
        self.ttl.forget(row_ids)
        self._rows.delete(row_ids)

    def expire(self) -> int:
        """Forget the rows whose TTL has passed; returns their number."""
        if not self.ttl.is_due():
            return 0
        row_ids = self.ttl.take_expired()
        self._forget(row_ids)
        return len(row_ids)

    # -- state -------------------------------------------------------------------------------------

    def save(self, max_parallelism: int) -> pa.Table:
        """A table with key group, count, matches, time, then the columns; rows ordered by age."""
        row_ids = self._rows.live_row_ids()
        batch = self._rows.gather(row_ids)
        groups = key_group_column([batch.column(k) for k in self._keys], len(row_ids), max_parallelism)
        numbers = (self._counts[row_ids], self._matches[row_ids], self.ttl.touched_ms(row_ids))
        names = [
            KEY_GROUP_COLUMN,
            "count",
            "matches",
            "came_ms",
            *(f"c{i}" for i in range(batch.num_columns)),
        ]
        return pa.table([groups, *(to_array(pa.int64(), n) for n in numbers), *batch.columns], names=names)

    def load(self, table: pa.Table) -> None:
        """The inverse of `save`, on an empty side."""
        saved = table.combine_chunks().to_batches()[0]
        counts, matches, came_ms = (view_values(saved.column(i), np.int64) for i in (1, 2, 3))
        batch = pa.RecordBatch.from_arrays(saved.columns[4:], schema=self.schema)
        row_ids = self._append(batch) if self._identity is None else self._find_or_append(batch, counts)
        self._counts[row_ids] = counts
        self._matches[row_ids] = matches
        self.ttl.load(row_ids, came_ms)

    def nbytes(self) -> int:
        identity = 0 if self._identity is None else int(self._identity.nbytes)
        return (
            int(self._rows.nbytes)
            + identity
            + int(self._counts.nbytes + self._matches.nbytes)
            + self.ttl.nbytes()
        )


def _constant(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, dtype=np.int8))
