"""Groups the rows of one batch: dense group ids in order of first occurrence."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import valid_mask
from sqlstream.runtime.kernels.intrinsics import equal_bytes, is_same_row
from sqlstream.runtime.kernels.keys.hashing import hash_columns
from sqlstream.runtime.kernels.keys.words import (
    BytesColumn,
    RowLayout,
    WordColumn,
    has_one_value,
    plain_array,
    read_column,
    zero_nulls,
)
from sqlstream.runtime.native.kernel import inlined, kernel

_ONE = np.uint64(1)
_DENSE_RANGE_MIN = 1024
_DENSE_RANGE_RATIO = 8
"""Table entries allowed per row: each of several subtasks receives the keys of a dense range with gaps."""
_REPEATED_RATIO = 2
_TABLE_SIZE_MIN = 1024


def group(columns: Sequence[pa.Array], hashes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(group_ids int64[n], representatives int64[g]): rows with equal keys have one id, NULLs being equal.

    Ids are 0 … g - 1 in order of first occurrence; representatives[g] is the first row of group g. At least
    one column; `hashes`, where the caller has them, are `hash_columns(columns)`.
    """
    arrays = _distinguishing([plain_array(column) for column in columns])
    if len(arrays) == 1:
        column = read_column(arrays[0])
        if isinstance(column, WordColumn) and column.width == 1:
            # Words tell NULL from all values but 0, and its own hashes from 0: those of all columns need not.
            is_own = len(columns) == 1 or len(column.bitmap) == 0
            return _group_one_word(arrays, column, hashes if is_own else None)
        if isinstance(column, BytesColumn) and len(column.bitmap) == 0:
            hashes = hash_columns(arrays) if hashes is None else hashes
            group_into = functools.partial(_group_bytes_into, column.offsets, column.address, hashes)
            return _group_hashed(group_into, len(hashes))
    if hashes is None:
        hashes = hash_columns(arrays)
    layout = RowLayout.of([array.type for array in arrays])
    rows = layout.pack(arrays, hashes)
    return _group_hashed(functools.partial(_group_rows_into, rows, hashes, layout.payloads), len(rows))


def _distinguishing(arrays: list[pa.Array]) -> list[pa.Array]:
    """Without the columns that have one value in all rows, such as the day of a batch; at least one."""
    if len(arrays) == 1 or len(arrays[0]) == 0:
        return arrays
    return [array for array in arrays if not has_one_value(array)] or arrays[:1]


def group_repeated(columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray] | None:
    """As `group`, of one column of whole numbers most of which must repeat, because few lie between the least and the greatest.
    Else None, which takes a small part of the time of `group`."""
    if len(columns) != 1:
        return None
    column = read_column(plain_array(columns[0]))
    if not isinstance(column, WordColumn) or column.width != 1 or len(column.bitmap) or not len(column.words):
        return None
    values = column.words.view(np.int64)
    least, greatest = extent(values)
    if _REPEATED_RATIO * (greatest - least + 1) > len(values):
        return None
    return _group_dense(values, least, greatest)


