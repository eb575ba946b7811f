"""Any aggregate over the distinct values of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runtime.aggregates.accumulator import Accumulator, present
from runtime.aggregates.value_counts import ValueCounts
from runtime.state.arrays import Array
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.types import LogicalType


class Distinct(Accumulator):
    """Adds a value to `inner` with its first row in a slot, and retracts it when its last row is retracted.

    Several arguments form one value, a struct; a row with a NULL among them is skipped, unless `inner` takes NULLs.

    State: that of `inner`, and one entry per slot and value.
    """

    def __init__(
        self, call: AggregateCall, argument_types: tuple[LogicalType, ...], inner: Accumulator
    ) -> None:
        super().__init__(call, argument_types)
        self.inner = inner
        self.suffixes = inner.suffixes
        types = [to_arrow_type(t) for t in argument_types]
        self.counts = ValueCounts(types[0] if len(types) == 1 else pa.struct(_named(types)))

    def resize(self, capacity: int) -> None:
        self.inner.resize(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        counted = weights if self.inner.takes_nulls else present(weights, *args)
        added, removed = self.counts.add(slots, _together(args), counted)
        rows = np.concatenate([added, removed])
        signs = np.ones(len(rows), dtype=np.int8)
        signs[len(added) :] = -1
        self.inner.accumulate(slots[rows], [a.take(pa.array(rows)) for a in args], signs)

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        raise AssertionError("a DISTINCT aggregate has one phase")

    def columns(self, slots: Array) -> list[pa.Array]:
        return self.inner.columns(slots)

    @property
    def kept_values(self) -> ValueCounts:
        return self.counts

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        self.inner.load(slots, columns)

    def results(self, slots: Array) -> pa.Array:
        return self.inner.results(slots)

    def reset(self, slots: Array) -> None:
        self.inner.reset(slots)
        self.counts.drop(slots)

    def nbytes(self) -> int:
        return self.inner.nbytes() + self.counts.nbytes()


def _named(values: list[Any]) -> list[tuple[str, Any]]:
    return [(f"f{i}", value) for i, value in enumerate(values)]


def _together(args: list[pa.Array]) -> pa.Array:
    return args[0] if len(args) == 1 else pa.StructArray.from_arrays(args, [name for name, _ in _named(args)])
