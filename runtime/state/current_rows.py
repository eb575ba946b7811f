"""The rows that a chain of snapshots and increments describes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.changes import newest_into
from runtime.kernels.growing import GrowingArray
from runtime.kernels.index import KeyIndex
from runtime.state.arrays import Array

SLOT_COLUMN = "$slot"
"""Second column, int32, of a keyed table that is saved by increments: with the key group it is the identity of an entry, which
may have several rows."""

VERSION_COLUMN = "$version"
"""Third column of such a table, int64: 0 in a whole copy; in an increment the id of its checkpoint, negative in a row that only
says that its entry is gone or has no row."""

FIXED_COLUMNS = 3
"""Key group, slot and version."""


def current_rows(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Of the rows of a keyed table, in order of its segments, those that no later increment has replaced or deleted.

    An increment that has any row of an entry replaces all earlier ones of it. The order of rows stays.
    """
    filled = [batch for batch in batches if batch.num_rows]
    if not filled or filled[0].schema.names[1:FIXED_COLUMNS] != [SLOT_COLUMN, VERSION_COLUMN]:
        return filled
    versions = [view_values(batch.column(2), np.int64) for batch in filled]
    if not any(v.any() for v in versions):
        return filled
    index, newest, entries = KeyIndex([pa.int64()]), GrowingArray(np.int64), []
    for batch, numbers in zip(filled, versions, strict=True):
        entries.append(index.get_or_insert([_identities(batch)])[0])
        newest.reserve(index.slot_count)
        newest_into(newest.values, entries[-1], numbers)
    kept = [
        _selected(batch, (numbers >= 0) & (newest.values[found] == numbers))
        for batch, numbers, found in zip(filled, versions, entries, strict=True)
    ]
    return [batch for batch in kept if batch.num_rows]


def _identities(batch: pa.RecordBatch) -> pa.Array:
    groups, slots = (view_values(batch.column(n), np.int32).astype(np.int64) for n in (0, 1))
    return to_array(pa.int64(), groups << 32 | slots)


def _selected(batch: pa.RecordBatch, is_kept: Array) -> pa.RecordBatch:
    if is_kept.all():
        return batch
    return batch.take(to_array(pa.int64(), np.flatnonzero(is_kept)))
