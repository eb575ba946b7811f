"""State with many rows per key, for joins: a key index, one chain of row ids per key, and the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.chains import Chains
from runtime.kernels.index import KeyIndex
from runtime.state.columns import RowStore


class KeyedRows:
    """A multi-map of keys to rows, for whole batches.

    Rows of a key keep their order of arrival. NULL keys match NULL keys: an operator with SQL's `=` must leave those rows
    out itself. State: index, chains and rows; a key is forgotten with its last row, and memory of deleted rows is reused.
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
        """One more than the highest row id ever assigned: the length that columns addressed by row id need."""
        return self._rows.id_count

    def append(self, batch: pa.RecordBatch, key_columns: Sequence[pa.Array]) -> np.ndarray:
        """Add the batch's rows under their keys; returns their ids, int64[n]."""
        slots, _ = self.index.get_or_insert(key_columns)
        row_ids = self._rows.append(batch)
        self._chains.append(slots, row_ids)
        return row_ids

    def find(self, key_columns: Sequence[pa.Array]) -> np.ndarray:
        """int64[n]: the slot of each probe row's key, -1 where no row is kept."""
        return self.index.get(key_columns)

    def match(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(probe_indices int64[m], row_ids int64[m]): every pair of a found slot and a row kept under its key, ordered by
        probe, then by age.
        """
        return self._chains.match(slots)

    def counts(self, slots: np.ndarray) -> np.ndarray:
        """int64[n]: the number of rows under each found slot's key."""
        return self._chains.counts(slots)

    def gather(self, row_ids: np.ndarray) -> pa.RecordBatch:
        """The rows of live ids, in their order, repeats allowed."""
        return self._rows.gather(row_ids)

    def delete(self, row_ids: np.ndarray) -> None:
        """Forget rows, and the keys that have none left. An id that is not live is ignored."""
        self.index.delete(self._chains.remove(row_ids))
        self._rows.delete(row_ids)

    def live_row_ids(self) -> np.ndarray:
        """int64[len(self)]: the live row ids, ascending."""
        return self._rows.live_row_ids()
