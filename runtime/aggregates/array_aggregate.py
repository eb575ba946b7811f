"""ARRAY_AGG: values in order of arrival."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator
from sqlstream.runtime.evaluate.lists import Lists
from sqlstream.runtime.evaluate.nested_keys import encoded
from sqlstream.runtime.kernels.chunk_chains import drop_first_equal
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.growing_lists import GrowingLists
from sqlstream.types import LogicalType


class ArrayAggregate(Accumulator):
    """All values, NULLs too; a retracted row takes away the first value that equals its own. NULL without any value.

    Rows are appended at the cost of the rows; retractions read the arrays of their slots, as emission does.
    State: one array per slot, in chunks.
    """

    takes_nulls = True

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._type = to_arrow_type(sql.array(argument_types[0].without_time_attribute()))
        self._arrays = GrowingLists(self._type)

    def resize(self, capacity: int) -> None:
        self._arrays.resize(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        values = args[0].cast(self._type.value_type)
        if len(weights) == 0:
            self._append(slots, values)
            return
        added, retracted = np.flatnonzero(weights > 0), np.flatnonzero(weights < 0)
        # A value may be added and retracted in one batch.
        if len(added):
            self._append(slots[added], values.take(pa.array(added)))
        if len(retracted):
            self._remove(slots[retracted], values.take(pa.array(retracted)))

    def _append(self, slots: Array, values: pa.Array) -> None:
        order = np.argsort(slots, kind="stable")
        touched, starts = np.unique(slots[order], return_index=True)
        self._arrays.append(touched, values.take(pa.array(order)), np.append(starts, len(slots)))

    def _remove(self, slots: Array, values: pa.Array) -> None:
        touched, positions = np.unique(slots, return_inverse=True)
        held = Lists.of(self._arrays.get(touched))
        elements = held.elements()
        codes, removed = _codes_of_equal(elements, values)
        # Distinct pairs of a list and a code, and how many of its elements with that code go.
        width = int(removed.max()) + 2
        pairs, counts = np.unique(positions * width + removed + 1, return_counts=True)
        doomed_bounds = np.searchsorted(pairs // width, np.arange(len(touched) + 1))
        bounds = np.append(0, np.cumsum(held.lengths))
        is_kept = np.empty(len(elements), dtype=bool)
        if drop_first_equal(bounds, codes, doomed_bounds, pairs % width - 1, counts, is_kept):
            kept = np.flatnonzero(is_kept)
            self._arrays.put(touched, elements.take(pa.array(kept)), np.searchsorted(kept, bounds))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        lists = Lists.of(columns[0])
        self._arrays.put(slots, lists.elements(), np.append(0, np.cumsum(lists.lengths)))

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self._arrays.get(slots)]

    def results(self, slots: Array) -> pa.Array:
        return self._arrays.get(slots)

    def reset(self, slots: Array) -> None:
        self._arrays.reset(slots)

    def nbytes(self) -> int:
        return self._arrays.nbytes()


def _codes_of_equal(elements: pa.Array, removed: pa.Array) -> tuple[Array, Array]:
    """int64 codes of both, equal where the values are; an element that is not among `removed` may have any code below -1."""
    if pa.types.is_nested(removed.type):
        elements, removed = encoded(elements), encoded(removed)
    if pa.types.is_floating(removed.type):
        # -0.0 is 0.0.
        zero = pa.scalar(0.0, removed.type)
        elements, removed = pc.add(elements, zero), pc.add(removed, zero)
    known = removed.unique()
    found = (pc.fill_null(pc.index_in(column, known), -2) for column in (elements, removed))
    codes, others = (f.to_numpy(zero_copy_only=False).astype(np.int64) for f in found)
    return codes, others
