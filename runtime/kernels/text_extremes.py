"""The least or greatest text of each group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import view_offsets
from sqlstream.runtime.kernels.intrinsics import load_8
from sqlstream.runtime.native.kernel import inlined, kernel


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
