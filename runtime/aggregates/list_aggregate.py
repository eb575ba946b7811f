"""LISTAGG: strings joined in order of arrival."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator, present
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.growing_lists import GrowingTexts
from sqlstream.types import LogicalType


class ListAggregate(Accumulator):
    """Values that are not NULL, each after the separator of its row (second argument, default a comma; NULL is none).

    State: one string per slot, in chunks.
    """

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._texts = GrowingTexts()

    def resize(self, capacity: int) -> None:
        self._texts.resize(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        weights = present(weights, args[0])
        rows = np.arange(len(slots)) if len(weights) == 0 else np.flatnonzero(weights)
        if len(rows):
            chosen = pa.array(rows)
            separators = args[1].take(chosen) if len(args) > 1 else pa.repeat(",", len(rows))
            self._append(slots[rows], args[0].take(chosen), separators)

    def _append(self, slots: Array, values: pa.Array, separators: pa.Array) -> None:
        order = np.argsort(slots, kind="stable")
        touched, starts = np.unique(slots[order], return_index=True)
        # The separator of a row precedes its value; the first value has none.
        is_first = np.zeros(len(slots), dtype=bool)
        is_first[starts[~self._texts.is_present(touched)]] = True
        chosen = pa.array(order)
        values, separators = values.take(chosen), separators.take(chosen)
        before = pc.if_else(pa.array(is_first), "", pc.fill_null(separators, ""))
        pieces = pc.binary_join_element_wise(before, values, "")
        offsets = pa.array(np.append(starts, len(slots)).astype(np.int32))
        self._texts.append(touched, pc.binary_join(pa.ListArray.from_arrays(offsets, pieces), ""))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        rows = np.flatnonzero(present(np.ones(len(slots), np.int8), columns[0]))
        self._texts.append(slots[rows], columns[0].take(pa.array(rows)))

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self._texts.get(slots)]

    def results(self, slots: Array) -> pa.Array:
        return self._texts.get(slots)

    def reset(self, slots: Array) -> None:
        self._texts.reset(slots)

    def nbytes(self) -> int:
        return self._texts.nbytes()
