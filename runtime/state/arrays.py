"""numpy arrays by slot: they grow, and values are picked out of them."""

from __future__ import annotations

from typing import Any

import numpy as np

_CAPACITY_MIN = 16

Array = np.ndarray[Any, Any]


def grown(array: Array, capacity: int, fill: Any = 0) -> Array:
    """`array` with at least `capacity` items along its first axis, doubling so that growth costs amortised O(1) an item."""
    if len(array) >= capacity:
        return array
    larger = np.full(
        (max(capacity, 2 * len(array), _CAPACITY_MIN), *array.shape[1:]), fill, dtype=array.dtype
    )
    larger[: len(array)] = array
    return larger


class _Numbers:
    """0, 1, 2, … as far as anybody has asked for."""

    values: Array = np.arange(1 << 16)


def first_slots(count: int) -> Array:
    """int64[count]: the slots 0 … count - 1, which `picked` knows at sight. Not to be written to."""
    numbers = _Numbers.values
    if count > len(numbers):
        # Another thread may put its own in place, and a shorter one: `picked` copies then.
        numbers = _Numbers.values = np.arange(2 * count)
    return numbers[:count]


def picked(array: Array, slots: Array) -> Array:
    """`array[slots]`, without a copy when these are `first_slots`: for arrays that nobody writes to afterwards."""
    numbers = _Numbers.values
    if slots.base is numbers and slots.strides == numbers.strides and len(slots) and slots[0] == 0:
        return array[: len(slots)]
    return array[slots]
