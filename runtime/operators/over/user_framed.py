"""A user's aggregate OVER frames: rows are added as frames grow, and retracted as they move on, where the aggregate can."""

from __future__ import annotations

import copy
from typing import Any

import pyarrow as pa

from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.user_aggregate import UserAggregate
from sqlstream.runtime.operators.over.sorted_rows import SortedRows
from sqlstream.runtime.python.values import arrow_values
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.over import OverCall
from sqlstream.types import LogicalType


def user_framed(
    call: OverCall,
    types: tuple[LogicalType, ...],
    rows: SortedRows,
    takes_part: Array,
    bounds: tuple[Array, Array],
    prior: list[pa.Array] | None,
) -> pa.Array:
    """The results. `prior`: the accumulators of the rows before these, by partition, for a frame without a start. Without
    `retract` a frame that loses rows is computed anew."""
    own = AggregateCall(call.function, call.args, call.type, ref=call.ref)
    aggregate = UserAggregate(own, types)
    frames = _Frames(aggregate, rows, call, takes_part, prior)
    starts, ends = (b.tolist() for b in bounds)
    values = [
        frames.value(partition, start, end)
        for partition, start, end in zip(rows.partitions.tolist(), starts, ends, strict=True)
    ]
    return arrow_values(values, call.type, aggregate.ref.name)


class _Frames:
    """State: the accumulator of the last frame, and which rows are in it."""

    def __init__(
        self,
        aggregate: UserAggregate,
        rows: SortedRows,
        call: OverCall,
        takes_part: Array,
        prior: list[pa.Array] | None,
    ) -> None:
        self._aggregate = aggregate
        arguments = [rows.batch.column(a) for a in call.args]
        self._rows = list(aggregate.rows(arguments, len(rows)))
        self._takes_part = (
            takes_part & (aggregate.weights(arguments, takes_part.astype("int8")) != 0)
        ).tolist()
        self._prior = None if prior is None else prior[0]
        self._can_retract = "retract" in aggregate.ref.methods
        self._partition = -1
        self._start = self._end = 0
        self._accumulator: Any = None
        self._value: Any = None

    def value(self, partition: int, start: int, end: int) -> Any:
        end = max(start, end)
        is_grown = partition == self._partition and start == self._start and end >= self._end
        if is_grown and end == self._end:
            return self._value
        is_moved = (
            partition == self._partition and self._can_retract and self._start <= start <= self._end <= end
        )
        if is_moved and not is_grown:
            self._change(self._start, start, self._aggregate.retracted)
        elif not is_grown:
            self._accumulator = self._first(partition)
            self._end = start
        self._change(self._end, end, self._aggregate.added)
        self._partition, self._start, self._end = partition, start, end
        # The accumulator, which goes on to change, may be the value itself.
        self._value = copy.deepcopy(self._aggregate.value(self._accumulator))
        return self._value

    def _first(self, partition: int) -> Any:
        if self._prior is None:
            return self._aggregate.created()
        (found,) = self._aggregate.loaded(self._prior.slice(partition, 1))
        return found

    def _change(self, start: int, end: int, change: Any) -> None:
        for row in range(start, end):
            if self._takes_part[row]:
                self._accumulator = change(self._accumulator, self._rows[row])
