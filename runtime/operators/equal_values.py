"""Which values of a column a change has left as they were, and which rows of a batch have equal keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.aggregates.numbers import present_rows
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.kernels.keys.words import is_whole_number, storage_dtype
from sqlstream.runtime.kernels.take import take_rows
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.state.storage.arrays import Array


def equal_values(before: pa.Array, after: pa.Array) -> Array:
    """bool[n]: whether the values are the same; NULL is equal to NULL, and NaN to NaN. Nested values, which Arrow does not
    compare, never are.

    >>> equal_values(pa.array([1.0, float("nan"), None]), pa.array([1.0, float("nan"), 2.0])).tolist()
    [True, True, False]
    """
    if is_whole_number(before.type) and before.type == after.type:
        return _equal_numbers(before, after)
    if pa.types.is_null(before.type):
        return np.ones(len(before), dtype=bool)
    if pa.types.is_nested(before.type):
        return np.zeros(len(before), dtype=bool)
    is_same = pc.fill_null(pc.equal(before, after), False)
    for is_special in (pc.is_null, *((pc.is_nan,) if pa.types.is_floating(before.type) else ())):
        both = pc.and_(is_special(before), is_special(after))
        is_same = pc.or_(is_same, pc.fill_null(both, False))
    return np.asarray(is_same.to_numpy(zero_copy_only=False), dtype=bool)


def _equal_numbers(before: pa.Array, after: pa.Array) -> Array:
    dtype = storage_dtype(before.type)
    is_same: Array = view_values(before, dtype) == view_values(after, dtype)
    if before.null_count or after.null_count:
        had, has = present_rows(before), present_rows(after)
        is_same = (had == has) & (is_same | ~has)
    return is_same


def key_groups(
    batch: pa.RecordBatch | DeferredRows, keys: Sequence[int], read_next: Sequence[int] = ()
) -> tuple[Array, Array, list[pa.Array]]:
    """As `batch_groups` of these columns, and the columns of the groups' first rows. Columns that are `read_next` are built with
    them. The arrays are the caller's to change."""
    if isinstance(batch, DeferredRows) and (repeated := batch.groups(keys)) is not None:
        # The same row has the same keys: only different rows are compared.
        groups, first_rows = repeated
        columns = batch.chosen(first_rows).columns(keys)
        merged, first = batch_groups(columns, len(first_rows))
        if len(first) == len(first_rows):
            return groups, first_rows, columns
        groups, first_rows, chosen = merged[groups], first_rows[first], first
    else:
        if isinstance(batch, DeferredRows):
            batch.columns([*keys, *read_next])
        columns = [batch.column(k) for k in keys]
        groups, first_rows = batch_groups(columns, batch.num_rows)
        if len(first_rows) == batch.num_rows:
            return groups, first_rows, columns
        chosen = first_rows
    positions = chosen.astype(np.int32)
    return groups, first_rows, [take_rows(column, positions) for column in columns]


def batch_groups(keys: list[pa.Array], rows: int) -> tuple[Array, Array]:
    """(group of each row, dense int64[n]; first row of each group); without keys there is one group."""
    if keys:
        groups, first_rows = group(keys)
        return groups, first_rows
    return np.zeros(rows, dtype=np.int64), np.zeros(1, dtype=np.int64)
