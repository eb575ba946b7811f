"""Computes the slices and windows of times: arithmetic over arrays of milliseconds."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.time_range import require_range
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.windows import slice_ends_into
from sqlstream.runtime.operators.window.window_clock import WindowClock
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.window import WindowKind, WindowSpec

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
