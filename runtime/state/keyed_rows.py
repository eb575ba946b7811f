"""State of many rows a key, as joins keep it: a key index, a chain of row ids a key, and the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array
from runtime.kernels.chains import Chains
from runtime.kernels.hashing import key_groups
from runtime.kernels.index import KeyIndex
from runtime.state.chunk_log import batch_of
from runtime.state.columns import RowStore
from runtime.state.key_groups import KEY_GROUP, in_key_group_order, rows_of_key_groups


class KeyedRows:
    """A multi-map of keys to rows, for whole batches.

    Rows of a key keep the order in which they came. NULL keys match NULL keys: an operator with SQL's `=`
    leaves those rows out itself. State: index, chains and rows; a key is forgotten with its last row, and
    memory of deleted rows is reused.
    """

    def __init__(self, key_types: Sequence[pa.DataType], schema: pa.Schema) -> None:
        self.schema = schema
        self.index = KeyIndex(key_types)
        self._chains = Chains()
        self._rows = RowStore(schema)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self.index.nbytes + self._chains.nbytes + self._rows.nbytes

    @property
    def id_count(self) -> int:
        """One more than the highest row id ever given: the length that columns addressed by row id need."""
        return self._rows.id_count

    def append(
        self, batch: pa.RecordBatch, key_columns: Sequence[pa.Array], hashes: np.ndarray | None = None
    ) -> np.ndarray:
        """int64[n]: the ids of the batch's rows, kept under their keys."""
        slots, _ = self.index.get_or_insert(key_columns, hashes)
        row_ids = self._rows.append(batch)
        self._chains.append(slots, row_ids)
        return row_ids

    def match(
        self, key_columns: Sequence[pa.Array], hashes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(probe_indices int64[m], row_ids int64[m]): every pair of a probe row and a kept row with its key,
        ordered by probe row, then by age.
        """
        return self._chains.match(self.index.get(key_columns, hashes))

    def find(self, key_columns: Sequence[pa.Array]) -> np.ndarray:
        """int64[n]: the slot of each row's key, -1 where no row is kept: one look-up for the two below."""
        return self.index.get(key_columns)

    def match_slots(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `match` for keys that were found."""
        return self._chains.match(slots)

    def count_slots(self, slots: np.ndarray) -> np.ndarray:
        """As `counts` for keys that were found."""
        return self._chains.counts(slots)

    def counts(self, key_columns: Sequence[pa.Array], hashes: np.ndarray | None = None) -> np.ndarray:
        """int64[n]: how many kept rows have each probe row's key."""
        return self._chains.counts(self.index.get(key_columns, hashes))

    def gather(self, row_ids: np.ndarray) -> pa.RecordBatch:
        """The rows of live ids, in their order, repeats allowed."""
        return self._rows.gather(row_ids)

    def delete(self, row_ids: np.ndarray) -> None:
        """Forget rows, and the keys that have none left. An id that is not live is passed over."""
        self.index.delete(self._chains.remove(row_ids))
        self._rows.delete(row_ids)

    def live_row_ids(self) -> np.ndarray:
        """int64[len(self)]: ascending."""
        return self._rows.live_row_ids()

    def keys(self, row_ids: np.ndarray) -> list[pa.Array]:
        """The key columns of live rows."""
        return self.index.keys(self._chains.slots_of(row_ids))

    def snapshot_row_ids(self, max_parallelism: int) -> np.ndarray:
        """The row ids in the order in which `snapshot` writes them, for columns that the caller keeps by row
        id.
        """
        parts = [row_ids for _, row_ids in self._snapshot_parts(max_parallelism)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def snapshot(self, max_parallelism: int) -> pa.Table:
        """Every row in order of key group: `$key_group` int32, the keys as `$key_0` …, then the row.

        Rows of one key stay in order of age.
        """
        keys = [pa.field(f"$key_{number}", data_type) for number, data_type in enumerate(self.index.types)]
        schema = pa.schema([pa.field(KEY_GROUP, pa.int32()), *keys, *self.schema])
        batches = []
        for groups, row_ids in self._snapshot_parts(max_parallelism):
            columns = [to_array(pa.int32(), groups), *self.keys(row_ids), *self.gather(row_ids).columns]
            batches.append(batch_of(schema, columns, len(row_ids)))
        return pa.Table.from_batches(batches, schema=schema)

    def restore(self, table: pa.Table, key_group_start: int, key_group_end: int) -> list[np.ndarray]:
        """Add the rows of a snapshot whose key group is in [key_group_start, key_group_end); returns their
        ids by batch.
        """
        first = 1 + len(self.index.types)
        added = []
        for batch in rows_of_key_groups(table, key_group_start, key_group_end):
            rows = batch_of(self.schema, batch.columns[first:], batch.num_rows)
            added.append(self.append(rows, batch.columns[1:first]))
        return added

    def _snapshot_parts(self, max_parallelism: int) -> list[tuple[np.ndarray, np.ndarray]]:
        slots = self.index.slots()
        probe_indices, row_ids = self._chains.match(slots)
        groups = key_groups(self.index.hashes(slots), max_parallelism)[probe_indices]
        return [(groups[part], row_ids[part]) for part in in_key_group_order(groups, max_parallelism)]
