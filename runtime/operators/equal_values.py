"""Which values of a column a change has left as they were, and which rows of a batch have equal keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.state.storage.arrays import Array


def equal_values(before: pa.Array, after: pa.Array) -> Array:
    """bool[n]: whether the values are the same; NULL is equal to NULL, and NaN to NaN. Nested values, which Arrow does not
    compare, never are.

    >>> equal_values(pa.array([1.0, float("nan"), None]), pa.array([1.0, float("nan"), 2.0])).tolist()
    [True, True, False]
    """
    if pa.types.is_null(before.type):
        return np.ones(len(before), dtype=bool)
    if pa.types.is_nested(before.type):
        return np.zeros(len(before), dtype=bool)
    is_same = pc.fill_null(pc.equal(before, after), False)
    for is_special in (pc.is_null, *((pc.is_nan,) if pa.types.is_floating(before.type) else ())):
        both = pc.and_(is_special(before), is_special(after))
        is_same = pc.or_(is_same, pc.fill_null(both, False))
    return np.asarray(is_same.to_numpy(zero_copy_only=False), dtype=bool)


def batch_groups(keys: list[pa.Array], rows: int) -> tuple[Array, Array]:
    """(group of each row, dense int64[n]; first row of each group); without keys there is one group."""
    if keys:
        groups, first_rows = group(keys)
        return groups, first_rows
    return np.zeros(rows, dtype=np.int64), np.zeros(1, dtype=np.int64)
