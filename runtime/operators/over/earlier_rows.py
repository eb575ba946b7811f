"""What the rows of a partition before some place come to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.aggregates.accumulator_set import AccumulatorSet
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.group import group
from sqlstream.runtime.operators.over.framed_calls import Prior, carried_call
from sqlstream.runtime.operators.over.reach import is_carried, is_first_value
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.runtime.state.storage.id_lists import NO_ROW
from sqlstream.runtime.state.tables.ordered_multiset import OrderedMultiset
from sqlstream.schema import Schema
from sqlstream.specs.over import OverSpec


class EarlierRows:
    """The accumulators of calls whose frames begin with the partition, over rows in order.

    For each key those of all rows up to one, its mark, are kept: changes behind the mark cost nothing of the rows before.
    The mark of a key is its list of `table.lists`, so that it is forgotten with the key.
    State: those accumulators, by key; they follow from the rows and are not saved.
    """

    def __init__(self, spec: OverSpec, schema: Schema, table: OrderedMultiset) -> None:
        carried = [call for call in spec.calls if is_carried(call)]
        self._table = table
        self._order = [key.column for key in spec.order]
        self._spec_calls = spec.calls
        self._columns = sorted({column for call in carried for column in call.columns()})
        places = {column: place for place, column in enumerate(self._columns)}
        self._calls = tuple(carried_call(call.moved(places), len(places)) for call in carried)
        self._types = tuple(tuple(schema.types[a] for a in call.args) for call in carried)
        self._set = self._made(0)

    def forget(self, keys: Array) -> None:
        """Rows before the marks of these keys may have changed."""
        self._table.lists.clear(keys)

    def until(self, keys: Array, places: Array) -> list[pa.Array]:
        """The accumulators of the rows before these places of distinct keys, which move the marks there. No row before them has
        changed since the last call."""
        if not self._calls:
            return []
        marks = self._table.lists.lists(keys).max(axis=1, initial=NO_ROW)
        is_known = marks != NO_ROW
        marked = np.full(len(keys), -1, dtype=np.int64)
        marked[is_known] = self._table.order.places(marks[is_known])
        marked[marked >= places] = -1
        self._set.resize(self._table.lists.slot_count)
        self._set.reset(keys[marked < 0])
        positions, rows = self._table.order.between(keys, marked + 1, places)
        self._add(self._set, keys[positions], rows, self._table.rows.counts[rows])
        marks = np.where(marked < 0, NO_ROW, marks)
        # The last row of a position is the one that remains.
        marks[positions] = rows
        self._table.lists.set(keys, marks.reshape(-1, 1))
        return self._set.columns(keys)

    def followed_by(
        self, earlier: list[pa.Array], positions: Array, rows: Array, copies: Array
    ) -> list[pa.Array]:
        """The accumulators of the rows of `earlier` and of rows in order behind them, each `copies` times."""
        count = len(earlier[0]) if earlier else 0
        made = self._made(count)
        made.load(first_slots(count), earlier)
        self._add(made, positions, rows, copies)
        return made.columns(first_slots(count))

    def prior(self, earlier: list[pa.Array], keys: Array, places: Array) -> Prior:
        """The accumulators by call, and the first value of calls that have that."""
        columns = iter(earlier)
        widths = iter([len(a.suffixes) for a in self._set.accumulators])
        found: Prior = []
        for call in self._spec_calls:
            if is_carried(call):
                found.append([next(columns) for _ in range(next(widths))])
            elif is_first_value(call):
                _, first = self._table.order.between(keys, np.zeros_like(places), np.ones_like(places))
                found.append([self._table.rows.columns(first, [call.args[0]])[0], pa.array(places > 0)])
            else:
                found.append(None)
        return found

    def _made(self, count: int) -> AccumulatorSet:
        made = AccumulatorSet(self._calls, self._types)
        made.resize(count)
        return made

    def _add(self, accumulators: AccumulatorSet, owners: Array, rows: Array, copies: Array) -> None:
        if not len(rows):
            return
        expanded, owned = np.repeat(rows, copies), np.repeat(owners, copies)
        columns = self._table.rows.columns(expanded, self._columns) if self._columns else []
        columns.append(to_array(pa.bool_(), self._begins_peers(owned, expanded)))
        names = [str(i) for i in range(len(columns))]
        accumulators.accumulate(owned, pa.RecordBatch.from_arrays(columns, names=names))

    def _begins_peers(self, owners: Array, rows: Array) -> Array:
        """bool[n]: whether a row differs from the one before it."""
        begins = np.ones(len(rows), dtype=bool)
        begins[1:] = owners[1:] != owners[:-1]
        if any(call.filter == len(self._columns) for call in self._calls):
            for column in self._table.rows.columns(rows, self._order):
                values, _ = group([column])
                begins[1:] |= values[1:] != values[:-1]
        return begins
