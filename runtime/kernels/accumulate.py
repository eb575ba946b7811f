"""Accumulate values into slots: count, sum, minimum and maximum, variance, over 64-bit and 128-bit numbers.

Shapes: `slots` int64[n] is the accumulator of each row; `weights` int8[n] is +1 for a row to add, -1 for a row to retract and
0 for a row to skip (NULL or filtered). An empty `weights` means +1 for all rows. Overflow wraps, as in Flink.
128-bit integers are uint64[…, 2], low half first, as Arrow stores decimals.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import view_offsets
from sqlstream.runtime.kernels.intrinsics import load_8
from sqlstream.runtime.native.kernel import inlined, kernel

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_SIGN = np.uint64(1 << 63)
_POISON_LOW, _POISON_HIGH = np.uint64(2**64 - 1), np.uint64(2**63 - 1)
"""The greatest 128-bit integer marks a sum that has left the range; it is beyond every DECIMAL."""
_LIMIT_LOW, _LIMIT_HIGH = np.uint64(10**38 & (2**64 - 1)), np.uint64(10**38 >> 64)


@kernel("void(int64[::1], int64[::1], int8[::1])")
def count_into(counts, slots, weights):  # type: ignore[no-untyped-def]
    """counts[slot] += weight."""
    if len(weights) == 0:
        for i in range(len(slots)):
            counts[slots[i]] += 1
    else:
        for i in range(len(slots)):
            counts[slots[i]] += weights[i]


@kernel("UniTuple(int64, 2)(int64[::1], int64[::1], int64[::1])")
def count_up_into(counts, slots, risen):  # type: ignore[no-untyped-def]
    """counts[slot] += 1. Returns how many counts rose from 0, the rows that did it being in `risen`, and how many rose to 0."""
    found = 0
    zeros = 0
    for i in range(len(slots)):
        count = counts[slots[i]]
        counts[slots[i]] = count + 1
        if count == 0:
            risen[found] = i
            found += 1
        elif count == -1:
            zeros += 1
    return found, zeros


@kernel("void(int64[::1], int64[::1], int64[::1])", "void(float64[::1], int64[::1], float64[::1])")
def add_into(sums, slots, values):  # type: ignore[no-untyped-def]
    """sums[slot] += value."""
    for i in range(len(slots)):
        sums[slots[i]] += values[i]


@kernel("int64(int64[::1], int64[::1], int64[::1])")
def add_whole_into(sums, slots, values):  # type: ignore[no-untyped-def]
    """As `add_into`. Returns a negative number where some sum has left the range of BIGINT on the way."""
    crossed = np.int64(0)
    for i in range(len(slots)):
        slot, value = np.uint64(slots[i]), values[i]
        before = sums[slot]
        after = before + value
        sums[slot] = after
        crossed |= (before ^ after) & (value ^ after)
    return crossed


@kernel("void(uint64[:, ::1], int64, uint64, uint64)")
def add_int128(sums, slot, low, high):  # type: ignore[no-untyped-def]
    """sums[slot] += a 128-bit integer. A sum that leaves the range becomes the poison value and remains it."""
    before_low, before = sums[slot, 0], sums[slot, 1]
    is_poisoned = (before_low == _POISON_LOW and before == _POISON_HIGH) or (
        low == _POISON_LOW and high == _POISON_HIGH
    )
    total = before_low + low
    after = before + high + (_ONE if total < low else _ZERO)
    # Overflow: both terms have one sign and their sum has the other.
    if is_poisoned or ((before ^ after) & (high ^ after) & _SIGN) != _ZERO:
        total, after = _POISON_LOW, _POISON_HIGH
    sums[slot, 0] = total
    sums[slot, 1] = after


@kernel("void(uint64[:, ::1], boolean[::1])")
def has_38_digits_into(values, fits):  # type: ignore[no-untyped-def]
    """fits[i]: whether the 128-bit integer is between -(10^38 - 1) and 10^38 - 1, the range of DECIMAL(38)."""
    for i in range(len(values)):
        low, high = values[i, 0], values[i, 1]
        if high & _SIGN:
            low = ~low + _ONE
            high = ~high + (_ONE if low == _ZERO else _ZERO)
        fits[i] = high < _LIMIT_HIGH or (high == _LIMIT_HIGH and low < _LIMIT_LOW)


@kernel("void(uint64[:, ::1], int64[::1], uint64[:, ::1])")
def add_int128_into(sums, slots, values):  # type: ignore[no-untyped-def]
    """As `add_into` for 128-bit integers."""
    for i in range(len(slots)):
        add_int128(sums, slots[i], values[i, 0], values[i, 1])


@kernel("void(uint64[:, ::1], int64[::1], int64[::1], uint64[:, ::1])")
def int128_sums_in_order(values, starts, ends, sums):  # type: ignore[no-untyped-def]
    """sums[i] = values[starts[i]:ends[i]] added up one by one, from zero: as `sums_in_order` of kernels/frames.py."""
    at = np.int64(0)
    for i in range(len(starts)):
        if i == 0 or starts[i] != starts[i - 1]:
            at = starts[i]
        else:
            sums[i, 0], sums[i, 1] = sums[i - 1, 0], sums[i - 1, 1]
        while at < ends[i]:
            add_int128(sums, i, values[at, 0], values[at, 1])
            at += 1


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1], int8[::1])")
def sum_whole_into(sums, counts, slots, values, weights):  # type: ignore[no-untyped-def]
    """As `sum_into` for whole numbers. Returns what `add_whole_into` does."""
    crossed = np.int64(0)
    if len(weights) == 0:
        for i in range(len(slots)):
            # Read once, as each store may change what it is for all that the compiler knows; unsigned, as it is not from the end.
            slot, value = np.uint64(slots[i]), values[i]
            before = sums[slot]
            after = before + value
            sums[slot] = after
            counts[slot] += 1
            crossed |= (before ^ after) & (value ^ after)
    else:
        for i in range(len(slots)):
            weight = weights[i]
            if weight != 0:
                value, before = values[i] * weight, sums[slots[i]]
                after = before + value
                sums[slots[i]] = after
                counts[slots[i]] += weight
                crossed |= (before ^ after) & (value ^ after)
    return crossed


@kernel(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], int8[::1])",
    "void(float64[::1], int64[::1], int64[::1], float64[::1], int8[::1])",
)
def sum_into(sums, counts, slots, values, weights):  # type: ignore[no-untyped-def]
    """sums[slot] += weight * value; counts[slot] += weight: the number of values that the sum holds."""
    if len(weights) == 0:
        for i in range(len(slots)):
            sums[slots[i]] += values[i]
            counts[slots[i]] += 1
    else:
        for i in range(len(slots)):
            weight = weights[i]
            if weight != 0:
                sums[slots[i]] += values[i] * weight
                counts[slots[i]] += weight


@kernel("void(uint64[:, ::1], int64[::1], int64[::1], uint64[:, ::1], int8[::1])")
def sum_int128_into(sums, counts, slots, values, weights):  # type: ignore[no-untyped-def]
    """As `sum_into` for 128-bit integers."""
    for i in range(len(slots)):
        weight = 1 if len(weights) == 0 else int(weights[i])
        if weight == 0:
            continue
        slot = slots[i]
        low, high = values[i, 0], values[i, 1]
        if weight < 0:
            low = ~low + _ONE
            high = ~high + (_ONE if low == _ZERO else _ZERO)
        add_int128(sums, slot, low, high)
        counts[slot] += weight


@kernel(
    "void(int64[::1], uint8[::1], int64[::1], int64[::1], int8[::1])",
    "void(float64[::1], uint8[::1], int64[::1], float64[::1], int8[::1])",
)
def min_into(least, seen, slots, values, weights):  # type: ignore[no-untyped-def]
    """least[slot] = the smaller of itself and the value; seen[slot] = 1. NaN is larger than every number, as in Flink."""
    for i in range(len(slots)):
        if len(weights) == 0 or weights[i] != 0:
            slot, value = slots[i], values[i]
            if seen[slot] == 0 or value < least[slot] or least[slot] != least[slot]:
                least[slot] = value
            seen[slot] = 1


@kernel(
    "void(int64[::1], uint8[::1], int64[::1], int64[::1], int8[::1])",
    "void(float64[::1], uint8[::1], int64[::1], float64[::1], int8[::1])",
)
def max_into(greatest, seen, slots, values, weights):  # type: ignore[no-untyped-def]
    """greatest[slot] = the larger of itself and the value; seen[slot] = 1. NaN is larger than every number, as in Flink."""
    for i in range(len(slots)):
        if len(weights) == 0 or weights[i] != 0:
            slot, value = slots[i], values[i]
            if seen[slot] == 0 or value > greatest[slot] or value != value:
                greatest[slot] = value
            seen[slot] = 1


@kernel("void(uint64[:, ::1], uint8[::1], int64[::1], uint64[:, ::1], int8[::1], boolean)")
def extreme_int128_into(best, seen, slots, values, weights, is_min):  # type: ignore[no-untyped-def]
    """Minimum (`is_min`) or maximum of signed 128-bit integers."""
    for i in range(len(slots)):
        if len(weights) != 0 and weights[i] == 0:
            continue
        slot = slots[i]
        # Flipping the sign bit makes the unsigned comparison of the high halves a signed one.
        high, best_high = values[i, 1] ^ _SIGN, best[slot, 1] ^ _SIGN
        is_less = high < best_high or (high == best_high and values[i, 0] < best[slot, 0])
        is_equal = high == best_high and values[i, 0] == best[slot, 0]
        if seen[slot] == 0 or (not is_equal and is_less == is_min):
            best[slot, 0] = values[i, 0]
            best[slot, 1] = values[i, 1]
        seen[slot] = 1


@kernel("void(int64[::1], float64[::1], float64[::1], int64[::1], float64[::1], int8[::1])")
def variance_into(counts, means, squares, slots, values, weights):  # type: ignore[no-untyped-def]
    """Welford's update of (count, mean, sum of squared deviations), and its inverse for a row that is retracted."""
    for i in range(len(slots)):
        weight = 1 if len(weights) == 0 else int(weights[i])
        if weight == 0:
            continue
        slot, value = slots[i], values[i]
        count = counts[slot] + weight
        delta = value - means[slot]
        counts[slot] = count
        if count <= 0:
            means[slot] = 0.0
            squares[slot] = 0.0
        else:
            means[slot] += weight * delta / count
            # One value deviates by nothing: what rounding left of those that are retracted goes.
            squares[slot] = 0.0 if count == 1 else squares[slot] + weight * delta * (value - means[slot])


