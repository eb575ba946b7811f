"""The key group column of snapshots: rows in order of key group, and the rows of a range of groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.kernels.ordering import argsort_stable_by

#: The name of the int32 column with the key group, the first of every snapshot of keyed state.
KEY_GROUP = "$key_group"

_SNAPSHOT_ROWS = 1 << 16


def in_key_group_order(groups: np.ndarray, max_parallelism: int) -> Iterator[np.ndarray]:
    """Row numbers in order of key group, otherwise as they are, in parts of at most 65,536."""
    order, _ = argsort_stable_by(groups, max_parallelism)
    for start in range(0, len(order), _SNAPSHOT_ROWS):
        yield order[start : start + _SNAPSHOT_ROWS]


def rows_of_key_groups(table: pa.Table, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The batches of a snapshot with only the rows whose key group is in [start, end)."""
    for batch in table.to_batches():
        groups = batch.column(0)
        mask = pc.and_(pc.greater_equal(groups, start), pc.less(groups, end))
        kept = batch.filter(mask)
        if kept.num_rows:
            yield kept
