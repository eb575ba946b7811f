"""The stable 64-bit hash of key columns, and the key groups of hashes (Flink: KeyGroupRangeAssignment).

The hash is part of the snapshot format: a changed bit would send restored state to the wrong subtask.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.intrinsics import NULL_HASH, combine, hash_bytes, hash_word, is_set
from sqlstream.runtime.kernels.keys.words import BytesColumn, has_one_value, plain_array, read_column
from sqlstream.runtime.native.kernel import kernel

_ROWS_MIN = 64
"""Rows from where it pays to find out whether a text is the same in all of them."""


def hash_columns(columns: Sequence[pa.Array]) -> np.ndarray:
    """uint64[n]: one hash per row over key columns of equal length, in this order; at least one column.

    Equal SQL values hash equal whatever the batch, the slice, the integer width and the encoding (dictionary
    or plain). NULL is a value like another. Raises UserError SS3090 for a type that cannot be a key.
    """
    known = known_hashes(columns)
    if known is not None:
        return known
    out = np.empty(len(columns[0]), dtype=np.uint64)
    for number, array in enumerate(columns):
        _hash_into(array, out, number > 0)
    return out


def _hash_into(array: pa.Array, out: np.ndarray, is_combined: bool) -> None:
    if isinstance(array, pa.DictionaryArray):
        hashes = _hash_dictionary(array)
        if is_combined:
            _combine_into(hashes, out)
        else:
            out[:] = hashes
        return
    array = plain_array(array)
    column = read_column(array)
    if isinstance(column, BytesColumn):
        if is_combined and len(out) >= _ROWS_MIN and has_one_value(array):
            _combine_one_into(out, int(hash_columns([array.slice(0, 1)])[0]))
            return
        _hash_bytes_into(column.offsets, column.address, column.bitmap, column.bit, out, is_combined)
    elif column.width == 2:
        _hash_wide_into(column.words, column.bitmap, column.bit, out, is_combined)
    else:
        hash_words_into(column.words, column.bitmap, column.bit, out, is_combined)


def _hash_dictionary(array: pa.DictionaryArray) -> np.ndarray:
    """Hash each entry once and look the rows up; the entry after the last is NULL."""
    entries = np.empty(len(array.dictionary) + 1, dtype=np.uint64)
    entries[-1] = NULL_HASH
    if len(array.dictionary):
        entries[:-1] = hash_columns([array.dictionary])
    indices = array.indices
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(len(array.dictionary))
    hashes: np.ndarray = entries[indices.to_numpy(zero_copy_only=False)]
    return hashes


@kernel("void(uint64[::1], uint8[::1], int64, uint64[::1], boolean)")
def hash_words_into(words, bitmap, bit, out, is_combined):  # type: ignore[no-untyped-def]
    """Hash one-word values; with `is_combined` onto the hash that stands in `out`."""
    if len(bitmap) == 0:
        if is_combined:
            for i in range(len(words)):
                out[i] = combine(out[i], hash_word(words[i]))
        else:
            for i in range(len(words)):
                out[i] = hash_word(words[i])
    else:
        for i in range(len(words)):
            value = hash_word(words[i]) if is_set(bitmap, bit + i) else NULL_HASH
            out[i] = combine(out[i], value) if is_combined else value


@kernel("void(uint64[::1], uint8[::1], int64, uint64[::1], boolean)")
def _hash_wide_into(words, bitmap, bit, out, is_combined):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        value = NULL_HASH
        if len(bitmap) == 0 or is_set(bitmap, bit + i):
            value = combine(hash_word(words[2 * i]), hash_word(words[2 * i + 1]))
        out[i] = combine(out[i], value) if is_combined else value


_HASH_BYTES = "void({}[::1], int64, uint8[::1], int64, uint64[::1], boolean)"


@kernel(_HASH_BYTES.format("int32"), _HASH_BYTES.format("int64"))
def _hash_bytes_into(offsets, address, bitmap, bit, out, is_combined):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        value = NULL_HASH
        if len(bitmap) == 0 or is_set(bitmap, bit + i):
            start = np.int64(offsets[i])
            value = hash_bytes(address + start, np.int64(offsets[i + 1]) - start)
        out[i] = combine(out[i], value) if is_combined else value


@kernel("void(uint64[::1], uint64[::1])")
def _combine_into(hashes, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = combine(out[i], hashes[i])


@kernel("void(uint64[::1], uint64)")
def _combine_one_into(out, hashed):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = combine(out[i], hashed)


@kernel("void(uint64[::1], uint64, int32[::1])")
def _key_groups_into(hashes, max_parallelism, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = np.int32(((hashes[i] >> np.uint64(32)) * max_parallelism) >> np.uint64(32))


def key_groups(hashes: np.ndarray, max_parallelism: int) -> np.ndarray:
    """int32[n]: the key group, 0 … max_parallelism - 1, of each hash. It depends on the high half of the hash; hash tables
    place keys by the low half, so a subtask's keys are still spread over its table.
    """
    out = np.empty(len(hashes), dtype=np.int32)
    _key_groups_into(hashes, np.uint64(max_parallelism), out)
    return out


# Hashes of key columns that accompany a batch, so that they are computed once.


class KeyHashes:
    """The hashes of some columns of a batch, which the batch keeps alive and nobody changes."""

    __slots__ = ("_columns", "values")

    def __init__(self, columns: Sequence[pa.Array], values: np.ndarray) -> None:
        """`values` are `hash_columns(columns)`."""
        self._columns = tuple(columns)
        self.values = values

    def are_of(self, columns: Sequence[pa.Array]) -> bool:
        """Whether these columns are the same memory, and so have these hashes."""
        return len(columns) == len(self._columns) and all(map(_is_same, columns, self._columns))


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    return (
        len(one) == len(other)
        and one.offset == other.offset
        and one.type == other.type
        and not isinstance(one, pa.DictionaryArray | pa.ExtensionArray)
        and _addresses(one) == _addresses(other)
    )


def _addresses(array: pa.Array) -> list[int]:
    return [0 if buffer is None else buffer.address for buffer in array.buffers()]


_THREAD = threading.local()


@contextmanager
def known(hashes: KeyHashes) -> Iterator[None]:
    """While a task's thread works on a batch: `hash_columns` of the key columns takes these hashes."""
    _THREAD.hashes = hashes
    try:
        yield
    finally:
        _THREAD.hashes = None


def known_hashes(columns: Sequence[pa.Array]) -> np.ndarray | None:
    """The hashes of these columns, where this thread knows them."""
    hashes: KeyHashes | None = getattr(_THREAD, "hashes", None)
    return hashes.values if hashes is not None and hashes.are_of(columns) else None
