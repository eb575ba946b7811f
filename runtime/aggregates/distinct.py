"""Any aggregate over the distinct values of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator, present
from sqlstream.runtime.aggregates.value_counts import ValueCounts
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
        self, call: AggregateCall, argument_types: tuple[LogicalType, ...], inner: Accumulator
    ) -> None:
        super().__init__(call, argument_types)
        self.inner = inner
        self.suffixes = inner.suffixes
        types = identity_types(pa.schema(_named([to_arrow_type(t) for t in argument_types])))
        self._value_type = types[0] if len(types) == 1 else pa.struct(_named(types))
        self._users: list[Distinct] = [self]
        self._is_first = True
        self.counts = ValueCounts(self._value_type)

    def share(self, others: list[Distinct]) -> None:
        """Count for these calls too, before any row: they hold no values any more, and `accumulate` takes all users' weights."""
        self._users += others
        self.counts = ValueCounts(self._value_type, users=len(self._users))
        for other in others:
            other._is_first, other.counts = False, self.counts

    def resize(self, capacity: int) -> None:
        self.inner.resize(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        self.accumulate_each(slots, args, [weights])

    def accumulate_each(self, slots: Array, args: list[pa.Array], weights: list[Array]) -> None:
        """As `accumulate` for every user, each with weights of its own."""
        counted = [
            w if u.inner.takes_nulls else present(w, *args) for u, w in zip(self._users, weights, strict=True)
        ]
        changes = self.counts.add_each(slots, _together(identities(args)), counted)
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
    def kept_values(self) -> ValueCounts | None:
        return self.counts if self._is_first else None

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        self.inner.load(slots, columns)

    def results(self, slots: Array) -> pa.Array:
        return self.inner.results(slots)

    def reset(self, slots: Array) -> None:
        self.inner.reset(slots)
        if self._is_first:
            self.counts.drop(slots)

    def nbytes(self) -> int:
        return self.inner.nbytes() + (self.counts.nbytes() if self._is_first else 0)


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
