"""COUNT, SUM, AVG, MIN, MAX and variances of frames, without going through the rows of each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates import make_accumulator
from sqlstream.runtime.aggregates.numbers import NumberClass, as_numbers, from_numbers, number_class
from sqlstream.runtime.aggregates.sum import tell_narrowed
from sqlstream.runtime.kernels.buffers import to_array, valid_mask, view_values
from sqlstream.runtime.kernels.frames import framed_least, framed_moments, framed_sums, running_sums
from sqlstream.runtime.operators.order.ordering import float_keys
from sqlstream.runtime.operators.over.neighbours import taken
from sqlstream.runtime.operators.over.sorted_rows import SortedRows
from sqlstream.runtime.overflow import overflowed
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.specs.over import OverCall
from sqlstream.types import BIGINT, LogicalType

VARIANCES = frozenset({"VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV", "STDDEV_POP", "STDDEV_SAMP"})
FRAMED = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"}) | VARIANCES
_LIMB = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


class Framed:
    """One call over one set of rows: which rows take part (bool[n]), their frames, and what came before by partition, in the
    layout of the call's accumulator (only for frames without a start)."""

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
            _tell_beyond(call, values, framed, sums)
    if call.function == "SUM":
        if number is NumberClass.INT64:
            tell_narrowed(call.function, call.type, sums, counts, first_slots(len(sums)))
        return from_numbers(sums, to_arrow_type(call.type), counts > 0)
    return _finished(call, types, [to_array(wide, sums), to_array(pa.int64(), counts)])


def _tell_beyond(call: OverCall, values: Array, framed: Framed, sums: Array) -> None:
    """Tell of sums that are beyond BIGINT."""
    values = np.where(framed.takes_part, values, 0)
    if not len(values) or max(-int(values.min()), int(values.max())) * len(values) < 2**63:
        return
    low, high = framed.whole_sums(values & 0xFFFFFFFF), framed.whole_sums(values >> 32)
    exact = high + (low >> 32)
    if count := int(np.count_nonzero((exact < -(2**31)) | (exact >= 2**31))):
        overflowed(count, call.function, BIGINT)


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
    keys = _keys(column)
    found = np.empty(len(rows), dtype=np.int64)
    kept = np.empty(len(column), dtype=np.int64)
    keys = np.ascontiguousarray(~keys if call.function == "MAX" else keys)
    framed_least(keys, takes_part, starts, ends, kept, found)
    return taken(column, found)


def _keys(column: pa.Array) -> Array:
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
