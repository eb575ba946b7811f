"""Which windows hold sorted slices: each is one run of their rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sqlstream.runtime.operators.window.windowing import (
    first_window_ends,
    last_window_ends,
    step_ms,
    window_starts,
)
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.window import WindowKind, WindowSpec

_RUNS_MAX = 65_536
"""No more runs than this are at hand at a time: a row may be in as many windows as a day has milliseconds."""


def runs_of_windows(window: WindowSpec, slices: Array, first_end: int, last_end: int) -> Iterator[Array]:
    """int64[windows, 4] at a time: start, end and rows [low, high) of every window with `first_end` <= end <= `last_end` that
    holds one of the sorted slices, in the order of the ends. Those of CUMULATE that come together begin together.

    Time may jump by years: the empty windows in between, which may be too many to visit, are not."""
    step = step_ms(window)
    distinct = slices[np.append(True, slices[1:] != slices[:-1])]
    first = np.maximum(first_window_ends(window, distinct), first_end)
    last = np.minimum(last_window_ends(window, distinct), last_end)
    is_held = first <= last
    first, last = first[is_held], last[is_held]
    if not len(first):
        return
    # Ranges of windows without an empty one.
    begins = np.append(True, first[1:] > last[:-1] + step)
    first, last = first[begins], last[np.append(np.flatnonzero(begins)[1:], len(begins)) - 1]
    stops = np.cumsum((last - first) // step + 1)
    offsets = first - np.append(0, stops[:-1]) * step
    for begin in range(0, int(stops[-1]), _RUNS_MAX):
        numbers = np.arange(begin, min(begin + _RUNS_MAX, int(stops[-1])))
        ends = offsets[np.searchsorted(stops, numbers, side="right")] + numbers * step
        starts = window_starts(window, ends)
        bounds = (np.searchsorted(slices, times, side="right") for times in (starts, ends))
        runs = np.column_stack((starts, ends, *bounds))
        if window.kind is not WindowKind.CUMULATE:
            yield runs
        else:
            yield from np.split(runs, np.flatnonzero(np.diff(starts)) + 1)


def are_repeats(runs: Array) -> Array:
    """bool[windows]: whether a window has the rows of the one before it."""
    found = np.zeros(len(runs), dtype=bool)
    found[1:] = (runs[1:, 2] == runs[:-1, 2]) & (runs[1:, 3] == runs[:-1, 3])
    return found


def blocks_of_runs(runs: Array, sizes: Array, size_max: int, runs_max: int) -> Iterator[Array]:
    """Neighbouring windows whose sizes are at most `size_max` together, or one; at most `runs_max` of them."""
    totals = np.cumsum(sizes)
    first = 0
    while first < len(runs):
        before = int(totals[first - 1]) if first else 0
        last = int(np.searchsorted(totals, before + size_max, side="right"))
        last = max(first + 1, min(last, first + runs_max))
        yield runs[first:last]
        first = last
