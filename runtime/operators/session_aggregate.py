"""Aggregation by session window: partials of overlapping intervals are merged until the watermark passes their end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.accumulate import add_into
from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.group import group
from runtime.kernels.windows import merge_sessions_into
from runtime.operators.aggregates.accumulator_set import row_argument_types
from runtime.operators.aggregates.partials import MergedPartials, Partials, RawRows, is_mergeable
from runtime.operators.closing import LATE, ClosingOperator
from runtime.operators.key_group_column import load_columns, save_columns
from runtime.operators.operator import OperatorContext, OperatorSnapshot, Output
from runtime.operators.windowing import times_ms, window_batch
from runtime.state.arrays import Array, first_slots
from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.specs.aggregate import WindowAggregateSpec

_LOG_ROWS_MIN = 262_144
"""Partials that may wait unmerged, at least."""


class SessionAggregate(ClosingOperator):
    """Emits one row a key and session, when no row can extend the session any more.

    State: one partial a key and open session (every row, when a call cannot be merged), kept as a log that is merged before
    sessions fire. A row that would only form a session that is already closed is late: dropped and counted.
    Columns of the log: keys, partials, session start, session end (= last time + gap), number of rows.
    """

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = context.input_schemas[0]
        types = row_argument_types(spec.aggregates, schema)
        self._form: Partials = (
            MergedPartials(spec.aggregates, types)
            if is_mergeable(spec.aggregates)
            else RawRows(spec.aggregates, types, schema)
        )
        self._schema = to_arrow_schema(context.output_schema)
        self._keys = len(spec.keys)
        self._gap_ms = spec.window.size_ms
        self._log: list[list[pa.Array]] = []
        self._log_rows = 0
        self._merged_rows = 0

    # -- input -------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        times = self._times(batch)
        columns = self._partials(batch, times)
        self._log.append(columns)
        self._log_rows += len(columns[-1])
        ends = view_values(columns[-2], np.int64)
        earliest = int(ends.min(initial=WATERMARK_MAX))
        self.next_end = min(self.next_end, earliest)
        if earliest - 1 <= self.closed_ms:
            # Some rows may be late; whether they are depends on the sessions they fall into.
            self._merge_log()
            self._drop_late()
        elif self._log_rows > max(_LOG_ROWS_MIN, 2 * self._merged_rows):
            self._merge_log()

    def _times(self, batch: pa.RecordBatch) -> Array:
        if self.spec.window.is_event_time:
            return times_ms(batch.column(self.spec.time_column))
        return np.repeat(np.int64(self.context.now_ms()), batch.num_rows)

    def _partials(self, batch: pa.RecordBatch, times: Array) -> list[pa.Array]:
        """Rows of the batch as one partial a key and session within the batch, or as they are."""
        keys = [batch.column(k) for k in self.spec.keys]
        ends = times + self._gap_ms
        ones = np.ones(batch.num_rows, dtype=np.int64)
        if not self._form.is_merging:
            partials = self._form.from_rows(batch, ones, batch.num_rows)
            return [*keys, *partials, *(to_array(pa.int64(), column) for column in (times, ends, ones))]
        sessions, count = _number_sessions(_dense_groups(keys, batch.num_rows), times, ends)
        partials = self._form.from_rows(batch, sessions, count)
        return _one_each(keys, partials, sessions, count, times, ends, ones)

    def _merge_log(self) -> None:
        """Put the log together: one partial a key and session, or all rows that are kept."""
        if len(self._log) <= 1:
            return
        columns = [pa.concat_arrays([part[i] for part in self._log]) for i in range(len(self._log[0]))]
        if self._form.is_merging:
            keys, partials = columns[: self._keys], columns[self._keys : -3]
            starts, ends, rows = (view_values(column, np.int64) for column in columns[-3:])
            sessions, count = _number_sessions(_dense_groups(keys, len(starts)), starts, ends)
            together = self._form.together(partials, sessions, count).columns(first_slots(count))
            columns = _one_each(keys, together, sessions, count, starts, ends, rows)
        self._log = [columns]
        self._log_rows = self._merged_rows = len(columns[-1])

    def _sessions(self) -> tuple[Array, Array]:
        """Session of each row of the merged log, and the end of each session."""
        columns = self._log[0]
        starts, ends = (view_values(column, np.int64) for column in columns[-3:-1])
        if self._form.is_merging:
            return np.arange(len(ends)), ends
        sessions, count = _number_sessions(_dense_groups(columns[: self._keys], len(ends)), starts, ends)
        last = np.full(count, WATERMARK_MIN)
        np.maximum.at(last, sessions, ends)
        return sessions, last

    def _drop_late(self) -> None:
        sessions, ends = self._sessions()
        late = (ends - 1 <= self.closed_ms)[sessions]
        if late.any():
            self.context.count(LATE, int(view_values(self._log[0][-1], np.int64)[late].sum()))
            self._keep(np.flatnonzero(~late))

    def _keep(self, rows: Array) -> None:
        chosen = pa.array(rows)
        self._log = [[column.take(chosen) for column in self._log[0]]]
        self._log_rows = self._merged_rows = len(rows)
        self.next_end = int(self._sessions()[1].min(initial=WATERMARK_MAX))

    # -- time --------------------------------------------------------------------------------------

    def close_windows(self, watermark_ms: int, output: Output) -> None:
        self._merge_log()
        sessions, ends = self._sessions()
        closed = (ends - 1 <= watermark_ms)[sessions]
        if closed.any():
            self._emit(np.flatnonzero(closed), sessions[closed], output)
        self._keep(np.flatnonzero(~closed))

    def _emit(self, rows: Array, sessions: Array, output: Output) -> None:
        chosen = pa.array(rows)
        taken = [column.take(chosen) for column in self._log[0]]
        _, numbers = np.unique(sessions, return_inverse=True)
        count = int(numbers.max()) + 1
        starts, ends, _ = (view_values(column, np.int64) for column in taken[-3:])
        results = self._form.together(taken[self._keys : -3], numbers.astype(np.int64), count)
        bounds = _one_each(taken[: self._keys], [], numbers, count, starts, ends, starts)
        first, last = (view_values(column, np.int64) for column in bounds[-3:-1])
        # Sessions go out in the order in which they end.
        order = np.argsort(last, kind="stable")
        by_end = pa.array(order)
        columns = [*(key.take(by_end) for key in bounds[: self._keys]), *results.results(order)]
        output.emit(window_batch(self._schema, columns, first[order], last[order]))

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> OperatorSnapshot:
        self._merge_log()
        if not self._log:
            return self.save_clock(OperatorSnapshot())
        sessions = save_columns(self._log[0], self._keys, self.context.max_parallelism)
        return self.save_clock(OperatorSnapshot({"sessions": sessions}))

    def restore(self, snapshot: OperatorSnapshot) -> None:
        self.restore_clock(snapshot)
        sessions = load_columns(snapshot.keyed.get("sessions"))
        if sessions is not None:
            self._log = [sessions]
            self._keep(np.arange(len(sessions[-1])))

    def state_bytes(self) -> int:
        return sum(column.nbytes for columns in self._log for column in columns)


def _one_each(
    keys: list[pa.Array],
    partials: list[pa.Array],
    sessions: Array,
    count: int,
    starts: Array,
    ends: Array,
    rows: Array,
) -> list[pa.Array]:
    """One row a session: its keys, `partials` (already one a session), least start, greatest end, number of rows."""
    first = np.full(count, WATERMARK_MAX)
    np.minimum.at(first, sessions, starts)
    last = np.full(count, WATERMARK_MIN)
    np.maximum.at(last, sessions, ends)
    totals = np.zeros(count, dtype=np.int64)
    add_into(totals, np.ascontiguousarray(sessions, dtype=np.int64), np.ascontiguousarray(rows))
    owner = np.empty(count, dtype=np.int64)
    owner[sessions] = np.arange(len(sessions))
    chosen = pa.array(owner)
    bounds = [to_array(pa.int64(), column) for column in (first, last, totals)]
    return [*(key.take(chosen) for key in keys), *partials, *bounds]


def _dense_groups(keys: list[pa.Array], rows: int) -> Array:
    return group(keys)[0] if keys else np.zeros(rows, dtype=np.int64)


def _number_sessions(groups: Array, starts: Array, ends: Array) -> tuple[Array, int]:
    """Dense session number of each interval, and how many sessions there are."""
    order = np.lexsort((starts, groups))
    sessions = np.empty(len(order), dtype=np.int64)
    count = merge_sessions_into(
        groups, np.ascontiguousarray(starts), np.ascontiguousarray(ends), order, sessions
    )
    return sessions, int(count)
