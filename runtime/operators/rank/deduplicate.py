"""Keeps the first or the last row per key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.messages.ledger import FILTERED
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.rank import best_rows_into
from sqlstream.runtime.kernels.take import ascending
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.slot_columns import NumberColumn, RowColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.specs.rank import DeduplicateSpec, Keep, RankPhase


def make_deduplicate(spec: DeduplicateSpec, context: OperatorContext) -> Operator[DeduplicateSpec]:
    """The operator for the spec's phase."""
    return LocalDeduplicate(spec, context) if spec.phase is RankPhase.LOCAL else Deduplicate(spec, context)


class LocalDeduplicate(Operator[DeduplicateSpec]):
    """Emits one row per key of each batch. No state."""

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        rows, _ = best_rows(self.spec, batch)
        self.context.count(FILTERED, batch.num_rows - len(rows))
        if len(rows) == batch.num_rows:
            output.emit(batch)
        else:
            output.emit_rows(batch, ascending(rows, batch.num_rows))

    def on_deferred(self, rows: DeferredRows, output: Output) -> None:
        rows.columns([*self.spec.keys, *([self.spec.time_column] if self.spec.time_column >= 0 else [])])
        best, _ = best_rows(self.spec, rows)
        self.context.count(FILTERED, rows.num_rows - len(best))
        is_all = len(best) == rows.num_rows
        output.emit_deferred(rows if is_all else rows.chosen(ascending(best, rows.num_rows)))


class Deduplicate(Operator[DeduplicateSpec]):
    """Emits a row that is the best of its key so far, and retracts the previous best.

    State: the best time per key, and the row itself where a -U must repeat it; dropped `state_ttl_ms` after the key's last
    row.
    """

    def __init__(self, spec: DeduplicateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._input_schema = to_arrow_schema(context.input_schemas[0])
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._times = NumberColumn("best_time", pa.int64())
        self._rows = RowColumn(self._input_schema) if context.output_mode is ChangelogMode.RETRACT else None
        self._best = context.state.add(
            KeyedTable(
                "rows",
                pa.schema([self._input_schema.field(k) for k in spec.keys]),
                [self._times, *([self._rows] if self._rows is not None else [])],
                context.state.scope,
                ttl_ms=spec.state_ttl_ms,
            )
        )
        # The order of arrival, the time of a row by processing time.
        self._sequence = context.state.add(Broadcast("sequence", 0, max))

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        candidates, times = best_rows(self.spec, batch, self._sequence.value)
        self._sequence.value += batch.num_rows
        keys = [batch.column(k) for k in self.spec.keys]
        if len(candidates) < batch.num_rows:
            chosen = to_array(pa.int64(), candidates)
            keys = [key.take(chosen) for key in keys]
        slots, is_new = self._best.get_or_create(keys)
        self._best.writing(slots)
        held = self._times.values[slots]
        wins = is_new | (times >= held if self.spec.keep is Keep.LAST else times < held)
        self.context.count(FILTERED, batch.num_rows - int(np.count_nonzero(wins)))
        if wins.any():
            winners, slots = np.flatnonzero(wins), slots[wins]
            self._times.values[slots] = times[winners]
            rows = (
                batch
                if len(winners) == batch.num_rows
                else batch.take(to_array(pa.int64(), candidates[winners]))
            )
            self._emit(rows, slots, is_new[winners], output)

    def _emit(self, rows: pa.RecordBatch, slots: Array, is_new: Array, output: Output) -> None:
        if self.context.output_mode is ChangelogMode.INSERT_ONLY:
            output.emit(self._ranked(rows, None))
            return
        kinds = np.where(is_new, RowKind.INSERT, RowKind.UPDATE_AFTER).astype(np.int8)
        if self._rows is None:
            output.emit(self._ranked(rows, kinds))
            return
        replaced = np.flatnonzero(~is_new)
        old = self._rows.get(slots[replaced])
        # Inputs of a UNION ALL may differ in their column names; the batches are concatenated.
        rows = pa.RecordBatch.from_arrays(rows.columns, schema=self._input_schema)
        self._rows.put(slots, rows)
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


def best_rows(
    spec: DeduplicateSpec, batch: pa.RecordBatch | DeferredRows, first_sequence: int = 0
) -> tuple[Array, Array]:
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
