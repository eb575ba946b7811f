"""Expressions compiled to functions of batches: compile once when the task opens, call per batch.

Errors that the data causes are `UserError` SS51xx at the position of the call that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import InternalError
from sqlstream.expressions import Call, Expression, InputRef, inputs_of
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.program import Columns, Program, shared_calls
from sqlstream.runtime.kernels.take import take_rows, true_positions
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


# A condition and projections over the rows that it keeps: what both compute is computed once.


class FilteredProjections:
    """Runs `condition`, then the projections over the rows for which it is TRUE.

    A call of the projections that the condition makes for every row (a regular expression, an exact product) is not made
    again: its results are filtered as the columns are.
    """

    def __init__(
        self,
        condition: Expression | None,
        projections: Sequence[Expression],
        width: int,
        context: EvaluationContext,
    ) -> None:
        """`width` is the number of columns that the expressions may read."""
        self._width = width
        self._shared: list[Expression] = []
        self._condition: Program | None = None
        if condition is not None:
            made = {call for call in shared_calls((condition,)) if inputs_of(call)}
            projections = [self._without(p, made) for p in projections]
            self._condition = Program((condition, *self._shared), context)
        self._projections = Program(projections, context)
        self._read = inputs_of(*projections)
        self.condition_reads = frozenset() if condition is None else inputs_of(condition)
        """The columns that `mask` reads."""
        self.reads = frozenset(n for n in self._read if n < width)
        """The columns that `project` reads; others may be None."""

    def _without(self, expression: Expression, made: set[Call]) -> Expression:
        """The expression in which the outermost calls among `made` are columns behind the input's."""
        if not isinstance(expression, Call):
            return expression
        if expression in made:
            if expression not in self._shared:
                self._shared.append(expression)
            return InputRef(self._width + self._shared.index(expression), expression.type)
        args = tuple(self._without(a, made) for a in expression.args)
        return expression.with_args(args)

    def mask(self, columns: Columns, rows: int) -> tuple[pa.BooleanArray | None, list[pa.Array]]:
        """(which rows are kept, without NULLs, or None for all; the results that `project` reads behind the columns)."""
        if self._condition is None:
            return None, []
        mask, *shared = self._condition.run(columns, rows)
        return pc.fill_null(mask, False) if mask.null_count else mask, shared

    def project(
        self, columns: Columns, shared: list[pa.Array], mask: pa.BooleanArray | None, rows: int
    ) -> list[pa.Array]:
        """The projections over the `rows` rows that the mask of these columns keeps."""
        given = [*columns[: self._width], *shared]
        if mask is not None and rows < len(mask):
            # By position: Arrow's filter takes up to four times as long for texts.
            kept = true_positions(mask)
            given = [take_rows(c, kept) if i in self._read else None for i, c in enumerate(given)]
        return self._projections.run(given, rows)
