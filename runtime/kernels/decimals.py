"""Unscaled decimal values of up to 38 digits: remainders, products, and values read from texts."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import READ_BYTES, inlined, kernel

_ONE, _S1, _S63 = np.uint64(1), np.uint64(1), np.uint64(63)
_POWERS = np.array([10.0**digits for digits in range(16)])
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


@inlined
def _plain_digits(data, at, end, whole_digits, scale):  # type: ignore[no-untyped-def]
    """The digits of a text such as `12.34` as a number, and how many stand behind the point: -1 where it is written in another
    way, or has more before the point or behind it."""
    first, value = at, np.int64(0)
    while at < end and 48 <= data[at] <= 57 and at - first <= whole_digits:
        value = value * 10 + np.int64(data[at] - 48)
        at += 1
    if at == first or at - first > whole_digits:
        return value, np.int64(-1)
    if at == end:
        return value, np.int64(0)
    if data[at] != 46 or at + 1 == end or end - at - 1 > scale:
        return value, np.int64(-1)
    for place in range(at + 1, end):
        if data[place] < 48 or data[place] > 57:
            return value, np.int64(-1)
        value = value * 10 + np.int64(data[place] - 48)
    return value, end - at - 1


@kernel(f"boolean(int64[::1], boolean[::1], {READ_BYTES}, int32[::1], int64, int64)")
def read_plain_decimals_into(out, valid, data, offsets, whole_digits, scale):  # type: ignore[no-untyped-def]
    """Read texts as decimals are mostly written, `-12.34`, as unscaled values, pairs of words (low, high).

    False, with `out` unfinished, where a text that `valid` says is there is written in another way, or has more digits before the
    point, or behind it. `whole_digits` and `scale` are 18 together at most.
    """
    for row in range(len(valid)):
        out[2 * row], out[2 * row + 1] = 0, 0
        if not valid[row]:
            continue
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        is_negative = at < end and data[at] == 45
        value, given = _plain_digits(data, at + is_negative, end, whole_digits, scale)
        if given < 0:
            return False
        for _ in range(scale - given):
            value *= 10
        if is_negative:
            value = -value
        out[2 * row], out[2 * row + 1] = value, value >> 63
    return True


@kernel(f"boolean(float64[::1], boolean[::1], {READ_BYTES}, int32[::1])")
def read_plain_doubles_into(out, valid, data, offsets):  # type: ignore[no-untyped-def]
    """As `read_plain_decimals_into`, as doubles: false, too, for more than 15 digits.

    So many digits, and powers of ten up to 10^22, are doubles without rounding, and their quotient is rounded once.
    """
    for row in range(len(valid)):
        out[row] = 0.0
        if not valid[row]:
            continue
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        is_negative = at < end and data[at] == 45
        value, given = _plain_digits(data, at + is_negative, end, 15, 15)
        if given < 0 or end - at - is_negative > 16:
            return False
        found = np.float64(value) / _POWERS[given]
        out[row] = -found if is_negative else found
    return True
