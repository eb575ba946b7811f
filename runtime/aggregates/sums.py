"""COUNT, SUM, AVG and variances."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.functions import AGGREGATE_FUNCTIONS
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS, Accumulator, present
from sqlstream.runtime.aggregates.numbers import (
    NumberClass,
    as_numbers,
    from_numbers,
    number_array,
    number_class,
)
from sqlstream.runtime.kernels.accumulate import (
    add_int128_into,
    add_into,
    add_whole_into,
    count_into,
    has_38_digits_into,
    merge_variance_into,
    sum_int128_into,
    sum_into,
    sum_whole_into,
    variance_into,
)
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.group import extent
from sqlstream.runtime.overflow import overflowed
from sqlstream.runtime.state.storage.arrays import Array, picked
from sqlstream.types import BIGINT, LogicalType, TypeRoot


class Count(Accumulator):
    """Number of rows whose arguments are all present. State: one int64 per slot."""

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._counts = GrowingArray(np.int64)

    def resize(self, capacity: int) -> None:
        self._counts.reserve(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        count_into(self._counts.values, slots, present(weights, *args))

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        add_into(self._counts.values, slots, view_values(columns[0], np.int64))

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self.results(slots)]

    def results(self, slots: Array) -> pa.Array:
        return to_array(pa.int64(), picked(self._counts.values, slots))

    def reset(self, slots: Array) -> None:
        self._counts.values[slots] = 0

    def nbytes(self) -> int:
        return self._counts.nbytes


_LOW_HALF = np.int64(0xFFFFFFFF)


class Sum(Accumulator):
    """Sum and number of the values that are not NULL; NULL while there is none. A whole number wraps, and `tell_beyond` says so,
    unless it has come back by then. State: 16 (DECIMAL: 24) bytes per slot, and, not saved, which sums are beyond BIGINT."""

    suffixes = ("_sum", "_count")

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._number = number_class(argument_types[0])
        # The type of partial sums: wider than the argument's, so that they do not overflow before GLOBAL.
        self._sum_type = to_arrow_type(_accumulator_types(call, argument_types)[0])
        self._sums = number_array(self._number)
        self._counts = GrowingArray(np.int64)
        # By slot, how often 2^64 has to be added to the sum: of sums that are beyond BIGINT alone.
        self._beyond: dict[int, int] = {}
        self._told: set[int] = set()

    def resize(self, capacity: int) -> None:
        self._sums.reserve(capacity)
        self._counts.reserve(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        values = as_numbers(args[0], self._number)
        kernel = _SUM_INTO[self._number] if args[0].type != pa.int64() else sum_whole_into
        weights = present(weights, args[0])
        if (kernel(self._sums.values, self._counts.values, slots, values, weights) or 0) < 0:
            self._note_beyond(slots, values, weights)

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        kernel = _ADD_INTO[self._number]
        values = as_numbers(columns[0], self._number)
        if (kernel(self._sums.values, slots, values) or 0) < 0:
            self._note_beyond(slots, values, NO_WEIGHTS)
        add_into(self._counts.values, slots, as_numbers(columns[1], NumberClass.INT64))

    def columns(self, slots: Array) -> list[pa.Array]:
        counts = picked(self._counts.values, slots)
        # Never NULL: a partial with as many retracted as added values still has a sum to merge.
        return [from_numbers(picked(self._sums.values, slots), self._sum_type), to_array(pa.int64(), counts)]

    def results(self, slots: Array) -> pa.Array:
        sums = picked(self._sums.values, slots)
        return from_numbers(sums, to_arrow_type(self.call.type), self._has_value(slots, sums))

    def _note_beyond(self, slots: Array, values: Array, weights: Array) -> None:
        """Find out which sums these values, which are added already, have taken beyond BIGINT, or back."""
        signs = np.ones(len(values), dtype=np.int64) if len(weights) == 0 else weights.astype(np.int64)
        found, places = np.unique(slots, return_inverse=True)
        low, high = np.zeros(len(found), dtype=np.int64), np.zeros(len(found), dtype=np.int64)
        np.add.at(low, places, (values & _LOW_HALF) * signs)
        np.add.at(high, places, (values >> 32) * signs)
        after = self._sums.values[found]
        before = after - ((high << 32) + low)
        # Of the exact sum, all but the lowest 32 bits.
        exact = (before >> 32) + high + (((before & _LOW_HALF) + low) >> 32)
        turns = (exact - (after >> 32)) >> 32
        for slot, more in zip(found[turns != 0].tolist(), turns[turns != 0].tolist(), strict=True):
            if total := self._beyond.pop(slot, 0) + more:
                self._beyond[slot] = total

    def tell_beyond(self) -> None:
        """Tell of sums that have left the range of BIGINT since the last call, and have not come back."""
        if not self._beyond and not self._told:
            return
        count = len(self._beyond.keys() - self._told)
        self._told = set(self._beyond)
        if count:
            overflowed(count, self.call.function, BIGINT)

    def tell_results(self, slots: Array) -> None:
        """Tell of sums that are within the range of BIGINT, and beyond that of the result, at these slots."""
        if self._number is not NumberClass.INT64 or self.call.type.root is TypeRoot.BIGINT:
            return
        sums = picked(self._sums.values, slots)
        tell_narrowed(self.call.function, self.call.type, sums, self._counts.values, slots)

    def _has_value(self, slots: Array, sums: Array) -> Array:
        """bool[n]: whether the result is not NULL; a DECIMAL of more than 38 digits is NULL, as in Flink."""
        valid = picked(self._counts.values, slots) > 0
        if self._number is NumberClass.INT128:
            fits = np.empty(len(slots), dtype=bool)
            has_38_digits_into(sums, fits)
            valid &= fits
        return valid

    def reset(self, slots: Array) -> None:
        self._sums.values[slots] = 0
        self._counts.values[slots] = 0
        if self._beyond:
            for slot in slots.tolist():
                self._beyond.pop(slot, None)

    def nbytes(self) -> int:
        return self._sums.nbytes + self._counts.nbytes


def tell_narrowed(function: str, t: LogicalType, sums: Array, counts: Array, slots: Array) -> None:
    """Tell of sums of at least one value that are beyond the type of the result."""
    bits = to_arrow_type(t).bit_width
    if bits == 64 or not len(sums):
        return
    limit = 1 << (bits - 1)
    least, most = extent(sums)
    if least < -limit or most >= limit:
        is_beyond = ((sums < -limit) | (sums >= limit)) & (picked(counts, slots) > 0)
        if count := int(np.count_nonzero(is_beyond)):
            overflowed(count, function, t)


class Average(Sum):
    """Sum divided by count. Whole numbers divide towards zero, as in Flink; decimals round half up to the result's scale."""

    def tell_results(self, slots: Array) -> None:
        """A mean is no greater than the values."""

    def results(self, slots: Array) -> pa.Array:
        counts, sums = self._counts.values[slots], self._sums.values[slots]
        valid = self._has_value(slots, sums)
        divisors = np.where(valid, counts, 1)
        result_type = to_arrow_type(self.call.type)
        if self._number is NumberClass.INT128:
            # Arrow's casts also check the digits under a NULL.
            sums[~valid] = 0
            return self._divide_decimals(sums, divisors, valid, result_type)
        if self._number is NumberClass.FLOAT64:
            return from_numbers(sums / divisors, result_type, valid)
        # Floor division, plus one where that rounded down a negative: the least BIGINT has no absolute value.
        quotients = sums // divisors
        quotients += (sums < 0) & (quotients * divisors != sums)
        return from_numbers(quotients, result_type, valid)

    def _divide_decimals(
        self, sums: Array, divisors: Array, valid: Array, result_type: pa.DataType
    ) -> pa.Array:
        # Arrow divides decimals exactly as DECIMAL256 and keeps enough digits to round once. The dividend gets no more digits
        # than it can have, so that the quotient's precision stays within DECIMAL256.
        digits = self._sum_type.precision - self._sum_type.scale + result_type.scale + 1
        wide = pc.cast(
            from_numbers(sums, self._sum_type, valid), pa.decimal256(digits, result_type.scale + 1)
        )
        quotient = pc.divide(wide, pc.cast(pa.array(divisors), pa.decimal256(19, 0)))
        rounded = pc.round(quotient, result_type.scale, "half_towards_infinity")
        # A value with more digits than the result's type is NULL, as in Flink.
        whole_digits = result_type.precision - result_type.scale
        limit = pa.scalar(Decimal(10) ** whole_digits, pa.decimal256(whole_digits + 1, 0))
        fits = pc.less(pc.abs(rounded), limit)
        return pc.cast(pc.if_else(fits, rounded, pa.scalar(None, rounded.type)), result_type)


