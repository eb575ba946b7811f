"""The groups of one batch's rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.group import group
from sqlstream.runtime.state.storage.arrays import Array


def batch_groups(keys: list[pa.Array], rows: int) -> tuple[Array, Array]:
    """(group of each row, dense int64[n]; first row of each group); without keys there is one group."""
    if keys:
        groups, first_rows = group(keys)
        return groups, first_rows
    return np.zeros(rows, dtype=np.int64), np.zeros(1, dtype=np.int64)
