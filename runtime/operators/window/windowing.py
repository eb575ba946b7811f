"""The windows and slices of times, and the clock by which they are cut."""

from __future__ import annotations

import functools
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.time.local_time import from_local, to_local
from sqlstream.runtime.evaluate.time.time_range import require_range
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.windows import slice_ends_into
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.window import WindowKind, WindowSpec
from sqlstream.times import check_time_zone, is_utc

_AHEAD_MS = 26 * 3_600_000
"""A clock that is set back is set back by less."""
_LIMIT_MS = 253_000_000_000_000
"""Beyond this, years before the last one that a clock shows, times are as in UTC: watermarks that stand for the end."""
_INSTANT = pa.timestamp("ms", tz="UTC")


class WindowClock:
    """Converts instants, such as watermarks, to the local times that bound windows of TIMESTAMP_LTZ.

    When the clock is set back, local times repeat. A window whose end they repeat closes when the clock passes its end for the
    last time, so that no row comes after it. In UTC all times are as they are. No state.
    """

    def __init__(self, time_zone: str) -> None:
        self.time_zone = check_time_zone(time_zone)
        self._is_utc = is_utc(self.time_zone)
        self._due_ms = functools.lru_cache(maxsize=64)(self._first_instant_behind)

    def local_ms(self, instants: Array) -> Array:
        """What the clock shows at each instant."""
        return instants if self._is_utc or len(instants) == 0 else self._shown(instants)

    def now_ms(self, now_ms: int) -> int:
        return now_ms if self._is_utc else int(self._shown(np.array([now_ms]))[0])

    def passed_ms(self, watermark_ms: int) -> int:
        """The last local millisecond that the clock has passed for good when the watermark has passed an instant."""
        if self._is_utc or abs(watermark_ms) > _LIMIT_MS:
            return watermark_ms
        return int(self._reached(np.array([watermark_ms + 1]))[0]) - 1

    def all_passed_ms(self, watermarks: Array) -> Array:
        """`passed_ms` of each."""
        if self._is_utc or len(watermarks) == 0:
            return watermarks
        clipped = np.clip(watermarks, -_LIMIT_MS, _LIMIT_MS)
        return np.where(clipped == watermarks, self._reached(clipped + 1) - 1, watermarks)

    def forwarded_ms(self, watermark_ms: int) -> int:
        """The watermark behind which are the times of all windows that are still to close: a time that repeats is its first
        instant."""
        if self._is_utc or abs(watermark_ms) > _LIMIT_MS:
            return watermark_ms
        end = to_array(pa.timestamp("ms"), np.array([self.passed_ms(watermark_ms) + 1]))
        instant = from_local(end, _INSTANT, self.time_zone)
        return min(watermark_ms, int(view_values(instant, np.int64)[0]) - 1)

    def due_ms(self, end_ms: int) -> int:
        """The instant at which a window with that local end closes."""
        return end_ms if self._is_utc else self._due_ms(end_ms)

    def instants(self, local: pa.Array, target: pa.DataType) -> pa.Array:
        """Local times as a column of this type."""
        if not self._is_utc:
            return from_local(local, target, self.time_zone)
        return local if local.type == target else local.cast(target)

    def _shown(self, instants: Array) -> Array:
        column = to_array(pa.int64(), np.ascontiguousarray(instants, dtype=np.int64)).view(_INSTANT)
        return view_values(to_local(column, self.time_zone), np.int64)

    def _reached(self, instants: Array) -> Array:
        """The least local time that the clock shows at each instant or later."""
        shown = self._shown(instants)
        falls = self._shown(instants + _AHEAD_MS) - _AHEAD_MS < shown
        if not falls.any():
            return shown
        before = instants[falls]
        offset = shown[falls] - before
        low, high = before, before + _AHEAD_MS
        while int((high - low).max()) > 1:
            middle = (low + high) // 2
            is_back = self._shown(middle) - middle < offset
            low, high = np.where(is_back, low, middle), np.where(is_back, middle, high)
        reached = shown.copy()
        reached[falls] = np.minimum(shown[falls], self._shown(high))
        return reached

    def _first_instant_behind(self, end_ms: int) -> int:
        low, high = end_ms - _AHEAD_MS, end_ms + _AHEAD_MS
        while high - low > 1:
            middle = (low + high) // 2
            if int(self._reached(np.array([middle]))[0]) >= end_ms:
                high = middle
            else:
                low = middle
        return high


