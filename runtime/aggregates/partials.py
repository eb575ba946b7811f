"""The state of a window until it closes: merged accumulators, or its rows when a call cannot be merged."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, signs_of, to_arrow_schema
from sqlstream.expressions import AggregateCall
from sqlstream.functions import signature_of
from sqlstream.functions.aggregates import accumulator_fields
from sqlstream.runtime.aggregates.accumulator_set import AccumulatorSet, accumulator_width, row_argument_types
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.schema import Schema
from sqlstream.types import LogicalType

SIGN_COLUMN = "$sign"
ArgumentTypes = tuple[tuple[LogicalType, ...], ...]


def row_partials(calls: tuple[AggregateCall, ...], schema: Schema) -> Partials:
    """How a phase that reads rows keeps them: as merged partials, or as rows when a call cannot be merged."""
    if all(signature_of(c).accumulator is not None and not c.is_distinct for c in calls):
        return MergedPartials(calls, row_argument_types(calls, schema))
    # DISTINCT, FIRST_VALUE and others need the rows.
    return RawRows(calls, schema)


class MergedPartials:
    """One partial per group of rows: the accumulator columns of all calls."""

    is_merging = True

    def __init__(self, calls: tuple[AggregateCall, ...], types: ArgumentTypes) -> None:
        self._calls = calls
        self._types = types
        self.width = sum(accumulator_width(call) for call in calls)

    def accumulators(self, count: int) -> AccumulatorSet:
        accumulators = AccumulatorSet(self._calls, self._types)
        accumulators.resize(count)
        return accumulators

    def names(self, schema: Schema) -> list[str]:
        """The names of the partials' columns, made from rows of `schema`."""
        return [field.name for call in self._calls for field in accumulator_fields(call, schema) or ()]

    def from_rows(self, batch: pa.RecordBatch, groups: Array, count: int) -> list[pa.Array]:
        """The rows of each group as one partial; row g of the columns is group g."""
        accumulators = self.accumulators(count)
        accumulators.accumulate(groups, batch)
        return accumulators.columns(first_slots(count))

    def together(self, columns: list[pa.Array], groups: Array, count: int) -> AccumulatorSet:
        """The partials, merged by group."""
        accumulators = self.accumulators(count)
        accumulators.merge(groups, columns)
        return accumulators


class RawRows:
    """Keeps of every row the columns that the calls read; the calls run when a window closes."""

    is_merging = False

    def __init__(self, calls: tuple[AggregateCall, ...], schema: Schema) -> None:
        read = {a for call in calls for a in call.args} | {c.filter for c in calls if c.filter >= 0}
        self._read = sorted(read)
        self._calls = _over_columns(calls, self._read)
        kept = schema.select(tuple(self._read))
        self._types = row_argument_types(self._calls, kept)
        self._schema = to_arrow_schema(kept)
        self.width = len(kept)

    def names(self, schema: Schema) -> list[str]:
        """The names of the kept columns of `schema`."""
        return [schema.names[column] for column in self._read]

    def from_rows(self, batch: pa.RecordBatch, groups: Array, count: int) -> list[pa.Array]:
        return [batch.column(column) for column in self._read]

    def accumulators(self, count: int) -> AccumulatorSet:
        accumulators = AccumulatorSet(self._calls, self._types)
        accumulators.resize(count)
        return accumulators

    def together(self, columns: list[pa.Array], groups: Array, count: int) -> AccumulatorSet:
        accumulators = self.accumulators(count)
        accumulators.accumulate(groups, pa.RecordBatch.from_arrays(columns, schema=self._schema))
        return accumulators

    def each(self, columns: list[pa.Array], keys: Array) -> list[pa.Array]:
        """The accumulators of each row alone, as columns; of rows with equal keys and equal values of a DISTINCT call, the
        first has them all."""
        accumulators = self.accumulators(len(keys))
        accumulators.accumulate_apart(keys, pa.RecordBatch.from_arrays(columns, schema=self._schema))
        return accumulators.columns(first_slots(len(keys)))


class WholeRows(RawRows):
    """Keeps every column of every row."""

    def __init__(self, schema: Schema) -> None:
        super().__init__((), schema)
        self._read = list(range(len(schema)))
        self.width = len(schema)


class SignedRows(RawRows):
    """As RawRows, of rows that may be retracted: a further column has 1 for a row and -1 for a retraction."""

    def __init__(self, calls: tuple[AggregateCall, ...], schema: Schema) -> None:
        super().__init__(calls, schema)
        self.width += 1

    def names(self, schema: Schema) -> list[str]:
        return [*super().names(schema), SIGN_COLUMN]

    def from_rows(self, batch: pa.RecordBatch, groups: Array, count: int) -> list[pa.Array]:
        signs = signs_of(row_kinds(batch)).astype(np.int8)
        return [*super().from_rows(batch, groups, count), to_array(pa.int8(), signs)]

    def together(self, columns: list[pa.Array], groups: Array, count: int) -> AccumulatorSet:
        accumulators = AccumulatorSet(self._calls, self._types, is_retracting=True)
        accumulators.resize(count)
        rows = pa.RecordBatch.from_arrays(columns[:-1], schema=self._schema)
        accumulators.accumulate(groups, rows, view_values(columns[-1], np.int8))
        return accumulators

    def row_counts(self, columns: list[pa.Array], groups: Array, count: int) -> Array:
        """How many rows of each group are left."""
        counts = np.zeros(count, dtype=np.int64)
        np.add.at(counts, groups, view_values(columns[-1], np.int8))
        return counts


Partials = MergedPartials | RawRows


def _over_columns(calls: tuple[AggregateCall, ...], columns: Sequence[int]) -> tuple[AggregateCall, ...]:
    """The calls over a schema that has only `columns`, in that order."""
    place = {column: index for index, column in enumerate(columns)} | {-1: -1}
    return tuple(
        msgspec.structs.replace(call, args=tuple(place[a] for a in call.args), filter=place[call.filter])
        for call in calls
    )
