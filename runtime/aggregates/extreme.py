"""MIN and MAX, over insert-only rows and over rows that may be retracted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS, Accumulator, present
from sqlstream.runtime.aggregates.numbers import (
    NumberClass,
    as_numbers,
    from_numbers,
    number_array,
    number_class,
)
from sqlstream.runtime.aggregates.slot_values import SlotValues
from sqlstream.runtime.aggregates.value_counts import ValueCounts
from sqlstream.runtime.kernels.accumulate import extreme_int128_into, extreme_rows, max_into, min_into
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.kernels.keys.words import has_one_value, is_bytes_type
from sqlstream.runtime.state.storage.arrays import Array, picked
from sqlstream.types import LogicalType


class Extreme(Accumulator):
    """The least or greatest value that is not NULL. State: one value and one byte per slot."""

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._type = to_arrow_type(argument_types[0])
        self._number = number_class(argument_types[0])
        self._is_min = call.function == "MIN"
        self._best = number_array(self._number)
        self._seen = GrowingArray(np.uint8)
        # Strings and bytes: the values themselves, one per slot (see _order_values).
        self._values = SlotValues(argument_types[0]) if self._number is NumberClass.NONE else None

    def resize(self, capacity: int) -> None:
        self._seen.reserve(capacity)
        if self._values is not None:
            self._values.resize(capacity)
        else:
            self._best.reserve(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        self.put(slots, args[0], present(weights, args[0]))

    def put(self, slots: Array, values: pa.Array, weights: Array) -> None:
        """Replace the values of slots by better ones; rows with `weights` 0 are skipped."""
        if self._values is not None:
            self._order_values(self._values, slots, values, weights)
        elif self._number is NumberClass.INT128:
            numbers = as_numbers(values, self._number)
            extreme_int128_into(self._best.values, self._seen.values, slots, numbers, weights, self._is_min)
        else:
            kernel = min_into if self._is_min else max_into
            kernel(self._best.values, self._seen.values, slots, as_numbers(values, self._number), weights)

    def _order_values(self, held: SlotValues, slots: Array, values: pa.Array, weights: Array) -> None:
        groups, first_rows = group([to_array(pa.int64(), slots)])
        touched = slots[first_rows]
        values = pc.cast(values, self._type)
        if len(weights) == 0 and len(values) and is_bytes_type(self._type) and has_one_value(values):
            # Once per slot is as good: the minute of a batch.
            values, groups = values.slice(0, len(touched)), np.arange(len(touched))
        everything = pa.concat_arrays([held.get(touched), values])
        owners = np.concatenate([np.arange(len(touched)), groups])
        taking_part = np.concatenate([np.ones(len(touched), np.int8), _all_or(weights, len(groups))])
        rows = extreme_rows(everything, owners, len(touched), present(taking_part, everything), self._is_min)
        # The rows of held values come first.
        is_better = rows >= len(touched)
        held.put(touched[is_better], everything.take(to_array(pa.int64(), rows[is_better])))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        self.put(slots, columns[0], present(NO_WEIGHTS, columns[0]))

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self.results(slots)]

    def results(self, slots: Array) -> pa.Array:
        if self._values is not None:
            return self._values.get(slots)
        return from_numbers(picked(self._best.values, slots), self._type, picked(self._seen.values, slots))

    def reset(self, slots: Array) -> None:
        self._seen.values[slots] = 0
        if self._values is not None:
            self._values.reset(slots)

    def nbytes(self) -> int:
        values = 0 if self._values is None else self._values.nbytes()
        return self._best.nbytes + self._seen.nbytes + values


class RetractableExtreme(Accumulator):
    """MIN or MAX over rows that may be retracted: every value is kept with its count (Flink: MinWithRetract).

    A batch costs what it changes: a value that comes or goes takes the logarithm of the number of values of its slot.
    State: one entry per slot and distinct value, until its count is zero, in the order of a heap per slot.
    """

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._counts = ValueCounts(to_arrow_type(argument_types[0]), order=call.function)

    def resize(self, capacity: int) -> None:
        self._counts.resize(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        self._counts.add(slots, args[0], present(weights, args[0]))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        raise AssertionError("a retractable extreme has one phase")

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        """The result is saved to be read; it follows from the kept values."""

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self.results(slots)]

    def results(self, slots: Array) -> pa.Array:
        return self._counts.best_of(slots)

    @property
    def kept_values(self) -> ValueCounts:
        return self._counts

    def reset(self, slots: Array) -> None:
        self._counts.drop(slots)

    def nbytes(self) -> int:
        return self._counts.nbytes()


def _all_or(weights: Array, rows: int) -> Array:
    return np.ones(rows, dtype=np.int8) if len(weights) == 0 else weights
