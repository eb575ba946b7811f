"""numpy arrays that grow: the memory behind slots."""

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
