"""The LOCAL phase of aggregation by window: rows become partials before the exchange."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.aggregates.accumulator_set import row_argument_types
from sqlstream.runtime.aggregates.partials import MergedPartials
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.row_slicer import RowSlicer
from sqlstream.runtime.operators.window.window_clock import WindowClock
from sqlstream.runtime.operators.window.windowing import greatest_end
from sqlstream.runtime.state.logs.slice_log import SliceColumns, SliceLog
from sqlstream.specs.aggregate import WindowAggregateSpec

_ROWS_MAX = 65_536
"""With more partials than this, all are emitted, whether or not a window can close."""

_WAIT_MS = 100
"""How long partials by processing time are held, if no window ends before and the task has other work."""


class LocalWindowAggregate(Operator[WindowAggregateSpec]):
    """Turns each batch into partials. GLOBAL drops late rows, unless rows carry their own watermark.

    Partials are held until a window can close: GLOBAL emits nothing before, and few large batches cost less to exchange than
    many small ones. By processing time they are held for _WAIT_MS at most, and only while the task is busy: what arrives behind
    the end of its window counts in the next one. So they are when windows emit before they close. A watermark that closes no
    window is not forwarded; with attached windows any may close one, and those that emit before get all.
    State: the held partials, at most about _ROWS_MAX, until they are emitted.
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
        self._waiting = context.state.add(log)
        self._closed_end: int | None = None
        self._held_since_ms = 0

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        columns = self._slicer.partials(batch, WATERMARK_MIN)
        if len(columns[-1]):
            if not self._waiting.chunks and not self._is_held_for_long:
                self._held_since_ms = self.context.now_ms()
            self._waiting.append(columns)
        if self._waiting.rows >= _ROWS_MAX:
            self._emit_partials(output)

    def _emit_partials(self, output: Output) -> None:
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
        due_ms = self._held_since_ms + _WAIT_MS
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
