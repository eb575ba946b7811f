"""Join of rows with the versions that were valid at their times."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_schema
from sqlstream.messages.ledger import DONE, EXPIRED_ROWS, of_side
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.operators.join.joined import PAIRS_MAX, JoinedRows, complete_rows
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.closing import LATE, closed_ms, drop_late
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.state.logs.row_log import RowLog
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows
from sqlstream.specs.join import TemporalJoinSpec

_LEFT, _RIGHT = 0, 1
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class TemporalJoin(Operator[TemporalJoinSpec]):
    """Emits a left row when the watermark passes its time, with the version that was valid then; the output is insert-only.

    State: the left rows that wait, and the versions of each key: those later than the watermark, and the last one before. A
    version is forgotten when the watermark passes the time of the next one, or `right_ttl_ms` after it came; one that is not
    valid, such as the end of a key, when the watermark passes its own. `_unsettled` follows from the state: the versions that
    the watermark has not passed.
    """

    def __init__(self, spec: TemporalJoinSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._joined = JoinedRows(spec.condition, context)
        schemas = [to_arrow_schema(schema) for schema in context.input_schemas]
        scope = context.state.scope
        self._left = context.state.add(RowLog("left", schemas[_LEFT], scope, spec.left_keys))
        self._versions = context.state.add(
            KeyedRows("right", schemas[_RIGHT], spec.right_keys, scope, ttl_ms=spec.right_ttl_ms)
        )
        self._versions.on_expired = partial(context.count, of_side(EXPIRED_ROWS, _RIGHT))
        self._watermark_ms = context.state.add(closed_ms())
        units = [schemas[_LEFT].field(spec.left_time_column), schemas[_RIGHT].field(spec.right_time_column)]
        self._per_second = max(_PER_SECOND[field.type.unit] for field in units)
        self._unsettled: list[tuple[Array, Array]] = []

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if input_index == _LEFT:
            times = times_ms(batch.column(self.spec.left_time_column))
            # A row time is that of a window which ends right behind it.
            rows = batch.num_rows
            batch, ends = drop_late(batch, times + 1, self._watermark_ms.value, self.context)
            if late := rows - batch.num_rows:
                self.context.count(of_side(LATE, _LEFT), late)
            self._left.append(batch, ends - 1)
            return
        complete = complete_rows([batch.column(k) for k in self.spec.right_keys])
        if complete is not None:
            self.count_of_side(DONE, _RIGHT, batch.num_rows - len(complete))
            batch = batch.take(to_array(pa.int64(), complete))
        if batch.num_rows:
            times = times_ms(batch.column(self.spec.right_time_column))
            self._unsettled.append((times, self._versions.append(batch)))

    def held_by_side(self) -> tuple[int, int] | None:
        return self._left.row_count, self._versions.held

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if watermark_ms > self._watermark_ms.value:
            for chunk in self._left.take_until(watermark_ms):
                self.count_of_side(DONE, _LEFT, chunk.batch.num_rows)
                for start in range(0, chunk.batch.num_rows, PAIRS_MAX):
                    self._join(chunk.batch.slice(start, PAIRS_MAX), output)
            self._watermark_ms.value = watermark_ms
            self._settle(watermark_ms)
        return watermark_ms

    # -- matching ----------------------------------------------------------------------------------

    def _join(self, rows: pa.RecordBatch, output: Output) -> None:
        found = self._versions.find([rows.column(k) for k in self.spec.left_keys], rows.num_rows)
        keys, key_of_row = np.unique(found, return_inverse=True)
        if len(keys) and keys[0] < 0:
            keys, key_of_row = keys[1:], key_of_row - 1
        version_keys, versions, version_times = self._ordered_versions(keys)
        times = self._times(rows.column(self.spec.left_time_column))
        places = _last_not_after(version_keys, version_times, key_of_row, times)
        mine = np.flatnonzero(places >= 0)
        joined, passed = self._joined.pairs(rows, versions, mine, places[mine])
        output.emit(joined)
        if self.spec.kind.pads(_LEFT):
            is_matched = np.zeros(rows.num_rows, dtype=bool)
            is_matched[mine[passed]] = True
            output.emit(self._joined.padded(rows, np.flatnonzero(~is_matched)))

    def _ordered_versions(self, slots: Array) -> tuple[Array, pa.RecordBatch, Array]:
        """All versions of these keys: the number of the key, the row and its time, by key, time and arrival."""
        numbers, row_ids = self._versions.match(slots)
        rows = self._versions.gather(row_ids)
        times = self._times(rows.column(self.spec.right_time_column))
        order = np.lexsort((times, numbers))
        return numbers[order], rows.take(to_array(pa.int64(), order)), times[order]

    def _times(self, column: pa.Array) -> Array:
        """Times of either side in one unit, exactly."""
        return view_values(column, np.int64) * (self._per_second // _PER_SECOND[column.type.unit])

    # -- forgetting --------------------------------------------------------------------------------

    def _settle(self, watermark_ms: int) -> None:
        """Forget the versions that a later one has replaced for every row that is still to come."""
        settled, waiting = [], []
        for times, row_ids in self._unsettled:
            is_settled = times <= watermark_ms
            settled.append(row_ids[is_settled])
            if not is_settled.all():
                waiting.append((times[~is_settled], row_ids[~is_settled]))
        self._unsettled = waiting
        self._forget_replaced(settled, watermark_ms)

    def _forget_replaced(self, row_ids: list[Array], watermark_ms: int) -> None:
        """Of the keys of these versions. One that has expired is in no chain, or it is another one, of a key that need not be
        looked at."""
        if not row_ids:
            return
        slots = self._versions.slots_of(np.concatenate(row_ids))
        slots = np.unique(slots[slots >= 0])
        for start in range(0, len(slots), PAIRS_MAX):
            numbers, found = self._versions.match(slots[start : start + PAIRS_MAX])
            rows = self._versions.gather(found)
            column = rows.column(self.spec.right_time_column)
            times = self._times(column)
            order = np.lexsort((times, numbers))
            numbers, found, times, rounded = (
                numbers[order],
                found[order],
                times[order],
                times_ms(column)[order],
            )
            is_replaced = (rounded[1:] <= watermark_ms) | (times[1:] == times[:-1])
            is_forgotten = np.zeros(len(found), dtype=bool)
            is_forgotten[:-1] = is_replaced & (numbers[:-1] == numbers[1:])
            if self.spec.right_valid_column >= 0:
                # The newest version at or below the watermark matches nothing: as good as none.
                valid = pc.fill_null(rows.column(self.spec.right_valid_column), False)
                is_forgotten |= (rounded <= watermark_ms) & ~valid.to_numpy(zero_copy_only=False)[order]
            self.count_of_side(DONE, _RIGHT, int(np.count_nonzero(is_forgotten)))
            self._versions.remove(found[is_forgotten])

    def prepare_snapshot(self, output: Output) -> None:
        # Versions are restored in any order: of those with one time, the last one is saved alone.
        self._forget_replaced([row_ids for _, row_ids in self._unsettled], self._watermark_ms.value)

    def on_restored(self) -> None:
        row_ids = self._versions.row_ids()
        column = self._versions.gather(row_ids).column(self.spec.right_time_column)
        self._unsettled = [(times_ms(column), row_ids)] if len(row_ids) else []


def _last_not_after(keys: Array, times: Array, probe_keys: Array, probe_times: Array) -> Array:
    """int64[n]: for each probe the place of the last entry with its key and a time not after its own; -1 without one.

    Entries are ordered by key, then time. Keys are small numbers; a negative one has no entry.
    """
    if len(keys) == 0:
        return np.full(len(probe_keys), -1, dtype=np.int64)
    distinct = np.unique(times)
    # One number orders keys and times: times count by their place, so that it cannot overflow.
    width = len(distinct) + 1
    entries = keys * width + np.searchsorted(distinct, times, side="left") + 1
    probes = probe_keys * width + np.searchsorted(distinct, probe_times, side="right")
    places = np.searchsorted(entries, probes, side="right") - 1
    is_found = (probe_keys >= 0) & (places >= 0)
    is_found[is_found] = keys[places[is_found]] == probe_keys[is_found]
    return np.where(is_found, places, -1)
