"""FIRST_VALUE and LAST_VALUE, by order of arrival; NULLs are skipped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS, Accumulator, present
from sqlstream.runtime.aggregates.slot_values import SlotValues
from sqlstream.runtime.kernels.accumulate import first_row_into, last_row_into
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.types import LogicalType


class OrderedValue(Accumulator):
    """The first or last value that is not NULL. State: one value per slot."""

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._values = SlotValues(argument_types[0])
        self._is_first = call.function == "FIRST_VALUE"

    def resize(self, capacity: int) -> None:
        self._values.resize(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        self._put(slots, args[0], present(weights, args[0]))

    def _put(self, slots: Array, values: pa.Array, weights: Array) -> None:
        touched, positions = np.unique(slots, return_inverse=True)
        winners = np.full(len(touched), -1, dtype=np.int64)
        kernel = first_row_into if self._is_first else last_row_into
        kernel(winners, positions.astype(np.int64), np.arange(len(slots)), weights)
        takes_part = winners >= 0
        if self._is_first:
            takes_part &= ~self._values.is_present(touched)
        self._values.put(touched[takes_part], values.take(pa.array(winners[takes_part])))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        self._put(slots, columns[0], present(NO_WEIGHTS, columns[0]))

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self._values.get(slots)]

    def results(self, slots: Array) -> pa.Array:
        return self._values.get(slots)

    def reset(self, slots: Array) -> None:
        self._values.reset(slots)

    def nbytes(self) -> int:
        return self._values.nbytes()
