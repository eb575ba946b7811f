"""The rows that another table of state has let go because of their age, for `t$expired`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from sqlstream import config as options
from sqlstream.expired_rows import JOB, LAST_USED, NOT_KEPT, ROWS, kept_name
from sqlstream.graph.state_identity import ExpiredState
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.state.operator_state import ExpiringTable, StateScope, StateTable
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.runtime.state.state_ttl import TOUCHED_COLUMN
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows

_OWN = pa.schema([("$group", pa.int32()), (JOB, pa.string()), (LAST_USED, pa.int64()), (ROWS, pa.int64())])
_LAST_USED, _ROWS = _OWN.get_field_index(LAST_USED), _OWN.get_field_index(ROWS)


class ExpiredRows(KeyedRows):
    """A bounded log of expired rows: those of the last `retention_ms`, at most `rows_max` of them and about `bytes_max` bytes.

    A row keeps its key group, so that a rescale moves it with its key, and equal rows are one with a count. What is beyond the
    bounds is removed at once, the oldest first and an eighth more than needed; `count_not_kept` is called with how many. A row
    that is removed because of the retention is not counted: that is no loss of state.
    State: that of `KeyedRows`, and about how many bytes each row has.
    """

    def __init__(
        self,
        of: ExpiringTable,
        kept: ExpiredState,
        scope: StateScope,
        *,
        job_id: str,
        retention_ms: int,
        rows_max: int,
        bytes_max: int,
        count_not_kept: Callable[[int], None] = lambda rows: None,
    ) -> None:
        fields = [of.schema.field(column.place).with_name(column.name) for column in kept.columns]
        self._places = [column.place for column in kept.columns]
        self._job_id = job_id
        self._rows_max, self._bytes_max = rows_max, bytes_max
        self._count_not_kept = count_not_kept
        self._sizes = GrowingArray(np.int64)
        self._bytes = 0
        super().__init__(kept_name(of.name), pa.schema([*_OWN, *fields]), (0,), scope, ttl_ms=retention_ms)

    def keep(self, table: ExpiringTable, slots: Array) -> None:
        """Take these entries of a table."""
        if not len(slots):
            return
        names = table.saved_names
        first = len(names) - len(table.schema)
        owners, columns = table.saved(slots)
        is_counted = "$count" in names
        rows = columns[names.index("$count")] if is_counted else pa.array(np.ones(len(owners), np.int64))
        own = [
            to_array(pa.int32(), table.key_groups(owners)),
            pa.repeat(pa.scalar(self._job_id), len(owners)),
            columns[names.index(TOUCHED_COLUMN)],
            rows,
        ]
        self._take(
            pa.RecordBatch.from_arrays(
                [*own, *(columns[first + p] for p in self._places)], schema=self.schema
            )
        )

    def _take(self, batch: pa.RecordBatch) -> None:
        excess = batch.num_rows - self._rows_max
        if excess > 0:
            by_age = np.argsort(view_values(batch.column(_LAST_USED), np.int64), kind="stable")
            self._count_not_kept(_rows_of(batch.column(_ROWS).take(pa.array(by_age[:excess]))))
            batch = batch.take(pa.array(by_age[excess:]))
        self.append(batch)
        if self.row_count > self._rows_max or self._bytes > self._bytes_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        ids = self.row_ids()
        (last_used,) = self.columns(ids, [_LAST_USED])
        # The last to expire first; of those that expired together, the last to be used first.
        ids = ids[np.lexsort((view_values(last_used, np.int64), self._ttl.touched_ms(ids)))[::-1]]
        kept = len(ids)
        if kept > self._rows_max:
            kept = _with_room(self._rows_max)
        if self._bytes > self._bytes_max:
            sizes = np.cumsum(self._sizes.values[ids[:kept]])
            kept = int(np.searchsorted(sizes, _with_room(self._bytes_max), side="right"))
        gone = ids[kept:]
        self._count_not_kept(_rows_of(self.columns(gone, [_ROWS])[0]))
        self.remove(gone)

    def _append(self, batch: pa.RecordBatch) -> Array:
        row_ids = super()._append(batch)
        self._sizes.reserve(self._rows.id_count)
        size = batch.nbytes // max(batch.num_rows, 1)
        self._sizes.values[row_ids] = size
        self._bytes += size * len(row_ids)
        return row_ids

    def _forget(self, row_ids: Array) -> None:
        self._bytes -= int(self._sizes.values[row_ids].sum())
        super()._forget(row_ids)

    # -- what the runtime calls --------------------------------------------------------------------

    def expire(self) -> int:
        super().expire()
        # No state expires: these rows are counted already.
        return 0

    def nbytes(self) -> int:
        return super().nbytes() + int(self._sizes.nbytes)

    def load(self, saved: SavedTables) -> None:
        """Columns are found by their names: another statement may keep others, and has NULL for those that were not kept."""
        for batch in saved.batches(self.name):
            found = [batch.schema.get_field_index(field.name) for field in self.schema]
            columns = [
                batch.column(place)
                if place >= 0 and batch.column(place).type == field.type
                else pa.nulls(batch.num_rows, field.type)
                for field, place in zip(self.schema, found, strict=True)
            ]
            row_ids = self._append(pa.RecordBatch.from_arrays(columns, schema=self.schema))
            self._ttl.load(row_ids, view_values(batch.column(TOUCHED_COLUMN), np.int64))

    # -- what its changes read ---------------------------------------------------------------------

    def key_groups(self, slots: Array) -> Array:
        (groups,) = self.columns(slots, [0])
        return view_values(groups, np.int32)


def _rows_of(counts: pa.Array) -> int:
    return int(view_values(counts, np.int64).sum())


def _with_room(most: int) -> int:
    """What is left when something must go, so that not every batch sorts all rows."""
    return most - most // 8


def keeper_of(
    kept: tuple[ExpiredState, ...],
    scope: StateScope,
    config: Mapping[str, str],
    job_id: str,
    count: Callable[[str, int], None],
) -> Callable[[StateTable], StateTable | None]:
    """What makes the logs of an operator: one for each of its tables that `kept` names."""
    by_name = {each.state: each for each in kept}
    retention_ms = int(options.get(config, "sqlstream.state.expired-rows.retention"))

    def keep_expired(table: StateTable) -> StateTable | None:
        if table.name not in by_name or not retention_ms or not isinstance(table, ExpiringTable):
            return None
        log = ExpiredRows(
            table,
            by_name[table.name],
            scope,
            job_id=job_id,
            retention_ms=retention_ms,
            rows_max=int(options.get(config, "sqlstream.state.expired-rows.max-rows")),
            bytes_max=int(options.get(config, "sqlstream.state.expired-rows.max-bytes")),
            count_not_kept=lambda rows: count(NOT_KEPT, rows),
        )
        table.on_expiring = log.keep
        return log

    return keep_expired
