"""The calls of OVER over sorted rows, computed without going through the rows of each frame."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates import make_accumulator
from sqlstream.runtime.aggregates.accumulator_set import AccumulatorSet
from sqlstream.runtime.aggregates.numbers import (
    NumberClass,
    as_numbers,
    from_numbers,
    number_class,
    present_rows,
)
from sqlstream.runtime.aggregates.sums import tell_narrowed
from sqlstream.runtime.aggregates.user_aggregate import UserAggregate
from sqlstream.runtime.kernels.buffers import to_array, valid_mask, view_values
from sqlstream.runtime.kernels.frames import framed_least, framed_moments, framed_sums, running_sums
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.operators.order.ordering import float_keys
from sqlstream.runtime.operators.over.sorted import (
    SortedRows,
    frame_bounds,
    lag_or_lead,
    ranking,
    taken,
    value_at,
)
from sqlstream.runtime.overflow import overflowed
from sqlstream.runtime.python.values import arrow_values
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.schema import Schema
from sqlstream.specs.over import NEIGHBOURS, RANKING, WHOLE_PARTITION_RANKING, Frame, OverCall
from sqlstream.types import BIGINT, LogicalType

_PAIRS_MAX = 1 << 20
"""Rows of frames that are laid out at a time, for aggregates that read every row of every frame."""

Prior = list[list[pa.Array] | None]


def carried_call(call: OverCall, is_first_of_peers: int) -> AggregateCall:
    """The accumulator that stands for all rows before a frame without a start; `is_first_of_peers` is a column of its input."""
    if call.function in RANKING:
        by_peers = is_first_of_peers if call.function == "DENSE_RANK" else -1
        return AggregateCall("COUNT", (), BIGINT.not_null(), filter=by_peers)
    return AggregateCall(call.function, call.args, call.type, filter=call.filter, ref=call.ref)


class FramedCalls:
    """Computes the calls of one OVER. No state."""

    def __init__(self, calls: tuple[OverCall, ...], schema: Schema) -> None:
        self._calls = calls
        self._types = tuple(tuple(schema.types[a] for a in call.args) for call in calls)

    def compute(self, rows: SortedRows, prior: Prior | None = None) -> list[pa.Array]:
        """A column per call. `prior`, by call: the columns of the accumulators of earlier rows, by partition."""
        bounds: dict[Frame, tuple[Array, Array]] = {}
        columns = []
        for i, call in enumerate(self._calls):
            if call.frame not in bounds and call.function not in _WITHOUT_FRAME:
                bounds[call.frame] = frame_bounds(call.frame, rows)
            before = None if prior is None else prior[i]
            columns.append(self._column(i, rows, bounds.get(call.frame, _NO_BOUNDS), before))
        return columns

    def _column(
        self, number: int, rows: SortedRows, bounds: tuple[Array, Array], prior: list[pa.Array] | None
    ) -> pa.Array:
        call, types = self._calls[number], self._types[number]
        declared = to_arrow_type(call.type)
        if call.function in RANKING | WHOLE_PARTITION_RANKING:
            before = None if prior is None else view_values(prior[0], np.int64)
            return from_numbers(ranking(call, rows, before), declared)
        if call.function in NEIGHBOURS:
            return lag_or_lead(call, rows)
        arguments = [rows.batch.column(a) for a in call.args]
        takes_part = filtered(call, rows)
        if call.function in ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"):
            if call.skips_nulls:
                takes_part &= present_rows(arguments[0])
            found = value_at(call, arguments[0], takes_part, *bounds)
            return found if prior is None else _with_prior(call, found, prior, rows)
        if call.ref is not None and not call.is_distinct:
            return user_framed(call, types, rows, takes_part, bounds, prior)
        is_whole = call.frame.start is None
        if call.function in FRAMED and (is_whole or not call.is_distinct or call.function in ("MIN", "MAX")):
            for argument in arguments:
                takes_part &= present_rows(argument)
            if call.is_distinct and call.function not in ("MIN", "MAX"):
                takes_part = first_of_equals(arguments, takes_part, rows)
            found = framed_aggregate(call, arguments, types, Framed(rows, takes_part, *bounds, prior))
        else:
            found = _laid_out(call, types, rows, *bounds)
        return found if found.type == declared else found.cast(declared)


_WITHOUT_FRAME = RANKING | WHOLE_PARTITION_RANKING | NEIGHBOURS
_NO_BOUNDS = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def filtered(call: OverCall, rows: SortedRows) -> Array:
    if call.filter < 0:
        return np.ones(len(rows), dtype=bool)
    condition = rows.batch.column(call.filter)
    return np.array(pc.fill_null(condition, False).to_numpy(zero_copy_only=False), dtype=bool)


def _with_prior(call: OverCall, found: pa.Array, prior: list[pa.Array], rows: SortedRows) -> pa.Array:
    """The value that is first, or last, of the one before these rows and of the one in them. Where NULLs are values, `prior` is
    the first value and whether there is one."""
    owners = pa.array(rows.partitions)
    earlier = prior[0].cast(found.type).take(owners)
    if not call.skips_nulls:
        return pc.if_else(prior[1].take(owners), earlier, found)
    both = (earlier, found) if call.function == "FIRST_VALUE" else (found, earlier)
    return pc.coalesce(*both)


def first_of_equals(arguments: list[pa.Array], takes_part: Array, rows: SortedRows) -> Array:
    """Of the rows of a partition that take part and have equal arguments, the first."""
    chosen = np.flatnonzero(takes_part)
    _, first = group([pa.array(rows.partitions[chosen]), *(a.take(pa.array(chosen)) for a in arguments)])
    kept = np.zeros(len(rows), dtype=bool)
    kept[chosen[first]] = True
    return kept


def _laid_out(
    call: OverCall, types: tuple[object, ...], rows: SortedRows, starts: Array, ends: Array
) -> pa.Array:
    """Every frame's rows go to an accumulator of its own: for aggregates and DISTINCT that have no quicker way."""
    own = AggregateCall(call.function, call.args, call.type, call.is_distinct, call.filter, call.ref)
    sizes = ends - starts
    totals = np.cumsum(sizes)
    found: list[pa.Array] = []
    done = 0
    while done < len(rows):
        base = totals[done] - sizes[done]
        stop = max(done + 1, int(np.searchsorted(totals, base + _PAIRS_MAX, side="right")))
        part = sizes[done:stop]
        slots = np.repeat(np.arange(stop - done), part)
        within = np.arange(len(slots)) - np.repeat(np.cumsum(part) - part, part)
        members = np.repeat(starts[done:stop], part) + within
        accumulators = AccumulatorSet((own,), (types,), False, ("value",))  # type: ignore[arg-type]
        accumulators.resize(stop - done)
        if len(slots):
            accumulators.accumulate(slots, rows.batch.take(pa.array(members)))
        found += accumulators.results(np.arange(stop - done))
        done = stop
    return pa.concat_arrays(found) if found else pa.nulls(0, to_arrow_type(call.type))


