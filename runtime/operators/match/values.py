"""Values of expressions over the rows of matches, or of what is mapped of them so far."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema, to_arrow_type
from sqlstream.expressions import AggregateCall, InputRef, walk
from sqlstream.runtime.aggregates.accumulator_set import AccumulatorSet
from sqlstream.runtime.evaluate import EvaluationContext, compile_expression, compile_projections
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.schema import Field, Schema
from sqlstream.specs.match_recognize import (
    Classifier,
    MatchAggregate,
    MatchExpression,
    MatchNumber,
    MatchTime,
    Navigation,
    Operand,
)
from sqlstream.types import BOOLEAN, INT, LogicalType

AGGREGATED_MAX = 1 << 20
"""Rows that the aggregates of several contexts read at once."""


@dataclasses.dataclass(frozen=True)
class MatchedRows:
    """Rows of matches, and contexts, each of which sees a match up to one of its rows.

    `batch` has the rows of all partitions, of which row i belongs to that with rows `partition_begin[i]` to `partition_end[i]`.
    Match m has rows `rows[starts[m]:starts[m + 1]]` of the batch, mapped to `variables` (aligned with `rows`), and number
    `numbers[m]`. Context c belongs to match `matches[c]` and sees its rows before place `ends[c]` of `rows`.
    """

    batch: pa.RecordBatch
    partition_begin: Array
    partition_end: Array
    rows: Array
    variables: Array
    starts: Array
    numbers: Array
    matches: Array
    ends: Array

    def seen(self, is_final: bool) -> tuple[Array, Array]:
        """The places of `rows` that each context sees: from, to."""
        return self.starts[self.matches], self.starts[self.matches + 1] if is_final else self.ends


class MatchValues:
    """Computes expressions for contexts. Holds their compiled form, no state."""

    def __init__(
        self,
        expressions: Sequence[MatchExpression],
        schema: Schema,
        variables: tuple[str, ...],
        evaluation: EvaluationContext,
    ) -> None:
        self._names = pa.array(variables, pa.string())
        self._evaluation = evaluation
        self._compiled = [_compile(e, evaluation) for e in expressions]
        self._aggregates: dict[MatchAggregate, _AggregateValues] = {}
        self._types: dict[Operand, LogicalType] = {}
        for expression in expressions:
            types = operand_types(expression)
            for operand, t in zip(expression.operands, types, strict=True):
                self._types[operand] = t
                if isinstance(operand, MatchAggregate) and operand not in self._aggregates:
                    self._aggregates[operand] = _AggregateValues(operand, t, schema, evaluation)
        self._expressions = expressions

    def compute(self, matched: MatchedRows) -> list[pa.Array]:
        """One column per expression, with a value for each context."""
        known: dict[Operand, pa.Array] = {}
        columns = []
        for expression, (compiled, schema) in zip(self._expressions, self._compiled, strict=True):
            for operand in expression.operands:
                if operand not in known:
                    known[operand] = self._operand(operand, matched)
            # A batch of no columns has no length.
            length = pa.nulls(len(matched.matches), pa.int32())
            arrays = [*(known[o] for o in expression.operands), length]
            columns.append(compiled(pa.RecordBatch.from_arrays(arrays, schema=schema)))
        return columns

    def _operand(self, operand: Operand, matched: MatchedRows) -> pa.Array:
        match operand:
            case Navigation():
                places = _places(matched, operand)
                column = matched.batch.column(operand.column)
                return column.take(_rows_of(places, matched, operand.shift))
            case Classifier():
                places = _places(matched, operand)
                found = np.where(places < 0, 0, places)
                numbers = (
                    matched.variables[found]
                    if len(matched.variables)
                    else np.zeros(len(places), dtype=np.int64)
                )
                return self._names.take(pa.array(numbers.astype(np.int64), mask=places < 0))
            case MatchNumber():
                return pa.array(matched.numbers[matched.matches], pa.int64())
            case MatchTime():
                now = pa.scalar(self._evaluation.now_ms(), pa.timestamp("ms", "UTC"))
                return pa.repeat(now.cast(to_arrow_type(self._types[operand])), len(matched.matches))
            case MatchAggregate():
                return self._aggregates[operand].compute(matched)


def operand_types(expression: MatchExpression) -> tuple[LogicalType, ...]:
    """The type of each operand, as the expression reads it."""
    found = {n.index: n.type for n in walk(expression.expression) if isinstance(n, InputRef)}
    return tuple(found.get(i, INT) for i in range(len(expression.operands)))


def _compile(expression: MatchExpression, evaluation: EvaluationContext):  # type: ignore[no-untyped-def]
    types = (*operand_types(expression), INT)
    schema = Schema(tuple(Field(f"o{i}", t.with_nullable(True)) for i, t in enumerate(types)))
    return compile_expression(expression.expression, schema, evaluation), to_arrow_schema(schema)


def _chosen(variables: tuple[int, ...], matched: MatchedRows) -> tuple[Array, Array]:
    """The places of `rows` that are mapped to one of the variables (none: all), and how many of them are before each place."""
    if not variables:
        count = len(matched.rows)
        return np.arange(count), np.arange(count + 1)
    is_chosen = np.zeros(max(*variables, int(matched.variables.max(initial=0))) + 1, dtype=bool)
    is_chosen[list(variables)] = True
    chosen = is_chosen[matched.variables]
    return np.flatnonzero(chosen), np.concatenate(([0], np.cumsum(chosen)))


def _places(matched: MatchedRows, way: Navigation | Classifier) -> Array:
    """The place of `rows` that each context navigates to, -1 for none."""
    begins, ends = matched.seen(way.is_final)
    chosen, before = _chosen(way.variables, matched)
    low, high = before[begins], before[ends]
    index = low + way.offset if way.is_first else high - 1 - way.offset
    is_there = (index >= low) & (index < high)
    places = np.full(len(index), -1, dtype=np.int64)
    places[is_there] = chosen[index[is_there]]
    return places


def _rows_of(places: Array, matched: MatchedRows, shift: int) -> pa.Array:
    """Row numbers of the batch, NULL where there is no place, or no row so far from it in its partition."""
    is_missing = places < 0
    rows = np.zeros(len(places), dtype=np.int64)
    rows[~is_missing] = matched.rows[places[~is_missing]]
    if shift and len(rows):
        begin, end = matched.partition_begin[rows], matched.partition_end[rows]
        rows = rows + shift
        is_missing = is_missing | (rows < begin) | (rows >= end)
        rows = np.where(is_missing, 0, rows)
    return pa.array(rows, mask=is_missing)


class _AggregateValues:
    """One aggregate over the rows that each context sees."""

    def __init__(
        self, operand: MatchAggregate, result: LogicalType, schema: Schema, evaluation: EvaluationContext
    ) -> None:
        self._operand = operand
        types = tuple(a.type for a in operand.arguments)
        filters = () if operand.filter is None else (operand.filter,)
        self._columns = compile_projections((*operand.arguments, *filters), schema, evaluation)
        width = len(types)
        call = AggregateCall(
            operand.function,
            tuple(range(width)),
            result,
            operand.is_distinct,
            width if filters else -1,
            operand.ref,
        )
        self._calls, self._types = (call,), (types,)
        fields = [Field(f"a{i}", t) for i, t in enumerate((*types, *(BOOLEAN for _ in filters), INT))]
        self._schema = to_arrow_schema(Schema(tuple(f for f in fields)))

    def compute(self, matched: MatchedRows) -> pa.Array:
        begins, ends = matched.seen(self._operand.is_final)
        chosen, before = _chosen(self._operand.variables, matched)
        low, counts = before[begins], before[ends] - before[begins]
        rows = matched.batch.take(to_array(pa.int64(), matched.rows[chosen]))
        columns = [*self._columns(rows), pa.nulls(rows.num_rows, pa.int32())]
        arguments = pa.RecordBatch.from_arrays(
            [c.cast(f.type) for c, f in zip(columns, self._schema, strict=True)], names=self._schema.names
        )
        parts = [self._part(arguments, low[begin:end], counts[begin:end]) for begin, end in _portions(counts)]
        return pa.concat_arrays(parts) if parts else pa.nulls(0, to_arrow_type(self._calls[0].type))

    def _part(self, arguments: pa.RecordBatch, low: Array, counts: Array) -> pa.Array:
        contexts = np.repeat(np.arange(len(counts)), counts)
        rows = ranges(low, counts)
        accumulators = AccumulatorSet(self._calls, self._types, is_retracting=False)
        accumulators.resize(len(counts))
        accumulators.accumulate(contexts, arguments.take(to_array(pa.int64(), rows)))
        result: pa.Array = accumulators.results(first_slots(len(counts)))[0]
        return result


def _portions(counts: Array) -> list[tuple[int, int]]:
    """Bounds of portions of contexts that read about AGGREGATED_MAX rows each."""
    if len(counts) == 0:
        return []
    portion = np.cumsum(counts) // AGGREGATED_MAX
    bounds = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(counts)]
    return list(itertools.pairwise(bounds))


def ranges(begins: Array, counts: Array) -> Array:
    """`begins[i]`, `begins[i] + 1`, … for each i, `counts[i]` of them, int64.

    >>> ranges(np.array([5, 0]), np.array([2, 1])).tolist()
    [5, 6, 0]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(begins - (ends - counts), counts)
