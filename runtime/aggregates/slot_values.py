"""One value per slot, of any type: numbers in numpy, other types in an Arrow column by slot."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.aggregates.numbers import (
    NumberClass,
    as_numbers,
    from_numbers,
    number_array,
    number_class,
    present_rows,
)
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.columns import VarColumn
from sqlstream.types import LogicalType


class SlotValues:
    """A nullable value for each of 0 … capacity - 1, NULL until it is put."""

    def __init__(self, value_type: LogicalType) -> None:
        self.type = to_arrow_type(value_type)
        self._number = number_class(value_type)
        self._numbers = number_array(self._number)
        self._present = GrowingArray(bool)
        # Made only for values that are no numbers: it holds memory from the start.
        self._others = VarColumn(self.type) if self._number is NumberClass.NONE else None

    def resize(self, capacity: int) -> None:
        self._present.reserve(capacity)
        if self._others is None:
            self._numbers.reserve(capacity)

    def get(self, slots: Array) -> pa.Array:
        if self._others is not None:
            return self._others.gather(slots)
        return from_numbers(self._numbers.values[slots], self.type, self._present.values[slots])

    def put(self, slots: Array, values: pa.Array) -> None:
        """Set the values of distinct slots."""
        self._present.values[slots] = present_rows(values)
        if self._others is None:
            self._numbers.values[slots] = as_numbers(values, self._number)
        else:
            self._others.put(slots, values.cast(self.type))

    def is_present(self, slots: Array) -> Array:
        """bool[n]: whether a value that is not NULL was put."""
        return self._present.values[slots]

    def reset(self, slots: Array) -> None:
        self._present.values[slots] = False
        if self._others is not None:
            self._others.delete(slots)

    def nbytes(self) -> int:
        others = 0 if self._others is None else int(self._others.nbytes)
        return self._numbers.nbytes + self._present.nbytes + others
