"""Builds the output rows of joins: pairs of row numbers filtered by a condition, or rows of one side padded with NULLs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_schema, without_row_kinds
from sqlstream.expressions import Expression, inputs_of, remap
from sqlstream.runtime.evaluate import EvaluationContext, compile_condition
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.operators.deferred_rows import DeferredRows, Rows, RowsOfBatch
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.join import JoinKind


class JoinedRows:
    """Output rows have the left columns, then the right columns. No state."""

    def __init__(self, condition: Expression | None, context: OperatorContext) -> None:
        left, right = context.input_schemas
        self._schema = to_arrow_schema(context.output_schema)
        self._types = [[field.type for field in to_arrow_schema(side)] for side in (left, right)]
        self._left_width = len(left)
        # Only the columns of the condition are built for all pairs; the others only for the pairs that pass.
        self._read = sorted(inputs_of(condition)) if condition is not None else []
        self._condition = None
        if condition is not None:
            place = {column: position for position, column in enumerate(self._read)}
            read = left.concat(right).select(tuple(self._read))
            evaluation = EvaluationContext.of(context.now_ms, context.config)
            self._condition = compile_condition(remap(condition, place), read, evaluation)
            self._read_schema = to_arrow_schema(read)

    def pairs(
        self, left: pa.RecordBatch, right: pa.RecordBatch, left_rows: Array | None, right_rows: Array | None
    ) -> tuple[pa.RecordBatch, Array]:
        """The joined rows for which the condition is TRUE, and their positions among the pairs, int64[m].

        `left_rows[i]` and `right_rows[i]` are the rows of pair i. None: row i of that side's batch belongs to pair i.
        """
        pairs = left.num_rows if left_rows is None else len(left_rows)
        joined, passed = self.deferred(RowsOfBatch(left, left_rows), RowsOfBatch(right, right_rows), pairs)
        return joined.batch(), np.arange(pairs) if passed is None else passed

    def deferred(self, left: Rows, right: Rows, pairs: int) -> tuple[DeferredRows, Array | None]:
        """As `pairs` for row i of both sides, with columns that are built when they are read, and None when all pairs pass."""
        passed = self._passed(left, right, pairs)
        if passed is not None:
            left, right, pairs = left.chosen(passed), right.chosen(passed), len(passed)
        parts = [(left, self._left_width), (right, len(self._schema) - self._left_width)]
        return DeferredRows(self._schema, pairs, parts), passed

    def passing(
        self, left: pa.RecordBatch, right: pa.RecordBatch, left_rows: Array | None, right_rows: Array | None
    ) -> Array:
        """As `pairs` without the joined rows, which SEMI and ANTI do not output."""
        pairs = left.num_rows if left_rows is None else len(left_rows)
        return self.passing_of(RowsOfBatch(left, left_rows), RowsOfBatch(right, right_rows), pairs)

    def passing_of(self, left: Rows, right: Rows, pairs: int) -> Array:
        """As `passing` for row i of both sides."""
        passed = self._passed(left, right, pairs)
        return np.arange(pairs) if passed is None else passed

    def _passed(self, left: Rows, right: Rows, pairs: int) -> Array | None:
        """Positions of the pairs for which the condition is TRUE; None when all are."""
        if self._condition is None or pairs == 0:
            return None
        width = self._left_width
        columns = [
            *left.columns([c for c in self._read if c < width]),
            *right.columns([c - width for c in self._read if c >= width]),
        ]
        schema = self._read_schema
        if not columns:
            # A condition without columns still needs the number of rows.
            columns, schema = [pa.nulls(pairs)], pa.schema([pa.field("none", pa.null())])
        mask = self._condition(pa.RecordBatch.from_arrays(columns, schema=schema))
        if mask.true_count == pairs:
            return None
        return view_values(pc.indices_nonzero(mask), np.int64)

    def padded(self, batch: pa.RecordBatch, rows: Array | None, side: int = 0) -> pa.RecordBatch:
        """Rows (None: all) of that side (0: left, 1: right) with NULLs for the columns of the other."""
        count = batch.num_rows if rows is None else len(rows)
        own, nulls = taken(batch, rows), [pa.nulls(count, type_) for type_ in self._types[1 - side]]
        return pa.RecordBatch.from_arrays([*nulls, *own] if side else [*own, *nulls], schema=self._schema)

    def unmatched(
        self, batch: pa.RecordBatch, rows: Array | None, side: int, kind: JoinKind
    ) -> pa.RecordBatch:
        """Rows (None: all) of that side without a match, as a join of that kind outputs them."""
        return self.alone(batch, rows) if kind.is_left_only else self.padded(batch, rows, side)

    def alone(self, left: pa.RecordBatch, rows: Array | None) -> pa.RecordBatch:
        """Left rows (None: all) as SEMI and ANTI output them."""
        return pa.RecordBatch.from_arrays(taken(left, rows), schema=self._schema)


def taken(batch: pa.RecordBatch, rows: Array | None) -> list[pa.Array]:
    """The columns of these rows (None: all), without row kinds."""
    data = without_row_kinds(batch)
    return RowsOfBatch(data, rows).columns(range(data.num_columns))
