"""Aggregation by windows that emit their results before they close, and update them by late rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.aggregates.accumulator_set import (
    AccumulatorSet,
    partial_argument_types,
    row_argument_types,
)
from sqlstream.runtime.aggregates.partials import row_partials
from sqlstream.runtime.kernels.accumulate import count_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.group import group
from sqlstream.runtime.operators.aggregate.group_aggregate import row_signs
from sqlstream.runtime.operators.aggregate.result_changes import result_changes
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.window.closing import LATE, ClosingOperator
from sqlstream.runtime.operators.window.due_windows import DueWindows
from sqlstream.runtime.operators.window.row_slicer import RowSlicer
from sqlstream.runtime.operators.window.windowing import (
    last_window_ends,
    slice_end,
    times_ms,
    window_batch,
    windows_of_slices,
)
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.slot_columns import NumberColumn, RowColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.specs.aggregate import AggregatePhase, EmitSpec, WindowAggregateSpec

_BOUNDS = [pa.field("window_start", pa.timestamp("ms")), pa.field("window_end", pa.timestamp("ms"))]


class EmittingAggregate(ClosingOperator):
    """Keeps one result per key and window and emits its changes: after a delay while the window is open, when it closes, and
    after another delay as late rows come, until it is forgotten `lateness_ms` later. What has changed is emitted before it is.

    State: `windows`, the accumulators of a key and window and whether they have changed since they were emitted; and `emitted`,
    the results that were emitted last. Both are forgotten with the window.
    """

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext, emit: EmitSpec) -> None:
        super().__init__(spec, context)
        self._emit = emit
        schema = context.input_schemas[0]
        self._is_global = spec.phase is AggregatePhase.GLOBAL
        self._is_attached = spec.window_end_column >= 0
        self._keys = len(spec.keys)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._rows = to_arrow_schema(context.output_schema)
        calls = list(self._rows)[self._keys : -3]
        types = (
            partial_argument_types(spec.aggregates, schema, self._keys)
            if self._is_global
            else row_argument_types(spec.aggregates, schema)
        )
        self._accumulators = AccumulatorSet(
            spec.aggregates, types, spec.is_retracting, [field.name for field in calls]
        )
        if not self._is_global:
            self._slicer = RowSlicer(spec, context, row_partials(spec.aggregates, schema))
        self._row_counts = NumberColumn("row_count", pa.int64())
        self._has_changed = NumberColumn("has_changed", pa.int8())
        self._results = RowColumn(pa.schema(calls))
        keys = pa.schema([*list(self._rows)[: self._keys], *_BOUNDS])
        scope, placed_by = context.state.scope, self._keys
        counts = [self._row_counts] if spec.is_retracting else []
        self._windows = context.state.add(
            KeyedTable(
                "windows",
                keys,
                [self._accumulators, *counts, self._has_changed],
                scope,
                parts=self._accumulators.parts,
                placed_by=placed_by,
            )
        )
        self._emitted = context.state.add(
            KeyedTable("emitted", keys, [self._results], scope, placed_by=placed_by)
        )
        self._due = DueWindows(emit)

    # -- input -------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        batch, rows, starts, ends = self._assigned(batch)
        if len(rows) == 0:
            return
        # The inverse of the rule by which windows are forgotten.
        is_kept = ends - 1 + self._emit.lateness_ms > self.closed_ms
        if not is_kept.all():
            self.context.count(LATE, len(np.unique(rows)) - len(np.unique(rows[is_kept])))
            rows, starts, ends = rows[is_kept], starts[is_kept], ends[is_kept]
            if len(rows) == 0:
                return
        if len(rows) != batch.num_rows or rows[0] != 0 or not np.all(np.diff(rows) == 1):
            batch = batch.take(pa.array(rows))
        keys = [batch.column(k) for k in self.spec.keys]
        bounds = [to_array(field.type, times) for field, times in zip(_BOUNDS, (starts, ends), strict=True)]
        groups, first_rows = group([*keys, *bounds])
        chosen = pa.array(first_rows)
        slots, is_new = self._windows.get_or_create([column.take(chosen) for column in (*keys, *bounds)])
        self._windows.writing(slots)
        self._add(batch, slots[groups])
        self._has_changed.values[slots] = 1
        ends = ends[first_rows]
        self._due.opened(slots[is_new], ends[is_new])
        self.next_end = min(self.next_end, self._due.next_end(self.closed_ms))
        self._fire_or_wait(slots, ends, output)

    def _assigned(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Array, Array, Array]:
        """The batch, and the positions of its rows with the starts and ends of their windows."""
        if self._is_global:
            slices = view_values(batch.column(batch.num_columns - 1 - self._is_attached), np.int64)
        else:
            batch, slices = self._slicer.slices(batch)
        if self._is_attached:
            column = batch.num_columns - 1 if self._is_global else self.spec.window_start_column
            return batch, np.arange(batch.num_rows), times_ms(batch.column(column)), slices
        if not self.spec.window.is_event_time:
            # A partial that arrives after its window has closed belongs to the window that is open now.
            is_closed = last_window_ends(self.spec.window, slices) - 1 <= self.closed_ms
            slices = np.where(is_closed, slice_end(self.spec.window, self.closed_ms + 1), slices)
        return batch, *windows_of_slices(self.spec.window, slices)

    def _add(self, rows: pa.RecordBatch, slots: Array) -> None:
        if self._is_global:
            self._accumulators.merge(slots, rows.columns[self._keys :])
            return
        signs = row_signs(rows)
        self._accumulators.accumulate(slots, rows, signs)
        if self.spec.is_retracting:
            count_into(self._row_counts.values, slots, signs)

    def _fire_or_wait(self, slots: Array, ends: Array, output: Output) -> None:
        is_open = ends - 1 > self.closed_ms
        for is_late, phase in ((False, slots[is_open]), (True, slots[~is_open])):
            delay_ms = self._emit.late_ms if is_late else self._emit.early_ms
            if delay_ms == 0:
                self._fire(phase, output)
            elif delay_ms > 0 and len(phase):
                self._due.changed(phase, is_late, self.context.now_ms() + delay_ms)

    # -- time --------------------------------------------------------------------------------------

    def on_restored(self) -> None:
        slots = self._windows.slots()
        ends = self._ends(slots)
        self._due.opened(slots, ends)
        self.next_end = self._due.next_end(self.closed_ms)
        changed = self._has_changed.values[slots] == 1
        slots, is_open = slots[changed], ends[changed] - 1 > self.closed_ms
        if self._emit.early_ms >= 0:
            self._due.changed(slots[is_open], False, self.context.now_ms() + self._emit.early_ms)
        self._due.changed(slots[~is_open], True, self.context.now_ms() + self._emit.late_ms)

    def _ends(self, slots: Array) -> Array:
        return view_values(self._windows.keys(slots)[-1], np.int64)

    def close_windows(self, watermark_ms: int, output: Output) -> None:
        for slots in self._due.closing(self.closed_ms, watermark_ms):
            self._fire(slots, output)
        for slots in self._due.take_forgotten(watermark_ms):
            self._fire(slots, output)
            keys = self._windows.keys(slots)
            self._emitted.forget(self._emitted.get_or_create(keys)[0])
            self._windows.forget(slots)
        self.next_end = self._due.next_end(watermark_ms)

    def next_processing_time_ms(self) -> int | None:
        closing = super().next_processing_time_ms()
        if self._due.due_ms == WATERMARK_MAX:
            return closing
        return self._due.due_ms if closing is None else min(closing, self._due.due_ms)

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        super().on_processing_time(now_ms, output)
        for is_late in (False, True):
            slots = self._due.take_changed(is_late, now_ms)
            if len(slots):
                # A slot may have been forgotten since, and taken by another window.
                slots = slots[self._has_changed.values[slots] == 1]
                self._fire(slots[(self._ends(slots) - 1 <= self.closed_ms) == is_late], output)

    # -- firing ------------------------------------------------------------------------------------

    def _fire(self, slots: Array, output: Output) -> None:
        """Emit what has changed of these distinct windows since it was emitted."""
        slots = slots[self._has_changed.values[slots] == 1]
        if len(slots) == 0:
            return
        self._windows.writing(slots)
        self._has_changed.values[slots] = 0
        keys = self._windows.keys(slots)
        after = self._accumulators.results(slots)
        places, is_new = self._emitted.get_or_create(keys)
        self._emitted.writing(places)
        is_gone = np.zeros(len(slots), dtype=bool)
        if self.spec.is_retracting:
            is_gone = self._row_counts.values[slots] <= 0
        before = self._before(places, is_new)
        changes = result_changes(self.context.output_mode, is_new, is_gone, before, after)
        self._emitted.forget(places[is_gone])
        kept = np.flatnonzero(~is_gone)
        results = pa.RecordBatch.from_arrays(after, schema=pa.schema(self._results.fields))
        self._results.put(places[kept], results.take(pa.array(kept)))
        if len(changes.rows):
            self._emit_rows(keys, changes.rows, changes.results, changes.kinds, output)

    def _before(self, places: Array, is_new: Array) -> list[pa.Array]:
        """The results that were emitted last, NULL for windows without one."""
        numbers = np.cumsum(~is_new) - 1
        chosen = pa.array(numbers, mask=is_new)
        return [column.take(chosen) for column in self._results.get(places[~is_new]).columns]

    def _emit_rows(
        self,
        keys: list[pa.Array],
        rows: Array,
        results: list[pa.Array],
        kinds: list[pa.Array],
        output: Output,
    ) -> None:
        chosen = pa.array(rows)
        own = [key.take(chosen) for key in keys]
        starts, ends = (view_values(bound, np.int64) for bound in own[-2:])
        fields = list(self._rows)[: self._keys]
        declared = [k if k.type == f.type else k.cast(f.type) for k, f in zip(own, fields, strict=False)]
        batch = window_batch(self._rows, [*declared, *results], starts, ends, self.clock)
        output.emit(pa.RecordBatch.from_arrays([*batch.columns, *kinds], schema=self._schema))
