"""Any aggregate over the distinct values of its argument."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.operators.aggregates.accumulator import Accumulator, Array, present
from runtime.operators.aggregates.value_counts import ValueCounts
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import InternalError
from sqlstream.expressions import AggregateCall
from sqlstream.types import LogicalType


class Distinct(Accumulator):
    """Lets a value through to `inner` when it first comes to a slot, and takes it back when its last row is.

    State: that of `inner`, and one entry a slot and value.
    """

    def __init__(
        self, call: AggregateCall, argument_types: tuple[LogicalType, ...], inner: Accumulator
    ) -> None:
        super().__init__(call, argument_types)
        if len(argument_types) != 1:
            raise InternalError("DISTINCT over several arguments reached the operator")
        self.inner = inner
        self.counts = ValueCounts(to_arrow_type(argument_types[0]))
        self._capacity = 0

    def resize(self, capacity: int) -> None:
        self._capacity = max(self._capacity, capacity)
        self.inner.resize(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        added, removed = self.counts.add(slots, args[0], present(weights, args[0]))
        rows = np.concatenate([added, removed])
        signs = np.ones(len(rows), dtype=np.int8)
        signs[len(added) :] = -1
        self.inner.accumulate(slots[rows], [args[0].take(pa.array(rows))], signs)

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        raise AssertionError("a DISTINCT aggregate has one phase")

    def columns(self, slots: Array) -> list[pa.Array]:
        return self.inner.columns(slots)

    @property
    def kept_values(self) -> ValueCounts:
        return self.counts

    def load(self, slots: Array, values: pa.Array, counts: Array) -> None:
        self.counts.load(slots, values, counts)
        rows = np.flatnonzero(counts > 0)
        self.inner.accumulate(slots[rows], [values.take(pa.array(rows))], np.ones(len(rows), dtype=np.int8))

    def results(self, slots: Array) -> pa.Array:
        return self.inner.results(slots)

    def reset(self, slots: Array) -> None:
        self.inner.reset(slots)
        self.counts.drop(slots, self._capacity)

    def nbytes(self) -> int:
        return self.inner.nbytes() + self.counts.nbytes()
