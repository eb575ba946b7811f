"""Which rows of two sides have equal keys: the core of every join, over whole batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array
from runtime.kernels.index import KeyIndex
from runtime.kernels.ordering import argsort_stable_by
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
        order, _ = argsort_stable_by(small, rows[0])
        return small[order], large[order]
    small, large = _probe(right, left)
    return large, small


def _probe(small: list[pa.Array], large: list[pa.Array]) -> tuple[Array, Array]:
    """Pairs (small row, large row), by large row, then small row."""
    small = [_same_type(s, probe) for s, probe in zip(small, large, strict=True)]
    small_rows = complete_rows(small)
    if small_rows is not None:
        chosen = to_array(pa.int64(), small_rows)
        small = [column.take(chosen) for column in small]
    index = KeyIndex([column.type for column in small])
    slots, _ = index.get_or_insert(small)
    found = index.get(large)
    complete = complete_rows(large)
    hits = np.flatnonzero(found >= 0) if complete is None else complete[found[complete] >= 0]
    slots_hit = found[hits]
    if len(index) == len(slots):
        # Every key once: slots are given in order of rows, so the slot is the row.
        matched = slots_hit
    else:
        members, starts = argsort_stable_by(slots, len(index))
        probes, positions = expand(starts, slots_hit)
        hits, matched = hits[probes], members[positions]
    return matched if small_rows is None else small_rows[matched], hits


def _same_type(column: pa.Array, other: pa.Array) -> pa.Array:
    return column if column.type == other.type else column.cast(other.type)


def complete_rows(columns: list[pa.Array]) -> Array | None:
    """Rows in which no column is NULL; None when those are all."""
    if not any(column.null_count for column in columns):
        return None
    complete = np.ones(len(columns[0]), dtype=bool)
    for column in columns:
        if column.null_count:
            complete &= present_rows(column)
    return np.flatnonzero(complete)


def expand(starts: Array, slots: Array) -> tuple[Array, Array]:
    """All (probe, member position) pairs of probes into groups `starts[slot] … starts[slot + 1]`, by probe."""
    counts = starts[slots + 1] - starts[slots]
    probes = np.repeat(np.arange(len(slots)), counts)
    within = np.arange(len(probes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return probes, starts[slots][probes] + within
