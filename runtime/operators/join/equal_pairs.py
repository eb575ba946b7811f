"""Finds the rows of two sides that have equal keys: the core of window and interval joins, over whole batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlstream.runtime.aggregates.numbers import present_rows
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.index import KeyIndex
from sqlstream.runtime.kernels.ordering import argsort_stable_by
from sqlstream.runtime.state.storage.arrays import Array

PAIRS_MAX = 1 << 16
"""Pairs built at once: bounds memory, and the time until a task notices a cancellation, when many rows match many."""

Pairs = Iterator[tuple[Array, Array]]


def equal_pairs(left: list[pa.Array], right: list[pa.Array], rows: tuple[int, int]) -> Pairs:
    """Row numbers (left, right) of all pairs with equal keys, in portions of about PAIRS_MAX. NULL equals nothing.

    `rows` counts the rows of both sides; without key columns every pair is equal. The smaller side is indexed. Within a
    portion, pairs are ordered by left row, then right row; no row of the larger side is in two portions.
    """
    if rows[0] == 0 or rows[1] == 0:
        return
    if rows[0] < rows[1]:
        for small, large in _probe(left, right, rows[0], rows[1]):
            order, _ = argsort_stable_by(small, rows[0])
            yield small[order], large[order]
    else:
        for small, large in _probe(right, left, rows[1], rows[0]):
            yield large, small


def _probe(small: list[pa.Array], large: list[pa.Array], small_rows: int, large_rows: int) -> Pairs:
    """Pairs (small row, large row), ordered by large row, then small row."""
    if not small:
        members = np.arange(small_rows)
        step = max(1, PAIRS_MAX // small_rows)
        for start in range(0, large_rows, step):
            probes = np.arange(start, min(start + step, large_rows))
            yield np.tile(members, len(probes)), np.repeat(probes, small_rows)
        return
    small = [_same_type(s, probe) for s, probe in zip(small, large, strict=True)]
    complete_small = complete_rows(small)
    if complete_small is not None:
        chosen = to_array(pa.int64(), complete_small)
        small = [column.take(chosen) for column in small]
    index = KeyIndex([column.type for column in small])
    slots, _ = index.get_or_insert(small)
    found = index.get(large)
    complete = complete_rows(large)
    hits = np.flatnonzero(found >= 0) if complete is None else complete[found[complete] >= 0]
    for probes, matched in _members(slots, len(index), found[hits]):
        yield matched if complete_small is None else complete_small[matched], hits[probes]


def _members(slots: Array, distinct: int, slots_hit: Array) -> Pairs:
    """(Position in slots_hit, small row) of all matches; `slots` has the slot of each small row."""
    if distinct == len(slots):
        # Every key occurs once, and slots are assigned in order of rows: the slot is the row number.
        yield np.arange(len(slots_hit)), slots_hit
        return
    members, starts = argsort_stable_by(slots, distinct)
    for start, stop in portions(np.diff(starts)[slots_hit]):
        probes, positions = expand(starts, slots_hit[start:stop])
        yield probes + start, members[positions]


def portions(pair_counts: Array) -> Iterator[tuple[int, int]]:
    """Runs [start, stop) of rows with about PAIRS_MAX pairs in total each."""
    pairs = np.cumsum(pair_counts)
    if len(pairs) == 0 or pairs[-1] <= PAIRS_MAX:
        yield 0, len(pairs)
        return
    starts = np.flatnonzero(np.diff(pairs // PAIRS_MAX, prepend=-1)).tolist()
    yield from itertools.pairwise([*starts, len(pairs)])


def _same_type(column: pa.Array, other: pa.Array) -> pa.Array:
    return column if column.type == other.type else column.cast(other.type)


def complete_rows(columns: list[pa.Array]) -> Array | None:
    """Row numbers without a NULL in any column; None when these are all rows."""
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
