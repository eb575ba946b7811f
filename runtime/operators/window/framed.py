"""The results of many windows that share rows: a window is a frame of the rows of a key, and no row is copied for each window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.aggregates.accumulator import Accumulator
from sqlstream.runtime.aggregates.distinct import Distinct
from sqlstream.runtime.aggregates.extreme import Extreme
from sqlstream.runtime.aggregates.numbers import NumberClass, as_numbers, from_numbers, present_rows
from sqlstream.runtime.aggregates.ordered import OrderedValue
from sqlstream.runtime.aggregates.partials import MergedPartials, Partials, SignedRows
from sqlstream.runtime.aggregates.sums import Average, Count, Sum
from sqlstream.runtime.kernels.accumulate import int128_sums_in_order
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.frames import framed_least, sums_in_order
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.operators.over.frames import order_keys, sums_beyond
from sqlstream.runtime.operators.over.sorted import taken
from sqlstream.runtime.overflow import overflowed
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.types import BIGINT

RESULTS_MAX = 65_536
"""No more results than this are computed and emitted together."""
_ROWS_PER_RESULT = 4
"""A result whose rows are copied costs less than one of a frame when it has fewer rows than this."""
_FRAMED = (Count, Sum, Average, Extreme, OrderedValue)
_FRAMED_DISTINCT = (Count, Sum, Average)


def are_framed(form: Partials, *, is_growing: bool) -> bool:
    """Whether the results of all calls can be computed by frames. `is_growing`: all windows begin together, so that a value is
    new to them with its first row."""
    if isinstance(form, SignedRows):
        return False
    return all(
        type(a) in _FRAMED or (is_growing and isinstance(a, Distinct) and type(a.inner) in _FRAMED_DISTINCT)
        for a in form.accumulators(0).accumulators
    )


def is_framing_cheaper(rows: int, windows: int, keys: int) -> bool:
    """`rows`: those of all windows, one copy for each window that holds it."""
    return rows > _ROWS_PER_RESULT * windows * keys


class Frames:
    """A frame of rows for each window and each key that has rows in it.

    `rows` (int64[n] or None where they are as they were) is the order in which the frames have the rows: by key. Frames with
    equal rows are one: they are `starts` and `ends`. The results are those of the windows `windows` (int64[m], ascending): each
    is that of the frame `frames[i]`, and its key that of row `first_rows[i]`.
    """

    def __init__(self, key_ids: Array, keys: int, lows: Array, highs: Array) -> None:
        if keys == 1:
            self.rows = None
            starts, ends = lows[None], highs[None]
        else:
            self.rows, _ = argsort_stable_by(key_ids, keys)
            # By key, then by place: a search among all keys at once.
            count = len(key_ids)
            placed = key_ids[self.rows] * count + self.rows
            firsts = (np.arange(keys) * count)[:, None]
            starts, ends = (np.searchsorted(placed, (firsts + at).reshape(-1)) for at in (lows, highs))
            starts, ends = starts.reshape(keys, -1), ends.reshape(keys, -1)
        is_there = ends > starts
        is_new = is_there.copy()
        is_new[:, 1:] &= (starts[:, 1:] != starts[:, :-1]) | (ends[:, 1:] != ends[:, :-1])
        numbers = np.cumsum(is_new).reshape(is_new.shape) - 1
        self.starts, self.ends = starts[is_new], ends[is_new]
        by_window = is_there.T
        self.windows, self.frames = np.nonzero(by_window)[0], numbers.T[by_window]
        first_places = self.starts if self.rows is None else self.rows[self.starts]
        self.first_rows = first_places[self.frames]
        if keys > 1:
            self._sort_by_first_row(len(key_ids))

    def _sort_by_first_row(self, count: int) -> None:
        """The results of a window come in the order of the first rows of their keys."""
        places = self.windows * count + self.first_rows
        if np.any(places[1:] < places[:-1]):
            order = np.argsort(places)
            self.frames, self.first_rows = self.frames[order], self.first_rows[order]


def framed_results(form: Partials, columns: list[pa.Array], keys: Array, frames: Frames) -> list[pa.Array]:
    """The values of all calls, one for each result of the frames. `columns` are partials, `keys` the numbers of their keys."""
    if frames.rows is not None:
        chosen = to_array(pa.int64(), frames.rows)
        columns, keys = [column.take(chosen) for column in columns], keys[frames.rows]
    found = form.accumulators(len(frames.starts))
    partials = columns if isinstance(form, MergedPartials) else form.each(columns, keys)
    framed: list[pa.Array] = []
    for accumulator in found.accumulators:
        own = partials[len(framed) : len(framed) + len(accumulator.suffixes)]
        framed += _framed(accumulator, own, frames)
    slots = first_slots(len(frames.starts))
    found.load(slots, framed)
    results = found.results(slots)
    if len(frames.frames) == len(slots) and np.array_equal(frames.frames, slots):
        return results
    chosen = to_array(pa.int64(), np.ascontiguousarray(frames.frames))
    return [result.take(chosen) for result in results]


def _framed(accumulator: Accumulator, columns: list[pa.Array], frames: Frames) -> list[pa.Array]:
    """The accumulator of each frame, in the layout of the columns, one row each."""
    plain = accumulator.inner if isinstance(accumulator, Distinct) else accumulator
    if isinstance(plain, Count):
        return [to_array(pa.int64(), _whole_sums(view_values(columns[0], np.int64), frames))]
    if isinstance(plain, Sum):
        counts = _whole_sums(view_values(columns[1], np.int64), frames)
        return [_sums(plain, columns[0], frames), to_array(pa.int64(), counts)]
    is_present = present_rows(columns[0])
    if isinstance(plain, OrderedValue):
        return [_ordered(plain.call.function == "FIRST_VALUE", columns[0], is_present, frames)]
    found = np.empty(len(frames.starts), dtype=np.int64)
    keys = order_keys(columns[0])
    keys = np.ascontiguousarray(~keys if plain.call.function == "MAX" else keys)
    kept = np.empty(len(keys), dtype=np.int64)
    framed_least(keys, is_present, frames.starts, frames.ends, kept, found)
    return [taken(columns[0], found)]


def _whole_sums(values: Array, frames: Frames) -> Array:
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums[frames.ends] - sums[frames.starts]


def _sums(summing: Sum, column: pa.Array, frames: Frames) -> pa.Array:
    """The sums of the frames. Floats, whose last digits depend on it, and decimals, which may leave their range on the way, are
    added in the order of the rows."""
    count = len(frames.starts)
    if pa.types.is_decimal(column.type):
        wide = np.zeros((count, 2), dtype=np.uint64)
        int128_sums_in_order(as_numbers(column, NumberClass.INT128), frames.starts, frames.ends, wide)
        return from_numbers(wide, column.type)
    if pa.types.is_floating(column.type):
        sums = np.empty(count, dtype=np.float64)
        sums_in_order(as_numbers(column, NumberClass.FLOAT64), frames.starts, frames.ends, sums)
        return to_array(pa.float64(), sums)
    values = view_values(column, np.int64)
    if beyond := sums_beyond(values, lambda part: _whole_sums(part, frames)):
        overflowed(beyond, summing.call.function, BIGINT)
    return to_array(pa.int64(), _whole_sums(values, frames))


def _ordered(is_first: bool, column: pa.Array, is_present: Array, frames: Frames) -> pa.Array:
    rows = np.append(np.flatnonzero(is_present), -1)
    before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(is_present)])
    low, high = before[frames.starts], before[frames.ends]
    return taken(column, rows[np.where(high > low, low if is_first else high - 1, -1)])
