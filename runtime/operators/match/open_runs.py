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


_ROWS_MIN, _ROWS_A_KEY_MIN = 4_096, 64
"""Matches are followed from so many rows on, together or on average: fewer are matched again as quickly."""
_STEPS_A_ROW = 256
"""Steps for each new row, after which a match is matched again from its first row."""


class OpenRuns:
    """Where the program stands with each key whose match has taken all of its rows.

    A match that only goes on costs the rows that come. It is matched again from its first row in three cases: it ends; it has
    no alternative since the last batch; a condition reads a row that is not among the `read_rows` of Conditions.
    Derived from the kept rows, and made again with the first batch after a restore.
    State: 24 bytes per key, and 8 for each of the `read_rows`.
    """

    def __init__(self, spec: MatchRecognizeSpec, conditions: Conditions, rows: KeyedRows) -> None:
        self._spec = spec
        self._conditions = conditions
        self._rows = rows
        self._reads = conditions.read_rows
        self._at = GrowingArray(np.int64, fill=-1)
        self._read_ids = GrowingArray(np.int64, width=max(1, len(self._reads.places)))
        self._began = GrowingArray(np.int64)
        self._lengths = GrowingArray(np.int64)
        self._open_keys = 0
        self._splits = sum(i.op == SPLIT for i in spec.program)
        self.is_used = spec.looks_ahead == 0 and not conditions.reads_neighbours

    def begin(self, at: Array, read_ids: Array, first_ids: Array, began: Array, lengths: Array) -> None:
        """Keys wait at the instructions `at` (-1: at none that can be followed), with matches whose conditions can read the rows
        `read_ids`, whose first rows have these ids and times, and which have so many rows."""
        chosen = np.flatnonzero(at >= 0)
        if self.is_used and len(chosen):
            self._open_keys += len(chosen)
            slots = self._rows.slots_of(first_ids[chosen])
            for array, values in ((self._at, at), (self._began, began), (self._lengths, lengths)):
                array.reserve(int(slots.max()) + 1)
                array.values[slots] = values[chosen]
            self._read_ids.reserve(int(slots.max()) + 1)
            self._read_ids.values[slots, : len(self._reads.places)] = read_ids[chosen]

    def forget(self, slots: Array) -> None:
        """Nothing is known of these keys any more."""
        slots = slots[slots < self._at.count]
        slots = np.unique(slots[self._at.values[slots] >= 0])
        self._at.values[slots] = -1
        self._open_keys -= len(slots)

    def follow(self, added: pa.RecordBatch, watermark_ms: int, due: Array) -> pa.RecordBatch:
        """Keep those of the new rows with which a match goes on, and return the others, in their order. `due`: the slots of keys
        whose time is over."""
        known = self._at.values[: self._at.count]
        if not self._open_keys or added.num_rows == 0:
            return added
        keys = [added.column(k) for k in self._spec.partition_keys]
        groups, first_rows = batch_groups(keys, added.num_rows)
        chosen = pa.array(first_rows)
        slots = self._rows.find([k.take(chosen) for k in keys], len(first_rows))
        is_open = (slots >= 0) & (slots < len(known)) & ~np.isin(slots, due)
        is_open[is_open] = known[slots[is_open]] >= 0
        lengths = self._lengths.values[slots[is_open]]
        if not len(lengths) or lengths.sum() < min(_ROWS_MIN, _ROWS_A_KEY_MIN * len(lengths)):
            return added
        numbers = np.cumsum(is_open) - 1
        rows = np.flatnonzero(is_open[groups])
        order, bounds = argsort_stable_by(np.ascontiguousarray(numbers[groups[rows]]), int(is_open.sum()))
        taken = rows[order]
        new_rows = added.take(to_array(pa.int64(), taken))
        slots = slots[is_open]
        held = self._read_ids.values[slots, : len(self._reads.places)]
        at, reads, order = self._followed(slots, held, new_rows, bounds, watermark_ms)
        kept = np.repeat(at >= 0, np.diff(bounds))
        self._at.values[slots] = at
        self._lengths.values[slots] += np.diff(bounds)
        self._open_keys -= int(np.count_nonzero(at < 0))
        if kept.any():
            ids = np.full(len(kept), -1, dtype=np.int64)
            ids[kept] = self._rows.append(new_rows.filter(pa.array(kept)))
            all_ids = np.concatenate([held.reshape(-1), np.full(len(order) - held.size - len(ids), -1), ids])[
                order
            ]
            self._read_ids.values[slots, : held.shape[1]] = np.where(reads >= 0, all_ids[reads], -1)
        left = np.ones(added.num_rows, dtype=bool)
        left[taken[kept]] = False
        return added.filter(pa.array(left))

    def _followed(
        self, slots: Array, held: Array, new_rows: pa.RecordBatch, new_bounds: Array, watermark_ms: int
    ) -> tuple[Array, Array, Array]:
        """(where each key waits now or -1; the rows that conditions can read then; the order of the rows). The rows are those
        of `held`, then the last ones of the keys that are looked back at, then the new ones, in that order by key."""
        back = self._spec.looks_back
        keys, places = held.shape
        width = places + back
        lasts = self._rows.last_ids(slots, max(back, 1))
        # What is not there is never read: any row stands for it.
        known = np.concatenate(
            [np.where(held >= 0, held, lasts[:, :1]).reshape(-1), lasts[:, :back].reshape(-1)]
        )
        both = new_rows
        if len(known):
            both = pa.concat_batches([self._rows.gather(known), new_rows])
        lengths = np.diff(new_bounds)
        numbers = np.arange(keys)
        owners = np.concatenate(
            [np.repeat(numbers, places), np.repeat(numbers, back), np.repeat(numbers, lengths)]
        )
        order = argsort_stable_by(owners, keys)[0] if width else np.arange(len(owners))
        batch = both.take(to_array(pa.int64(), order)) if width else both
        begins = numbers * width + new_bounds[:-1]
        ends = begins + width + lengths
        mapped = self._mapped(held, begins, width, batch.num_rows)
        columns = len(batch.schema) - 3
        times = view_values(batch.column(columns), np.int64)
        counts = width + lengths
        whole = np.repeat(np.stack([begins + places, ends]), counts, axis=1)
        prepared = self._conditions.prepare(Partitions(batch.select(range(columns)), whole[0], whole[1]))
        runs = np.stack([self._at.values[slots], self._began.values[slots], begins, begins + width, ends])
        runs = np.ascontiguousarray(runs.T)
        room = self._splits * (int(lengths.max()) + 1)
        registers = np.zeros(REGISTERS, dtype=np.int64)
        registers[[WITHIN, WATERMARK, CALL_STEPS]] = self._spec.within_ms, watermark_ms, _STEPS_A_ROW
        follow_runs(
            runs,
            prepared.program,
            prepared.code,
            prepared.values,
            prepared.flags,
            times,
            np.zeros(batch.num_rows, dtype=np.int32),
            mapped,
            np.empty((WORK + room, 2), dtype=np.int64),
            registers,
        )
        return runs[:, WAITS_AT], self._reads.found(mapped, begins, ends - 1), order

    def _mapped(self, held: Array, begins: Array, width: int, rows: int) -> Array:
        """What the ways find from the rows that are there: from the last one, and from those that one way goes on to."""
        mapped = np.full((self._reads.ways, rows), -1, dtype=np.int32)
        for place, (way, back) in enumerate(self._reads.places):
            rows_held = np.where(held[:, place] >= 0, begins + place, -1)
            mapped[way, begins + place] = rows_held
            if back == 0:
                mapped[way, begins + width - 1] = rows_held
        return mapped
