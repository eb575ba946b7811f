"""Splits a batch by target in one stable pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array
from runtime.kernels.hashing import hash_columns, subtasks
from runtime.kernels.ordering import argsort_stable_by


def partition(batch: pa.RecordBatch, targets: np.ndarray, n: int) -> list[pa.RecordBatch | None]:
    """The rows of each target 0 … n - 1 in their order, None where there are none.

    `targets` is int[batch.num_rows]. A single target receives the batch itself; otherwise the batch is copied
    once, in order of target, and the parts are slices of the copy.
    """
    parts: list[pa.RecordBatch | None] = [None] * n
    if batch.num_rows == 0:
        return parts
    if n == 1:
        return [batch]
    order, starts = argsort_stable_by(targets, n)
    counts = np.diff(starts)
    filled = np.flatnonzero(counts)
    if len(filled) == 1:
        parts[int(filled[0])] = batch
        return parts
    ordered = batch.take(to_array(pa.int64(), order))
    for target in filled.tolist():
        parts[target] = ordered.slice(int(starts[target]), int(counts[target]))
    return parts


def split_by_key(
    batch: pa.RecordBatch, key_columns: Sequence[int | str], n: int, max_parallelism: int
) -> list[pa.RecordBatch | None]:
    """The rows of each of n subtasks, by the key group of their key. Without key columns all rows go to
    subtask 0.
    """
    if n == 1 or not key_columns:
        return partition(batch, np.zeros(batch.num_rows, dtype=np.int32), n)
    hashes = hash_columns([batch.column(column) for column in key_columns])
    return partition(batch, subtasks(hashes, max_parallelism, n), n)
