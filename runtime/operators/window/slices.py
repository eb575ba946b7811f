"""Rows become partials by key and slice: in the LOCAL phase, which sends them, or for the one phase that there is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.graph.latency_choice import hold_ms
from sqlstream.messages.ledger import DONE
from sqlstream.runtime.aggregates.accumulator_set import row_argument_types
from sqlstream.runtime.aggregates.partials import MergedPartials, Partials
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.group import extent, group
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.held_rows import HeldRows
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.closing import LATE
from sqlstream.runtime.operators.window.windowing import (
    WindowClock,
    greatest_end,
    last_window_ends,
    slice_end,
    slice_ends,
    times_ms,
)
from sqlstream.runtime.state.logs.slice_log import SliceColumns, SliceLog
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.aggregate import SLICE_END_COLUMN, WINDOW_START_COLUMN, WindowAggregateSpec
from sqlstream.specs.window import WindowKind


class RowSlicer:
    """Builds one partial per key and slice of a batch: LOCAL sends them, SINGLE keeps them."""

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext, form: Partials) -> None:
        self._spec = spec
        self._context = context
        self._is_attached = spec.window_end_column >= 0
        self._form = form
        self._clock = WindowClock(spec.window.time_zone)

    @property
    def names(self) -> list[str]:
        """The names of the columns of `partials`."""
        schema = self._context.input_schemas[0]
        bounds = [SLICE_END_COLUMN, WINDOW_START_COLUMN] if self._is_attached else [SLICE_END_COLUMN]
        return [*(schema.names[k] for k in self._spec.keys), *self._form.names(schema), *bounds]

    def partials(self, batch: pa.RecordBatch, closed_ms: int) -> list[pa.Array]:
        """Key columns, partials, slice ends [, window starts]; rows late for the watermark `closed_ms` are dropped."""
        end = self._common_slice_end(batch, closed_ms)
        if end is not None and last_window_ends(self._spec.window, end) - 1 > closed_ms:
            return self._folded(batch, end)
        ends = self._slice_ends(batch)
        batch, ends = self._drop_late(batch, ends, closed_ms)
        bounds = [to_array(pa.int64(), ends)]
        if self._is_attached:
            bounds.append(to_array(pa.int64(), times_ms(batch.column(self._spec.window_start_column))))
        return self._folded(batch, bounds)

    def slices(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Array]:
        """The rows with the ends of their slices, without those that are late for their own watermark."""
        return self._drop_late(batch, self._slice_ends(batch), WATERMARK_MIN)

    def _folded(self, batch: pa.RecordBatch, bounds: list[pa.Array] | int) -> list[pa.Array]:
        """`bounds`: the slice end [and window start] of each row, or the slice end of all rows."""
        self._context.count(DONE, batch.num_rows)
        keys = [batch.column(k) for k in self._spec.keys]
        columns = keys if isinstance(bounds, int) else [*keys, *bounds]
        if not self._form.is_merging:
            groups = first_rows = np.arange(batch.num_rows)
        else:
            groups, first_rows = (
                batch_groups(keys, batch.num_rows) if isinstance(bounds, int) else window_groups(keys, bounds)
            )
            chosen = to_array(pa.int64(), first_rows)
            columns = [column.take(chosen) for column in columns]
        if isinstance(bounds, int):
            columns = [*columns, to_array(pa.int64(), np.full(len(first_rows), bounds))]
        partials = self._form.from_rows(batch, groups, len(first_rows))
        return [*columns[: len(keys)], *partials, *columns[len(keys) :]]

    def _common_slice_end(self, batch: pa.RecordBatch, closed_ms: int) -> int | None:
        """End of the slice that holds all rows of the batch, the usual case; None when a cheap check cannot show one."""
        spec = self._spec
        if self._is_attached or spec.row_watermark_column >= 0 or batch.num_rows == 0:
            return None
        if not spec.window.is_event_time:
            # The clock may be set back, or be that of another machine after a restart: what has closed stays so.
            now_ms = max(self._clock.now_ms(self._context.now_ms()), closed_ms + 1)
            return slice_end(spec.window, now_ms)
        earliest, latest = extent(self._times(batch))
        end = slice_end(spec.window, int(earliest))
        return end if int(latest) < end else None

    def _times(self, batch: pa.RecordBatch) -> Array:
        return self._clock.local_ms(times_ms(batch.column(self._spec.time_column)))

    def _slice_ends(self, batch: pa.RecordBatch) -> Array:
        if self._is_attached:
            return times_ms(batch.column(self._spec.window_end_column))
        if not self._spec.window.is_event_time:
            return np.full(
                batch.num_rows, slice_end(self._spec.window, self._clock.now_ms(self._context.now_ms()))
            )
        return slice_ends(self._spec.window, self._times(batch))

    def _drop_late(self, batch: pa.RecordBatch, ends: Array, closed_ms: int) -> tuple[pa.RecordBatch, Array]:
        has_watermarks = self._spec.row_watermark_column >= 0
        if not has_watermarks and (closed_ms == WATERMARK_MIN or not self._spec.window.is_event_time):
            return batch, ends
        last = ends if self._is_attached else last_window_ends(self._spec.window, ends)
        if has_watermarks:
            watermarks = view_values(batch.column(self._spec.row_watermark_column), np.int64)
            lateness_ms = self._spec.lateness_ms
            # Before the first watermark there is no earlier time.
            closed = (
                np.maximum(self._clock.all_passed_ms(watermarks), WATERMARK_MIN + lateness_ms) - lateness_ms
            )
            late = last - 1 <= closed
        else:
            late = last - 1 <= closed_ms
        if has_watermarks and self._spec.window.kind is WindowKind.CUMULATE and not self._is_attached:
            ends = self._open_slice_ends(ends, closed)
        dropped = int(np.count_nonzero(late))
        if dropped == 0:
            return batch, ends
        self._context.count(LATE, dropped)
        kept = np.flatnonzero(~late)
        return batch.take(pa.array(kept)), ends[kept]

    def _open_slice_ends(self, ends: Array, closed: Array) -> Array:
        """CUMULATE: for each row the end of the first slice, from its own on, that is in no window closed by its own watermark.

        Whether a closed window has already fired here depends on the cut into batches; the row must not be in it either way.
        """
        step = self._spec.window.slide_ms
        behind = np.maximum(closed, ends - 2) + 2 - ends
        return ends + -(-behind // step) * step


def window_groups(keys: list[pa.Array], bounds: list[pa.Array]) -> tuple[Array, Array]:
    """(group of each row by keys and window bounds, first row of each group)."""
    numbers = [view_values(bound, np.int64) for bound in bounds]
    # Usually all rows are in one slice or window: then grouping by the keys is enough, at half the cost.
    if len(numbers[0]) and all(least == greatest for least, greatest in map(extent, numbers)):
        return batch_groups(keys, len(numbers[0]))
    return group([*keys, *bounds])


_ROWS_MAX = 65_536
"""With more partials than this, all are emitted, whether or not a window can close."""

_FOLDED_ROWS = 4_096
_FOLDED_BYTES = 1 << 20
"""Rows that nothing waits for become partials once there are so many, as each fold has its price."""


class LocalWindowAggregate(Operator[WindowAggregateSpec]):
    """Turns each batch into partials. GLOBAL drops late rows, unless rows carry their own watermark.

    Partials are held until a window can close: GLOBAL emits nothing before, and few large batches cost less to exchange than
    many small ones. By processing time they are held for `hold_ms` at most, and only while the task is busy: what arrives behind
    the end of its window counts in the next one. So they are when windows emit before they close. A watermark that closes no
    window is not forwarded; with attached windows any may close one, and those that emit before get all. Rows whose partials
    would be held for long are held themselves, up to about _FOLDED_ROWS of them.
    State: the held rows and partials, of these at most about _ROWS_MAX, until they are emitted.
    """

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        types = row_argument_types(spec.aggregates, context.input_schemas[0])
        self._slicer = RowSlicer(spec, context, MergedPartials(spec.aggregates, types))
        self._schema = to_arrow_schema(context.output_schema)
        self._clock = WindowClock(spec.window.time_zone)
        self._is_event_time = spec.window.is_event_time
        self._is_held_for_long = self._is_event_time and spec.emit is None
        self._is_attached = spec.window_end_column >= 0
        keys = range(len(spec.keys))
        columns = SliceColumns(self._schema.names, keys, end=-2 if self._is_attached else -1)
        log = SliceLog("waiting", columns, context.state.scope, is_by_key=False)
        # First: before a snapshot its rows become partials.
        self._rows = context.state.add(HeldRows(self._fold))
        self._waiting = context.state.add(log)
        self._closed_end: int | None = None
        self._held_since_ms = 0
        self._hold_ms = hold_ms(context.config)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        self._rows.append(batch)
        is_enough = self._rows.rows >= _FOLDED_ROWS or self._rows.bytes >= _FOLDED_BYTES
        if is_enough or not self._is_held_for_long:
            self._fold()
            if self._waiting.rows >= _ROWS_MAX:
                self._emit_partials(output)

    def _fold(self) -> None:
        """Make partials of the held rows."""
        rows = self._rows.take()
        columns = self._slicer.partials(rows, WATERMARK_MIN) if rows is not None else None
        if columns is None or not len(columns[-1]):
            return
        if not self._waiting.chunks and not self._is_held_for_long:
            self._held_since_ms = self.context.now_ms()
        self._waiting.append(columns)

    def _emit_partials(self, output: Output) -> None:
        self._fold()
        columns = self._waiting.take_all()
        if columns is not None:
            output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if not self._is_event_time:
            return watermark_ms
        if not self._is_attached and self._is_held_for_long:
            end = greatest_end(self.spec.window, min(self._clock.passed_ms(watermark_ms), WATERMARK_MAX - 1))
            if end == self._closed_end and watermark_ms != WATERMARK_MAX:
                return None
            self._closed_end = end
        self._emit_partials(output)
        return watermark_ms

    def on_idle(self, is_idle: bool, output: Output) -> bool | None:
        # While this input is idle, the other inputs may close the windows of the held partials.
        self._emit_partials(output)
        return is_idle

    def next_processing_time_ms(self) -> int | None:
        if self._is_held_for_long or not self._waiting.chunks:
            return None
        due_ms = self._held_since_ms + self._hold_ms
        return due_ms if self._is_event_time else min(due_ms, self._clock.due_ms(self._waiting.first_end))

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        self.flush(output)

    def flush(self, output: Output) -> None:
        if not self._is_held_for_long:
            self._emit_partials(output)

    def prepare_snapshot(self, output: Output) -> None:
        # Of an unaligned checkpoint GLOBAL could close their windows before it gets them from another subtask.
        self._emit_partials(output)

    def on_finish(self, output: Output) -> None:
        self._emit_partials(output)
