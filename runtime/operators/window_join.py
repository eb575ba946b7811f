"""Join of rows in the same window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.operators.closing import drop_late
from runtime.operators.equal_pairs import equal_pairs
from runtime.operators.joined import JoinedRows
from runtime.operators.log_snapshot import load_sides, save_sides
from runtime.operators.operator import Operator, OperatorContext, OperatorSnapshot, Output
from runtime.operators.row_log import RowLog, concat_chunks
from runtime.operators.windowing import times_ms
from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.specs.join import JoinKind, WindowJoinSpec


class WindowJoin(Operator[WindowJoinSpec]):
    """Emits the joined rows of a window when it closes; the output is insert-only.

    State: the rows of both sides whose window is open, as they came. Late rows are dropped and counted.
    """

    def __init__(self, spec: WindowJoinSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schemas = [to_arrow_schema(schema) for schema in context.input_schemas]
        self._logs = [RowLog(schema) for schema in self._schemas]
        self._joined = JoinedRows(spec.condition, context)
        self._starts = (spec.left_window_start_column, spec.right_window_start_column)
        self._ends = (spec.left_window_end_column, spec.right_window_end_column)
        self._keys = (spec.left_keys, spec.right_keys)
        self._closed_ms = WATERMARK_MIN

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        ends = times_ms(batch.column(self._ends[input_index]))
        batch, ends = drop_late(batch, ends, self._closed_ms, self.context)
        self._logs[input_index].append(batch, ends)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if watermark_ms > self._closed_ms:
            self._close(watermark_ms, output)
            self._closed_ms = watermark_ms
        return watermark_ms

    def _close(self, watermark_ms: int, output: Output) -> None:
        limit = watermark_ms if watermark_ms == WATERMARK_MAX else watermark_ms + 1
        closed = [log.take_until(limit) for log in self._logs]
        if not closed[0]:
            return
        left, right = (
            concat_chunks(chunks, schema) for chunks, schema in zip(closed, self._schemas, strict=True)
        )
        left_rows, right_rows = equal_pairs(
            self._match_columns(left, 0), self._match_columns(right, 1), (left.num_rows, right.num_rows)
        )
        joined, passed = self._joined.pairs(left, right, left_rows, right_rows)
        output.emit(joined)
        if self.spec.kind is JoinKind.LEFT:
            matched = np.zeros(left.num_rows, dtype=bool)
            matched[left_rows[passed]] = True
            output.emit(self._joined.padded(left, np.flatnonzero(~matched)))

    def _match_columns(self, batch: pa.RecordBatch, side: int) -> list[pa.Array]:
        # Windows of a fixed size may be told apart by their ends alone: the start column is the end column then.
        window = dict.fromkeys((self._starts[side], self._ends[side]))
        return [batch.column(k) for k in (*self._keys[side], *window)]

    def snapshot(self) -> OperatorSnapshot:
        return save_sides(self._logs, self._keys, self._closed_ms, self.spec.broadcast_input, self.context)

    def restore(self, snapshot: OperatorSnapshot) -> None:
        closed_ms = load_sides(snapshot, self._logs, self.spec.broadcast_input)
        if closed_ms is not None:
            self._closed_ms = closed_ms

    def state_bytes(self) -> int:
        return sum(log.nbytes() for log in self._logs)