def group_numbers(numbers: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """As `group`, of int32 or int64 from 0 to `count` - 1."""
    return _group_dense(numbers, 0, count - 1)


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
    return _group_hashed(functools.partial(_group_words_into, words, hashes), len(words))


@kernel("UniTuple(int64, 2)(int64[::1])")
def extent(values):  # type: ignore[no-untyped-def]
    """The least and the greatest of at least one value."""
    least = values[0]
    greatest = values[0]
    for i in range(len(values)):
        least = min(least, values[i])
        greatest = max(greatest, values[i])
    return least, greatest


def _group_dense(values: np.ndarray, least: int, greatest: int) -> tuple[np.ndarray, np.ndarray]:
    table = np.zeros(greatest - least + 1, dtype=np.int32)
    ids = np.empty(len(values), dtype=np.int64)
    first = np.empty(min(len(values), len(table)), dtype=np.int64)
    count = _group_dense_into(values, least, table, ids, first)
    return ids, first[:count].copy()


_GROUP_DENSE = "int64({}[::1], int64, int32[::1], int64[::1], int64[::1])"


@kernel(_GROUP_DENSE.format("int64"), _GROUP_DENSE.format("int32"))
def _group_dense_into(values, least, table, ids, first):  # type: ignore[no-untyped-def]
    """`table`, one entry per value from `least` on, must be zeros; returns the number of groups."""
    count = 0
    for i in range(len(values)):
        # Unsigned, as it is not from the end: the compiler need not look.
        place = np.uint64(values[i] - least)
        found = table[place]
        if found == 0:
            first[np.uint64(count)] = i
            count += 1
            found = np.int32(count)
            table[place] = found
        ids[i] = found - 1
    return count


def _group_hashed(group_into: Callable[..., tuple[int, int]], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Run a kernel that stops when its table is half full, again with larger tables until all rows are done."""
    ids = np.empty(rows, dtype=np.int64)
    first = np.empty(rows, dtype=np.int64)
    done, count, size = 0, 0, _TABLE_SIZE_MIN
    while done < rows:
        done, count = group_into(np.zeros(size, dtype=np.int32), ids, first, done, count)
        size *= 4
    return ids, first[:count].copy()


@inlined
def _enter_groups(table, mask, hashes, first, count):  # type: ignore[no-untyped-def]
    for g in range(count):
        place = hashes[first[g]] & mask
        while table[place] != 0:
            place = (place + _ONE) & mask
        table[place] = np.int32(g + 1)


@kernel("UniTuple(int64, 2)(uint64[::1], uint64[::1], int32[::1], int64[::1], int64[::1], int64, int64)")
def _group_words_into(words, hashes, table, ids, first, done, count):  # type: ignore[no-untyped-def]
    """Group rows from `done` on, before which there are `count` groups, with an empty table.

    Returns (rows done, groups): when the table is half full not all rows are done.
    """
    mask = np.uint64(len(table) - 1)
    _enter_groups(table, mask, hashes, first, count)
    for i in range(done, len(words)):
        place = hashes[i] & mask
        while True:
            found = table[place]
            if found == 0:
                first[count] = i
                count += 1
                table[place] = np.int32(count)
                ids[i] = count - 1
                if 2 * count >= len(table):
                    return i + 1, count
                break
            other = first[found - 1]
            if words[other] == words[i] and hashes[other] == hashes[i]:
                ids[i] = found - 1
                break
            place = (place + _ONE) & mask
    return len(words), count


@kernel(
    "UniTuple(int64, 2)(uint64[:, ::1], uint64[::1], uint8[::1], int32[::1], int64[::1], int64[::1], int64, int64)"
)
def _group_rows_into(rows, hashes, payloads, table, ids, first, done, count):  # type: ignore[no-untyped-def]
    """As `_group_words_into` for rows of words."""
    width = rows.shape[1]
    rows_at, payloads_at = rows.ctypes.data, payloads.ctypes.data
    mask = np.uint64(len(table) - 1)
    _enter_groups(table, mask, hashes, first, count)
    for i in range(done, rows.shape[0]):
        place = hashes[i] & mask
        while True:
            found = table[place]
            if found == 0:
                first[count] = i
                count += 1
                table[place] = np.int32(count)
                ids[i] = count - 1
                if 2 * count >= len(table):
                    return i + 1, count
                break
            other = rows_at + first[found - 1] * width * 8
            if is_same_row(rows_at + i * width * 8, other, 0, payloads_at, width):
                ids[i] = found - 1
                break
            place = (place + _ONE) & mask
    return rows.shape[0], count


_GROUP_BYTES = (
    "UniTuple(int64, 2)({}[::1], int64, uint64[::1], int32[::1], int64[::1], int64[::1], int64, int64)"
)


@kernel(_GROUP_BYTES.format("int32"), _GROUP_BYTES.format("int64"))
def _group_bytes_into(offsets, address, hashes, table, ids, first, done, count):  # type: ignore[no-untyped-def]
    """As `_group_words_into` for one column of bytes."""
    mask = np.uint64(len(table) - 1)
    _enter_groups(table, mask, hashes, first, count)
    for i in range(done, len(hashes)):
        place = hashes[i] & mask
        start = np.int64(offsets[i])
        length = np.int64(offsets[i + 1]) - start
        while True:
            found = table[place]
            if found == 0:
                first[count] = i
                count += 1
                table[place] = np.int32(count)
                ids[i] = count - 1
                if 2 * count >= len(table):
                    return i + 1, count
                break
            other = first[found - 1]
            if hashes[other] == hashes[i]:
                begin = np.int64(offsets[other])
                is_as_long = np.int64(offsets[other + 1]) - begin == length
                if is_as_long and equal_bytes(address + begin, address + start, length):
                    ids[i] = found - 1
                    break
            place = (place + _ONE) & mask
    return len(hashes), count


# Finds where neighbouring rows differ.


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
