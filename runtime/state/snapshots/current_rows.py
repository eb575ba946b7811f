"""The rows that a chain of snapshots and increments describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.slots.changes import newest_into
from sqlstream.runtime.kernels.take import take_batch
from sqlstream.runtime.state.storage.arrays import Array

SLOT_COLUMN = "$slot"
"""Second column, int32, of a keyed table that is saved by increments: with the key group it is the identity of an entry, which
may have several rows."""

VERSION_COLUMN = "$version"
"""Third column of such a table, int64: 0 in a whole copy; in an increment the id of its checkpoint, negative in a row that only
says that its entry is gone or has no row."""

FIXED_COLUMNS = 3
"""Key group, slot and version."""


def current_rows(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of the rows of a keyed table, in order of its segments, those that no later increment has replaced or deleted.

    An increment that has any row of an entry replaces all earlier ones of it. The order of rows stays. Each batch is made when it
    is asked for: those of a large table take less memory together, and are still in the processor's cache when they are loaded.
    """
    filled = [batch for batch in batches if batch.num_rows]
    if not filled or not _has_versions(filled[0]):
        yield from filled
        return
    # Only what increments hold is looked up by its identity: most rows are of whole copies, in slots that none of them names.
    index, newest, changed = KeyIndex([pa.int64()]), GrowingArray(np.int64), GrowingArray(np.bool_)
    entries: list[Array | None] = []
    for batch in filled:
        versions = _versions(batch)
        entries.append(_note(index, newest, changed, batch, versions) if versions.any() else None)
    for batch, found in zip(filled, entries, strict=True):
        if found is None:
            kept = _without(batch, _replaced(index, changed, batch))
        else:
            versions = _versions(batch)
            kept = _selected(batch, (versions >= 0) & (newest.values[found] == versions))
        if kept.num_rows:
            yield kept


def whole_rows(batches: Sequence[pa.RecordBatch]) -> int:
    """How many of the rows of a keyed table are of whole copies. The rows of a batch are all of one segment."""
    filled = [batch for batch in batches if batch.num_rows]
    if not filled or not _has_versions(filled[0]):
        return sum(batch.num_rows for batch in filled)
    return sum(batch.num_rows for batch in filled if _versions(batch)[0] == 0)


def _has_versions(batch: pa.RecordBatch) -> bool:
    return bool(batch.schema.names[1:FIXED_COLUMNS] == [SLOT_COLUMN, VERSION_COLUMN])


def _note(
    index: KeyIndex, newest: GrowingArray, changed: GrowingArray, batch: pa.RecordBatch, versions: Array
) -> Array:
    """The entries of an increment's rows, whose newest version and whose slots are noted."""
    entries, _ = index.get_or_insert([_identities(batch, slice(None))])
    newest.reserve(index.slot_count)
    newest_into(newest.values, entries, versions)
    slots = _slots(batch)
    changed.reserve(int(slots.max()) + 1)
    changed.values[slots] = True
    return entries


def _replaced(index: KeyIndex, changed: GrowingArray, batch: pa.RecordBatch) -> Array:
    """The rows of a whole copy whose entries an increment has replaced, ascending."""
    if not changed.count:
        return np.empty(0, dtype=np.int64)
    slots = _slots(batch)
    is_changed = np.zeros(len(slots), dtype=np.bool_)
    is_known = slots < changed.count
    is_changed[is_known] = changed.values[slots[is_known]]
    rows = np.flatnonzero(is_changed)
    return rows[index.get([_identities(batch, rows)]) >= 0]


def _versions(batch: pa.RecordBatch) -> Array:
    return view_values(batch.column(2), np.int64)


def _slots(batch: pa.RecordBatch) -> Array:
    return view_values(batch.column(1), np.int32)


def _identities(batch: pa.RecordBatch, rows: Array | slice) -> pa.Array:
    groups, slots = (view_values(batch.column(n), np.int32)[rows].astype(np.int64) for n in (0, 1))
    return to_array(pa.int64(), groups << 32 | slots)


def _without(batch: pa.RecordBatch, rows: Array) -> pa.RecordBatch:
    if len(rows) == 0:
        return batch
    is_kept = np.ones(batch.num_rows, dtype=np.bool_)
    is_kept[rows] = False
    return _selected(batch, is_kept)


def _selected(batch: pa.RecordBatch, is_kept: Array) -> pa.RecordBatch:
    if is_kept.all():
        return batch
    return take_batch(batch, np.flatnonzero(is_kept).astype(np.int32))
