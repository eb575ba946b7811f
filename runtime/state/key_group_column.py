"""The key group column of keyed snapshots, and snapshots that add only this column to the state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.hashing import hash_columns, key_groups
from runtime.kernels.index import KeyIndex
from runtime.state.arrays import Array
from runtime.state.snapshot import KEY_GROUP_COLUMN


def key_group_column(keys: list[pa.Array], rows: int, max_parallelism: int) -> pa.Array:
    """Key group of each row, int32; 0 without keys, where the operator runs in one subtask."""
    if not keys:
        return pa.array(np.zeros(rows, dtype=np.int32))
    return pa.array(key_groups(hash_columns(keys), max_parallelism))


def save_columns(columns: list[pa.Array], keys: int, max_parallelism: int) -> pa.Table:
    """A keyed snapshot of columns of which the first `keys` are the key."""
    groups = key_group_column(columns[:keys], len(columns[-1]), max_parallelism)
    return pa.table([groups, *columns], names=[KEY_GROUP_COLUMN, *(f"c{i}" for i in range(len(columns)))])


def load_columns(table: pa.Table | None) -> list[pa.Array] | None:
    """The inverse; None when there are no rows."""
    if table is None or table.num_rows == 0:
        return None
    return list(table.combine_chunks().to_batches()[0].columns[1:])


def slot_key_groups(index: KeyIndex | None, slots: Array, max_parallelism: int) -> Array:
    """int32[n]: the key group of each live slot, of which the index has the hash; 0 without an index."""
    if index is None:
        return np.zeros(len(slots), dtype=np.int32)
    return key_groups(index.hashes(slots), max_parallelism)
