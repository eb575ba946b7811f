"""Keeps the first or the last row per key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.index import KeyIndex
from runtime.kernels.rank import best_rows_into
from runtime.operators.batch_groups import batch_groups
from runtime.operators.expiring import ExpiringOperator
from runtime.operators.operator import Operator, OperatorContext, Output
from runtime.operators.window.windowing import times_ms
from runtime.state.arrays import Array, grown
from runtime.state.columns import RowStore
from runtime.state.key_group_column import slot_key_groups
from runtime.state.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.specs.rank import DeduplicateSpec, Keep, RankPhase


def make_deduplicate(spec: DeduplicateSpec, context: OperatorContext) -> Operator[DeduplicateSpec]:
    """The operator for the spec's phase."""
    return LocalDeduplicate(spec, context) if spec.phase is RankPhase.LOCAL else Deduplicate(spec, context)


class LocalDeduplicate(Operator[DeduplicateSpec]):
    """Emits one row per key of each batch. No state."""

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        rows, _ = best_rows(self.spec, batch)
        if len(rows) == batch.num_rows:
            output.emit(batch)
        else:
            output.emit_rows(batch, np.sort(rows).astype(np.int32))


class Deduplicate(ExpiringOperator[DeduplicateSpec]):
    """Emits a row that is the best of its key so far, and retracts the previous best.

    State: the best time per key, and the row itself where a -U must repeat it; dropped `state_ttl_ms` after the key's last
    row.
    """

    def __init__(self, spec: DeduplicateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context, spec.state_ttl_ms)
        self._input_schema = to_arrow_schema(context.input_schemas[0])
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        # Without key columns all rows have one key, slot 0.
        self._key_types = [self._input_schema.field(k).type for k in spec.keys] or [pa.int8()]
        self._index = KeyIndex(self._key_types)
        self._times: Array = np.empty(0, dtype=np.int64)
        self._row_ids: Array = np.empty(0, dtype=np.int64)
        self._rows = RowStore(self._input_schema) if context.output_mode is ChangelogMode.RETRACT else None
        self._sequence = 0

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        self.expire()
        candidates, times = best_rows(self.spec, batch, self._sequence)
        self._sequence += batch.num_rows
        keys = [batch.column(k) for k in self.spec.keys] or [
            to_array(pa.int8(), np.zeros(batch.num_rows, dtype=np.int8))
        ]
        if len(candidates) < batch.num_rows:
            chosen = to_array(pa.int64(), candidates)
            keys = [key.take(chosen) for key in keys]
        slots, is_new = self._index.get_or_insert(keys)
        self._resize(self._index.slot_count)
        held = self._times[slots]
        wins = is_new | (times >= held if self.spec.keep is Keep.LAST else times < held)
        self.ttl.touch(slots)
        if wins.any():
            winners, slots = np.flatnonzero(wins), slots[wins]
            self._times[slots] = times[winners]
            rows = (
                batch
                if len(winners) == batch.num_rows
                else batch.take(to_array(pa.int64(), candidates[winners]))
            )
            self._emit(rows, slots, is_new[winners], output)

    def _resize(self, capacity: int) -> None:
        self._times = grown(self._times, capacity)
        if self._rows is not None:
            self._row_ids = grown(self._row_ids, capacity, -1)

    def _emit(self, rows: pa.RecordBatch, slots: Array, is_new: Array, output: Output) -> None:
        if self.context.output_mode is ChangelogMode.INSERT_ONLY:
            output.emit(self._ranked(rows, None))
            return
        kinds = np.where(is_new, RowKind.INSERT, RowKind.UPDATE_AFTER).astype(np.int8)
        if self._rows is None:
            output.emit(self._ranked(rows, kinds))
            return
        replaced = np.flatnonzero(~is_new)
        old_ids = self._row_ids[slots[replaced]]
        old = self._rows.gather(old_ids)
        self._rows.delete(old_ids)
        self._row_ids[slots] = self._rows.append(rows)
        # Inputs of a UNION ALL may differ in their column names; the batches are concatenated.
        rows = pa.RecordBatch.from_arrays(rows.columns, schema=self._input_schema)
        both = pa.concat_batches([old, rows])
        kinds = np.concatenate([np.full(len(replaced), RowKind.UPDATE_BEFORE, dtype=np.int8), kinds])
        # Each -U directly before its +U.
        order = np.argsort(np.concatenate([2 * replaced, 2 * np.arange(rows.num_rows) + 1]), kind="stable")
        output.emit(self._ranked(both.take(to_array(pa.int64(), order)), kinds[order]))

    def _ranked(self, rows: pa.RecordBatch, kinds: Array | None) -> pa.RecordBatch:
        columns = list(rows.columns)
        if self.spec.outputs_rank:
            columns.append(to_array(pa.int64(), np.ones(rows.num_rows, dtype=np.int64)))
        if kinds is not None:
            columns.append(to_array(pa.int8(), kinds))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    # -- expiry ------------------------------------------------------------------------------------

    def forget_expired(self, slots: Array) -> None:
        if self._rows is not None:
            self._rows.delete(self._row_ids[slots])
        self._index.delete(slots)

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> OperatorSnapshot:
        slots = self._index.slots()
        # Without key columns the operator runs in one subtask, and its single key is no column of the input.
        index = self._index if self.spec.keys else None
        groups = slot_key_groups(index, slots, self.context.max_parallelism)
        numbers = (self._times[slots], self.ttl.touched_ms(slots))
        columns = [pa.array(groups), *(to_array(pa.int64(), n) for n in numbers)]
        columns += self._index.keys(slots)
        if self._rows is not None:
            columns += self._rows.gather(self._row_ids[slots]).columns
        names = [KEY_GROUP_COLUMN, *(f"c{i}" for i in range(len(columns) - 1))]
        shared = {"sequence": pa.table({"sequence": [self._sequence]})}
        return OperatorSnapshot(keyed={"rows": pa.table(columns, names=names)}, shared=shared)

    def restore(self, snapshot: OperatorSnapshot) -> None:
        sequence = snapshot.shared.get("sequence")
        if sequence is not None and sequence.num_rows:
            self._sequence = int(sequence.column("sequence").to_numpy().max())
        table = snapshot.keyed.get("rows")
        if table is None or table.num_rows == 0:
            return
        saved = table.combine_chunks().to_batches()[0]
        first = 3 + len(self._key_types)
        slots, _ = self._index.get_or_insert(list(saved.columns[3:first]))
        self._resize(self._index.slot_count)
        self._times[slots] = view_values(saved.column(1), np.int64)
        self.ttl.load(slots, view_values(saved.column(2), np.int64))
        if self._rows is not None:
            rows = pa.RecordBatch.from_arrays(saved.columns[first:], schema=self._input_schema)
            self._row_ids[slots] = self._rows.append(rows)

    def state_bytes(self) -> int:
        rows = 0 if self._rows is None else int(self._rows.nbytes)
        return int(self._index.nbytes + self._times.nbytes + self._row_ids.nbytes) + self.ttl.nbytes() + rows


def best_rows(spec: DeduplicateSpec, batch: pa.RecordBatch, first_sequence: int = 0) -> tuple[Array, Array]:
    """The best row per key of the batch, and its time (by processing time: `first_sequence` + its row number)."""
    groups, first_rows = batch_groups([batch.column(k) for k in spec.keys], batch.num_rows)
    if spec.time_column >= 0:
        times = times_ms(batch.column(spec.time_column))
    else:
        times = first_sequence + np.arange(batch.num_rows)
    rows = np.full(len(first_rows), -1, dtype=np.int64)
    best = np.zeros(len(first_rows), dtype=np.int64)
    best_rows_into(rows, best, groups, np.ascontiguousarray(times), spec.keep is Keep.LAST)
    return rows, best
