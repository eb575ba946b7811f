"""Saves RowLogs as snapshot tables and loads them: by key group, or as shared tables for a broadcast input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.kernels.buffers import to_array, view_values
from runtime.operators.operator import OperatorContext
from runtime.state.key_group_column import key_group_column
from runtime.state.row_log import RowLog
from runtime.state.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot

_SUBTASK_COLUMN = "$subtask"
_PROGRESS = "progress"
_SIDES = ("left", "right")


def save_log(
    snapshot: OperatorSnapshot, name: str, log: RowLog, keys: tuple[int, ...], context: OperatorContext
) -> None:
    """Add the log's rows to the snapshot: key group, time, whether they have matched, then the columns.

    Without keys all rows belong to key group 0: the operator runs in one subtask.
    """
    rows = log.rows()
    if rows is None:
        return
    columns = [rows.batch.column(k) for k in keys]
    groups = key_group_column(columns, rows.batch.num_rows, context.max_parallelism)
    snapshot.keyed[name] = _log_table(KEY_GROUP_COLUMN, groups, log)


def load_log(snapshot: OperatorSnapshot, name: str, log: RowLog) -> None:
    """The inverse, on an empty log."""
    _append_saved(log, snapshot.keyed.get(name))


def save_sides(
    logs: list[RowLog],
    keys: tuple[tuple[int, ...], ...],
    progress_ms: int,
    broadcast_input: int,
    context: OperatorContext,
) -> OperatorSnapshot:
    """Both sides of a join, and the event time of this subtask.

    Every subtask saves a broadcast side as a shared table. These logs differ only by the rows that a subtask has forgotten,
    more of them the later its event time. So the log of the subtask with the least event time, which holds all rows of the
    others, is restored. Rows of the other side may go to any subtask; they are spread evenly over the key groups.
    """
    snapshot = OperatorSnapshot()
    table = {
        _SUBTASK_COLUMN: pa.array([context.subtask], pa.int32()),
        "watermark_ms": pa.array([progress_ms], pa.int64()),
    }
    snapshot.shared[_PROGRESS] = pa.table(table)
    for side, (name, log) in enumerate(zip(_SIDES, logs, strict=True)):
        if broadcast_input < 0:
            save_log(snapshot, name, log, keys[side], context)
        elif log.chunks:
            count = sum(len(chunk.times) for chunk in log.chunks)
            if side == broadcast_input:
                subtasks = pa.array(np.full(count, context.subtask, dtype=np.int32))
                snapshot.shared[name] = _log_table(_SUBTASK_COLUMN, subtasks, log)
            else:
                groups = pa.array((context.subtask + np.arange(count)) % context.max_parallelism, pa.int32())
                snapshot.keyed[name] = _log_table(KEY_GROUP_COLUMN, groups, log)
    return snapshot


def load_sides(snapshot: OperatorSnapshot, logs: list[RowLog], broadcast_input: int) -> int | None:
    """The inverse, on empty logs; returns the least event time of the old subtasks, None when nothing was saved."""
    progress = snapshot.shared.get(_PROGRESS)
    if progress is None or progress.num_rows == 0:
        return None
    watermarks = progress.column("watermark_ms").to_numpy()
    slowest = progress.column(_SUBTASK_COLUMN).to_numpy()[int(np.argmin(watermarks))]
    for side, (name, log) in enumerate(zip(_SIDES, logs, strict=True)):
        if side == broadcast_input:
            table = snapshot.shared.get(name)
            if table is not None:
                table = table.filter(pc.equal(table.column(_SUBTASK_COLUMN), int(slowest)))
            _append_saved(log, table)
        else:
            load_log(snapshot, name, log)
    return int(watermarks.min())


def _log_table(first_column: str, first_values: pa.Array, log: RowLog) -> pa.Table:
    rows = log.rows()
    assert rows is not None
    fixed = [first_values, to_array(pa.int64(), rows.times), pa.array(rows.is_matched)]
    names = [first_column, "time_ms", "is_matched", *(f"c{i}" for i in range(rows.batch.num_columns))]
    return pa.table([*fixed, *rows.batch.columns], names=names)


def _append_saved(log: RowLog, table: pa.Table | None) -> None:
    if table is None or table.num_rows == 0:
        return
    saved = table.combine_chunks().to_batches()[0]
    batch = pa.RecordBatch.from_arrays(saved.columns[3:], schema=log.schema)
    matched = saved.column(2).to_numpy(zero_copy_only=False).astype(bool)
    log.append(batch, view_values(saved.column(1), np.int64).copy(), matched)