VARIANCES = frozenset({"VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV", "STDDEV_POP", "STDDEV_SAMP"})
FRAMED = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"}) | VARIANCES
_LIMB = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


class Framed:
    """One call over one set of rows: which rows take part (bool[n]), and their frames.

    `prior`, for frames without a start: what came before by partition, in the layout of the call's accumulator.
    """

    def __init__(
        self, rows: SortedRows, takes_part: Array, starts: Array, ends: Array, prior: list[pa.Array] | None
    ) -> None:
        self.rows, self.takes_part, self.prior = rows, takes_part, prior
        self.starts, self.ends = starts, ends

    def counts(self, prior_column: int = 0) -> Array:
        """int64[n]: how many rows of each frame take part."""
        found = self.whole_sums(self.takes_part.astype(np.int64))
        return found if self.prior is None else found + self.earlier(prior_column, np.int64)

    def whole_sums(self, values: Array) -> Array:
        sums = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum(values, out=sums[1:])
        return sums[self.ends] - sums[self.starts]

    def earlier(self, prior_column: int, dtype: type) -> Array:
        assert self.prior is not None
        return view_values(self.prior[prior_column], dtype)[self.rows.partitions]

    def float_sums(self, values: Array) -> Array:
        values = np.where(self.takes_part, values, 0.0)
        sums = np.empty(len(values), dtype=np.float64)
        if not np.array_equal(self.starts, self.rows.first):
            framed_sums(values, self.starts, self.ends, np.empty(len(values), dtype=np.float64), sums)
            return sums
        prior = np.zeros(self.rows.count) if self.prior is None else view_values(self.prior[0], np.float64)
        running_sums(values, self.rows.partitions, np.ascontiguousarray(prior), sums)
        is_empty = self.ends <= self.starts
        return np.where(is_empty, prior[self.rows.partitions], sums[np.maximum(self.ends - 1, 0)])

    def decimal_sums(self, values: Array) -> Array:
        """uint64[n, 2]: sums of 128 bits, added by 32 of them at a time."""
        parts = [np.where(self.takes_part, part, 0) for part in _limbs(values)]
        sums = [self.whole_sums(part) for part in parts]
        if self.prior is not None:
            before = _limbs(as_numbers(self.prior[0], NumberClass.INT128))
            sums = [s + b[self.rows.partitions] for s, b in zip(sums, before, strict=True)]
        return _of_limbs(sums)


