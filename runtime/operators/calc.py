"""Filter and project."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.evaluate import EvaluationContext, compile_condition
from runtime.evaluate.program import Program
from runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.arrow import is_changelog, to_arrow_schema
from sqlstream.changelog import RowKind
from sqlstream.expressions import inputs_of
from sqlstream.specs.calc import CalcSpec


class Calc(Operator[CalcSpec]):
    """Keep the rows whose condition is TRUE and compute the projections over them.

    Columns that pass through are not copied unless the filter drops rows. Rows of an insert-only input become +I when the
    output is a changelog. No state.
    """

    def __init__(self, spec: CalcSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        evaluation = EvaluationContext.of(context.now_ms, context.config)
        schema = context.input_schemas[0]
        self._condition = (
            None if spec.condition is None else compile_condition(spec.condition, schema, evaluation)
        )
        self._projections = Program(spec.projections, evaluation)
        self._read = inputs_of(*spec.projections)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        columns, rows = batch.columns, batch.num_rows
        if self._condition is not None:
            mask = self._condition(batch)
            rows = mask.true_count
            if rows < batch.num_rows:
                kept = self._read if not is_changelog(batch) else self._read | {batch.num_columns - 1}
                columns = [c.filter(mask) if i in kept else None for i, c in enumerate(columns)]
        if rows == 0:
            return
        result = self._projections.run(columns, rows)
        if not self.context.output_mode.is_insert_only:
            result.append(columns[-1] if is_changelog(batch) else _insertions(rows))
        # A batch without columns (SELECT nothing but COUNT(*) above) still has its number of rows.
        output.emit(_batch(result, rows, self._schema))


def _insertions(rows: int) -> pa.Array:
    """Row kinds for rows of an insert-only input whose receiver takes changes."""
    return pa.array(np.full(rows, int(RowKind.INSERT), np.int8))


def _batch(columns: list[pa.Array], rows: int, schema: pa.Schema) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
