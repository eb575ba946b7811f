"""Compares the rows of two inputs, and marks the changes that one of them makes."""

from __future__ import annotations

import contextlib

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_schema, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.runtime.batch.comparison import Comparison, Differences, comparison
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.specs.calc import MarkChangesSpec
from sqlstream.specs.compare_rows import (
    EXPLAINED_BY_FLOATS,
    STREAM_INPUT,
    CompareRowsSpec,
    ComparisonReport,
    found_schema,
)


class CompareRows(Operator[CompareRowsSpec]):
    """Takes both results as they come, in any order, and emits what differs when both have ended.

    State: both results in a database of its own, which writes to temporary files what its memory does not hold. A cancelled task
    interrupts what the database computes."""

    def __init__(self, spec: CompareRowsSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._closing = contextlib.ExitStack()
        self._rows: Comparison = self._closing.enter_context(comparison(spec.schema, context.config))
        self._opened_ms = context.now_ms()
        self._ended_ms = {0: self._opened_ms, 1: self._opened_ms}
        context.on_cancel(self._rows.interrupt)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        self._rows.add(_side(input_index), batch)

    def on_watermark(self, watermark_ms: int, output: Output) -> None:
        return None

    def on_end_of_input(self, input_index: int, output: Output) -> None:
        self._ended_ms[input_index] = self.context.now_ms()

    def on_finish(self, output: Output) -> None:
        spec, rows = self.spec, self._rows
        found = rows.differences(spec.key, spec.tolerance, spec.keys_max)
        is_equal = not found.surplus and not found.missing
        report = ComparisonReport(
            stream_rows=rows.count("stream"),
            batch_rows=rows.count("batch"),
            stream_ms=self._ended_ms[0] - self._opened_ms,
            batch_ms=self._ended_ms[1] - self._opened_ms,
            surplus=found.surplus,
            missing=found.missing,
            near=found.near,
            explained=0 if is_equal or spec.tolerance else rows.drop_near(EXPLAINED_BY_FLOATS),
        )
        output.emit(found_batch(spec, report, found))

    def close(self) -> None:
        self._closing.close()


def _side(input_index: int) -> str:
    return "stream" if input_index == STREAM_INPUT else "batch"


def found_batch(spec: CompareRowsSpec, report: ComparisonReport, found: Differences) -> pa.RecordBatch:
    """The report, and behind it the differing rows, in the shape of `found_schema`."""
    schema = to_arrow_schema(found_schema(spec.schema))
    count = found.rows.num_rows
    head = [
        pa.array([msgspec.json.encode(report).decode(), *[None] * count], pa.string()),
        pa.array([None, *found.keys], pa.int64()),
        pa.array([None, *found.counts], pa.int64()),
    ]
    columns = [pa.concat_arrays([pa.nulls(1, column.type), *column.chunks]) for column in found.rows.columns]
    return pa.RecordBatch.from_arrays([*head, *columns], schema=schema)


class MarkChanges(Operator[MarkChangesSpec]):
    """Turns the last column of its input into the kinds of the rows. No state."""

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        changed = RowKind.DELETE if self.spec.is_deleting else RowKind.UPDATE_AFTER
        flags = pc.fill_null(batch.column(batch.num_columns - 1), False).to_numpy(zero_copy_only=False)
        kinds = np.where(flags, np.int8(changed), np.int8(RowKind.INSERT))
        output.emit(with_row_kinds(batch.select(range(batch.num_columns - 1)), kinds))
