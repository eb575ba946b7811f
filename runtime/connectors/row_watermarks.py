"""The watermark of a table, evaluated over the rows of its splits as they are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import is_changelog
from sqlstream.elements import WATERMARK_MIN
from sqlstream.expressions import inputs_of
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.program import Program
from sqlstream.runtime.evaluate.time.intervals import milliseconds_of
from sqlstream.specs.source import SourceWatermark
from sqlstream.specs.watermark import ROW_WATERMARK_COLUMN, EmitStrategy
from sqlstream.spi.connector import ConnectorContext

_ROWTIME = "$rowtime"

Milliseconds = np.ndarray[Any, np.dtype[np.int64]]


class RowWatermarks:
    """Computes watermarks from columns in the source's layout; no state.

    `columns_read` are the places of the columns that row time and watermark are computed from.
    """

    def __init__(self, watermark: SourceWatermark, context: ConnectorContext) -> None:
        evaluation = EvaluationContext.of(context.now_ms, context.config)
        added = (watermark.rowtime,) if watermark.adds_rowtime else ()
        self._row_program = Program((watermark.expression, *added), evaluation)
        self._first_rows_program = Program((watermark.rowtime, watermark.expression), evaluation)
        self._names = [_ROWTIME] if added else []
        self._is_per_row = watermark.emit_strategy is EmitStrategy.ON_EVENT
        self.columns_read = inputs_of(watermark.rowtime, watermark.expression)

    def extended(self, batch: pa.RecordBatch, before_ms: int) -> tuple[pa.RecordBatch, Milliseconds]:
        """Rows of one split with the columns that the watermark adds, and the split's watermark after each of them;
        `before_ms` is the one before the first. NULL is passed over."""
        watermarks, *added = self._row_program.run(batch.columns, batch.num_rows)
        running = np.maximum(np.maximum.accumulate(_milliseconds(watermarks)), before_ms)
        names = list(self._names)
        if self._is_per_row:
            in_force = np.empty(len(running), dtype=np.int64)
            in_force[0] = before_ms
            in_force[1:] = running[:-1]
            added.append(pa.array(in_force))
            names.append(ROW_WATERMARK_COLUMN)
        if added:
            # The kinds of changes stay the last column.
            place = batch.num_columns - int(is_changelog(batch))
            columns, before = batch.columns, batch.schema.names
            batch = pa.RecordBatch.from_arrays(
                [*columns[:place], *added, *columns[place:]], names=[*before[:place], *names, *before[place:]]
            )
        return batch, running

    def least_ms(self, columns: Sequence[Any], rows: int) -> int:
        """A lower bound of a split's watermark, from its first rows: the watermark of the first row that has one, and below
        the times of the rows up to that one. It makes no row late that is not late by its own split.

        WATERMARK_MIN when none of the rows has a watermark.
        """
        if rows == 0:
            return WATERMARK_MIN
        times, watermarks = map(_milliseconds, self._first_rows_program.run(columns, rows))
        first = int(np.argmax(watermarks > WATERMARK_MIN))
        earliest = int(times[: first + 1].min())
        return min(int(watermarks[first]), max(earliest, WATERMARK_MIN + 1) - 1)


def _milliseconds(times: pa.Array) -> Milliseconds:
    milliseconds: Milliseconds = pc.fill_null(milliseconds_of(times), WATERMARK_MIN).to_numpy(
        zero_copy_only=False
    )
    return milliseconds
