"""A RowLog as a keyed snapshot table and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.hashing import hash_columns, key_groups
from runtime.operators.operator import KEY_GROUP_COLUMN, OperatorContext, OperatorSnapshot
from runtime.operators.row_log import RowLog


def save_log(
    snapshot: OperatorSnapshot, name: str, log: RowLog, keys: tuple[int, ...], context: OperatorContext
) -> None:
    """Add the log's rows to the snapshot: key group, time, whether matched, then the columns.

    Without keys all rows belong to key group 0: the operator runs in one subtask.
    """
    rows = log.rows()
    if rows is None:
        return
    groups = np.zeros(rows.batch.num_rows, dtype=np.int32)
    if keys:
        hashes = hash_columns([rows.batch.column(k) for k in keys])
        groups = key_groups(hashes, context.max_parallelism).astype(np.int32)
    fixed = [pa.array(groups), to_array(pa.int64(), rows.times), pa.array(rows.is_matched)]
    names = [KEY_GROUP_COLUMN, "time_ms", "is_matched", *(f"c{i}" for i in range(rows.batch.num_columns))]
    snapshot.keyed[name] = pa.table([*fixed, *rows.batch.columns], names=names)


def load_log(snapshot: OperatorSnapshot, name: str, log: RowLog, schema: pa.Schema) -> None:
    """The inverse, on an empty log."""
    table = snapshot.keyed.get(name)
    if table is None or table.num_rows == 0:
        return
    saved = table.combine_chunks().to_batches()[0]
    batch = pa.RecordBatch.from_arrays(saved.columns[3:], schema=schema)
    matched = saved.column(2).to_numpy(zero_copy_only=False).astype(bool)
    log.append(batch, view_values(saved.column(1), np.int64).copy(), matched)
