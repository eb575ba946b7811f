"""The state of a window until it closes: merged accumulators, or its rows when a call cannot be merged."""

from __future__ import annotations

import pyarrow as pa

from runtime.aggregates.accumulator_set import AccumulatorSet, accumulator_width
from runtime.state.arrays import Array, first_slots
from sqlstream.arrow import to_arrow_schema
from sqlstream.expressions import AggregateCall
from sqlstream.functions import AGGREGATE_FUNCTIONS
from sqlstream.schema import Schema
from sqlstream.types import LogicalType

ArgumentTypes = tuple[tuple[LogicalType, ...], ...]


def is_mergeable(calls: tuple[AggregateCall, ...]) -> bool:
    """Whether the accumulators of all calls can be merged; DISTINCT, FIRST_VALUE and others need the rows."""
    return all(AGGREGATE_FUNCTIONS[c.function].accumulator is not None and not c.is_distinct for c in calls)


class MergedPartials:
    """One partial per group of rows: the accumulator columns of all calls."""

    is_merging = True

    def __init__(self, calls: tuple[AggregateCall, ...], types: ArgumentTypes) -> None:
        self._calls = calls
        self._types = types
        self.width = sum(accumulator_width(call) for call in calls)

    def _accumulators(self, count: int) -> AccumulatorSet:
        accumulators = AccumulatorSet(self._calls, self._types)
        accumulators.resize(count)
        return accumulators

    def from_rows(self, batch: pa.RecordBatch, groups: Array, count: int) -> list[pa.Array]:
        """The rows of each group as one partial; row g of the columns is group g."""
        accumulators = self._accumulators(count)
        accumulators.accumulate(groups, batch)
        return accumulators.columns(first_slots(count))

    def together(self, columns: list[pa.Array], groups: Array, count: int) -> AccumulatorSet:
        """The partials, merged by group."""
        accumulators = self._accumulators(count)
        accumulators.merge(groups, columns)
        return accumulators


class RawRows:
    """Keeps every row; the calls run when a window closes."""

    is_merging = False

    def __init__(self, calls: tuple[AggregateCall, ...], types: ArgumentTypes, schema: Schema) -> None:
        self._calls = calls
        self._types = types
        self._schema = to_arrow_schema(schema)
        self.width = len(schema)

    def from_rows(self, batch: pa.RecordBatch, groups: Array, count: int) -> list[pa.Array]:
        return list(batch.columns)

    def together(self, columns: list[pa.Array], groups: Array, count: int) -> AccumulatorSet:
        accumulators = AccumulatorSet(self._calls, self._types)
        accumulators.resize(count)
        accumulators.accumulate(groups, pa.RecordBatch.from_arrays(columns, schema=self._schema))
        return accumulators


Partials = MergedPartials | RawRows
