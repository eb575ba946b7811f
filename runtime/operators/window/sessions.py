"""Aggregation by session window: partials of overlapping intervals are merged until the watermark passes their end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS
from sqlstream.runtime.aggregates.partials import Partials, row_partials
from sqlstream.runtime.kernels.accumulate import add_into, count_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.kernels.windows import follow_sessions_into, merge_sessions_into
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.window.closing import LATE, ClosingOperator
from sqlstream.runtime.operators.window.windowing import times_ms, window_batch
from sqlstream.runtime.state.logs.slice_log import SliceChunk, SliceColumns, SliceLog, concat
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.schema import Schema
from sqlstream.specs.aggregate import WindowAggregateSpec

_LOG_ROWS_MIN = 262_144
"""A log with fewer partials is not merged before sessions close."""


class SessionAggregate(ClosingOperator):
    """Emits one row per key and session, when no later row can extend the session.

    State: one partial per key and open session (every row, when a call cannot be merged), in a log that is merged before
    sessions fire. A row is late when it extends no open session and its own session would be closed: dropped and counted.
    Columns of the log: keys, partials, session start, session end (= last time + gap), number of rows.
    """

    bounds = ("$session_start", "$session_end", "$rows")
    lateness_ms = 0
    """How long after its end a session may be extended."""

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = context.input_schemas[0]
        self._form: Partials = self._made_form(schema)
        self._keys = len(spec.keys)
        self._gap_ms = spec.window.size_ms
        names = [*(schema.names[k] for k in spec.keys), *self._form.names(schema), *self.bounds]
        columns = SliceColumns(names, range(self._keys), end=-2)
        self._log = context.state.add(SliceLog("sessions", columns, context.state.scope))
        self._merged: SliceChunk | None = None

    def _made_form(self, schema: Schema) -> Partials:
        return row_partials(self.spec.aggregates, schema)

    # -- input -------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        times = self._times(batch)
        columns = self._partials(batch, times)
        if len(columns[-1]) == 0:
            return
        earliest = self._log.append(columns)
        self.next_end = min(self.next_end, earliest)
        if earliest - 1 + self.lateness_ms <= self.closed_ms:
            # Some rows may be late, which depends on the sessions that they extend.
            self._drop_late()
        elif self._log.rows > max(_LOG_ROWS_MIN, 2 * (self._merged.rows if self._merged else 0)):
            self._merge_log()

    def _times(self, batch: pa.RecordBatch) -> Array:
        if self.spec.window.is_event_time:
            return self.clock.local_ms(times_ms(batch.column(self.spec.time_column)))
        # The clock may be set back, or be that of another machine after a restart: no row is late for it.
        now_ms = max(self.clock.now_ms(self.context.now_ms()), self.closed_ms + 1)
        return np.repeat(np.int64(now_ms), batch.num_rows)

    def _partials(self, batch: pa.RecordBatch, times: Array) -> list[pa.Array]:
        """The batch as one partial per key and session within the batch, or as its rows."""
        keys = [batch.column(k) for k in self.spec.keys]
        ends = times + self._gap_ms
        if not self._form.is_merging:
            ones = np.ones(batch.num_rows, dtype=np.int64)
            partials = self._form.from_rows(batch, ones, batch.num_rows)
            return [*keys, *partials, *_int64s(times, ends, ones)]
        found = find_sessions(keys, times, ends)
        partials = self._form.from_rows(batch, found.sessions, found.count)
        rows = np.zeros(found.count, dtype=np.int64)
        count_into(rows, found.sessions, NO_WEIGHTS)
        return found.one_each(keys, partials, rows)

    def _merge_log(self) -> list[pa.Array]:
        """Make the log one chunk and return its columns: one partial per key and session, or, when a call cannot be merged,
        all its rows. The log is not empty."""
        chunks = self._log.chunks
        if len(chunks) == 1 and chunks[0] is self._merged:
            return chunks[0].columns
        columns = concat(chunks)
        if self._form.is_merging:
            keys, partials = columns[: self._keys], columns[self._keys : -3]
            starts, ends, parts = (view_values(column, np.int64) for column in columns[-3:])
            found = find_sessions(keys, starts, ends)
            together = self._form.together(partials, found.sessions, found.count)
            rows = np.zeros(found.count, dtype=np.int64)
            add_into(rows, found.sessions, parts)
            columns = found.one_each(keys, together.columns(first_slots(found.count)), rows)
        self._merged = self._log.replace_by(columns)
        return columns

    def _sessions(self, columns: list[pa.Array]) -> Sessions:
        """The sessions of rows of the merged log."""
        starts, ends = (view_values(column, np.int64) for column in columns[-3:-1])
        if self._form.is_merging:
            rows = first_slots(len(ends))
            return Sessions(rows, rows, starts, ends)
        return find_sessions(columns[: self._keys], starts, ends)

    def _drop_late(self) -> None:
        columns = self._merge_log()
        found = self._sessions(columns)
        late = (found.ends - 1 + self.lateness_ms <= self.closed_ms)[found.sessions]
        if late.any():
            self.context.count(LATE, int(view_values(columns[-1], np.int64)[late].sum()))
            self._keep(columns, ~late)

    def _keep(self, columns: list[pa.Array], mask: Array) -> None:
        chosen = to_array(pa.int64(), np.flatnonzero(mask))
        kept = [column.take(chosen) for column in columns]
        self._merged = self._log.replace_by(kept)
        self.next_end = int(self._sessions(kept).ends.min(initial=WATERMARK_MAX))

    # -- time --------------------------------------------------------------------------------------

    def on_restored(self) -> None:
        if self._log.chunks:
            self.next_end = int(self._sessions(self._merge_log()).ends.min())

    def close_windows(self, watermark_ms: int, output: Output) -> None:
        # There is an open session: `next_end` says so.
        columns = self._merge_log()
        found = self._sessions(columns)
        closed = (found.ends - 1 <= watermark_ms)[found.sessions]
        if not closed.any():
            self.next_end = int(found.ends.min())
            return
        self._keep(columns, ~closed)
        if not closed.all():
            chosen = to_array(pa.int64(), np.flatnonzero(closed))
            columns = [column.take(chosen) for column in columns]
        self._emit(columns, output)

    def _emit(self, columns: list[pa.Array], output: Output) -> None:
        """Emit the sessions of these rows, in the order in which they end."""
        found = self._sessions(columns)
        results = self._form.together(columns[self._keys : -3], found.sessions, found.count)
        order = np.argsort(found.ends, kind="stable")
        owners = to_array(pa.int64(), found.first_rows[order])
        rows = [*(key.take(owners) for key in columns[: self._keys]), *results.results(order)]
        ends = found.ends[order]
        batch = window_batch(self.schema, rows, found.starts[order], ends, self.clock)
        self.emit_once(batch, ends, output)


@dataclass(frozen=True)
class Sessions:
    """The session of each interval, int64[n], and of each session: its first interval, its start and its end."""

    sessions: Array
    first_rows: Array
    starts: Array
    ends: Array

    @property
    def count(self) -> int:
        return len(self.first_rows)

    def one_each(self, keys: list[pa.Array], partials: list[pa.Array], rows: Array) -> list[pa.Array]:
        """The log's columns with one row per session; `keys` has one row per interval, `partials` and `rows` one per session."""
        owners = to_array(pa.int64(), self.first_rows)
        return [*(key.take(owners) for key in keys), *partials, *_int64s(self.starts, self.ends, rows)]


def find_sessions(keys: list[pa.Array], starts: Array, ends: Array) -> Sessions:
    """Merge intervals of equal keys that overlap or touch into sessions."""
    starts, ends = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
    rows = len(starts)
    groups, group_count = np.zeros(rows, dtype=np.int64), 1
    if keys:
        groups, representatives = group(keys)
        group_count = len(representatives)
    current = np.full(group_count, -1, dtype=np.int64)
    sessions, first_rows, least, greatest, ends_before = (np.empty(rows, dtype=np.int64) for _ in range(5))
    found = (sessions, first_rows, least, greatest)
    count = follow_sessions_into(groups, starts, ends, current, ends_before, *found)
    if count < 0:
        count = merge_sessions_into(groups, starts, ends, np.lexsort((starts, groups)), *found)
    # Copies, because the log stores them: a slice would keep the whole array in memory.
    return Sessions(sessions, first_rows[:count], least[:count].copy(), greatest[:count].copy())


def _int64s(*columns: Array) -> list[pa.Array]:
    return [to_array(pa.int64(), column) for column in columns]
