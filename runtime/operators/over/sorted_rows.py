"""Rows sorted by partition and order, with their peers."""

from __future__ import annotations

import dataclasses
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.expressions import SortKey
from sqlstream.runtime.kernels.group import group
from sqlstream.runtime.state.storage.arrays import Array


@dataclasses.dataclass(frozen=True)
class SortedRows:
    """Rows of `count` partitions, numbered without gaps by `partitions` (int64[n], ascending), in order within each.

    `order` are the columns that they are sorted by; rows that are equal in all of them are peers. With `is_by_arrival` no row
    has a peer. `prior` are the accumulators of the rows before these, by call and partition (see FramedCalls).
    """

    batch: pa.RecordBatch
    partitions: Array
    count: int
    order: tuple[SortKey, ...]
    is_by_arrival: bool = False

    def __len__(self) -> int:
        return self.batch.num_rows

    @cached_property
    def numbers(self) -> Array:
        return np.arange(len(self))

    @cached_property
    def starts(self) -> Array:
        """int64[count]: the first row of each partition."""
        return np.searchsorted(self.partitions, np.arange(self.count)).astype(np.int64)

    @cached_property
    def sizes(self) -> Array:
        """int64[n]: the number of rows of each row's partition."""
        return self.last - self.first

    @cached_property
    def first(self) -> Array:
        """int64[n]: the first row of each row's partition."""
        return self.starts[self.partitions]

    @cached_property
    def last(self) -> Array:
        """int64[n]: the end of each row's partition, exclusive."""
        return np.append(self.starts[1:], len(self)).astype(np.int64)[self.partitions]

    @cached_property
    def begins_peers(self) -> Array:
        """bool[n]: whether a row differs from the one before it."""
        begins = np.ones(len(self), dtype=bool)
        if self.is_by_arrival or len(self) == 0:
            return begins
        begins[1:] = self.partitions[1:] != self.partitions[:-1]
        for key in self.order:
            values, _ = group([self.batch.column(key.column)])
            begins[1:] |= values[1:] != values[:-1]
        return begins

    @cached_property
    def peer_numbers(self) -> Array:
        return np.cumsum(self.begins_peers) - 1

    @cached_property
    def peer_first(self) -> Array:
        """int64[n]: the first peer of each row."""
        return np.flatnonzero(self.begins_peers)[self.peer_numbers]

    @cached_property
    def peer_last(self) -> Array:
        """int64[n]: the end of each row's peers, exclusive."""
        ends = np.append(np.flatnonzero(self.begins_peers)[1:], len(self))
        return ends[self.peer_numbers]
