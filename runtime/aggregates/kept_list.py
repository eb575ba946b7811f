"""Functions of a list of all values: LISTAGG over retracted rows, and COLLECT of nested values."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import present
from sqlstream.runtime.aggregates.array_aggregate import ArrayAggregate
from sqlstream.runtime.evaluate.lists import Lists, codes_of, list_column, offsets_of
from sqlstream.runtime.evaluate.nested_keys import encoded
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.types import LogicalType

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
