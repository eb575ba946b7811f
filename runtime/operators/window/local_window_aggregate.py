"""The LOCAL phase of aggregation by window: rows become partials before the exchange."""

from __future__ import annotations

import pyarrow as pa

from runtime.aggregates.accumulator_set import row_argument_types
from runtime.aggregates.partials import MergedPartials
from runtime.operators.operator import Operator, OperatorContext, Output
from runtime.operators.window.row_slicer import RowSlicer
from runtime.operators.window.windowing import greatest_end
from runtime.state.key_group_column import load_columns, save_columns
from runtime.state.snapshot import OperatorSnapshot
from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.specs.aggregate import WindowAggregateSpec

_ROWS_MAX = 65_536
"""With more partials than this, all are emitted, whether or not a window can close."""


class LocalWindowAggregate(Operator[WindowAggregateSpec]):
    """Turns each batch into partials. GLOBAL drops late rows, unless rows carry their own watermark.

    Event-time partials are held until a window can close: GLOBAL emits nothing before, and few large batches cost less to
    exchange than many small ones. A watermark that closes no window is not forwarded; with attached windows any may close one.
    State: the held partials, at most about _ROWS_MAX, until they are emitted.
    """

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        types = row_argument_types(spec.aggregates, context.input_schemas[0])
        self._slicer = RowSlicer(spec, context, MergedPartials(spec.aggregates, types))
        self._schema = to_arrow_schema(context.output_schema)
        self._waits = spec.window.is_event_time
        self._is_attached = spec.window_end_column >= 0
        self._waiting: list[list[pa.Array]] = []
        self._rows = 0
        self._closed_end: int | None = None

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        self._waiting.append(self._slicer.partials(batch, WATERMARK_MIN))
        self._rows += len(self._waiting[-1][-1])
        if not self._waits or self._rows >= _ROWS_MAX:
            self._emit_partials(output)

    def _emit_partials(self, output: Output) -> None:
        if self._rows:
            output.emit(self._waiting_batch())
        self._waiting, self._rows = [], 0

    def _waiting_batch(self) -> pa.RecordBatch:
        columns = [pa.concat_arrays([part[i] for part in self._waiting]) for i in range(len(self._schema))]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if self._waits and not self._is_attached:
            end = greatest_end(self.spec.window, min(watermark_ms, WATERMARK_MAX - 1))
            if end == self._closed_end and watermark_ms != WATERMARK_MAX:
                return None
            self._closed_end = end
        self._emit_partials(output)
        return watermark_ms

    def on_idle(self, is_idle: bool, output: Output) -> bool | None:
        # While this input is idle, the other inputs may close the windows of the held partials.
        self._emit_partials(output)
        return is_idle

    def on_finish(self, output: Output) -> None:
        self._emit_partials(output)

    def snapshot(self) -> OperatorSnapshot:
        if not self._rows:
            return OperatorSnapshot()
        columns = self._waiting_batch().columns
        waiting = save_columns(columns, len(self.spec.keys), self.context.max_parallelism)
        return OperatorSnapshot({"waiting": waiting})

    def restore(self, snapshot: OperatorSnapshot) -> None:
        waiting = load_columns(snapshot.keyed.get("waiting"))
        if waiting is not None:
            self._waiting, self._rows = [waiting], len(waiting[-1])

    def state_bytes(self) -> int:
        return sum(column.nbytes for part in self._waiting for column in part)