# Sums of numbers narrower than BIGINT do not leave its range.
_SUM_INTO: dict[NumberClass, Any] = {
    NumberClass.INT64: sum_into,
    NumberClass.FLOAT64: sum_into,
    NumberClass.INT128: sum_int128_into,
}
_ADD_INTO: dict[NumberClass, Any] = {
    NumberClass.INT64: add_whole_into,
    NumberClass.FLOAT64: add_into,
    NumberClass.INT128: add_int128_into,
}


def _accumulator_types(
    call: AggregateCall, argument_types: tuple[LogicalType, ...]
) -> tuple[LogicalType, ...]:
    layout = AGGREGATE_FUNCTIONS[call.function].accumulator
    assert layout is not None
    return layout(argument_types)


class Variance(Accumulator):
    """Count, mean and sum of squared deviations (Welford), which lose no digits to a large mean. State: 24 bytes per slot."""

    suffixes = ("_count", "_mean", "_squares")

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        self._counts = GrowingArray(np.int64)
        self._means = GrowingArray(np.float64)
        self._squares = GrowingArray(np.float64)
        self._is_sample = call.function in ("VAR_SAMP", "VARIANCE", "STDDEV", "STDDEV_SAMP")
        self._is_deviation = call.function.startswith("STDDEV")

    def resize(self, capacity: int) -> None:
        self._counts.reserve(capacity)
        self._means.reserve(capacity)
        self._squares.reserve(capacity)

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        values = as_numbers(args[0], NumberClass.FLOAT64)
        variance_into(
            self._counts.values,
            self._means.values,
            self._squares.values,
            slots,
            values,
            present(weights, args[0]),
        )

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        counts = view_values(columns[0], np.int64)
        means, squares = (view_values(c, np.float64) for c in columns[1:])
        merge_variance_into(
            self._counts.values, self._means.values, self._squares.values, slots, counts, means, squares
        )

    def columns(self, slots: Array) -> list[pa.Array]:
        return [
            to_array(pa.int64(), self._counts.values[slots]),
            to_array(pa.float64(), self._means.values[slots]),
            to_array(pa.float64(), self._squares.values[slots]),
        ]

    def results(self, slots: Array) -> pa.Array:
        divisors = self._counts.values[slots] - (1 if self._is_sample else 0)
        valid = divisors > 0
        # Rounding may leave a deviation of zero slightly negative.
        values = np.maximum(self._squares.values[slots], 0.0) / np.where(valid, divisors, 1)
        return from_numbers(
            np.sqrt(values) if self._is_deviation else values, to_arrow_type(self.call.type), valid
        )

    def reset(self, slots: Array) -> None:
        self._counts.values[slots] = 0
        self._means.values[slots] = 0.0
        self._squares.values[slots] = 0.0

    def nbytes(self) -> int:
        return self._counts.nbytes + self._means.nbytes + self._squares.nbytes
