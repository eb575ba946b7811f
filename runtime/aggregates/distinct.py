"""Any aggregate over the distinct values of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator, present
from sqlstream.runtime.aggregates.value_counts import ValueCounts
from sqlstream.runtime.aggregates.value_sets import ValueSets
from sqlstream.runtime.evaluate.nested_keys import identities, identity_types
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.types import LogicalType


class Distinct(Accumulator):
    """Adds a value to `inner` with its first row in a slot, and retracts it when its last row is retracted.

    Several arguments form one value, a struct; a row with a NULL among them is skipped, unless `inner` takes NULLs. Arrays, maps
    and rows are known by their encodings.

    Calls with the same arguments, which differ in their filters or functions, share the values: `share` makes the others users of
    the first one's.
    State: that of `inner`, and one entry per slot and value, which is the first one's of those that share it.
    """

    def __init__(
        self,
        call: AggregateCall,
        argument_types: tuple[LogicalType, ...],
        inner: Accumulator,
        is_retracting: bool,
    ) -> None:
        super().__init__(call, argument_types)
        self.inner = inner
        self.suffixes = inner.suffixes
        types = identity_types(pa.schema(_named([to_arrow_type(t) for t in argument_types])))
        self._value_type = types[0] if len(types) == 1 else pa.struct(_named(types))
        self._users: list[Distinct] = [self]
        self._is_first = True
        self._is_retracting = is_retracting
        self._values = self._new_values()

    def share(self, others: list[Distinct]) -> None:
        """Count for these calls too, before any row: they hold no values any more, and `accumulate` takes all users' weights."""
        self._users += others
        self._values = self._new_values()
        for other in others:
            other._is_first, other._values = False, self._values

    def _new_values(self) -> ValueCounts | ValueSets:
        users = len(self._users)
        takes_nulls = any(user.inner.takes_nulls for user in self._users)
        if self._is_retracting or takes_nulls or not ValueSets.can_hold(self._value_type, users):
            return ValueCounts(self._value_type, users=users)
        return ValueSets(self._value_type, users)

    def resize(self, capacity: int) -> None:
        self.inner.resize(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        self.accumulate_each(slots, args, [weights])

    def accumulate_each(self, slots: Array, args: list[pa.Array], weights: list[Array]) -> None:
        """As `accumulate` for every user, each with weights of its own."""
        counted = [
            w if u.inner.takes_nulls else present(w, *args) for u, w in zip(self._users, weights, strict=True)
        ]
        values = _together(identities(args))
        if isinstance(self._values, ValueSets):
            brought = self._values.add_each(slots, values, counted)
            for user, rows in zip(self._users, brought, strict=True):
                user.inner.accumulate(slots, args, rows)
            return
        changes = self._values.add_each(slots, values, counted)
        for user, (added, removed) in zip(self._users, changes, strict=True):
            user._apply(slots, args, added, removed)

    def _apply(self, slots: Array, args: list[pa.Array], added: Array, removed: Array) -> None:
        rows = np.concatenate([added, removed])
        signs = np.ones(len(rows), dtype=np.int8)
        signs[len(added) :] = -1
        self.inner.accumulate(slots[rows], [a.take(pa.array(rows)) for a in args], signs)

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        raise AssertionError("a DISTINCT aggregate has one phase")

    def columns(self, slots: Array) -> list[pa.Array]:
        return self.inner.columns(slots)

    @property
    def kept_values(self) -> ValueCounts | ValueSets | None:
        return self._values if self._is_first else None

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        self.inner.load(slots, columns)

    def results(self, slots: Array) -> pa.Array:
        return self.inner.results(slots)

    def reset(self, slots: Array) -> None:
        self.inner.reset(slots)
        if self._is_first:
            self._values.drop(slots)

    def nbytes(self) -> int:
        return self.inner.nbytes() + (self._values.nbytes() if self._is_first else 0)


def first_weights(keys: Array, args: list[pa.Array], weights: Array) -> Array:
    """int8[n]: 1 for the first row of each key and value among the rows that take part, 0 for the others."""
    counted = present(weights, *args)
    rows = np.flatnonzero(counted) if len(counted) else first_slots(len(keys))
    chosen = to_array(pa.int64(), rows)
    values = [column.take(chosen) for column in identities(args)]
    first = group([to_array(pa.int64(), np.ascontiguousarray(keys[rows])), *values])[1]
    found = np.zeros(len(keys), dtype=np.int8)
    found[rows[first]] = 1
    return found


def _named(values: list[Any]) -> list[tuple[str, Any]]:
    return [(f"f{i}", value) for i, value in enumerate(values)]


def _together(args: list[pa.Array]) -> pa.Array:
    return args[0] if len(args) == 1 else pa.StructArray.from_arrays(args, [name for name, _ in _named(args)])
