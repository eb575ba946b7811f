"""Which rows of two sides have equal keys: the core of every join, over whole batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.index import KeyIndex
from runtime.operators.aggregates.accumulator import Array
from runtime.operators.aggregates.numbers import present_rows


def equal_pairs(left: list[pa.Array], right: list[pa.Array], rows: tuple[int, int]) -> tuple[Array, Array]:
    """Row numbers (left, right) of all pairs with equal keys, by left row, then right row. NULL equals nothing.

    `rows` counts the rows of both sides; without key columns every pair is equal. The smaller side is indexed.
    """
    if not left:
        return np.repeat(np.arange(rows[0]), rows[1]), np.tile(np.arange(rows[1]), rows[0])
    if rows[0] == 0 or rows[1] == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if rows[0] < rows[1]:
        small, large = _probe(left, right)
        order = np.lexsort((large, small))
        return small[order], large[order]
    small, large = _probe(right, left)
    return large, small


def _probe(small: list[pa.Array], large: list[pa.Array]) -> tuple[Array, Array]:
    """Pairs (small row, large row), by large row."""
    small = [_same_type(s, probe) for s, probe in zip(small, large, strict=True)]
    small_rows = _complete_rows(small)
    if len(small_rows) < len(small[0]):
        small = [column.take(pa.array(small_rows)) for column in small]
    index = KeyIndex([column.type for column in small])
    slots, _ = index.get_or_insert(small)
    starts, members = rows_by_slot(slots, len(index))
    found = index.get(large)
    nulls = np.ones(len(found), dtype=bool)
    nulls[_complete_rows(large)] = False
    found[nulls] = -1
    hits = np.flatnonzero(found >= 0)
    matched, positions = expand(starts, found[hits])
    return small_rows[members[positions]], hits[matched]


def _same_type(column: pa.Array, other: pa.Array) -> pa.Array:
    return column if column.type == other.type else column.cast(other.type)


def _complete_rows(columns: list[pa.Array]) -> Array:
    """Rows in which no column is NULL."""
    complete = np.ones(len(columns[0]), dtype=bool)
    for column in columns:
        if column.null_count:
            complete &= present_rows(column)
    return np.flatnonzero(complete)


def rows_by_slot(slots: Array, count: int) -> tuple[Array, Array]:
    """Rows in slot order: `starts` int64[count + 1] and `members` int64[n], stable within a slot."""
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(slots, minlength=count), out=starts[1:])
    return starts, np.argsort(slots, kind="stable")


def expand(starts: Array, slots: Array) -> tuple[Array, Array]:
    """All (probe, member position) pairs of probes into groups `starts[slot] … starts[slot + 1]`, by probe."""
    counts = starts[slots + 1] - starts[slots]
    probes = np.repeat(np.arange(len(slots)), counts)
    within = np.arange(len(probes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return probes, starts[slots][probes] + within
