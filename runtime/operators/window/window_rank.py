"""Top-N per window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.rank import rank_within
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.order.ordering import sort_indices
from sqlstream.runtime.operators.window.closing import closed_ms, drop_late
from sqlstream.runtime.operators.window.windowing import WindowClock, times_ms
from sqlstream.runtime.state.logs.slice_log import SliceColumns, SliceLog, concat
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.rank import WindowRankSpec

_PRUNE_ROWS_MIN = 262_144
"""No rows are dropped while there are fewer than this many."""


class WindowRank(Operator[WindowRankSpec]):
    """Emits the best rows of a window, best first within a key, when it closes; the output is insert-only.

    State: the rows of open windows that can still rank, each with the end of its window. Late rows are dropped and counted.
    """

    def __init__(self, spec: WindowRankSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._input_schema = to_arrow_schema(context.input_schemas[0])
        self._schema = to_arrow_schema(context.output_schema)
        columns = SliceColumns([*self._input_schema.names, "$window_end"], spec.partition_keys, end=-1)
        self._log = context.state.add(SliceLog("rows", columns, context.state.scope))
        self._closed_ms = context.state.add(closed_ms())
        self._clock = WindowClock(spec.time_zone)
        self._prune_above = _PRUNE_ROWS_MIN

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        ends = times_ms(batch.column(self.spec.window_end_column))
        batch, ends = drop_late(batch, ends, self._closed_ms.value, self.context)
        if batch.num_rows == 0:
            return
        self._log.append([*batch.columns, to_array(pa.int64(), ends)])
        if self._log.rows > self._prune_above:
            self._prune()

    def _prune(self) -> None:
        columns = concat(self._log.chunks)
        rows, _ = self._ranked(self._batch(columns), self.spec.rank_end, 1)
        kept = pa.array(np.sort(rows))
        self._log.replace_by([column.take(kept) for column in columns])
        self._prune_above = 2 * self._log.rows + _PRUNE_ROWS_MIN

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns[:-1], schema=self._input_schema)

    def _ranked(self, batch: pa.RecordBatch, rank_end: int, rank_start: int) -> tuple[Array, Array]:
        """Rows with rank_start <= rank <= rank_end, by window end, key and rank; and their ranks."""
        window = [self.spec.window_start_column, self.spec.window_end_column]
        groups, first_rows = batch_groups(
            [batch.column(c) for c in (*window, *self.spec.partition_keys)], batch.num_rows
        )
        ends = times_ms(batch.column(self.spec.window_end_column))
        columns = [batch.column(k.column) for k in self.spec.order]
        order = sort_indices([ends, groups], columns, self.spec.order)
        ranks = np.empty(len(order), dtype=np.int64)
        rank_within(ranks, groups[order], len(first_rows))
        kept = (ranks >= rank_start) & (ranks <= rank_end)
        return order[kept], ranks[kept]

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        passed_ms = self._clock.passed_ms(watermark_ms)
        if passed_ms > self._closed_ms.value:
            self._close(passed_ms if passed_ms == WATERMARK_MAX else passed_ms + 1, output)
            self._closed_ms.value = passed_ms
        return self._clock.forwarded_ms(watermark_ms)

    def _close(self, limit: int, output: Output) -> None:
        closed = self._log.take_until(limit)
        if closed is None:
            return
        batch = self._batch(closed)
        rows, ranks = self._ranked(batch, self.spec.rank_end, self.spec.rank_start)
        columns = list(batch.take(pa.array(rows)).columns)
        if self.spec.outputs_rank:
            columns.append(to_array(pa.int64(), ranks))
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))