@kernel("void(int64[::1], float64[::1], float64[::1], int64[::1], int64[::1], float64[::1], float64[::1])")
def merge_variance_into(  # type: ignore[no-untyped-def]
    counts, means, squares, slots, other_counts, other_means, other_squares
):
    """Chan's merge of two (count, mean, sum of squared deviations); a negative count retracts."""
    for i in range(len(slots)):
        slot, added = slots[i], other_counts[i]
        if added == 0:
            continue
        before = counts[slot]
        count = before + added
        delta = other_means[i] - means[slot]
        counts[slot] = count
        if count <= 0:
            means[slot] = 0.0
            squares[slot] = 0.0
        else:
            means[slot] += delta * added / count
            rest = other_squares[i] + delta * delta * before * added / count
            squares[slot] = 0.0 if count == 1 else squares[slot] + rest


@kernel("void(int64[::1], int64[::1], int64[::1], int8[::1])")
def first_row_into(rows, slots, sequence, weights):  # type: ignore[no-untyped-def]
    """rows[slot] = the first sequence number of the slot, where rows[slot] is -1."""
    for i in range(len(slots)):
        if (len(weights) == 0 or weights[i] != 0) and rows[slots[i]] < 0:
            rows[slots[i]] = sequence[i]


@kernel("void(int64[::1], int64[::1], int64[::1], int8[::1])")
def last_row_into(rows, slots, sequence, weights):  # type: ignore[no-untyped-def]
    """rows[slot] = the last sequence number of the slot."""
    for i in range(len(slots)):
        if len(weights) == 0 or weights[i] != 0:
            rows[slots[i]] = sequence[i]


