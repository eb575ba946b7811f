"""ORDER BY time over rows that never end."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.order.ordering import sort_indices
from sqlstream.runtime.operators.window.closing import closed_ms, drop_late
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.state.logs.row_log import RowLog, concat_batches
from sqlstream.specs.rank import TemporalSortSpec

_OUTPUT_ROWS = 65_536


class TemporalSort(Operator[TemporalSortSpec]):
    """Emits the rows that a watermark has passed in order, before the watermark.

    State: the rows that no watermark has passed yet. By processing time there is none.
    """

    def __init__(self, spec: TemporalSortSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.input_schemas[0])
        self._is_event_time = spec.time_column >= 0
        if self._is_event_time:
            self._waiting = context.state.add(RowLog("rows", self._schema, context.state.scope))
            self._passed_ms = context.state.add(closed_ms())

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if not self._is_event_time:
            self._emit(batch, output)
            return
        column = batch.column(self.spec.time_column)
        if column.null_count:
            name = self._schema.names[self.spec.time_column]
            raise UserError(
                "SS5104", f'rowtime "{name}" is null', hint=f"filter such rows out: WHERE {name} IS NOT NULL"
            )
        # The row of a millisecond is late as a window that ends with it would be.
        batch, ends = drop_late(batch, times_ms(column) + 1, self._passed_ms.value, self.context)
        self._waiting.append(batch, ends - 1)

    def _emit(self, batch: pa.RecordBatch, output: Output) -> None:
        if self.spec.order:
            order = sort_indices([], [batch.column(k.column) for k in self.spec.order], self.spec.order)
            batch = batch.take(pa.array(order))
        for start in range(0, batch.num_rows, _OUTPUT_ROWS):
            output.emit(batch.slice(start, _OUTPUT_ROWS))

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if self._is_event_time and watermark_ms > self._passed_ms.value:
            passed = self._waiting.take_until(watermark_ms)
            if passed:
                self._emit(concat_batches([chunk.batch for chunk in passed], self._schema), output)
            self._passed_ms.value = watermark_ms
        return watermark_ms
