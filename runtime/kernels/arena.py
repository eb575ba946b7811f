"""Bytes of variable-width keys: counts them for a batch, copies them out as Arrow buffers, and moves them for compaction."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.errors import InternalError
from sqlstream.runtime.kernels.intrinsics import IN_ARENA, copy_bytes, store_8
from sqlstream.runtime.native.kernel import kernel

_EIGHT = np.uint64(8)
_INT32_MAX = 2**31 - 1


def copy_out(
    rows: np.ndarray, place: int, arena: np.ndarray, data_type: pa.DataType
) -> tuple[np.ndarray, np.ndarray]:
    """(offsets, bytes) of the variable-width key whose length is word `place` of each row."""
    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(rows[:, place].view(np.int64), out=offsets[1:])
    data = np.empty(int(offsets[-1]), dtype=np.uint8)
    _copy_out(rows, place, arena, offsets, data)
    if pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type):
        return offsets, data
    if len(data) > _INT32_MAX:
        raise InternalError(f"{len(data)} bytes of keys do not fit one array of type {data_type}")
    return offsets.astype(np.int32), data


@kernel("int64(uint64[:, ::1], uint8[::1])")
def arena_bytes(rows, payloads):  # type: ignore[no-untyped-def]
    """The number of bytes of packed rows that are outside of the rows themselves."""
    total = np.int64(0)
    for w in range(len(payloads)):
        if payloads[w] != 0:
            for i in range(rows.shape[0]):
                if rows[i, w - 1] > _EIGHT:
                    total += np.int64(rows[i, w - 1])
    return total


@kernel("void(uint64[:, ::1], int64, uint8[::1], int64[::1], uint8[::1])")
def _copy_out(rows, place, arena, offsets, data):  # type: ignore[no-untyped-def]
    source = np.int64(arena.ctypes.data)
    target = np.int64(data.ctypes.data)
    for i in range(rows.shape[0]):
        length = offsets[i + 1] - offsets[i]
        word = rows[i, place + 1]
        if length > 8:
            copy_bytes(target + offsets[i], source + np.int64(word & ~IN_ARENA), length)
        else:
            for at in range(length):
                store_8(target + offsets[i] + at, word >> np.uint64(8 * at))


@kernel("int64(uint64[:, ::1], int64[::1], uint8[::1], uint8[::1], uint8[::1])")
def move_into(rows, live, payloads, arena, target):  # type: ignore[no-untyped-def]
    """Move the bytes of live rows to another arena and point the rows there; returns the bytes moved."""
    source_address = np.int64(arena.ctypes.data)
    target_address = np.int64(target.ctypes.data)
    used = np.int64(0)
    for i in range(len(live)):
        slot = live[i]
        for w in range(len(payloads)):
            if payloads[w] != 0 and rows[slot, w - 1] > _EIGHT:
                length = np.int64(rows[slot, w - 1])
                copy_bytes(
                    target_address + used, source_address + np.int64(rows[slot, w] & ~IN_ARENA), length
                )
                rows[slot, w] = np.uint64(used) | IN_ARENA
                used += length
    return used
