"""ARRAY_AGG: values in order of arrival."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.aggregates.accumulator import Accumulator
from runtime.aggregates.slot_values import SlotValues
from runtime.evaluate.lists import Lists, codes_of, list_column, one_after_another
from runtime.state.arrays import Array
from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.types import LogicalType


class ArrayAggregate(Accumulator):
    """All values, NULLs too; a retracted row takes away the first value that equals its own. NULL without any value.

    State: one array per slot.
    """

    takes_nulls = True

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        array = sql.array(argument_types[0].without_time_attribute())
        self._type = to_arrow_type(array)
        self._arrays = SlotValues(array)

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
        touched, starts, lengths = np.unique(slots[order], return_index=True, return_counts=True)
        added = Lists(starts.astype(np.int64), lengths, values.take(pa.array(order)), None)
        together = one_after_another([Lists.of(self._arrays.get(touched)), added])
        self._arrays.put(touched, list_column(self._type, *together, None))

    def _remove(self, slots: Array, values: pa.Array) -> None:
        touched, positions = np.unique(slots, return_inverse=True)
        held = Lists.of(self._arrays.get(touched))
        owners, elements = held.owners(), held.elements()
        codes, removed = codes_of(elements, values)
        width = max(int(codes.max(initial=0)), int(removed.max(initial=0))) + 2
        pairs = owners * width + codes
        known, counts = np.unique(positions * width + removed, return_counts=True)
        places = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
        wanted = np.where(known[places] == pairs, counts[places], 0)
        kept = np.flatnonzero(_ordinals(pairs) >= wanted)
        lengths = np.bincount(owners[kept], minlength=held.rows)
        is_left = lengths > 0
        arrays = list_column(self._type, lengths, elements.take(pa.array(kept)), None)
        self._arrays.put(touched[is_left], arrays.filter(pa.array(is_left)))
        self._arrays.reset(touched[~is_left])

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        present = np.flatnonzero(columns[0].is_valid().to_numpy(zero_copy_only=False))
        self._arrays.put(slots[present], columns[0].take(pa.array(present)))

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self._arrays.get(slots)]

    def results(self, slots: Array) -> pa.Array:
        return self._arrays.get(slots)

    def reset(self, slots: Array) -> None:
        self._arrays.reset(slots)

    def nbytes(self) -> int:
        return self._arrays.nbytes()


def _ordinals(keys: Array) -> Array:
    """The number of each key among equal ones, from 0."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_first = np.ones(len(keys), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(keys)), 0))
    ordinals = np.empty(len(keys), dtype=np.int64)
    ordinals[order] = np.arange(len(keys)) - firsts
    return ordinals
