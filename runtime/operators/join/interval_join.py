"""Join of rows whose times differ by a bounded amount."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.messages.ledger import DONE
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.operators.join.joined import (
    JoinedRows,
    complete_rows,
    declare_sides,
    equal_pairs,
    portions,
)
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.logs.row_log import Chunk
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.join import IntervalJoinSpec, JoinKind


class ChunkIndex:
    """Finds the rows of a chunk with a key and a time within bounds, without looking at others.

    State: an index of the keys, the rows ordered by key and time, and the distinct times. It follows from the chunk, so it is not
    saved, and goes with it.
    """

    def __init__(self, keys: list[pa.Array], times: Array) -> None:
        complete = complete_rows(keys)
        rows = np.arange(len(times)) if complete is None else complete
        slots = np.zeros(len(rows), dtype=np.int64)
        # Without key columns all rows have one key.
        self._keys = KeyIndex([key.type for key in keys]) if keys else None
        if self._keys is not None:
            chosen = keys if complete is None else [key.take(to_array(pa.int64(), rows)) for key in keys]
            slots, _ = self._keys.get_or_insert(chosen)
        # One number orders keys and times: times count by their place among all, so that it cannot overflow.
        self._times, places = np.unique(times[rows], return_inverse=True)
        self._width = len(self._times) + 1
        entries = slots * self._width + places
        order = np.argsort(entries, kind="stable")
        self._rows, self._entries = rows[order], entries[order]

    @property
    def nbytes(self) -> int:
        keys = 0 if self._keys is None else int(self._keys.nbytes)
        return int(keys + self._rows.nbytes + self._entries.nbytes + self._times.nbytes)

    def probe(self, keys: list[pa.Array], earliest: Array, latest: Array) -> Iterator[tuple[Array, Array]]:
        """(probe row, row of the chunk) of all pairs with equal keys and `earliest <= time <= latest` of the probe row.

        They come in portions of about PAIRS_MAX. NULL equals nothing.
        """
        slots = np.zeros(len(earliest), dtype=np.int64)
        if self._keys is not None:
            types = self._keys.types
            typed = [k if k.type == t else k.cast(t) for k, t in zip(keys, types, strict=True)]
            slots = self._keys.get(typed)
        hits = np.flatnonzero(slots >= 0)
        if len(hits) == 0:
            return
        bases = slots[hits] * self._width
        starts = np.searchsorted(self._entries, bases + np.searchsorted(self._times, earliest[hits], "left"))
        stops = np.searchsorted(self._entries, bases + np.searchsorted(self._times, latest[hits], "right"))
        counts = np.maximum(stops - starts, 0)
        for low, high in portions(counts):
            part = counts[low:high]
            probes = np.repeat(np.arange(low, high), part)
            within = np.arange(len(probes)) - np.repeat(np.cumsum(part) - part, part)
            if len(probes):
                yield hits[probes], self._rows[starts[probes] + within]


_LEFT, _RIGHT = 0, 1
_INDEXED_ROWS_MIN = 4_096
_INDEXED_TIMES = 4
_PROBES_MIN = 3
"""A chunk of at least so many rows, and so many times those of the batch, is indexed at a later probe than so many: a watermark
that comes with each batch cuts the oldest chunk each time, and its index would go with it."""


class IntervalJoin(Operator[IntervalJoinSpec]):
    """Emits a pair when its second row arrives; the output is insert-only.

    State: one log per side, with the rows that can still match a later row of the other side. A batch probes the other
    side's log chunk by chunk. A chunk that is large beside the batches keeps an index of keys and times; otherwise the
    smaller of both is indexed for the probe. A row is forgotten when the watermark (or clock) has passed the last time that
    it can match; an unmatched row of an outer join is emitted then.
    """

    def __init__(self, spec: IntervalJoinSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._joined = JoinedRows(spec.condition, context)
        self._keys = (spec.left_keys, spec.right_keys)
        self._logs = declare_sides(context, self._keys, spec.broadcast_input)
        self._time_columns = (spec.left_time_column, spec.right_time_column)
        # Milliseconds from a row's time, per side, to the latest time of the other side that it matches: left matches
        # right times in [left - upper, left - lower], right matches left times in [right + lower, right + upper].
        self._reach = (max(0, -spec.lower_ms), max(0, spec.upper_ms))
        # Of several old subtasks the least: a row that only one of them would still match is kept.
        self._watermark_ms = context.state.add(Broadcast("watermark_ms", WATERMARK_MIN, min))

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        times = self._times(batch, input_index)
        matched = np.zeros(batch.num_rows, dtype=bool)
        for chunk in self._logs[1 - input_index].chunks:
            if self._can_meet(times, chunk, input_index):
                self._probe(batch, times, matched, chunk, input_index, output)
        self._keep(batch, times, matched, input_index, output)

    def _times(self, batch: pa.RecordBatch, side: int) -> Array:
        if self.spec.is_event_time:
            return times_ms(batch.column(self._time_columns[side]))
        # The clock may be set back, or be that of another machine after a restart: no row comes before those that are there.
        now_ms = max(self.context.now_ms(), self._watermark_ms.value + 1)
        return np.full(batch.num_rows, now_ms, dtype=np.int64)

    def _can_meet(self, times: Array, chunk: Chunk, side: int) -> bool:
        least, greatest = int(times.min(initial=WATERMARK_MAX)), int(times.max(initial=WATERMARK_MIN))
        if side == _LEFT:
            return (
                least - chunk.latest <= self.spec.upper_ms and greatest - chunk.earliest >= self.spec.lower_ms
            )
        return chunk.earliest - greatest <= self.spec.upper_ms and chunk.latest - least >= self.spec.lower_ms

    def _probe(
        self, batch: pa.RecordBatch, times: Array, matched: Array, chunk: Chunk, side: int, output: Output
    ) -> None:
        mine = [batch.column(k) for k in self._keys[side]]
        theirs = [chunk.batch.column(k) for k in self._keys[1 - side]]
        index = self._index_of(chunk, theirs, batch.num_rows)
        if index is not None:
            lower, upper = self.spec.lower_ms, self.spec.upper_ms
            near = (-upper, -lower) if side == _LEFT else (lower, upper)
            for rows in index.probe(mine, times + near[0], times + near[1]):
                self._join(batch, matched, chunk, side, rows, output)
            return
        for mine_rows, their_rows in equal_pairs(mine, theirs, (batch.num_rows, chunk.batch.num_rows)):
            distance = times[mine_rows] - chunk.times[their_rows]
            if side == _RIGHT:
                distance = -distance
            is_near = (distance >= self.spec.lower_ms) & (distance <= self.spec.upper_ms)
            if is_near.any():
                rows = mine_rows[is_near], their_rows[is_near]
                self._join(batch, matched, chunk, side, rows, output)

    def _index_of(self, chunk: Chunk, keys: list[pa.Array], probe_rows: int) -> ChunkIndex | None:
        """The index of a chunk that is large beside the batch, once several batches have probed it."""
        if chunk.batch.num_rows < max(_INDEXED_ROWS_MIN, _INDEXED_TIMES * probe_rows):
            return None
        chunk.probes += 1
        if chunk.index is None and chunk.probes > _PROBES_MIN:
            chunk.index = ChunkIndex(keys, chunk.times)
            chunk.nbytes += chunk.index.nbytes
        index: ChunkIndex | None = chunk.index
        return index

    def _join(
        self,
        batch: pa.RecordBatch,
        matched: Array,
        chunk: Chunk,
        side: int,
        rows: tuple[Array, Array],
        output: Output,
    ) -> None:
        mine_rows, their_rows = rows
        left, right, left_rows, right_rows = (
            (batch, chunk.batch, mine_rows, their_rows)
            if side == _LEFT
            else (chunk.batch, batch, their_rows, mine_rows)
        )
        if not self.spec.kind.is_left_only:
            joined, passed = self._joined.pairs(left, right, left_rows, right_rows)
            output.emit(joined)
        else:
            passed = self._joined.passing(left, right, left_rows, right_rows)
        if self.spec.kind is JoinKind.SEMI and side == _RIGHT:
            met = np.unique(their_rows[passed])
            output.emit(self._joined.alone(chunk.batch, met[~chunk.is_matched[met]]))
        matched[mine_rows[passed]] = True
        chunk.is_matched[their_rows[passed]] = True

    def _keep(self, batch: pa.RecordBatch, times: Array, matched: Array, side: int, output: Output) -> None:
        """Store the rows that can still match; of the others, unmatched rows of an outer join are emitted at once."""
        if self.spec.kind is JoinKind.SEMI and side == _LEFT:
            output.emit(self._joined.alone(batch, np.flatnonzero(matched)))
        limit = self._expired_until(side)
        if limit == WATERMARK_MIN or int(times.min(initial=WATERMARK_MAX)) > limit:
            self._logs[side].append(batch, times, matched)
            return
        live = np.flatnonzero(times > limit)
        self.count_of_side(DONE, side, batch.num_rows - len(live))
        self._logs[side].append(batch.take(to_array(pa.int64(), live)), times[live], matched[live])
        if self.spec.kind.outputs_unmatched(side):
            self._emit_unmatched(batch, np.flatnonzero((times <= limit) & ~matched), side, output)

    def _emit_unmatched(self, batch: pa.RecordBatch, rows: Array, side: int, output: Output) -> None:
        output.emit(self._joined.unmatched(batch, rows, side, self.spec.kind))

    def _expired_until(self, side: int) -> int:
        """Greatest time of a row of that side that can no longer match."""
        watermark_ms = self._watermark_ms.value
        if watermark_ms in (WATERMARK_MIN, WATERMARK_MAX):
            return watermark_ms
        return watermark_ms - self._reach[side]

    def held_by_side(self) -> tuple[int, int] | None:
        left, right = self._logs
        return left.row_count, right.row_count

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if self.spec.is_event_time and watermark_ms > self._watermark_ms.value:
            self._advance(watermark_ms, output)
        if watermark_ms in (WATERMARK_MIN, WATERMARK_MAX):
            return watermark_ms
        # A pair emitted from now on has a row that is at most this far behind the watermark.
        return watermark_ms - max(self._reach)

    def next_processing_time_ms(self) -> int | None:
        if self.spec.is_event_time:
            return None
        due = [
            log.earliest + reach + 1
            for log, reach in zip(self._logs, self._reach, strict=True)
            if log.earliest != WATERMARK_MAX
        ]
        return min(due, default=None)

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        if not self.spec.is_event_time:
            self._advance(max(now_ms - 1, self._watermark_ms.value), output)

    def on_finish(self, output: Output) -> None:
        self._advance(WATERMARK_MAX, output)

    def _advance(self, watermark_ms: int, output: Output) -> None:
        self._watermark_ms.value = watermark_ms
        for side, log in enumerate(self._logs):
            for chunk in log.take_until(self._expired_until(side)):
                self.count_of_side(DONE, side, chunk.batch.num_rows)
                if self.spec.kind.outputs_unmatched(side):
                    self._emit_unmatched(chunk.batch, np.flatnonzero(~chunk.is_matched), side, output)
