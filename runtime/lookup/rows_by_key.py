"""The rows that a table has under each key that was looked up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.chains import Chains
from sqlstream.runtime.kernels.index import KeyIndex
from sqlstream.runtime.operators.join.joined import complete_rows
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.columns import RowStore


class RowsByKey:
    """A multi-map of keys to rows in which a key may also have no row: then it is known that the table has none.

    The key of a row is in its columns `key_columns`. A key that is not known has slot -1.

    State: index, chains and rows; `forget` drops keys with their rows. A loaded table whose keys do not repeat needs no chains:
    the slot of a key is the id of its row."""

    def __init__(self, schema: pa.Schema, key_columns: Sequence[int]) -> None:
        self._key_columns = tuple(key_columns)
        self._index = KeyIndex([schema.field(c).type for c in key_columns])
        self._chains = Chains()
        self._rows = RowStore(schema)
        self._is_one_to_one = False

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def key_count(self) -> int:
        return len(self._index)

    @property
    def slot_count(self) -> int:
        """One more than the highest slot: the length that arrays by slot need."""
        return self._index.slot_count

    def find(self, keys: Sequence[pa.Array]) -> Array:
        """int64[n]: the slot of each key, -1 where it is not known. A key with a NULL is never known."""
        return self._index.get(keys)

    def add(self, keys: Sequence[pa.Array], rows: pa.RecordBatch) -> Array:
        """Make distinct keys known that are not, with all rows that the table has under them; returns their slots. Rows with
        other keys are left out, since they need not be all rows of theirs."""
        slots, _ = self._index.get_or_insert(keys)
        is_added = np.zeros(self.slot_count, dtype=bool)
        is_added[slots] = True
        found = self._index.get([rows.column(c) for c in self._key_columns])
        wanted = (found >= 0) & is_added[found]
        if not wanted.all():
            chosen = np.flatnonzero(wanted)
            rows, found = rows.take(to_array(pa.int64(), chosen)), found[chosen]
        if rows.num_rows:
            self._chains.append(found, self._rows.append(rows))
        return slots

    def load(self, rows: pa.RecordBatch) -> None:
        """Hold a whole table, and nothing else; a row with a NULL in its key can never match, and is left out."""
        assert self.key_count == 0
        keys = [rows.column(c) for c in self._key_columns]
        complete = complete_rows(keys)
        if complete is not None:
            rows = rows.take(to_array(pa.int64(), complete))
            keys = [rows.column(c) for c in self._key_columns]
        if rows.num_rows:
            slots, _ = self._index.get_or_insert(keys)
            row_ids = self._rows.append(rows)
            # Both are numbered in order of arrival: without a repeated key they are the same.
            self._is_one_to_one = self.key_count == rows.num_rows
            if not self._is_one_to_one:
                self._chains.append(slots, row_ids)

    def slots(self) -> Array:
        """The slots of all known keys, ascending."""
        return self._index.slots()

    def counts(self, slots: Array) -> Array:
        """int64[n]: how many rows each slot has; none for -1."""
        if self._is_one_to_one:
            return (slots >= 0).astype(np.int64)
        return self._chains.counts(slots)

    def match(self, slots: Array) -> tuple[Array, Array]:
        """(positions in `slots`, row ids) of every row of every slot, by position."""
        if self._is_one_to_one:
            positions = np.flatnonzero(slots >= 0)
            return positions, slots[positions]
        return self._chains.match(slots)

    def gather(self, row_ids: Array) -> pa.RecordBatch:
        return self._rows.gather(row_ids)

    def forget(self, slots: Array) -> None:
        """Drop keys, which must be known and distinct, and their rows."""
        _, row_ids = self._chains.match(slots)
        self._chains.remove(row_ids)
        self._rows.delete(row_ids)
        self._index.delete(slots)
