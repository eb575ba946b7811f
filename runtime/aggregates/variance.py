"""VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator, present
from sqlstream.runtime.aggregates.numbers import NumberClass, as_numbers, from_numbers
from sqlstream.runtime.kernels.accumulate import merge_variance_into, variance_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.types import LogicalType


class Variance(Accumulator):
    """Count, mean and sum of squared deviations (Welford), which lose no digits to a large mean. State: 24 bytes per slot."""

    suffixes = ("_count", "_mean", "_squares")

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._counts = GrowingArray(np.int64)
        self._means = GrowingArray(np.float64)
        self._squares = GrowingArray(np.float64)
        self._is_sample = call.function in ("VAR_SAMP", "VARIANCE", "STDDEV", "STDDEV_SAMP")
        self._is_deviation = call.function.startswith("STDDEV")

    def resize(self, capacity: int) -> None:
        self._counts.reserve(capacity)
        self._means.reserve(capacity)
        self._squares.reserve(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        values = as_numbers(args[0], NumberClass.FLOAT64)
        variance_into(
            self._counts.values,
            self._means.values,
            self._squares.values,
            slots,
            values,
            present(weights, args[0]),
        )

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        counts = view_values(columns[0], np.int64)
        means, squares = (view_values(c, np.float64) for c in columns[1:])
        merge_variance_into(
            self._counts.values, self._means.values, self._squares.values, slots, counts, means, squares
        )

    def columns(self, slots: Array) -> list[pa.Array]:
        return [
            to_array(pa.int64(), self._counts.values[slots]),
            to_array(pa.float64(), self._means.values[slots]),
            to_array(pa.float64(), self._squares.values[slots]),
        ]

    def results(self, slots: Array) -> pa.Array:
        divisors = self._counts.values[slots] - (1 if self._is_sample else 0)
        valid = divisors > 0
        # Rounding may leave a deviation of zero slightly negative.
        values = np.maximum(self._squares.values[slots], 0.0) / np.where(valid, divisors, 1)
        return from_numbers(
            np.sqrt(values) if self._is_deviation else values, to_arrow_type(self.call.type), valid
        )

    def reset(self, slots: Array) -> None:
        self._counts.values[slots] = 0
        self._means.values[slots] = 0.0
        self._squares.values[slots] = 0.0

    def nbytes(self) -> int:
        return self._counts.nbytes + self._means.nbytes + self._squares.nbytes
