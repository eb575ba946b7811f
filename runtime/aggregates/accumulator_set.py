"""The accumulators of all calls of one aggregation: rows or partials in, result columns out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.functions import signature_of
from sqlstream.runtime.aggregates import make_accumulator
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS, Accumulator
from sqlstream.runtime.aggregates.distinct import Distinct, first_weights
from sqlstream.runtime.aggregates.sums import Sum
from sqlstream.runtime.aggregates.value_counts import ValueCounts
from sqlstream.runtime.aggregates.value_sets import ValueSets
from sqlstream.runtime.kernels.buffers import unpack_bits, view_bitmap, view_buffer
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.schema import Schema
from sqlstream.types import LogicalType


def accumulator_width(call: AggregateCall) -> int:
    """Number of accumulator columns of a call that can be split in two phases."""
    return len(accumulator_types(call, (call.type,) * len(call.args)))


def accumulator_types(
    call: AggregateCall, argument_types: tuple[LogicalType, ...]
) -> tuple[LogicalType, ...]:
    layout = signature_of(call).accumulator
    assert layout is not None, f"{call.function} has one phase"
    return layout(argument_types)


def row_argument_types(
    calls: tuple[AggregateCall, ...], schema: Schema
) -> tuple[tuple[LogicalType, ...], ...]:
    """Argument types of calls that read rows of `schema`."""
    return tuple(tuple(schema.types[a] for a in call.args) for call in calls)


def partial_argument_types(
    calls: tuple[AggregateCall, ...], schema: Schema, first: int
) -> tuple[tuple[LogicalType, ...], ...]:
    """Argument types of calls that read accumulators of `schema` from column `first` on.

    An accumulator of the first column's type has the same columns as one of the argument's type, so that type is used instead.
    """
    types = []
    for call in calls:
        types.append((schema.types[first],) * len(call.args))
        first += accumulator_width(call)
    return tuple(types)


class AccumulatorSet:
    """The accumulators of `calls` over the same slots. In a keyed table they are its columns, under the `names` of the calls."""

    def __init__(
        self,
        calls: tuple[AggregateCall, ...],
        argument_types: tuple[tuple[LogicalType, ...], ...],
        is_retracting: bool = False,
        names: Sequence[str] = (),
    ) -> None:
        self.calls = calls
        self._names = names
        self.accumulators: list[Accumulator] = [
            make_accumulator(call, types, is_retracting)
            for call, types in zip(calls, argument_types, strict=True)
        ]
        plain = (a.inner if isinstance(a, Distinct) else a for a in self.accumulators)
        self._sums = [a for a in plain if isinstance(a, Sum)]
        # By the number of the first call of those over the distinct values of the same arguments: the numbers of all of them.
        self._sharing = _sharing(self.accumulators)
        for first, users in self._sharing.items():
            owner, *others = (self.accumulators[n] for n in users)
            assert isinstance(owner, Distinct), first
            owner.share([o for o in others if isinstance(o, Distinct)])

    def resize(self, capacity: int) -> None:
        for accumulator in self.accumulators:
            accumulator.resize(capacity)

    def accumulate(self, slots: Array, batch: pa.RecordBatch, signs: Array = NO_WEIGHTS) -> None:
        """Add rows (`signs` -1: retract); each call applies its own filter."""
        filtered: dict[int, Array] = {-1: signs}
        for column in {call.filter for call in self.calls} - {-1}:
            filtered[column] = _true_rows(batch.column(column), signs)
        served = {n for users in self._sharing.values() for n in users[1:]}
        for number, (call, accumulator) in enumerate(zip(self.calls, self.accumulators, strict=True)):
            if number in served:
                continue
            args = [batch.column(a) for a in call.args]
            if number in self._sharing:
                assert isinstance(accumulator, Distinct)
                weights = [filtered[self.calls[n].filter] for n in self._sharing[number]]
                accumulator.accumulate_each(slots, args, weights)
            else:
                accumulator.accumulate(slots, args, filtered[call.filter])
        self._tell_beyond()

    def accumulate_apart(self, keys: Array, batch: pa.RecordBatch) -> None:
        """Add each row to the slot of its number; of a DISTINCT call only the first row of a key that has the value."""
        slots = first_slots(batch.num_rows)
        for call, accumulator in zip(self.calls, self.accumulators, strict=True):
            args = [batch.column(a) for a in call.args]
            weights = NO_WEIGHTS if call.filter < 0 else _true_rows(batch.column(call.filter), NO_WEIGHTS)
            if isinstance(accumulator, Distinct):
                accumulator.inner.accumulate(slots, args, first_weights(keys, args, weights))
            else:
                accumulator.accumulate(slots, args, weights)

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        """Add partial accumulators: the columns of all calls in order."""
        first = 0
        for call, accumulator in zip(self.calls, self.accumulators, strict=True):
            width = accumulator_width(call)
            accumulator.merge(slots, columns[first : first + width])
            first += width
        self._tell_beyond()

    def _tell_beyond(self) -> None:
        for summing in self._sums:
            summing.tell_beyond()

    @property
    def fields(self) -> list[pa.Field]:
        """The columns of all calls in order."""
        types = (column.type for column in self.columns(np.empty(0, dtype=np.int64)))
        named = zip(self._names, self.accumulators, strict=True)
        return [pa.field(name + suffix, next(types)) for name, a in named for suffix in a.suffixes]

    @property
    def parts(self) -> dict[str, ValueCounts | ValueSets]:
        """The kept values by the name of their call."""
        named = zip(self._names, self.accumulators, strict=True)
        return {name: a.kept_values for name, a in named if a.kept_values is not None}

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        """The inverse of `columns`, on empty slots."""
        first = 0
        for accumulator in self.accumulators:
            width = len(accumulator.suffixes)
            accumulator.load(slots, columns[first : first + width])
            first += width

    def columns(self, slots: Array) -> list[pa.Array]:
        return [column for a in self.accumulators for column in a.columns(slots)]

    def results(self, slots: Array, *, are_new: bool = True) -> list[pa.Array]:
        """The values of all calls. Sums beyond their type are told of, unless they were when they were new."""
        if are_new:
            for summing in self._sums:
                summing.tell_results(slots)
        return [
            _as_declared(a.results(slots), to_arrow_type(call.type))
            for call, a in zip(self.calls, self.accumulators, strict=True)
        ]

    def reset(self, slots: Array) -> None:
        for accumulator in self.accumulators:
            accumulator.reset(slots)

    def nbytes(self) -> int:
        return sum(a.nbytes() for a in self.accumulators)


def _sharing(accumulators: Sequence[Accumulator]) -> dict[int, list[int]]:
    found: dict[tuple[int, ...], list[int]] = {}
    for number, accumulator in enumerate(accumulators):
        if isinstance(accumulator, Distinct):
            found.setdefault(accumulator.call.args, []).append(number)
    return {users[0]: users for users in found.values() if len(users) > 1}


def _as_declared(column: pa.Array, declared: pa.DataType) -> pa.Array:
    return column if column.type == declared else column.cast(declared)


def _true_rows(condition: pa.Array, signs: Array) -> Array:
    """`signs` (empty: +1) where the BOOLEAN column is TRUE, 0 where it is FALSE or NULL."""
    bits = view_buffer(
        condition.buffers()[1],
        np.uint8,
        condition.offset >> 3,
        (condition.offset % 8 + len(condition) + 7) >> 3,
    )
    mask = unpack_bits(bits, condition.offset & 7, len(condition))
    bitmap, bit = view_bitmap(condition)
    if len(bitmap):
        mask = mask & unpack_bits(bitmap, bit, len(condition))
    weights = mask.view(np.int8)
    return weights if len(signs) == 0 else weights * signs