def framed_aggregate(
    call: OverCall, arguments: list[pa.Array], types: tuple[LogicalType, ...], framed: Framed
) -> pa.Array:
    """The results of a call of one of FRAMED."""
    if call.function == "COUNT":
        return to_array(pa.int64(), framed.counts())
    if call.function in ("MIN", "MAX"):
        return _extreme(call, arguments[0], framed)
    if call.function in VARIANCES:
        return _finished(call, types, _moments(arguments[0], framed))
    number = number_class(types[0])
    values, counts = as_numbers(arguments[0], number), framed.counts(1)
    if number is NumberClass.INT128:
        wide = pa.decimal128(38, arguments[0].type.scale)
        return _finished(
            call, types, [from_numbers(framed.decimal_sums(values), wide), to_array(pa.int64(), counts)]
        )
    if number is NumberClass.FLOAT64:
        sums, wide = framed.float_sums(values), pa.float64()
    else:
        sums, wide = framed.whole_sums(np.where(framed.takes_part, values, 0)), pa.int64()
        sums = sums if framed.prior is None else sums + framed.earlier(0, np.int64)
        if framed.prior is None:
            _tell_beyond(call, values, framed)
    if call.function == "SUM":
        if number is NumberClass.INT64:
            tell_narrowed(call.function, call.type, sums, counts, first_slots(len(sums)))
        return from_numbers(sums, to_arrow_type(call.type), counts > 0)
    return _finished(call, types, [to_array(wide, sums), to_array(pa.int64(), counts)])


def _tell_beyond(call: OverCall, values: Array, framed: Framed) -> None:
    """Tell of sums that are beyond BIGINT."""
    if count := sums_beyond(np.where(framed.takes_part, values, 0), framed.whole_sums):
        overflowed(count, call.function, BIGINT)


def sums_beyond(values: Array, summed: Callable[[Array], Array]) -> int:
    """How many of the sums that `summed` computes of values are beyond BIGINT."""
    if not len(values) or max(-int(values.min()), int(values.max())) * len(values) < 2**63:
        return 0
    low, high = summed(values & 0xFFFFFFFF), summed(values >> 32)
    exact = high + (low >> 32)
    return int(np.count_nonzero((exact < -(2**31)) | (exact >= 2**31)))


