"""One value a slot, of any type: numbers in numpy, everything else in an Arrow column rebuilt by one take a batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.operators.aggregates.accumulator import Array, grown
from runtime.operators.aggregates.numbers import (
    NumberClass,
    as_numbers,
    from_numbers,
    number_class,
    present_rows,
)
from sqlstream.arrow import to_arrow_type
from sqlstream.types import LogicalType


class SlotValues:
    """A nullable value for each of 0 … capacity - 1, NULL until it is put."""

    def __init__(self, value_type: LogicalType) -> None:
        self.type = to_arrow_type(value_type)
        self._number = number_class(value_type)
        shape = (0, 2) if self._number is NumberClass.INT128 else (0,)
        kind = {NumberClass.INT128: np.uint64, NumberClass.FLOAT64: np.float64}.get(self._number, np.int64)
        self._numbers: Array = np.empty(shape, dtype=kind)
        self._present: Array = np.empty(0, dtype=bool)
        self._others: pa.Array = pa.nulls(0, self.type)

    def resize(self, capacity: int) -> None:
        self._present = grown(self._present, capacity, False)
        if self._number is not NumberClass.NONE:
            self._numbers = grown(self._numbers, capacity)
        elif len(self._others) < len(self._present):
            missing = pa.nulls(len(self._present) - len(self._others), self.type)
            self._others = pa.concat_arrays([self._others, missing])

    def get(self, slots: Array) -> pa.Array:
        if self._number is NumberClass.NONE:
            return self._others.take(pa.array(slots))
        return from_numbers(self._numbers[slots], self.type, self._present[slots])

    def put(self, slots: Array, values: pa.Array) -> None:
        """Set the values of distinct slots."""
        self._present[slots] = present_rows(values)
        if self._number is not NumberClass.NONE:
            self._numbers[slots] = as_numbers(values, self._number)
        elif len(slots):
            source = np.arange(len(self._others), dtype=np.int64)
            source[slots] = len(self._others) + np.arange(len(slots))
            self._others = pa.concat_arrays([self._others, values.cast(self.type)]).take(pa.array(source))

    def is_present(self, slots: Array) -> Array:
        """bool[n]: whether a value that is not NULL was put."""
        return self._present[slots]

    def reset(self, slots: Array) -> None:
        if len(slots):
            self.put(slots, pa.nulls(len(slots), self.type))

    def nbytes(self) -> int:
        return int(self._numbers.nbytes + self._present.nbytes + self._others.nbytes)
