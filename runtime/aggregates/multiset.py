"""COLLECT and PERCENTILE, which keep the number of rows of each value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator, present
from sqlstream.runtime.aggregates.slot_values import SlotValues
from sqlstream.runtime.aggregates.value_counts import ValueCounts
from sqlstream.runtime.evaluate.lists import Lists, list_column, offsets_of
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.types import LogicalType, TypeRoot


class Collect(Accumulator):
    """The values that are not NULL with the number of their rows: a multiset, empty without a value.

    State: one entry per slot and distinct value, until its count is zero.
    """

    suffixes = ()

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._counts = ValueCounts(to_arrow_type(argument_types[0].without_time_attribute()))

    def resize(self, capacity: int) -> None:
        """All state is kept by value."""

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        self._counts.add(slots, args[0], present(weights, args[0]))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        """The kept values are loaded by themselves."""

    def columns(self, slots: Array) -> list[pa.Array]:
        return []

    @property
    def kept_values(self) -> ValueCounts:
        return self._counts

    def results(self, slots: Array) -> pa.Array:
        touched, positions = np.unique(slots, return_inverse=True)
        owners, values, counts = self._counts.counted_values_of(touched)
        if self.call.is_distinct:
            counts = np.ones(len(counts), dtype=np.int64)
        order = np.argsort(owners, kind="stable")
        lengths = np.bincount(np.searchsorted(touched, owners), minlength=len(touched))
        offsets = offsets_of(lengths)
        keys = values.take(pa.array(order))
        items = pa.array(counts[order].astype(np.int32))
        made = pa.MapArray.from_arrays(offsets, keys, items, type=to_arrow_type(self.call.type))
        return made.take(pa.array(positions))

    def reset(self, slots: Array) -> None:
        self._counts.drop(slots)

    def nbytes(self) -> int:
        return self._counts.nbytes()


class Percentile(Accumulator):
    """The values at percentages of all values by size, interpolated between the two nearest (a continuous distribution).

    A row counts as often as its frequency (third argument) says; one whose value or frequency is NULL, or whose frequency is not
    positive, is skipped. A percentage outside of 0 to 1 gives NULL.

    State: the percentages of each slot, and one entry per slot and distinct value.
    """

    suffixes = ("_percentages",)

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._is_array = argument_types[1].root is TypeRoot.ARRAY
        self._percentages = SlotValues(sql.array(sql.DOUBLE))
        self._counts = ValueCounts(pa.float64())

    def resize(self, capacity: int) -> None:
        self._percentages.resize(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        self._put_percentages(slots, args[1])
        counted = present(weights, *args[::2])
        if len(args) == 3:
            times = np.maximum(view_values(pc.fill_null(args[2], 0).cast(pa.int64()), np.int64), 0)
            counted = times if len(counted) == 0 else counted.astype(np.int64) * times
        # -0.0 and 0.0 are one value.
        self._counts.add(slots, pc.add(args[0], 0.0), counted)

    def _put_percentages(self, slots: Array, given: pa.Array) -> None:
        given = given if self._is_array else _each_in_list(given)
        touched, first = np.unique(slots, return_index=True)
        is_new = ~self._percentages.is_present(touched)
        self._percentages.put(touched[is_new], given.take(pa.array(first[is_new])))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        known = np.flatnonzero(columns[0].is_valid().to_numpy(zero_copy_only=False))
        self._percentages.put(slots[known], columns[0].take(pa.array(known)))

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self._percentages.get(slots)]

    @property
    def kept_values(self) -> ValueCounts:
        return self._counts

    def results(self, slots: Array) -> pa.Array:
        touched, positions = np.unique(slots, return_inverse=True)
        asked = Lists.of(self._percentages.get(touched))
        owners, kept, counts = self._counts.counted_values_of(touched)
        if self.call.is_distinct:
            counts = np.ones(len(counts), dtype=np.int64)
        owners, values = np.searchsorted(touched, owners), view_values(kept, np.float64)
        order = np.lexsort((values, owners))
        owners, values, upto = owners[order], values[order], np.cumsum(counts[order])
        totals = np.bincount(owners, weights=counts[order], minlength=len(touched)).astype(np.int64)
        before = np.cumsum(totals) - totals
        rows = asked.owners()
        elements = asked.elements()
        is_given = elements.is_valid().to_numpy(zero_copy_only=False)
        percentages = np.where(is_given, view_values(elements, np.float64), 0.0)
        places = percentages * (totals[rows] - 1)
        is_asked = (percentages >= 0) & (percentages <= 1) & is_given
        known = (totals[rows] > 0) & is_asked
        low, high = np.floor(places), np.ceil(places)
        found = [np.zeros(len(rows)), np.zeros(len(rows))]
        for target, place in zip(found, (low, high), strict=True):
            at = np.searchsorted(upto, before[rows[known]] + place[known].astype(np.int64), side="right")
            target[known] = values[at]
        with np.errstate(invalid="ignore"):
            between = found[0] + (found[1] - found[0]) * (places - low)
        # Two infinite values have no difference.
        results = np.where(found[0] == found[1], found[0], between)
        nulls = (totals == 0) | (asked.lengths == 0)
        if self._is_array:
            values = pa.array(results, mask=~known)
            lists = list_column(to_arrow_type(self.call.type), asked.lengths, values, nulls)
            return lists.take(pa.array(positions))
        # A slot has one percentage, or none where that is NULL.
        single = np.zeros(len(touched))
        single[rows] = results
        nulls[rows] |= ~known
        return pa.array(single, mask=nulls).take(pa.array(positions))

    def reset(self, slots: Array) -> None:
        self._percentages.reset(slots)
        self._counts.drop(slots)

    def nbytes(self) -> int:
        return self._percentages.nbytes() + self._counts.nbytes()


def _each_in_list(column: pa.Array) -> pa.Array:
    """Each value as a list of one; NULL as an empty one."""
    lengths = column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    return list_column(to_arrow_type(sql.array(sql.DOUBLE)), lengths, column.drop_null(), None)