Times = TypeVar("Times", int, Array)
"""One time or many: the arithmetic is the same."""

_PER_MS = {"us": 1_000, "ns": 1_000_000}


def times_ms(column: pa.Array) -> Array:
    """A timestamp column as int64 ms since the epoch, rounded down. The column holds no NULL."""
    if pa.types.is_date(column.type):
        column = pc.cast(column, pa.timestamp("ms"))
    if not pa.types.is_timestamp(column.type):
        return view_values(column, np.int64)
    if column.type.unit == "s":
        return view_values(column, np.int64) * 1_000
    values = view_values(column, np.int64)
    return values if column.type.unit == "ms" else values // _PER_MS[column.type.unit]


def slice_ends(window: WindowSpec, times: Array) -> Array:
    """End of each time's slice, int64[n]."""
    ends = np.empty(len(times), dtype=np.int64)
    slice_ends_into(np.ascontiguousarray(times), window.slice_ms, window.offset_ms % window.slice_ms, ends)
    return ends


def slice_end(window: WindowSpec, time_ms: int) -> int:
    """End of one time's slice."""
    width = window.slice_ms
    offset_ms = window.offset_ms % width
    return (time_ms - offset_ms) // width * width + offset_ms + width


def step_ms(window: WindowSpec) -> int:
    """Distance between the ends of neighbouring windows."""
    return window.size_ms if window.kind is WindowKind.TUMBLE else window.slide_ms


def first_window_ends(window: WindowSpec, slices: Times) -> Times:
    """End of the earliest window that holds the slice with that end."""
    if window.kind is not WindowKind.HOP:
        return slices
    # Starts are multiples of the slide (plus offset), so ends are congruent to offset + size.
    phase = (window.offset_ms + window.size_ms) % window.slide_ms
    return -((phase - slices) // window.slide_ms) * window.slide_ms + phase


def last_window_ends(window: WindowSpec, slices: Times) -> Times:
    """End of the latest window that holds the slice with that end."""
    match window.kind:
        case WindowKind.TUMBLE:
            return slices
        case WindowKind.HOP:
            latest = slices - window.slice_ms + window.size_ms
            first = first_window_ends(window, slices)
            return first + (latest - first) // window.slide_ms * window.slide_ms
        case _:
            return window_starts_of_slices(window, slices) + window.size_ms


def window_starts_of_slices(window: WindowSpec, slices: Times) -> Times:
    """CUMULATE: start of the longest window around the slice."""
    return (slices - 1 - window.offset_ms) // window.size_ms * window.size_ms + window.offset_ms


def window_starts(window: WindowSpec, ends: Times) -> Times:
    """Start of the window with that end (not SESSION)."""
    if window.kind is WindowKind.CUMULATE:
        return window_starts_of_slices(window, ends)
    return ends - window.size_ms


def windows_of_slices(window: WindowSpec, slices: Array) -> tuple[Array, Array, Array]:
    """(positions of slices, starts, ends) of the windows that hold the slices with these ends (not SESSION), earliest first."""
    first = first_window_ends(window, slices)
    counts = np.maximum((last_window_ends(window, slices) - first) // step_ms(window) + 1, 0)
    rows = np.repeat(np.arange(len(slices)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    ends = first[rows] + within * step_ms(window)
    return rows, window_starts(window, ends), ends


def greatest_end(window: WindowSpec, watermark_ms: int) -> int:
    """End of the last window that the watermark closes: the greatest aligned end with end - 1 <= watermark."""
    step = step_ms(window)
    phase = (window.offset_ms + window.size_ms) % step
    return (watermark_ms + 1 - phase) // step * step + phase


def window_batch(
    schema: pa.Schema, columns: list[pa.Array], starts: Array, ends: Array, clock: WindowClock
) -> pa.RecordBatch:
    """Result rows with window_start, window_end and window_time (end - 1 ms) appended, in the schema's timestamp types.
    UserError SS5102 for a window that ends beyond the range of timestamps."""
    bounds = [
        clock.instants(
            require_range(to_array(pa.timestamp("ms"), np.ascontiguousarray(times))),
            schema.field(len(columns) + i).type,
        )
        for i, times in enumerate((starts, ends, ends - 1))
    ]
    return pa.RecordBatch.from_arrays([*columns, *bounds], schema=schema)
