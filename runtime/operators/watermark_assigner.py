"""Emits watermarks for the rows of an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import is_accumulate, is_changelog, row_kinds, to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression
from sqlstream.runtime.evaluate.time.intervals import milliseconds_of
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.kernels.keys.group import extent
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.operator_state import NeverExpires, SavedWhole
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.specs.watermark import EmitStrategy, WatermarkAssignerSpec


class WatermarkAssigner(Operator[WatermarkAssignerSpec]):
    """Forwards the rows, and after each batch emits the highest value of the watermark expression so far.

    Watermarks from upstream are dropped, except the one that ends event time; with `spec.is_by_source` they are forwarded, and
    none is computed. Without rows for the idle timeout the output turns idle, and active with the next row.
    State: the current watermark, and whether the output is idle.
    """

    def __init__(self, spec: WatermarkAssignerSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        evaluation = EvaluationContext.of(context.now_ms, context.config)
        self._evaluate = compile_expression(spec.expression, context.input_schemas[0], evaluation)
        self._is_per_row = spec.emit_strategy is EmitStrategy.ON_EVENT
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._watermark = context.state.add(CombinedWatermark("watermark_ms"))
        # Since when no row came; None until the task runs, as its opening and its restore may take long.
        self._active_ms: int | None = None
        # Whether those behind may take this subtask for idle, as what they go on from says.
        self._may_count_as_idle = False

    @property
    def progress(self) -> tuple[int, bool]:
        """The watermark, and whether the output is idle."""
        return self._watermark.value_ms, self._watermark.is_idle

    def on_restored(self) -> None:
        self._may_count_as_idle = True

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if batch.num_rows == 0:
            return
        self._check_rowtime(batch)
        self._activate(output)
        if self.spec.is_by_source:
            output.emit(self._without_unread_watermarks(batch))
            return
        candidates = milliseconds_of(self._evaluate(self._with_times(batch)))
        before_ms = self._watermark.value_ms
        if self._is_per_row:
            batch = self._with_watermarks(batch, candidates)
        else:
            highest = _highest(candidates)
            self._watermark.value_ms = max(before_ms, WATERMARK_MIN if highest is None else highest)
        output.emit(batch)
        if self._watermark.value_ms > before_ms:
            output.emit_watermark(self._watermark.value_ms)

    def _with_times(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows whose time counts: a deletion by key may have nothing but the key."""
        if self.spec.rowtime_column >= 0 or not is_changelog(batch):
            return batch
        return batch.filter(pa.array(is_accumulate(row_kinds(batch))))

    def _check_rowtime(self, batch: pa.RecordBatch) -> None:
        if self.spec.rowtime_column >= 0 and batch.column(self.spec.rowtime_column).null_count:
            name = self.context.input_schemas[0].names[self.spec.rowtime_column]
            raise UserError(
                "SS5104",
                f'rowtime "{name}" is null',
                hint="filter such rows out before the watermark: every row of the table needs its event time",
            )

    def _without_unread_watermarks(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Remove the column with each row's watermark, which the reader adds, where the output schema lacks it."""
        width = len(self._schema)
        return batch if batch.num_columns == width else batch.select(range(width))

    def _with_watermarks(self, batch: pa.RecordBatch, candidates: pa.Array) -> pa.RecordBatch:
        """Append for each row the watermark in force, which the rows before it determine."""
        running = self._running_maximum(candidates)
        in_force = np.empty(len(running), dtype=np.int64)
        in_force[0] = self._watermark.value_ms
        in_force[1:] = running[:-1]
        self._watermark.value_ms = int(running[-1])
        columns = batch.columns
        place = len(columns) - 1 if is_changelog(batch) else len(columns)
        columns.insert(place, pa.array(in_force))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _running_maximum(self, candidates: pa.Array) -> np.ndarray[Any, Any]:
        values = pc.fill_null(candidates, WATERMARK_MIN).to_numpy(zero_copy_only=False).copy()
        values[0] = max(values[0], self._watermark.value_ms)
        return np.maximum.accumulate(values)

    def _activate(self, output: Output) -> None:
        self._active_ms = self.context.now_ms()
        if self._watermark.is_idle or self._may_count_as_idle:
            self._watermark.is_idle = self._may_count_as_idle = False
            output.emit_idle(False)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if not self.spec.is_by_source and watermark_ms != WATERMARK_MAX:
            return None
        if watermark_ms <= self._watermark.value_ms:
            return None
        self._watermark.value_ms = watermark_ms
        return watermark_ms

    def on_idle(self, is_idle: bool, output: Output) -> bool | None:
        if is_idle == self._watermark.is_idle:
            return None
        self._watermark.is_idle = is_idle
        self._active_ms = self.context.now_ms()
        return is_idle

    def next_processing_time_ms(self) -> int | None:
        if (
            self.spec.idle_timeout_ms <= 0
            or self._watermark.is_idle
            or self._watermark.value_ms == WATERMARK_MAX
        ):
            return None
        if self._active_ms is None:
            self._active_ms = self.context.now_ms()
        return self._active_ms + self.spec.idle_timeout_ms

    def on_held_back(self, now_ms: int) -> None:
        if not self._watermark.is_idle:
            self._active_ms = now_ms

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        due_ms = self.next_processing_time_ms()
        if due_ms is not None and now_ms >= due_ms:
            self._watermark.is_idle = True
            output.emit_idle(True)


class CombinedWatermark(SavedWhole, NeverExpires):
    """`value_ms` and `is_idle`, which an operator reads and sets.

    At a restore each subtask gets the watermark that all old ones had together: the lowest of those that were not idle, as the
    operators behind them have combined it; the highest when all were idle. So a subtask without rows does not set back the
    watermark, and no row becomes late that was not. Whether a subtask is idle is found again. State: both values.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.value_ms = WATERMARK_MIN
        self.is_idle = False

    def save_later(self) -> Callable[[], SavedTables]:
        row = {self.name: [self.value_ms], "is_idle": [self.is_idle]}
        return lambda: SavedTables(shared={self.name: pa.table(row)})

    def load(self, saved: SavedTables) -> None:
        table = saved.shared.get(self.name)
        if table is not None and table.num_rows:
            values, are_idle = (column.to_pylist() for column in table.columns)
            active = [value for value, is_idle in zip(values, are_idle, strict=True) if not is_idle]
            self.value_ms = min(active) if active else max(values)

    def nbytes(self) -> int:
        return 0


def _highest(candidates: pa.Array) -> int | None:
    """None when all are NULL."""
    if candidates.null_count or not len(candidates):
        return pc.max(candidates).as_py()
    # A tenth of Arrow's time for a few rows.
    return int(extent(view_values(candidates, np.int64))[1])
