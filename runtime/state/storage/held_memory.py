"""What a column keeps in memory: the buffers behind it, which may hold many more rows than its own."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array

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
