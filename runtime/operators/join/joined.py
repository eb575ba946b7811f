"""Builds the output rows of joins: pairs of row numbers filtered by a condition, or rows of one side padded with NULLs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate import EvaluationContext, compile_condition
from runtime.kernels.buffers import view_values
from runtime.kernels.take import take_rows
from runtime.operators.operator import OperatorContext
from runtime.state.arrays import Array
from sqlstream.arrow import to_arrow_schema, without_row_kinds
from sqlstream.expressions import Expression, inputs_of, remap
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
        passed = self._passed(left, right, left_rows, right_rows)
        if passed is None:
            passed = np.arange(left.num_rows if left_rows is None else len(left_rows))
        else:
            left_rows = passed if left_rows is None else left_rows[passed]
            right_rows = passed if right_rows is None else right_rows[passed]
        columns = [*taken(left, left_rows), *taken(right, right_rows)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema), passed

    def passing(
        self, left: pa.RecordBatch, right: pa.RecordBatch, left_rows: Array | None, right_rows: Array | None
    ) -> Array:
        """As `pairs` without the joined rows, which SEMI and ANTI do not output."""
        passed = self._passed(left, right, left_rows, right_rows)
        return np.arange(left.num_rows if left_rows is None else len(left_rows)) if passed is None else passed

    def _passed(
        self, left: pa.RecordBatch, right: pa.RecordBatch, left_rows: Array | None, right_rows: Array | None
    ) -> Array | None:
        """Positions of the pairs for which the condition is TRUE; None when all are."""
        pairs = left.num_rows if left_rows is None else len(left_rows)
        if self._condition is None or pairs == 0:
            return None
        sides = ((left, left_rows), (right, right_rows))
        columns = []
        for c in self._read:
            side, rows = sides[c >= self._left_width]
            column = side.column(c if c < self._left_width else c - self._left_width)
            columns.append(column if rows is None else take_rows(column, rows.astype(np.int32)))
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
    columns = without_row_kinds(batch).columns
    if rows is None:
        return columns
    positions = rows.astype(np.int32)
    return [take_rows(column, positions) for column in columns]
