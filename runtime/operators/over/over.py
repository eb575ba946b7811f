"""The operators of OVER by their timing, and the one for bounded input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.order.ordering import sort_indices
from sqlstream.runtime.operators.over.by_time import OverByTime
from sqlstream.runtime.operators.over.frames import FramedCalls
from sqlstream.runtime.operators.over.on_change import OverOnChange
from sqlstream.runtime.operators.over.sorted import SortedRows
from sqlstream.runtime.state.logs.row_log import RowLog, concat_batches
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.specs.over import OverSpec, OverTiming

_OUTPUT_ROWS = 65_536


def make_over(spec: OverSpec, context: OperatorContext) -> Operator[OverSpec]:
    """The operator for the timing of the spec."""
    if spec.timing is OverTiming.AT_END:
        return OverAtEnd(spec, context)
    if spec.timing is OverTiming.ON_CHANGE:
        return OverOnChange(spec, context)
    return OverByTime(spec, context)


class OverAtEnd(Operator[OverSpec]):
    """Emits every row of the final input with its results, by partition and order, before the last watermark.

    State: all rows, until the end of the input.
    """

    def __init__(self, spec: OverSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._input = to_arrow_schema(context.input_schemas[0])
        self._schema = to_arrow_schema(context.output_schema)
        self._calls = FramedCalls(spec.calls, context.input_schemas[0])
        scope = context.state.scope
        # One of the two, by whether the input retracts.
        self._log: RowLog | None = None
        self._rows: KeyedMultiset | None = None
        if context.input_modes[0].is_insert_only:
            self._log = context.state.add(RowLog("rows", self._input, scope, spec.partition_keys))
        else:
            self._rows = context.state.add(
                KeyedMultiset("rows", self._input, spec.partition_keys, scope, list_length=0)
            )

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if self._log is not None:
            self._log.append(batch, np.zeros(batch.num_rows, dtype=np.int64))
        elif self._rows is not None:
            self._rows.sweep(self._rows.apply(batch)[1])

    def held_rows(self) -> int | None:
        return self._log.row_count if self._log is not None else None

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if watermark_ms < WATERMARK_MAX:
            return None
        batch = self._taken()
        if batch.num_rows:
            self._emit(batch, output)
        return watermark_ms

    def _taken(self) -> pa.RecordBatch:
        if self._log is not None:
            return concat_batches([chunk.batch for chunk in self._log.take_until(0)], self._input)
        assert self._rows is not None
        rows = self._rows.rows
        batch = rows.rows()
        if len(slots := rows.slots()):
            self._rows.forget(slots)
        return batch

    def _emit(self, batch: pa.RecordBatch, output: Output) -> None:
        keys = [batch.column(k) for k in self.spec.partition_keys]
        partitions, first_rows = batch_groups(keys, batch.num_rows)
        columns = [batch.column(k.column) for k in self.spec.order]
        order = sort_indices([partitions], columns, self.spec.order)
        rows = SortedRows(batch.take(pa.array(order)), partitions[order], len(first_rows), self.spec.order)
        results = self._calls.compute(rows)
        made = pa.RecordBatch.from_arrays([*rows.batch.columns, *results], schema=self._schema)
        for start in range(0, made.num_rows, _OUTPUT_ROWS):
            output.emit(made.slice(start, _OUTPUT_ROWS))
