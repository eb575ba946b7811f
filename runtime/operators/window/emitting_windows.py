"""Aggregation by windows that emit their results before they close, and update them by late rows."""

from __future__ import annotations

import bisect

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.aggregates.accumulator_set import (
    AccumulatorSet,
    partial_argument_types,
    row_argument_types,
)
from sqlstream.runtime.aggregates.partials import row_partials
from sqlstream.runtime.kernels.accumulate import count_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.operators.aggregate.group_aggregate import row_signs
from sqlstream.runtime.operators.aggregate.result_changes import result_changes
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.window.closing import LATE, ClosingOperator
from sqlstream.runtime.operators.window.slices import RowSlicer
from sqlstream.runtime.operators.window.windowing import (
    last_window_ends,
    slice_end,
    times_ms,
    windows_of_slices,
)
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.slot_columns import NumberColumn, RowColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.specs.aggregate import AggregatePhase, EmitSpec, WindowAggregateSpec


class DueWindows:
    """Slots of windows by their end, and slots that have changed and wait for their delay.

    State (derived, not saved): the slots of all windows until `take_forgotten`, those of changes until `take_changed`.
    """

    def __init__(self, emit: EmitSpec) -> None:
        self._lateness_ms = emit.lateness_ms
        self._by_end: dict[int, list[Array]] = {}
        # In order: where late rows are waited for, there are many windows.
        self._ends: list[int] = []
        self._changed: dict[bool, list[Array]] = {False: [], True: []}
        self._due_ms = {False: WATERMARK_MAX, True: WATERMARK_MAX}

    # -- by event time -----------------------------------------------------------------------------

    def opened(self, slots: Array, ends: Array) -> None:
        """Windows with these ends now exist."""
        for end in np.unique(ends).tolist():
            if end not in self._by_end:
                self._by_end[end] = []
                bisect.insort(self._ends, end)
            self._by_end[end].append(slots[ends == end])

    def closing(self, closed_ms: int, watermark_ms: int) -> list[Array]:
        """The windows that a watermark closes after an earlier one, by their ends."""
        first, last = (bisect.bisect_right(self._ends, passed + 1) for passed in (closed_ms, watermark_ms))
        return [np.concatenate(self._by_end[end]) for end in self._ends[first:last]]

    def take_forgotten(self, watermark_ms: int) -> list[Array]:
        """The windows that no row can reach any more, by their ends; they are not known from here on."""
        count = bisect.bisect_right(self._ends, watermark_ms, key=self._forgotten_at)
        forgotten, self._ends = self._ends[:count], self._ends[count:]
        return [np.concatenate(self._by_end.pop(end)) for end in forgotten]

    def _forgotten_at(self, end: int) -> int:
        return min(end - 1 + self._lateness_ms, WATERMARK_MAX)

    def next_end(self, closed_ms: int) -> int:
        """One more than the first watermark that closes a window or forgets one; WATERMARK_MAX when there is no window."""
        if not self._ends:
            return WATERMARK_MAX
        closed = bisect.bisect_right(self._ends, closed_ms + 1)
        moments = self._ends[closed : closed + 1]
        if closed:
            moments = [*moments, self._forgotten_at(self._ends[0]) + 1]
        return min(*moments, WATERMARK_MAX - 1)

    # -- by processing time ------------------------------------------------------------------------

    @property
    def due_ms(self) -> int:
        """When the next changes are due; WATERMARK_MAX when none wait."""
        return min(self._due_ms.values())

    def changed(self, slots: Array, is_late: bool, due_ms: int) -> None:
        """Changes of these windows wait until the time, or until what already waits is due."""
        if len(slots):
            self._changed[is_late].append(slots)
            self._due_ms[is_late] = min(self._due_ms[is_late], due_ms)

    def take_changed(self, is_late: bool, now_ms: int) -> Array:
        """The distinct slots whose changes are due."""
        if self._due_ms[is_late] > now_ms:
            return np.empty(0, dtype=np.int64)
        slots = np.unique(np.concatenate(self._changed[is_late]))
        self._changed[is_late], self._due_ms[is_late] = [], WATERMARK_MAX
        return slots


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
        calls = list(self.schema)[self._keys : -3]
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
        keys = pa.schema([*list(self.schema)[: self._keys], *_BOUNDS])
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

    @property
    def due_ms(self) -> int:
        return self._due.due_ms

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
        self.emit_changes(keys, changes, output)

    def _before(self, places: Array, is_new: Array) -> list[pa.Array]:
        """The results that were emitted last, NULL for windows without one."""
        numbers = np.cumsum(~is_new) - 1
        chosen = pa.array(numbers, mask=is_new)
        return [column.take(chosen) for column in self._results.get(places[~is_new]).columns]
