"""The random numbers of java.util.Random: what RAND and RAND_INTEGER with a seed return in Flink."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import inlined, kernel

_MULTIPLIER, _ADDEND, _MASK = np.uint64(0x5DEECE66D), np.uint64(0xB), np.uint64((1 << 48) - 1)
_SHIFT_26, _SHIFT_27, _SHIFT_31 = np.uint64(22), np.uint64(21), np.uint64(17)
_UNIT = 1.0 / (1 << 53)


@inlined
def _next(state):  # type: ignore[no-untyped-def]
    return (state * _MULTIPLIER + _ADDEND) & _MASK


@inlined
def _scrambled(seed):  # type: ignore[no-untyped-def]
    return (np.uint64(seed) ^ _MULTIPLIER) & _MASK


@kernel("void(uint64[::1], int32[::1], boolean, float64[::1])")
def doubles_into(state, seeds, is_running, out):  # type: ignore[no-untyped-def]
    """One number of at least 0 and below 1 per row: the first of each row's seed, or, where `is_running`, the next ones of the
    generator whose state is `state[0]`, which is advanced."""
    running = state[0]
    for i in range(len(out)):
        current = running if is_running else _scrambled(np.int64(seeds[i]))
        current = _next(current)
        high = current >> _SHIFT_26
        current = _next(current)
        low = current >> _SHIFT_27
        out[i] = ((np.int64(high) << 27) + np.int64(low)) * _UNIT
        if is_running:
            running = current
    state[0] = running


@kernel("void(uint64[::1], int32[::1], boolean, int32[::1], int32[::1])")
def integers_into(state, seeds, is_running, bounds, out):  # type: ignore[no-untyped-def]
    """As `doubles_into`, whole numbers of at least 0 and below each row's bound, which is above 0."""
    running = state[0]
    for i in range(len(out)):
        current = running if is_running else _scrambled(np.int64(seeds[i]))
        bound = np.int64(bounds[i])
        current = _next(current)
        drawn = np.int64(current >> _SHIFT_31)
        if bound & (bound - 1) == 0:
            value = (bound * drawn) >> 31
        else:
            value = drawn % bound
            # Numbers of the last, incomplete span of `bound` would be more frequent.
            while drawn - value + bound - 1 > 2147483647:
                current = _next(current)
                drawn = np.int64(current >> _SHIFT_31)
                value = drawn % bound
        out[i] = value
        if is_running:
            running = current
    state[0] = running
