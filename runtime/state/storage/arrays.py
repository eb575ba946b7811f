"""numpy arrays indexed by slot: growth, and selection by slots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.memory.array_memory import ArrayMemory

_CAPACITY_MIN = 16

Array = np.ndarray[Any, Any]


def grown(array: Array, capacity: int, fill: Any = 0, memory: ArrayMemory | None = None) -> Array:
    """`array` with at least `capacity` items along its first axis; doubling makes growth amortised O(1) per item. The larger
    array is in `memory`, or that of the process."""
    if len(array) >= capacity:
        return array
    shape = (max(capacity, 2 * len(array), _CAPACITY_MIN), *array.shape[1:])
    if memory is None:
        larger = np.full(shape, fill, dtype=array.dtype)
    else:
        larger = memory.empty(math.prod(shape), array.dtype).reshape(shape)
        larger[len(array) :] = fill
    larger[: len(array)] = array
    return larger


def distinct(values: Array) -> Array:
    """The different values, ascending. numpy's own function hashes, which takes several times as long.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    if not len(values) or values.min() == values.max():
        return values[:1]
    ordered = np.sort(values)
    is_first = np.empty(len(ordered), dtype=bool)
    is_first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


class _Numbers:
    """The array 0, 1, 2, … that every result of `first_slots` is a view of."""

    values: Array = np.arange(1 << 16)


def first_slots(count: int) -> Array:
    """int64[count]: the slots 0 … count - 1, as a shared view that `picked` recognises. Do not write to it."""
    numbers = _Numbers.values
    if count > len(numbers):
        # Another thread may replace it at the same time, even by a shorter one: `picked` then copies, which is correct too.
        numbers = _Numbers.values = np.arange(2 * count)
    return numbers[:count]


def picked(array: Array, slots: Array) -> Array:
    """`array[slots]`, as a view when `slots` come from `first_slots`: only for arrays that are not changed afterwards."""
    numbers = _Numbers.values
    if slots.base is numbers and slots.strides == numbers.strides and len(slots) and slots[0] == 0:
        return array[: len(slots)]
    # Twice as fast as an index of the same slots.
    return array.take(slots, axis=0)


_PINNED_BYTES_RATIO = 1.25
_PINNED_BYTES_MIN = 4_096
"""Memory that a kept column may keep from being freed: a multiple of its own rows' bytes, and a little more."""


def self_contained(columns: Iterable[pa.Array]) -> list[pa.Array]:
    """The columns; those whose buffers hold much more than their rows, as slices that `partition` made, are copied."""
    return [
        column
        if column.get_total_buffer_size() <= _PINNED_BYTES_RATIO * column.nbytes + _PINNED_BYTES_MIN
        else column.take(to_array(pa.int64(), np.arange(len(column))))
        for column in columns
    ]


def held_bytes(columns: Iterable[pa.Array]) -> int:
    """The bytes of all buffers behind the columns, each buffer once."""
    sizes = {
        buffer.address: buffer.size for column in columns for buffer in column.buffers() if buffer is not None
    }
    return sum(sizes.values())


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that occur before: columns of a plan may share a name, those of a table may not."""
    found: dict[str, None] = {}
    for name in names:
        number, candidate = 1, name
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
        found[candidate] = None
    return list(found)