def _finished(call: OverCall, types: tuple[LogicalType, ...], partials: list[pa.Array]) -> pa.Array:
    """The results of accumulators in the layout of the call's."""
    slots = first_slots(len(partials[0]))
    accumulator = make_accumulator(
        AggregateCall(call.function, call.args, call.type, ref=call.ref), types, False
    )
    accumulator.resize(len(slots))
    accumulator.load(slots, partials)
    return accumulator.results(slots)


def _extreme(call: OverCall, column: pa.Array, framed: Framed) -> pa.Array:
    """The prior value of a partition, if any, stands before its first row."""
    rows, takes_part, starts, ends = framed.rows, framed.takes_part, framed.starts, framed.ends
    if framed.prior is not None:
        places = rows.numbers + rows.partitions + 1
        of_prior = rows.starts + np.arange(rows.count)
        order = np.empty(len(rows) + rows.count, dtype=np.int64)
        order[places] = rows.numbers
        order[of_prior] = len(rows) + np.arange(rows.count)
        prior = framed.prior[0]
        column = pa.chunked_array([column, prior.cast(column.type)]).combine_chunks().take(pa.array(order))
        known = valid_mask(prior)
        known = np.ones(rows.count, dtype=bool) if known is None else known.astype(bool)
        takes_part = np.concatenate([takes_part, known])[order]
        starts, ends = starts + rows.partitions, ends + rows.partitions + 1
    keys = order_keys(column)
    found = np.empty(len(rows), dtype=np.int64)
    kept = np.empty(len(column), dtype=np.int64)
    keys = np.ascontiguousarray(~keys if call.function == "MAX" else keys)
    framed_least(keys, takes_part, starts, ends, kept, found)
    return taken(column, found)


def order_keys(column: pa.Array) -> Array:
    """int64[n] in the order of the values."""
    if pa.types.is_floating(column.type):
        return float_keys(as_numbers(column, NumberClass.FLOAT64))
    if pa.types.is_primitive(column.type) or pa.types.is_boolean(column.type):
        return as_numbers(column, NumberClass.INT64)
    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.int64)
    ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
    return view_values(ranks, np.uint64).astype(np.int64)


def _moments(column: pa.Array, framed: Framed) -> list[pa.Array]:
    rows, starts, ends = framed.rows, framed.starts, framed.ends
    counts = framed.takes_part.astype(np.int64)
    means = np.where(framed.takes_part, as_numbers(column, NumberClass.FLOAT64), 0.0)
    squares = np.zeros(len(rows))
    if framed.prior is not None:
        before = [
            view_values(p, t) for p, t in zip(framed.prior, (np.int64, np.float64, np.float64), strict=True)
        ]
        counts, means, squares = (
            np.insert(own, rows.starts, earlier)
            for own, earlier in zip((counts, means, squares), before, strict=True)
        )
        starts, ends = starts + rows.partitions, ends + rows.partitions + 1
    kept = [np.empty_like(part) for part in (counts, means, squares)]
    found = [np.empty(len(rows), dtype=part.dtype) for part in kept]
    framed_moments(counts, means, squares, starts, ends, *kept, *found)
    return [
        to_array(t, part) for t, part in zip((pa.int64(), pa.float64(), pa.float64()), found, strict=True)
    ]


def _limbs(values: Array) -> list[Array]:
    """Numbers of 128 bits as four int64 of 32 bits each, the last one with the sign."""
    low, high = np.ascontiguousarray(values[:, 0]), np.ascontiguousarray(values[:, 1])
    parts = [low & _LIMB, low >> _SHIFT, high & _LIMB]
    return [*(part.astype(np.int64) for part in parts), high.view(np.int64) >> np.int64(32)]


def _of_limbs(limbs: list[Array]) -> Array:
    carried = np.zeros(len(limbs[0]), dtype=np.int64)
    parts = []
    for limb in limbs:
        carried = carried + limb
        parts.append(carried.astype(np.uint64) & _LIMB)
        carried = carried >> np.int64(32)
    return np.stack([parts[0] | parts[1] << _SHIFT, parts[2] | parts[3] << _SHIFT], axis=1)


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
