"""The first column of a keyed snapshot."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.hashing import hash_columns, key_groups


def key_group_column(keys: list[pa.Array], rows: int, max_parallelism: int) -> pa.Array:
    """Key group of each row, int32; 0 without keys, where the operator runs in one subtask."""
    if not keys:
        return pa.array(np.zeros(rows, dtype=np.int32))
    return pa.array(key_groups(hash_columns(keys), max_parallelism).astype(np.int32))
