"""FIRST_VALUE and LAST_VALUE."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS, Accumulator, present
from sqlstream.runtime.aggregates.slot_values import SlotValues
from sqlstream.runtime.evaluate.lists import Lists, list_column
from sqlstream.runtime.evaluate.nested_keys import identities, identity_types
from sqlstream.runtime.kernels.accumulate import first_row_into, last_row_into
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.slots.chains import Chains
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.columns import RowStore
from sqlstream.types import LogicalType


class OrderedValue(Accumulator):
    """The first or last value that is not NULL. State: one value per slot."""

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._values = SlotValues(argument_types[0])
        self._is_first = call.function == "FIRST_VALUE"

    def resize(self, capacity: int) -> None:
        self._values.resize(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        self._put(slots, args[0], present(weights, args[0]))

    def _put(self, slots: Array, values: pa.Array, weights: Array) -> None:
        touched, positions = np.unique(slots, return_inverse=True)
        winners = np.full(len(touched), -1, dtype=np.int64)
        kernel = first_row_into if self._is_first else last_row_into
        kernel(winners, positions.astype(np.int64), np.arange(len(slots)), weights)
        takes_part = winners >= 0
        if self._is_first:
            takes_part &= ~self._values.is_present(touched)
        self._values.put(touched[takes_part], values.take(pa.array(winners[takes_part])))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        self._put(slots, columns[0], present(NO_WEIGHTS, columns[0]))

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self._values.get(slots)]

    def results(self, slots: Array) -> pa.Array:
        return self._values.get(slots)

    def reset(self, slots: Array) -> None:
        self._values.reset(slots)

    def nbytes(self) -> int:
        return self._values.nbytes()


class KeptOrder(Accumulator):
    """The first or last value that is not NULL, in order of arrival (Flink: FirstValueWithRetract, LastValueWithRetract); a
    retracted row takes away the first value that is equal to its own, if there is one.

    A row costs the same however many its slot has. Saved are the values of each slot, as an array.
    State: each value as an entry, in two chains: that of its slot, and that of the equal ones of its slot, which an index finds.
    """

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        value_type = argument_types[0].without_time_attribute().with_nullable(True)
        self._type = to_arrow_type(sql.array(value_type))
        self._is_first = call.function == "FIRST_VALUE"
        self._schema = pa.schema([("slot", pa.int64()), ("value", self._type.value_type)])
        self._values = RowStore(self._schema.remove(0))
        self._index = KeyIndex(identity_types(self._schema))
        self._of_slot, self._of_equal = Chains(), Chains()
        # An operator writes while another thread collects a snapshot, which must not see a chain's arrays while they grow.
        self._lock = threading.Lock()

    def resize(self, capacity: int) -> None:
        """All state is kept by value."""

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        weights = present(weights, args[0])
        values = args[0].cast(self._type.value_type)
        if len(weights) == 0:
            self._append(slots, values)
            return
        # A value may be added and retracted in one batch.
        for is_taken, change in ((weights > 0, self._append), (weights < 0, self._retract)):
            rows = np.flatnonzero(is_taken)
            if len(rows):
                change(slots[rows], values.take(pa.array(rows)))

    def _append(self, slots: Array, values: pa.Array) -> None:
        entries = self._values.append(pa.RecordBatch.from_arrays([values], schema=self._values.schema))
        with self._lock:
            self._of_slot.append(slots, entries)
        self._of_equal.append(self._index.get_or_insert(self._keys(slots, values))[0], entries)

    def _retract(self, slots: Array, values: pa.Array) -> None:
        found = self._index.get(self._keys(slots, values))
        equals, times = np.unique(found[found >= 0], return_counts=True)
        times = np.minimum(times, self._of_equal.counts(equals))
        # As many of each chain as the bits of their number say: the rounds are few, however often one value is retracted.
        for bit in range(int(times.max(initial=0)).bit_length()):
            due = equals[times >> bit & 1 != 0]
            self._forget(self._of_equal.rows_from(self._of_equal.first_rows(due), 1 << bit).reshape(-1))

    def _keys(self, slots: Array, values: pa.Array) -> list[pa.Array]:
        return identities([to_array(pa.int64(), np.ascontiguousarray(slots)), values])

    def _forget(self, entries: Array) -> None:
        self._of_slot.remove(entries)
        self._index.delete(self._of_equal.remove(entries))
        self._values.delete(entries)

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        lists = Lists.of(columns[0])
        if lists.lengths.any():
            self._append(slots[lists.owners()], lists.elements())

    def columns(self, slots: Array) -> list[pa.Array]:
        with self._lock:
            positions, entries = self._of_slot.match(slots)
        lengths = np.bincount(positions, minlength=len(slots))
        return [list_column(self._type, lengths, self._get(entries), lengths == 0)]

    def results(self, slots: Array) -> pa.Array:
        has_value = self._of_slot.counts(slots) > 0
        filled, chains = slots[has_value], self._of_slot
        entries = chains.first_rows(filled) if self._is_first else chains.last_rows(filled, 1)[:, 0]
        values = self._get(np.ascontiguousarray(entries))
        if has_value.all():
            return values
        return values.take(to_array(pa.int64(), np.cumsum(has_value) - 1, has_value))

    def _get(self, entries: Array) -> pa.Array:
        return self._values.columns(entries, [0])[0]

    def reset(self, slots: Array) -> None:
        self._forget(self._of_slot.match(slots)[1])

    def nbytes(self) -> int:
        chains = self._of_slot.nbytes + self._of_equal.nbytes
        return int(self._values.nbytes + self._index.nbytes + chains)
