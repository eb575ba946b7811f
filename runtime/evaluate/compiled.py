"""Expressions compiled to functions of batches: compile once when the task opens, call per batch.

Errors that the data causes are `UserError` SS51xx at the position of the call that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import InternalError
from sqlstream.expressions import Expression, inputs_of
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.program import Program
from sqlstream.schema import Schema


def _program(
    expressions: Sequence[Expression], input_schema: Schema, context: EvaluationContext | None
) -> Program:
    read = inputs_of(*expressions)
    if read and max(read) >= len(input_schema):
        raise InternalError(f"expression reads column {max(read)} of {len(input_schema)}")
    return Program(expressions, context or EvaluationContext())


def compile_projections(
    expressions: Sequence[Expression], input_schema: Schema, context: EvaluationContext | None = None
) -> Callable[[pa.RecordBatch], list[pa.Array]]:
    """One column per expression; a subexpression that several share is computed once per batch."""
    program = _program(expressions, input_schema, context)
    return lambda batch: program.run(batch.columns, batch.num_rows)


def compile_expression(
    expression: Expression, input_schema: Schema, context: EvaluationContext | None = None
) -> Callable[[pa.RecordBatch], pa.Array]:
    """The expression's value for each row."""
    program = _program((expression,), input_schema, context)
    return lambda batch: program.run(batch.columns, batch.num_rows)[0]


def compile_condition(
    condition: Expression, input_schema: Schema, context: EvaluationContext | None = None
) -> Callable[[pa.RecordBatch], pa.BooleanArray]:
    """A mask without NULLs: true for the rows that the condition keeps."""
    program = _program((condition,), input_schema, context)

    def evaluate(batch: pa.RecordBatch) -> pa.BooleanArray:
        mask = program.run(batch.columns, batch.num_rows)[0]
        return pc.fill_null(mask, False) if mask.null_count else mask

    return evaluate
