"""One value per slot, of any type: numbers in numpy, other types in an Arrow column by slot."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.aggregates.numbers import (
    NumberClass,
    as_numbers,
    empty_numbers,
    from_numbers,
    number_class,
    present_rows,
)
from runtime.state.arrays import Array, grown
from runtime.state.columns import VarColumn
from sqlstream.arrow import to_arrow_type
from sqlstream.types import LogicalType


class SlotValues:
    """A nullable value for each of 0 … capacity - 1, NULL until it is put."""

    def __init__(self, value_type: LogicalType) -> None:
        self.type = to_arrow_type(value_type)
        self._number = number_class(value_type)
        self._numbers = empty_numbers(self._number)
        self._present: Array = np.empty(0, dtype=bool)
        self._others = VarColumn(self.type)

    def resize(self, capacity: int) -> None:
        self._present = grown(self._present, capacity, False)
        if self._number is not NumberClass.NONE:
            self._numbers = grown(self._numbers, capacity)

    def get(self, slots: Array) -> pa.Array:
        if self._number is NumberClass.NONE:
            return self._others.gather(slots)
        return from_numbers(self._numbers[slots], self.type, self._present[slots])

    def put(self, slots: Array, values: pa.Array) -> None:
        """Set the values of distinct slots."""
        self._present[slots] = present_rows(values)
        if self._number is not NumberClass.NONE:
            self._numbers[slots] = as_numbers(values, self._number)
        else:
            self._others.put(slots, values.cast(self.type))

    def is_present(self, slots: Array) -> Array:
        """bool[n]: whether a value that is not NULL was put."""
        return self._present[slots]

    def reset(self, slots: Array) -> None:
        self._present[slots] = False
        if self._number is NumberClass.NONE:
            self._others.delete(slots)

    def nbytes(self) -> int:
        return int(self._numbers.nbytes + self._present.nbytes + self._others.nbytes)
