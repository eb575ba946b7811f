"""Finds where neighbouring rows differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import valid_mask
from sqlstream.runtime.kernels.intrinsics import equal_bytes
from sqlstream.runtime.kernels.words import BytesColumn, plain_array, read_column
from sqlstream.runtime.native.kernel import kernel


def run_starts(columns: Sequence[pa.Array]) -> np.ndarray:
    """int64: the first rows of runs of rows that agree in all columns, bit by bit. Two runs that follow one another may agree
    nonetheless. The columns have at least one row, and types that keys can have.

    >>> run_starts([pa.array(["a", "a", None, None]), pa.array([1, 1, 1, 2])]).tolist()
    [0, 2, 3]
    """
    arrays = [plain_array(column) for column in columns]
    differs = np.zeros(len(arrays[0]), dtype=np.bool_)
    differs[0] = True
    for array in arrays:
        if pa.types.is_floating(array.type):
            # As bits: 0.0 and -0.0 are not the same here.
            array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
        column = read_column(array)
        if isinstance(column, BytesColumn):
            _compare_bytes(column.offsets.astype(np.int64, copy=False), column.address, differs)
        else:
            for part in range(column.width):
                words = column.words[part :: column.width]
                differs[1:] |= words[1:] != words[:-1]
        valid = valid_mask(array)
        if valid is not None:
            differs[1:] |= valid[1:] != valid[:-1]
    return np.flatnonzero(differs)


@kernel("void(int64[::1], int64, boolean[::1])")
def _compare_bytes(offsets, address, differs):  # type: ignore[no-untyped-def]
    """Mark the rows whose bytes are not those of the row before."""
    for row in range(1, len(differs)):
        before, start, end = offsets[row - 1], offsets[row], offsets[row + 1]
        length = end - start
        if length != start - before or not equal_bytes(address + before, address + start, length):
            differs[row] = True
