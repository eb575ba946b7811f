"""Joined rows: two sides put together by row numbers, filtered by a condition, or padded with NULLs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from runtime.evaluate import compile_condition
from runtime.operators.aggregates.accumulator import Array
from runtime.operators.operator import OperatorContext
from sqlstream.arrow import to_arrow_schema, without_row_kinds
from sqlstream.expressions import Expression, inputs_of, remap

PairFilter = Callable[[pa.RecordBatch], Array]


class JoinedRows:
    """Builds output rows of a join: left columns, then right columns."""

    def __init__(self, condition: Expression | None, context: OperatorContext) -> None:
        left, right = context.input_schemas
        self._schema = to_arrow_schema(left.concat(right))
        self._right_schema = to_arrow_schema(right)
        self._left_width = len(left)
        # The condition reads its own columns only: the others are put together for the pairs that pass.
        self._read = sorted(inputs_of(condition)) if condition is not None else []
        self._condition = None
        if condition is not None:
            place = {column: position for position, column in enumerate(self._read)}
            read = left.concat(right).select(tuple(self._read))
            self._condition = compile_condition(remap(condition, place), read)
            self._read_schema = to_arrow_schema(read)

    def pairs(
        self, left: pa.RecordBatch, right: pa.RecordBatch, left_rows: Array, right_rows: Array
    ) -> tuple[pa.RecordBatch, Array]:
        """The joined rows whose condition is TRUE, and the positions of the pairs that passed."""
        passed = self._passed(left, right, left_rows, right_rows)
        if len(passed) < len(left_rows):
            left_rows, right_rows = left_rows[passed], right_rows[passed]
        columns = [*taken(left, left_rows), *taken(right, right_rows)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema), passed

    def _passed(self, left: pa.RecordBatch, right: pa.RecordBatch, left_rows: Array, right_rows: Array) -> Array:
        """Positions of the pairs for which the condition is TRUE."""
        if self._condition is None or len(left_rows) == 0:
            return np.arange(len(left_rows))
        chosen = (pa.array(left_rows), pa.array(right_rows))
        columns = [
            left.column(c).take(chosen[0]) if c < self._left_width else right.column(c - self._left_width).take(chosen[1])
            for c in self._read
        ]
        if not columns:
            columns, schema = [pa.nulls(len(left_rows))], pa.schema([pa.field("none", pa.null())])
        else:
            schema = self._read_schema
        return np.flatnonzero(true_rows(self._condition(pa.RecordBatch.from_arrays(columns, schema=schema))))

    def padded(self, left: pa.RecordBatch, left_rows: Array) -> pa.RecordBatch:
        """Left rows with NULLs for the right columns."""
        nulls = [pa.nulls(len(left_rows), field.type) for field in self._right_schema]
        return pa.RecordBatch.from_arrays([*taken(left, left_rows), *nulls], schema=self._schema)


def taken(batch: pa.RecordBatch, rows: Array) -> list[pa.Array]:
    """The data columns of these rows."""
    chosen = pa.array(rows)
    return [column.take(chosen) for column in without_row_kinds(batch).columns]


def true_rows(condition: object) -> Array:
    """bool[n] of a compiled condition's result, NULL counting as FALSE."""
    if isinstance(condition, pa.Array):
        return np.asarray(condition.fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)
    return np.asarray(condition, dtype=bool)
