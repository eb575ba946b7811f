"""Matches that wait for rows: when they began, and how they are followed without looking at the rows before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.kernels.match import (
    CALL_STEPS,
    REGISTERS,
    WAITS_AT,
    WATERMARK,
    WITHIN,
    WORK,
    follow_runs,
)
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.match.conditions import Conditions, Partitions
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows
from sqlstream.specs.match_recognize import SPLIT, MatchRecognizeSpec


class PendingStarts:
    """A time for some ids of rows. State: 8 bytes per id, WATERMARK_MAX for those without, and the earliest time while it is
    known: it is asked for much more often than an id with that time goes."""

    def __init__(self) -> None:
        self._times = GrowingArray(np.int64, fill=WATERMARK_MAX)
        self._earliest: int | None = WATERMARK_MAX

    def set(self, row_ids: Array, times: Array) -> None:
        """Give distinct ids, which have no time, these."""
        if len(row_ids):
            self._times.reserve(int(row_ids.max()) + 1)
            self._times.values[row_ids] = times
            if self._earliest is not None:
                self._earliest = min(self._earliest, int(times.min()))

    def remove(self, row_ids: Array) -> None:
        known = row_ids[row_ids < self._times.count]
        if self._earliest is not None and (self._times.values[known] == self._earliest).any():
            self._earliest = None
        self._times.values[known] = WATERMARK_MAX

    @property
    def earliest(self) -> int:
        """WATERMARK_MAX when there is none."""
        if self._earliest is None:
            self._earliest = int(self._times.values[: self._times.count].min(initial=WATERMARK_MAX))
        return self._earliest

    def until(self, limit: int) -> Array:
        """The ids with times up to the limit."""
        limit = min(limit, WATERMARK_MAX - 1)
        if self.earliest > limit:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self._times.values[: self._times.count] <= limit)


_ROWS_MIN = 64
"""Rows of a match from which on it is followed: fewer are matched again as quickly."""
_FIRST, _LAST = 4, 16
"""Rows at the beginning and at the end of a match that conditions may read."""
_STEPS_A_ROW = 256
"""Steps for each new row, after which a match is matched again from its first row."""


class OpenRuns:
    """Where the program stands with each key whose match has taken all of its rows, of which there are many.

    A match that only goes on costs the rows that come. It is matched again from its first row in three cases: it ends; it has
    no alternative since the last batch; a condition reads a row that is neither among its first nor among its last.
    Derived from the kept rows, and made again with the first batch after a restore.
    State: 28 bytes per key, and 4 per row that was ever kept at once.
    """

    def __init__(self, spec: MatchRecognizeSpec, conditions: Conditions, rows: KeyedRows) -> None:
        self._spec = spec
        self._conditions = conditions
        self._rows = rows
        self._at = GrowingArray(np.int64, fill=-1)
        self._first_ids = GrowingArray(np.int64, fill=-1)
        self._began = GrowingArray(np.int64)
        self._labels = GrowingArray(np.int32)
        self._splits = sum(i.op == SPLIT for i in spec.program)
        self._first = 0 if spec.looks_back else _FIRST
        self._last = _LAST + spec.looks_back
        self.is_used = spec.looks_ahead == 0 and self._first + self._last <= _ROWS_MIN

    def begin(self, at: Array, first_ids: Array, began: Array, lengths: Array) -> None:
        """Keys wait at the instructions `at` (-1: at none that can be followed), with matches of so many rows, of which the first
        have these ids and times."""
        chosen = np.flatnonzero((at >= 0) & (lengths >= _ROWS_MIN))
        if self.is_used and len(chosen):
            slots = self._rows.slots_of(first_ids[chosen])
            for array, values in ((self._at, at), (self._first_ids, first_ids), (self._began, began)):
                array.reserve(int(slots.max()) + 1)
                array.values[slots] = values[chosen]

    def consumed(self, row_ids: Array, labels: Array) -> None:
        """These rows were consumed by these instructions."""
        if len(row_ids):
            self._labels.reserve(int(row_ids.max()) + 1)
            self._labels.values[row_ids] = labels

    def forget(self, slots: Array) -> None:
        """Nothing is known of these keys any more."""
        self._at.values[slots[slots < self._at.count]] = -1

    def follow(self, added: pa.RecordBatch, watermark_ms: int, due: Array) -> pa.RecordBatch:
        """Keep those of the new rows with which a match goes on, and return the others, in their order. `due`: the slots of keys
        whose time is over."""
        known = self._at.values[: self._at.count]
        if not (known >= 0).any() or added.num_rows == 0:
            return added
        keys = [added.column(k) for k in self._spec.partition_keys]
        groups, first_rows = batch_groups(keys, added.num_rows)
        chosen = pa.array(first_rows)
        slots = self._rows.find([k.take(chosen) for k in keys], len(first_rows))
        is_open = (slots >= 0) & (slots < len(known)) & ~np.isin(slots, due)
        is_open[is_open] = known[slots[is_open]] >= 0
        if not is_open.any():
            return added
        numbers = np.cumsum(is_open) - 1
        rows = np.flatnonzero(is_open[groups])
        order, bounds = argsort_stable_by(np.ascontiguousarray(numbers[groups[rows]]), int(is_open.sum()))
        taken = rows[order]
        new_rows = added.take(to_array(pa.int64(), taken))
        labels, at = self._followed(slots[is_open], new_rows, bounds, watermark_ms)
        goes_on = at >= 0
        kept = np.repeat(goes_on, np.diff(bounds))
        self._at.values[slots[is_open]] = at
        if kept.any():
            ids = self._rows.append(new_rows.filter(pa.array(kept)))
            self.consumed(ids, labels[kept])
        left = np.ones(added.num_rows, dtype=bool)
        left[taken[kept]] = False
        return added.filter(pa.array(left))

    def _followed(
        self, slots: Array, new_rows: pa.RecordBatch, new_bounds: Array, watermark_ms: int
    ) -> tuple[Array, Array]:
        """(the instructions that consumed the new rows, where each key waits now or -1)."""
        firsts = self._rows.ids_from(self._first_ids.values[slots], self._first)
        held = np.concatenate([firsts, self._rows.last_ids(slots, self._last)], axis=1)
        keys, width = held.shape
        both = pa.concat_batches([self._rows.gather(held.reshape(-1)), new_rows])
        lengths = np.diff(new_bounds)
        owners = np.concatenate([np.repeat(np.arange(keys), width), np.repeat(np.arange(keys), lengths)])
        order = np.argsort(owners, kind="stable")
        batch = both.take(to_array(pa.int64(), order))
        begins = np.arange(keys) * width + new_bounds[:-1]
        ends = begins + width + lengths
        all_labels = np.concatenate(
            [self._labels.values[held.reshape(-1)], np.zeros(new_rows.num_rows, np.int32)]
        )
        labels = all_labels[order]
        whole = np.repeat(np.stack([begins, ends]), width + lengths, axis=1)
        columns = len(batch.schema) - 3
        times = view_values(batch.column(columns), np.int64)
        partitions = Partitions(batch.select(range(columns)), whole[0], whole[1])
        prepared = self._conditions.prepare(partitions)
        gaps = begins + self._first
        gap_ends = gaps + self._spec.looks_back
        at, began = self._at.values[slots], self._began.values[slots]
        runs = np.stack([at, began, begins, gaps, gap_ends, begins + width, ends], axis=1)
        room = self._splits * (int(lengths.max()) + 1)
        registers = np.zeros(REGISTERS, dtype=np.int64)
        registers[[WITHIN, WATERMARK, CALL_STEPS]] = self._spec.within_ms, watermark_ms, _STEPS_A_ROW
        follow_runs(
            np.ascontiguousarray(runs),
            prepared.program,
            prepared.code,
            prepared.values,
            prepared.flags,
            times,
            labels,
            np.empty((WORK + room, 2), dtype=np.int64),
            registers,
        )
        is_new = np.arange(len(labels)) - np.repeat(begins, width + lengths) >= width
        return labels[is_new], runs[:, WAITS_AT]
