"""The watermark of a table, evaluated over the rows of its files as they are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.context import EvaluationContext
from runtime.evaluate.intervals import milliseconds_of
from runtime.evaluate.program import Program
from sqlstream.elements import WATERMARK_MIN
from sqlstream.expressions import inputs_of
from sqlstream.specs.source import SourceWatermark
from sqlstream.specs.watermark import ROW_WATERMARK_COLUMN, EmitStrategy
from sqlstream.spi.connector import ConnectorContext

Milliseconds = np.ndarray[Any, np.dtype[np.int64]]


class RowWatermarks:
    """Computes watermarks from columns in the source's layout; no state.

    `columns_read` are the places of the columns that row time and watermark are computed from; `is_per_row` says that each
    row is to carry the watermark in force.
    """

    def __init__(self, watermark: SourceWatermark, context: ConnectorContext) -> None:
        evaluation = EvaluationContext.of(context.now_ms, context.config)
        self._watermark = Program((watermark.expression,), evaluation)
        self._times = Program((watermark.rowtime, watermark.expression), evaluation)
        self.columns_read = inputs_of(watermark.rowtime, watermark.expression)
        self.is_per_row = watermark.emit_strategy is EmitStrategy.ON_EVENT

    def running(self, batch: pa.RecordBatch, before_ms: int) -> Milliseconds:
        """The watermark of the file after each row; `before_ms` is the one before the first. NULL is passed over."""
        (watermarks,) = self._watermark.run(batch.columns, batch.num_rows)
        running = np.maximum.accumulate(_milliseconds(watermarks))
        return np.maximum(running, before_ms)

    def with_column(self, batch: pa.RecordBatch, running: Milliseconds, before_ms: int) -> pa.RecordBatch:
        """Each row with the watermark that the rows of its file before it made."""
        in_force = np.empty(len(running), dtype=np.int64)
        in_force[0] = before_ms
        in_force[1:] = running[:-1]
        names = [*batch.schema.names, ROW_WATERMARK_COLUMN]
        return pa.RecordBatch.from_arrays([*batch.columns, pa.array(in_force)], names=names)

    def least_ms(self, columns: Sequence[Any], rows: int) -> int:
        """What the first rows of a file promise: the watermark of the first row that has one, by which no row behind
        it becomes late that is not late by its own file; and it is below the times of the rows up to that one.

        WATERMARK_MIN when none of the rows has a watermark.
        """
        if rows == 0:
            return WATERMARK_MIN
        times, watermarks = map(_milliseconds, self._times.run(columns, rows))
        first = int(np.argmax(watermarks > WATERMARK_MIN))
        earliest = int(times[: first + 1].min())
        return min(int(watermarks[first]), max(earliest, WATERMARK_MIN + 1) - 1)


def _milliseconds(times: pa.Array) -> Milliseconds:
    milliseconds: Milliseconds = pc.fill_null(milliseconds_of(times), WATERMARK_MIN).to_numpy(
        zero_copy_only=False
    )
    return milliseconds
