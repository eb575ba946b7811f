"""Hashes of key columns that accompany a batch, so that they are computed once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa


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
