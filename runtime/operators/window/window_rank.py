"""Top-N per window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array
from runtime.kernels.rank import rank_within
from runtime.operators.batch_groups import batch_groups
from runtime.operators.operator import Operator, OperatorContext, Output
from runtime.operators.order.ordering import sort_indices
from runtime.operators.window.closing import drop_late
from runtime.operators.window.windowing import times_ms
from runtime.state.arrays import Array
from runtime.state.log_snapshot import load_log, save_log
from runtime.state.row_log import RowLog, concat_batches
from runtime.state.snapshot import OperatorSnapshot
from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.specs.rank import WindowRankSpec

_PRUNE_ROWS_MIN = 262_144
"""No rows are dropped while there are fewer than this many."""


class WindowRank(Operator[WindowRankSpec]):
    """Emits the best rows of a window, best first within a key, when it closes; the output is insert-only.

    State: the rows of open windows that can still rank. Late rows are dropped and counted.
    """

    def __init__(self, spec: WindowRankSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._input_schema = to_arrow_schema(context.input_schemas[0])
        self._schema = to_arrow_schema(context.output_schema)
        self._log = RowLog(self._input_schema)
        self._rows = 0
        self._pruned_rows = 0
        self._closed_ms = WATERMARK_MIN

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        ends = times_ms(batch.column(self.spec.window_end_column))
        batch, ends = drop_late(batch, ends, self._closed_ms, self.context)
        self._log.append(batch, ends)
        self._rows += batch.num_rows
        if self._rows > self._pruned_rows * 2 + _PRUNE_ROWS_MIN:
            self._prune()

    def _prune(self) -> None:
        chunk = self._log.rows()
        if chunk is None:
            return
        rows, _ = self._ranked(chunk.batch, self.spec.rank_end, 1)
        rows = np.sort(rows)
        self._log = RowLog(self._input_schema)
        self._log.append(chunk.batch.take(pa.array(rows)), chunk.times[rows])
        self._rows = self._pruned_rows = len(rows)

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
        if watermark_ms > self._closed_ms:
            limit = watermark_ms if watermark_ms == WATERMARK_MAX else watermark_ms + 1
            self._close(limit, output)
            self._closed_ms = watermark_ms
        return watermark_ms

    def _close(self, limit: int, output: Output) -> None:
        closed = self._log.take_until(limit)
        if not closed:
            return
        batch = concat_batches([chunk.batch for chunk in closed], self._input_schema)
        self._rows -= batch.num_rows
        rows, ranks = self._ranked(batch, self.spec.rank_end, self.spec.rank_start)
        columns = list(batch.take(pa.array(rows)).columns)
        if self.spec.outputs_rank:
            columns.append(to_array(pa.int64(), ranks))
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def snapshot(self) -> OperatorSnapshot:
        parts = OperatorSnapshot(shared={"closed": pa.table({"closed_ms": [self._closed_ms]})})
        save_log(parts, "rows", self._log, self.spec.partition_keys, self.context)
        return parts

    def restore(self, snapshot: OperatorSnapshot) -> None:
        closed = snapshot.shared.get("closed")
        if closed is not None and closed.num_rows:
            self._closed_ms = int(closed.column("closed_ms").to_numpy().min())
        load_log(snapshot, "rows", self._log)
        self._rows = sum(chunk.batch.num_rows for chunk in self._log.chunks)

    def state_bytes(self) -> int:
        return self._log.nbytes()
