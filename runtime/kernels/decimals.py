"""Products of unscaled decimal values."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import kernel

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
