"""Unscaled decimal values of up to 38 digits: remainders, products, and values read from texts."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import load_8, number_at, rounded_double, unscaled_decimal
from sqlstream.runtime.native.kernel import READ_BYTES, inlined, kernel

_ONE, _S1, _S63 = np.uint64(1), np.uint64(1), np.uint64(63)
_TENTH_OF_127_BITS = np.uint64(2**63 // 10)


@inlined
def _subtract_if_reached(high, low, divisor_high, divisor_low):  # type: ignore[no-untyped-def]
    """The value less the divisor where it is not below it."""
    if high > divisor_high or (high == divisor_high and low >= divisor_low):
        borrow = _ONE if low < divisor_low else np.uint64(0)
        return high - divisor_high - borrow, low - divisor_low
    return high, low


@inlined
def _add(high, low, other_high, other_low):  # type: ignore[no-untyped-def]
    total = low + other_low
    carry = _ONE if total < low else np.uint64(0)
    return high + other_high + carry, total


@inlined
def _magnitude(high, low):  # type: ignore[no-untyped-def]
    """Two's complement words of a number as the words of its absolute value."""
    if np.int64(high) >= 0:
        return high, low
    negated = ~low + _ONE
    return ~high + (_ONE if negated == np.uint64(0) else np.uint64(0)), negated


@kernel("void(uint64[::1], uint64[::1], uint64[::1], int64, int64)")
def remainders_into(results, dividends, divisors, dividend_zeros, divisor_zeros):  # type: ignore[no-untyped-def]
    """Pairs of words (low, high): results = dividends * 10^dividend_zeros mod divisors * 10^divisor_zeros.

    One of the two counts of zeros is 0. The sign is the dividend's; by a divisor of 0 the result is 0.
    """
    for i in range(len(results) // 2):
        is_negative = np.int64(dividends[2 * i + 1]) < 0
        a_high, a_low = _magnitude(dividends[2 * i + 1], dividends[2 * i])
        b_high, b_low = _magnitude(divisors[2 * i + 1], divisors[2 * i])
        high, low = np.uint64(0), np.uint64(0)
        is_larger = False
        for _ in range(divisor_zeros):
            if b_high >= _TENTH_OF_127_BITS:
                # Ten times this divisor is above every dividend.
                is_larger = True
                break
            two_high, two_low = _add(b_high, b_low, b_high, b_low)
            b_high, b_low = _add(two_high, two_low, two_high, two_low)
            b_high, b_low = _add(b_high, b_low, b_high, b_low)
            b_high, b_low = _add(b_high, b_low, two_high, two_low)
        if is_larger:
            high, low = a_high, a_low
        elif b_high != np.uint64(0) or b_low != np.uint64(0):
            for bit in range(127, -1, -1):
                word = a_high if bit > 63 else a_low
                high = (high << _S1) | (low >> _S63)
                low = (low << _S1) | ((word >> np.uint64(bit & 63)) & _ONE)
                high, low = _subtract_if_reached(high, low, b_high, b_low)
            for _ in range(dividend_zeros):
                two_high, two_low = _add(high, low, high, low)
                two_high, two_low = _subtract_if_reached(two_high, two_low, b_high, b_low)
                high, low = _add(two_high, two_low, two_high, two_low)
                high, low = _subtract_if_reached(high, low, b_high, b_low)
                high, low = _add(high, low, high, low)
                high, low = _subtract_if_reached(high, low, b_high, b_low)
                high, low = _add(high, low, two_high, two_low)
                high, low = _subtract_if_reached(high, low, b_high, b_low)
        if is_negative:
            low = ~low + _ONE
            high = ~high + (_ONE if low == np.uint64(0) else np.uint64(0))
        results[2 * i] = low
        results[2 * i + 1] = high


# Products of unscaled decimal values.


_MASK = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)


@kernel("void(int64[::1], int64[::1], int64, int64[::1], int64)")
def multiply_into(products, left, left_step, right, right_step):  # type: ignore[no-untyped-def]
    """products[2i], products[2i + 1] = low and high word of left[i * left_step] * right[i * right_step].

    A step of 0 repeats one value, 2 reads the low word of 16-byte cells.
    """
    for i in range(len(products) // 2):
        a = left[i * left_step]
        b = right[i * right_step]
        x, y = np.uint64(a), np.uint64(b)
        x_low, x_high = x & _MASK, x >> _S32
        y_low, y_high = y & _MASK, y >> _S32
        middle = x_high * y_low + ((x_low * y_low) >> _S32)
        carry = (middle & _MASK) + x_low * y_high
        high = np.int64(x_high * y_high + (middle >> _S32) + (carry >> _S32))
        # The product of the bit patterns counts a negative factor 2^64 too high.
        if a < 0:
            high -= b
        if b < 0:
            high -= a
        products[2 * i] = np.int64(x * y)
        products[2 * i + 1] = high


@kernel(f"boolean(int64[::1], boolean[::1], {READ_BYTES}, int32[::1], int64, int64)")
def read_plain_decimals_into(out, valid, data, offsets, precision, scale):  # type: ignore[no-untyped-def]
    """Read texts as decimals are mostly written, `-12.34`, as unscaled values, pairs of words (low, high), rounded half up.

    False, with `out` unfinished, where a text that `valid` says is there is written in another way, or has more digits than the
    type, which has 18 at most.
    """
    base = np.int64(data.ctypes.data)
    readable = base + len(data)
    for row in range(len(valid)):
        out[2 * row], out[2 * row + 1] = 0, 0
        if not valid[row]:
            continue
        at, end = base + np.int64(offsets[row]), base + np.int64(offsets[row + 1])
        after, digits, power = number_at(at, end, readable)
        if after != end:
            return False
        value, is_found = unscaled_decimal(digits, power, precision, scale)
        if not is_found:
            return False
        if load_8(at) == np.uint64(45):
            value = -value
        out[2 * row], out[2 * row + 1] = value, value >> 63
    return True


@kernel(f"boolean(float64[::1], boolean[::1], {READ_BYTES}, int32[::1])")
def read_plain_doubles_into(out, valid, data, offsets):  # type: ignore[no-untyped-def]
    """As `read_plain_decimals_into`, as the nearest doubles: false, too, for more than 19 digits."""
    base = np.int64(data.ctypes.data)
    readable = base + len(data)
    for row in range(len(valid)):
        out[row] = 0.0
        if not valid[row]:
            continue
        at, end = base + np.int64(offsets[row]), base + np.int64(offsets[row + 1])
        after, digits, power = number_at(at, end, readable)
        if after != end:
            return False
        found, is_sure = rounded_double(digits, power)
        if not is_sure:
            return False
        out[row] = -found if load_8(at) == np.uint64(45) else found
    return True