@kernel("void(int64[::1], int64[::1], int64[::1])")
def add_not_below_zero(sums, slots, amounts):  # type: ignore[no-untyped-def]
    """sums[slot] += amount, row by row; a sum that would fall below zero is zero."""
    for i in range(len(slots)):
        sums[slots[i]] = max(sums[slots[i]] + amounts[i], 0)


# The least or greatest text of each group.


def extreme_rows(
    texts: pa.Array, groups: np.ndarray, count: int, takes_part: np.ndarray, is_min: bool
) -> np.ndarray:
    """int64[count]: the row of the least or greatest text of each group, in order of their bytes; -1 where no row takes part.

    Of equal texts the first is it. `texts` are strings or binary with 32-bit offsets.
    """
    offsets, address = view_offsets(texts)
    best = np.full(count, -1, dtype=np.int64)
    _extreme_rows_into(offsets, address, groups, takes_part, is_min, best)
    return best


@inlined
def _compared(left, left_length, right, right_length):  # type: ignore[no-untyped-def]
    for at in range(min(left_length, right_length)):
        x, y = load_8(left + at), load_8(right + at)
        if x != y:
            return -1 if x < y else 1
    return left_length - right_length


@kernel("void(int32[::1], int64, int64[::1], int8[::1], boolean, int64[::1])")
def _extreme_rows_into(offsets, address, groups, takes_part, is_min, best):  # type: ignore[no-untyped-def]
    for row in range(len(groups)):
        if takes_part[row] == 0:
            continue
        held = best[groups[row]]
        if held >= 0:
            order = _compared(
                address + np.int64(offsets[row]),
                np.int64(offsets[row + 1] - offsets[row]),
                address + np.int64(offsets[held]),
                np.int64(offsets[held + 1] - offsets[held]),
            )
            if (order >= 0) if is_min else (order <= 0):
                continue
        best[groups[row]] = row
