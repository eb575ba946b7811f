"""Filters and projects rows, and drops the first half of updates."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream import config
from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.expressions import InputRef
from sqlstream.graph.latency_choice import hold_ms
from sqlstream.messages.ledger import FILTERED
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.evaluate.compiled import FilteredProjections
from sqlstream.runtime.kernels.buffers import to_array, view_buffer
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.held_rows import HeldRows, HoldingOperator
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.update_pairs import filtered_kinds, moved_kinds
from sqlstream.specs.calc import CalcSpec, DropUpdateBeforeSpec

_ROWS_MIN = 8_192
"""A batch of at least this many rows is emitted at once."""


class Calc(HoldingOperator[CalcSpec]):
    """Keep the rows whose condition is TRUE and compute the projections over them.

    Columns that pass through are not copied unless the filter drops rows. Rows of an insert-only input become +I when the
    output is a changelog; half an update that is kept without the other one is a -D or a +I. Small results of a selective
    condition are held and emitted as one batch, because downstream costs are mostly per batch. A row is held for at most
    `hold_ms` while the task has other work, and not at all otherwise.
    CURRENT_WATERMARK is not kept: as in Flink, it is NULL after a restart until the next watermark.
    State: the held rows, fewer than `_ROWS_MIN`; they are emitted before any watermark, at the end, and by `flush`.
    """

    def __init__(self, spec: CalcSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._watermark_ms: int | None = None
        evaluation = EvaluationContext.of(context.now_ms, context.config)
        evaluation.watermark_ms = lambda: self._watermark_ms
        schema = context.input_schemas[0]
        self._evaluation = evaluation
        self._program = FilteredProjections(spec.condition, spec.projections, len(schema), evaluation)
        # The columns of the input that the result has, if it has no others.
        is_selection = all(isinstance(p, InputRef) for p in spec.projections)
        self._kept = [p.index for p in spec.projections if isinstance(p, InputRef)] if is_selection else []
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._enough = min(_ROWS_MIN, config.get(context.config, "execution.batch-rows"))
        self._held = context.state.add(HeldRows())
        self._held_since_ms = 0
        self._hold_ms = hold_ms(context.config)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        with self._evaluation:
            self._compute(batch, output)

    def _compute(self, batch: pa.RecordBatch, output: Output) -> None:
        columns, rows = batch.columns, batch.num_rows
        mask, shared = self._program.mask(columns, rows)
        if mask is not None:
            rows = mask.true_count
            self.context.count(FILTERED, batch.num_rows - rows)
            if self._kept and self._enough <= rows < batch.num_rows and output.splits_rows:
                self._emit_selected(batch, mask, output)
                return
        if rows == 0:
            return
        result = self._program.project(columns, shared, mask, rows)
        if not self.context.output_mode.is_insert_only:
            result.append(self._kinds(batch, mask, rows))
        # A batch without columns (SELECT nothing but COUNT(*) above) still has its number of rows.
        self._emit(_batch(result, rows, self._schema), output)

    def on_deferred(self, rows: DeferredRows, output: Output) -> None:
        """Only the columns that are read are built, those of the projections only for the rows that are kept."""
        with self._evaluation:
            self._compute_deferred(rows, output)

    def _compute_deferred(self, rows: DeferredRows, output: Output) -> None:
        from sqlstream.runtime.kernels.take import true_positions

        kept = rows
        shared: list[pa.Array] = []
        if self.spec.condition is not None:
            mask, shared = self._program.mask(_columns(rows, self._program.condition_reads), rows.num_rows)
            assert mask is not None
            self.context.count(FILTERED, rows.num_rows - mask.true_count)
            if mask.true_count < rows.num_rows:
                kept, shared = rows.chosen(true_positions(mask)), [column.filter(mask) for column in shared]
        if kept.num_rows == 0:
            return
        result = self._program.project(_columns(kept, self._program.reads), shared, None, kept.num_rows)
        if not self.context.output_mode.is_insert_only:
            result.append(_insertions(kept.num_rows))
        self._emit(_batch(result, kept.num_rows, self._schema), output)

    def _kinds(self, batch: pa.RecordBatch, mask: pa.Array | None, rows: int) -> pa.Array:
        """The kinds of the rows that are kept."""
        if not is_changelog(batch):
            return _insertions(rows)
        kinds = batch.columns[-1]
        return kinds if mask is None or rows == batch.num_rows else _filtered(batch, mask).filter(mask)

    def _emit_selected(self, batch: pa.RecordBatch, mask: pa.Array, output: Output) -> None:
        """Leave it to the exchange to copy the rows: the result has columns of the input only."""
        from sqlstream.runtime.kernels.take import true_positions

        columns = [batch.column(i) for i in self._kept]
        if not self.context.output_mode.is_insert_only:
            columns.append(_filtered(batch, mask) if is_changelog(batch) else _insertions(batch.num_rows))
        self.flush(output)
        output.emit_rows(_batch(columns, batch.num_rows, self._schema), true_positions(mask))

    def _emit(self, batch: pa.RecordBatch, output: Output) -> None:
        if self.spec.condition is None or batch.num_rows >= self._enough:
            self.flush(output)
            output.emit(batch)
            return
        if not self._held.rows:
            self._held_since_ms = self.context.now_ms()
        self._held.append(batch)
        if self._held.rows >= self._enough:
            self.flush(output)

    def flush(self, output: Output) -> None:
        held = self._held.take()
        if held is not None:
            output.emit(held)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self._watermark_ms = watermark_ms
        return super().on_watermark(watermark_ms, output)

    def next_processing_time_ms(self) -> int | None:
        return self._held_since_ms + self._hold_ms if self._held.rows else None


def _columns(rows: DeferredRows, numbers: frozenset[int]) -> list[pa.Array | None]:
    """All columns, with None for those that are not among the numbers."""
    read = sorted(numbers)
    built = dict(zip(read, rows.columns(read), strict=True))
    return [built.get(number) for number in range(len(rows.schema))]


def _filtered(batch: pa.RecordBatch, mask: pa.Array) -> pa.Array:
    """The kinds of all rows of a changelog, as those that the mask keeps have them."""
    kinds = row_kinds(batch)
    # pyarrow's own conversion takes thirty times as long.
    bit, last = mask.offset & 7, (mask.offset & 7) + len(mask)
    bits = view_buffer(mask.buffers()[1], np.uint8, mask.offset >> 3, (last + 7) >> 3)
    is_kept = np.unpackbits(bits, count=last, bitorder="little")[bit:].view(np.bool_)
    filtered = filtered_kinds(kinds, is_kept)
    return batch.columns[-1] if filtered is kinds else to_array(pa.int8(), filtered)


def _insertions(rows: int) -> pa.Array:
    """int8[rows] of +I, for rows of an insert-only input when the output is a changelog."""
    return pa.array(np.full(rows, int(RowKind.INSERT), np.int8))


def _batch(columns: list[pa.Array], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


class DropUpdateBefore(Operator[DropUpdateBeforeSpec]):
    """Emits all rows except -U: the following +U replaces the old row by its key, unless that is another one. No state."""

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        kinds = row_kinds(batch)
        moved = moved_kinds(kinds, [batch.column(key) for key in self.spec.keys])
        if moved is not kinds:
            batch = with_row_kinds(batch, moved)
        is_kept = moved != RowKind.UPDATE_BEFORE
        self.context.count(FILTERED, len(is_kept) - int(np.count_nonzero(is_kept)))
        output.emit(batch if is_kept.all() else batch.filter(pa.array(is_kept)))
