"""Grouping the rows of one batch: dense group ids in order of first occurrence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numba import njit

from runtime.kernels.hashing import hash_columns
from runtime.kernels.intrinsics import is_same_row
from runtime.kernels.words import RowLayout, WordColumn, plain_array, read_column, zero_nulls

_ONE = np.uint64(1)
_DENSE_RANGE_MIN = 1024
_DENSE_RANGE_RATIO = 8
"""Table entries that a row may cost: one of several subtasks sees the keys of a dense range with gaps."""
_TABLE_SIZE_MIN = 1024


def group(columns: Sequence[pa.Array], hashes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(group_ids int64[n], representatives int64[g]): rows with equal keys have one id, NULLs being equal.

    Ids are 0 … g - 1 in order of first occurrence; representatives[g] is the first row of group g. At least
    one column; `hashes`, where the caller has them, are `hash_columns(columns)`.
    """
    arrays = [plain_array(column) for column in columns]
    if len(arrays) == 1:
        column = read_column(arrays[0])
        if isinstance(column, WordColumn) and column.width == 1:
            return _group_one_word(arrays, column, hashes)
    if hashes is None:
        hashes = hash_columns(arrays)
    layout = RowLayout.of([array.type for array in arrays])
    return _group_rows(layout.pack(arrays, hashes), layout.payloads)


def _group_one_word(
    arrays: list[pa.Array], column: WordColumn, hashes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    words = column.words
    if len(column.bitmap) == 0 and len(words):
        signed = words.view(np.int64)
        least, greatest = extent(signed)
        # Python's integers: the difference of two int64 need not fit one.
        if greatest - least < max(_DENSE_RANGE_MIN, _DENSE_RANGE_RATIO * len(words)):
            return _group_dense(signed, least, greatest)
    if hashes is None:
        hashes = hash_columns(arrays)
    if len(column.bitmap):
        words = zero_nulls(words, column.bitmap, column.bit)
    return _group_words(words, hashes)


@njit("UniTuple(int64, 2)(int64[::1])", nogil=True, cache=True)
def extent(values):  # type: ignore[no-untyped-def]
    """The least and the greatest of at least one value."""
    least = values[0]
    greatest = values[0]
    for i in range(len(values)):
        least = min(least, values[i])
        greatest = max(greatest, values[i])
    return least, greatest


@njit("UniTuple(int64[::1], 2)(int64[::1], int64, int64)", nogil=True, cache=True)
def _group_dense(values, least, greatest):  # type: ignore[no-untyped-def]
    table = np.zeros(greatest - least + 1, np.int32)
    ids = np.empty(len(values), np.int64)
    first = np.empty(min(len(values), len(table)), np.int64)
    count = 0
    for i in range(len(values)):
        place = values[i] - least
        found = table[place]
        if found == 0:
            first[count] = i
            count += 1
            found = np.int32(count)
            table[place] = found
        ids[i] = found - 1
    return ids, first[:count].copy()


@njit(nogil=True)
def _double_table(hashes, first, count, size):  # type: ignore[no-untyped-def]
    table = np.zeros(size, np.int32)
    mask = np.uint64(size - 1)
    for g in range(count):
        place = hashes[first[g]] & mask
        while table[place] != 0:
            place = (place + _ONE) & mask
        table[place] = np.int32(g + 1)
    return table


@njit("UniTuple(int64[::1], 2)(uint64[::1], uint64[::1])", nogil=True, cache=True)
def _group_words(words, hashes):  # type: ignore[no-untyped-def]
    table = np.zeros(_TABLE_SIZE_MIN, np.int32)
    mask = np.uint64(len(table) - 1)
    ids = np.empty(len(words), np.int64)
    first = np.empty(len(words), np.int64)
    count = 0
    for i in range(len(words)):
        place = hashes[i] & mask
        while True:
            found = table[place]
            if found == 0:
                first[count] = i
                count += 1
                table[place] = np.int32(count)
                ids[i] = count - 1
                if 2 * count >= len(table):
                    table = _double_table(hashes, first, count, 4 * len(table))
                    mask = np.uint64(len(table) - 1)
                break
            other = first[found - 1]
            if words[other] == words[i] and hashes[other] == hashes[i]:
                ids[i] = found - 1
                break
            place = (place + _ONE) & mask
    return ids, first[:count].copy()


@njit("UniTuple(int64[::1], 2)(uint64[:, ::1], uint8[::1])", nogil=True, cache=True)
def _group_rows(rows, payloads):  # type: ignore[no-untyped-def]
    hashes = rows[:, 0].copy()
    width = rows.shape[1]
    rows_at, payloads_at = rows.ctypes.data, payloads.ctypes.data
    table = np.zeros(_TABLE_SIZE_MIN, np.int32)
    mask = np.uint64(len(table) - 1)
    ids = np.empty(rows.shape[0], np.int64)
    first = np.empty(rows.shape[0], np.int64)
    count = 0
    for i in range(rows.shape[0]):
        place = hashes[i] & mask
        while True:
            found = table[place]
            if found == 0:
                first[count] = i
                count += 1
                table[place] = np.int32(count)
                ids[i] = count - 1
                if 2 * count >= len(table):
                    table = _double_table(hashes, first, count, 4 * len(table))
                    mask = np.uint64(len(table) - 1)
                break
            other = rows_at + first[found - 1] * width * 8
            if is_same_row(rows_at + i * width * 8, other, 0, payloads_at, width):
                ids[i] = found - 1
                break
            place = (place + _ONE) & mask
    return ids, first[:count].copy()
