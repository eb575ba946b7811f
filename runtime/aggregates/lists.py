"""Aggregates that keep all values of their rows: ARRAY_AGG, LISTAGG, and COLLECT of nested values."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator, present
from sqlstream.runtime.evaluate.lists import Lists, codes_of, list_column, offsets_of
from sqlstream.runtime.evaluate.nested_keys import encoded
from sqlstream.runtime.kernels.slots.chunk_chains import drop_first_equal
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.growing_lists import GrowingLists, GrowingTexts
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


_NAMES = ("value", "separator")
_TEXTS = pa.list_(pa.string())


class KeptList(ArrayAggregate):
    """A function of the values that are not NULL in order of arrival; a retracted row takes away the first one that is equal to
    its own.

    State: as of ArrayAggregate, one array per slot; where there is a second argument, its elements are rows of both.
    """

    takes_nulls = False

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, (_element_type(argument_types),))
        self.argument_types = argument_types

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        weights = present(weights, args[0])
        if len(weights):
            rows = np.flatnonzero(weights)
            slots, weights, args = slots[rows], weights[rows], [a.take(pa.array(rows)) for a in args]
        elements = args[0] if len(args) == 1 else pa.StructArray.from_arrays(args, _NAMES[: len(args)])
        super().accumulate(slots, [elements], weights)

    def results(self, slots: Array) -> pa.Array:
        return self._of_lists(Lists.of(self._arrays.get(slots)))

    @abstractmethod
    def _of_lists(self, lists: Lists) -> pa.Array:
        """The result of each list; NULL where it has no element."""


class KeptCounts(KeptList):
    """COLLECT of arrays, maps and rows."""

    def _of_lists(self, lists: Lists) -> pa.Array:
        elements, owners = lists.elements(), lists.owners()
        (codes,) = codes_of(encoded(elements))
        pairs = owners * (len(codes) + 1) + codes
        _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
        if self.call.is_distinct:
            counts = np.ones(len(first), dtype=np.int64)
        lengths = np.bincount(owners[first], minlength=len(lists.lengths))
        items = pa.array(counts.astype(np.int32))
        keys = elements.take(pa.array(first))
        return pa.MapArray.from_arrays(offsets_of(lengths), keys, items, type=to_arrow_type(self.call.type))


class KeptTexts(KeptList):
    """LISTAGG (Flink: ListAggWithRetract): each text but the first is preceded by the separator of its row."""

    def _of_lists(self, lists: Lists) -> pa.Array:
        is_empty = lists.lengths == 0
        if len(self.argument_types) == 1:
            return pc.binary_join(list_column(_TEXTS, lists.lengths, lists.elements(), is_empty), ",")
        texts, separators = lists.elements().flatten()
        separators = pc.fill_null(separators, "")
        if len(separators) and pc.all(pc.equal(separators, separators[0])).as_py():
            together = list_column(_TEXTS, lists.lengths, texts, is_empty)
            return pc.binary_join(together, separators[0].as_py())
        before = pc.if_else(pa.array(lists.ordinals() == 0), "", separators)
        pieces = pc.binary_join_element_wise(before, texts, "")
        return pc.binary_join(list_column(_TEXTS, lists.lengths, pieces, is_empty), "")


def _element_type(argument_types: tuple[LogicalType, ...]) -> LogicalType:
    types = [t.without_time_attribute().with_nullable(True) for t in argument_types]
    return types[0] if len(types) == 1 else sql.row(*zip(_NAMES, types, strict=True))
