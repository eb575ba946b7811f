"""The key groups of saved rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.hashing import hash_columns, key_groups
from sqlstream.runtime.kernels.index import KeyIndex
from sqlstream.runtime.state.storage.arrays import Array


def key_group_column(keys: list[pa.Array], rows: int, max_parallelism: int) -> pa.Array:
    """Key group of each row, int32; 0 without keys, where the operator runs in one subtask."""
    if not keys:
        return pa.array(np.zeros(rows, dtype=np.int32))
    return pa.array(key_groups(hash_columns(keys), max_parallelism))


def slot_key_groups(index: KeyIndex | None, slots: Array, max_parallelism: int) -> Array:
    """int32[n]: the key group of each live slot, of which the index has the hash; 0 without an index."""
    if index is None:
        return np.zeros(len(slots), dtype=np.int32)
    return key_groups(index.hashes(slots), max_parallelism)
