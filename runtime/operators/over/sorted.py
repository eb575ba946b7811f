"""Rows sorted by partition and order: their peers, ranks and neighbours, and the bounds of their frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.expressions import SortKey
from sqlstream.runtime.aggregates.numbers import present_rows
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.frames import bounds_by_value
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.over import Frame, OverCall


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


def ranking(call: OverCall, rows: SortedRows, prior: Array | None) -> Array:
    """A number per row. `prior`, by partition: how many rows (DENSE_RANK: different rows) there were before these."""
    earlier = 0 if prior is None else prior[rows.partitions]
    match call.function:
        case "ROW_NUMBER":
            return rows.numbers - rows.first + 1 + earlier
        case "RANK":
            return rows.peer_first - rows.first + 1 + earlier
        case "DENSE_RANK":
            return rows.peer_numbers - rows.peer_numbers[rows.first] + 1 + earlier
        case "NTILE":
            return _bucket(rows, call.number)
        case "CUME_DIST":
            return (rows.peer_last - rows.first) / rows.sizes
    return (rows.peer_first - rows.first) / np.maximum(rows.sizes - 1, 1)


def _bucket(rows: SortedRows, buckets: int) -> Array:
    """The first buckets have one row more when the rows do not divide evenly."""
    place = rows.numbers - rows.first
    size, larger = rows.sizes // buckets, rows.sizes % buckets
    in_larger = larger * (size + 1)
    of_larger = place // (size + 1)
    of_others = larger + (place - in_larger) // np.maximum(size, 1)
    return np.where(place < in_larger, of_larger, of_others) + 1


def lag_or_lead(call: OverCall, rows: SortedRows) -> pa.Array:
    """The value `number` rows before or after; the default of the row itself where there is none."""
    values, n = rows.batch.column(call.args[0]), len(rows)
    step = -call.number if call.function == "LAG" else call.number
    if call.skips_nulls and step:
        found = _over_nulls(values, step)
    else:
        found = rows.numbers + step
    is_there = (found >= rows.first) & (found < rows.last)
    if len(call.args) == 1:
        return taken(values, np.where(is_there, found, -1))
    both = pa.chunked_array([values, rows.batch.column(call.args[1]).cast(values.type)]).combine_chunks()
    return taken(both, np.where(is_there, found, n + rows.numbers))


def _over_nulls(values: pa.Array, step: int) -> Array:
    """The row of the value that is `step` values away, NULLs not counted; -1 for none."""
    is_present = present_rows(values)
    present = np.flatnonzero(is_present)
    before = np.cumsum(is_present) - is_present
    wanted = before + step if step < 0 else before + is_present + step - 1
    is_there = (wanted >= 0) & (wanted < len(present))
    padded = np.append(present, -1)
    return np.where(is_there, padded[np.where(is_there, wanted, -1)], -1)


def value_at(call: OverCall, values: pa.Array, takes_part: Array, starts: Array, ends: Array) -> pa.Array:
    """The first, last or n-th value of each frame among the rows that take part; NULL where there is none."""
    rows = np.append(np.flatnonzero(takes_part), -1)
    counts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(takes_part)])
    low, high = counts[starts], counts[ends]
    wanted = {"FIRST_VALUE": low, "LAST_VALUE": high - 1}.get(call.function, low + call.number - 1)
    is_there = (wanted >= low) & (wanted < high)
    return taken(values, rows[np.where(is_there, wanted, -1)])


def taken(values: pa.Array, rows: Array) -> pa.Array:
    """The values of these rows, NULL for -1."""
    return values.take(to_array(pa.int64(), np.maximum(rows, 0), rows >= 0))


_UNITS_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_DAY_MS = 86_400_000


def frame_bounds(frame: Frame, rows: SortedRows) -> tuple[Array, Array]:
    """(first row, end exclusive) of each row's frame, int64[n]; both grow from row to row, and none ends before it starts."""
    if frame.is_range:
        starts, ends = _by_range(frame, rows)
    else:
        starts, ends = rows.first, rows.last
        if frame.start is not None:
            starts = np.clip(rows.numbers + int(frame.start), rows.first, rows.last)
        if frame.end is not None:
            ends = np.clip(rows.numbers + int(frame.end) + 1, rows.first, rows.last)
    return np.ascontiguousarray(starts), np.maximum(starts, ends)


def _by_range(frame: Frame, rows: SortedRows) -> tuple[Array, Array]:
    values = (
        None if frame.start in (None, 0) and frame.end in (None, 0) else _OrderValues(rows, rows.order[0])
    )
    return (
        _bound(frame.start, rows.first, lambda: rows.peer_first, values, is_end=False),
        _bound(frame.end, rows.last, lambda: rows.peer_last, values, is_end=True),
    )


def _bound(
    offset: float | None,
    unbounded: Array,
    of_peers: Callable[[], Array],
    values: _OrderValues | None,
    *,
    is_end: bool,
) -> Array:
    if offset is None:
        return unbounded
    if offset == 0:
        return of_peers()
    assert values is not None
    return values.bounds(offset, is_end)


class _OrderValues:
    """The values of the one ORDER BY column, ascending within each segment: rows of NULL (and of NaN) are segments of their
    own, whose frame is the segment."""

    def __init__(self, rows: SortedRows, key: SortKey) -> None:
        column = rows.batch.column(key.column)
        self._rows = rows
        self._per_unit, values = order_values(column)
        self._is_apart = ~present_rows(column)
        if values.dtype == np.float64:
            self._is_apart |= np.isnan(values)
        values = -values if key.is_descending else values
        self._values = np.where(self._is_apart, 0, values)
        begins = np.ones(len(values), dtype=bool)
        begins[1:] = (rows.partitions[1:] != rows.partitions[:-1]) | (
            self._is_apart[1:] != self._is_apart[:-1]
        )
        numbers, firsts = np.cumsum(begins) - 1, np.flatnonzero(begins)
        self._first = firsts[numbers]
        self._last = np.append(firsts[1:], len(values)).astype(np.int64)[numbers]

    def bounds(self, offset: float, is_end: bool) -> Array:
        step = offset * self._per_unit
        if self._values.dtype == np.int64:
            step = int(step)
            limit = np.iinfo(np.int64)
            low, high = limit.min - min(step, 0), limit.max - max(step, 0)
            targets = np.clip(self._values, low, high) + step
        else:
            targets = self._values + step
        found = np.empty(len(targets), dtype=np.int64)
        bounds_by_value(self._values, targets, self._first, self._last, is_end, found)
        return np.where(self._is_apart, self._last if is_end else self._first, found)


def order_values(column: pa.Array) -> tuple[float, Array]:
    """(what a unit of a frame's offset is in the values, the values of the column as int64 or float64)."""
    t = column.type
    if pa.types.is_timestamp(t):
        return _UNITS_PER_MS[t.unit], view_values(column, np.int64)
    if pa.types.is_date32(t):
        return 1 / _DAY_MS, view_values(column, np.int32).astype(np.int64)
    if pa.types.is_time32(t):
        return 1, view_values(column, np.int32).astype(np.int64)
    if pa.types.is_floating(t):
        return 1, view_values(column, np.dtype(f"f{t.bit_width // 8}")).astype(np.float64)
    return 1, view_values(column, np.dtype(f"i{t.bit_width // 8}")).astype(np.int64)
