"""Aggregates of bitmaps, which keep how many of the sets of a slot have each value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator, present
from sqlstream.runtime.aggregates.value_counts import ValueCounts
from sqlstream.runtime.evaluate.bitmap import Bitmaps
from sqlstream.runtime.kernels.accumulate import add_into, count_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.state.storage.arrays import Array, picked
from sqlstream.types import LogicalType


class BitmapAggregate(Accumulator):
    """The union of numbers (BUILD) or of bitmaps (OR), their intersection (AND), or the values that an odd number of them has
    (XOR); or how many these are. NULL without an argument that is not NULL.

    A row costs what its own bitmap holds, whatever the slot has, and a retracted one as much. A result costs what its slot has;
    the number of values of a union is kept.

    State: the number of rows and of values of each slot, and one entry per slot and value that a row has.
    """

    suffixes = ("_rows", "_values")

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._operation = call.function.split("_")[1]
        self._is_cardinality = call.function.endswith("_CARDINALITY_AGG")
        self._rows = GrowingArray(np.int64)
        self._distinct = GrowingArray(np.int64)
        self._counts = ValueCounts(pa.int32())

    def resize(self, capacity: int) -> None:
        self._rows.reserve(capacity)
        self._distinct.reserve(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        weights = present(weights, args[0])
        count_into(self._rows.values, slots, weights)
        values = args[0]
        if self._operation != "BUILD":
            sets = Bitmaps.of(values)
            owners, values = sets.owners(), pa.array(sets.values.view(np.int32))
            slots, weights = slots[owners], weights[owners] if len(weights) else weights
        came, went = self._counts.add(slots, values, weights)
        for rows, sign in ((came, 1), (went, -1)):
            np.add.at(self._distinct.values, slots[rows], sign)

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        for held, column in zip((self._rows, self._distinct), columns, strict=True):
            add_into(held.values, slots, view_values(column, np.int64))

    def columns(self, slots: Array) -> list[pa.Array]:
        return [to_array(pa.int64(), picked(held.values, slots)) for held in (self._rows, self._distinct)]

    @property
    def kept_values(self) -> ValueCounts:
        return self._counts

    def results(self, slots: Array) -> pa.Array:
        is_empty = self._rows.values[slots] <= 0
        if self._is_cardinality and self._operation in ("BUILD", "OR"):
            return pa.array(self._distinct.values[slots], mask=is_empty)
        touched, positions = np.unique(slots, return_inverse=True)
        owners, values, counts = self._counts.counted_values_of(touched)
        if self._operation == "AND":
            is_in = counts == self._rows.values[owners]
        else:
            is_in = counts % 2 == 1 if self._operation == "XOR" else np.ones(len(counts), dtype=bool)
        places = np.searchsorted(touched, owners[is_in])
        if self._is_cardinality:
            found = np.bincount(places, minlength=len(touched)).astype(np.int64)
            return pa.array(found[positions], mask=is_empty)
        nulls = self._rows.values[touched] <= 0
        elements = view_values(values, np.int32)[is_in]
        sets = Bitmaps.of_elements(places, elements, len(touched), nulls if nulls.any() else None)
        return sets.column().take(pa.array(positions))

    def reset(self, slots: Array) -> None:
        self._rows.values[slots] = 0
        self._distinct.values[slots] = 0
        self._counts.drop(slots)

    def nbytes(self) -> int:
        return self._rows.nbytes + self._distinct.nbytes + self._counts.nbytes()
