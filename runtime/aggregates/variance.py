"""VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.aggregates.accumulator import Accumulator, present
from runtime.aggregates.numbers import NumberClass, as_numbers, from_numbers
from runtime.kernels.accumulate import merge_variance_into, variance_into
from runtime.kernels.buffers import to_array, view_values
from runtime.state.arrays import Array, grown
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.types import LogicalType


class Variance(Accumulator):
    """Count, mean and sum of squared deviations (Welford), which lose no digits to a large mean. State: 24 bytes per slot."""

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._counts: Array = np.empty(0, dtype=np.int64)
        self._means: Array = np.empty(0, dtype=np.float64)
        self._squares: Array = np.empty(0, dtype=np.float64)
        self._is_sample = call.function in ("VAR_SAMP", "VARIANCE", "STDDEV_SAMP")
        self._is_deviation = call.function.startswith("STDDEV")

    def resize(self, capacity: int) -> None:
        self._counts = grown(self._counts, capacity)
        self._means = grown(self._means, capacity)
        self._squares = grown(self._squares, capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        values = as_numbers(args[0], NumberClass.FLOAT64)
        variance_into(self._counts, self._means, self._squares, slots, values, present(weights, args[0]))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        counts = view_values(columns[0], np.int64)
        means, squares = (view_values(c, np.float64) for c in columns[1:])
        merge_variance_into(self._counts, self._means, self._squares, slots, counts, means, squares)

    def columns(self, slots: Array) -> list[pa.Array]:
        return [
            to_array(pa.int64(), self._counts[slots]),
            to_array(pa.float64(), self._means[slots]),
            to_array(pa.float64(), self._squares[slots]),
        ]

    def results(self, slots: Array) -> pa.Array:
        divisors = self._counts[slots] - (1 if self._is_sample else 0)
        valid = divisors > 0
        # Rounding may leave a deviation of zero slightly negative.
        values = np.maximum(self._squares[slots], 0.0) / np.where(valid, divisors, 1)
        return from_numbers(
            np.sqrt(values) if self._is_deviation else values, to_arrow_type(self.call.type), valid
        )

    def reset(self, slots: Array) -> None:
        self._counts[slots] = 0
        self._means[slots] = 0.0
        self._squares[slots] = 0.0

    def nbytes(self) -> int:
        return int(self._counts.nbytes + self._means.nbytes + self._squares.nbytes)
