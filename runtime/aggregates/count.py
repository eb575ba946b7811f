"""COUNT(*) and COUNT(x)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator, present
from sqlstream.runtime.kernels.accumulate import add_into, count_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.state.storage.arrays import Array, picked
from sqlstream.types import LogicalType


class Count(Accumulator):
    """Number of rows whose arguments are all present. State: one int64 per slot."""

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._counts = GrowingArray(np.int64)

    def resize(self, capacity: int) -> None:
        self._counts.reserve(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        count_into(self._counts.values, slots, present(weights, *args))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        add_into(self._counts.values, slots, view_values(columns[0], np.int64))

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self.results(slots)]

    def results(self, slots: Array) -> pa.Array:
        return to_array(pa.int64(), picked(self._counts.values, slots))

    def reset(self, slots: Array) -> None:
        self._counts.values[slots] = 0

    def nbytes(self) -> int:
        return self._counts.nbytes
