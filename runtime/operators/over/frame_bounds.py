"""The rows of each row's frame."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sqlstream.expressions import SortKey
from sqlstream.runtime.aggregates.numbers import present_rows
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.kernels.frames import bounds_by_value
from sqlstream.runtime.operators.over.sorted_rows import SortedRows
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.over import Frame

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
