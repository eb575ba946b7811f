"""Window table functions: append the bounds of its windows to each row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds, signs_of, to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.runtime.aggregates.partials import Partials, WholeRows
from sqlstream.runtime.evaluate.time.intervals import milliseconds_of
from sqlstream.runtime.evaluate.time.local_time import from_local, to_local
from sqlstream.runtime.evaluate.time.time_range import require_range
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.closing import LATE, ClosingOperator
from sqlstream.runtime.operators.window.sessions import SessionAggregate, Sessions, find_sessions
from sqlstream.runtime.operators.window.windowing import (
    WindowClock,
    slice_ends,
    times_ms,
    window_batch,
    windows_of_slices,
)
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.runtime.update_pairs import derived_kinds
from sqlstream.schema import Schema
from sqlstream.specs.aggregate import WindowAggregateSpec
from sqlstream.specs.window import WindowKind, WindowTvfSpec
from sqlstream.times import check_time_zone


def make_window_tvf(spec: WindowTvfSpec, context: OperatorContext) -> Operator[Any]:
    """The operator for the kind of window."""
    if spec.window.kind is WindowKind.SESSION:
        is_changing = not context.input_modes[0].is_insert_only
        return ChangingSessionTvf(spec, context) if is_changing else SessionTvf(spec, context)
    return WindowTvf(spec, context)


class WindowTvf(Operator[WindowTvfSpec]):
    """Emits each row once per window that holds it, earliest first, with the window's bounds and time. No state."""

    def __init__(self, spec: WindowTvfSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._time_zone = check_time_zone(spec.window.time_zone)
        self._clock = WindowClock(spec.window.time_zone)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if batch.num_rows == 0:
            return
        window = self.spec.window
        ends = slice_ends(window, self._times_ms(batch))
        rows, starts = None, ends - window.size_ms
        if window.kind is not WindowKind.TUMBLE:
            rows, starts, ends = windows_of_slices(window, ends)
        columns = batch.columns
        kinds = [columns.pop()] if is_changelog(batch) else []
        if rows is not None:
            columns = [c.take(pa.array(rows)) for c in columns]
            kinds = [pa.array(derived_kinds(row_kinds(batch), rows))] if kinds else []
        bounds = [self._bound(starts, -3), self._bound(ends, -2), self._bound(ends - 1, -1)]
        output.emit(pa.RecordBatch.from_arrays([*columns, *bounds, *kinds], schema=self._schema))

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        return self._clock.forwarded_ms(watermark_ms) if self.spec.window.is_event_time else watermark_ms

    def _times_ms(self, batch: pa.RecordBatch) -> Array:
        """Milliseconds of each row: its event time, or the clock's time. A retraction has the time of its row in its column."""
        zone = self._time_zone
        if not self.spec.window.is_event_time and self.context.input_modes[0].is_insert_only:
            instant = pa.array([self.context.now_ms()], pa.int64()).view(pa.timestamp("ms", tz="UTC"))
            return np.full(
                batch.num_rows, milliseconds_of(to_local(instant, zone))[0].as_py(), dtype=np.int64
            )
        column = batch.column(self.spec.time_column)
        if column.null_count:
            name = self.context.input_schemas[0].names[self.spec.time_column]
            raise UserError(
                "SS5104", f'rowtime "{name}" is null', hint=f"filter such rows out: WHERE {name} IS NOT NULL"
            )
        return view_values(milliseconds_of(to_local(column, zone)), np.int64)

    def _bound(self, times_ms: Array, column: int) -> pa.Array:
        """A window column; window_time of a TIMESTAMP_LTZ input is an instant again."""
        has_kinds = not self.context.output_mode.is_insert_only
        target = self._schema.field(len(self._schema) + column - has_kinds).type
        local = require_range(pa.array(times_ms).view(pa.timestamp("ms")))
        return local if local.type == target else from_local(local, target, self._time_zone)


class SessionTvf(SessionAggregate):
    """Emits the rows of a session with its bounds when no later row can extend it, session by session as they end.

    State: the rows of open sessions. Late rows are dropped and counted.
    """

    def __init__(self, spec: WindowTvfSpec, context: OperatorContext) -> None:
        # An aggregation without calls, whose partials are the rows themselves.
        super().__init__(WindowAggregateSpec(spec.keys, (), spec.window, spec.time_column), context)

    def _made_form(self, schema: Schema) -> Partials:
        return WholeRows(schema)

    def _emit(self, columns: list[pa.Array], output: Output) -> None:
        found = self._sessions(columns)
        starts, ends = found.starts[found.sessions], found.ends[found.sessions]
        order = np.argsort(ends, kind="stable")
        chosen = to_array(pa.int64(), order)
        rows = [column.take(chosen) for column in columns[self._keys : -3]]
        output.emit(window_batch(self.schema, rows, starts[order], ends[order], self.clock))


_INSTANT = pa.timestamp("ms", tz="UTC")


class _Found(NamedTuple):
    """The rows that are there and their sessions; `ends` are those of the rows alone."""

    slots: Array
    ends: Array
    sessions: Sessions


class ChangingSessionTvf(ClosingOperator):
    """Emits the rows that are left of a session when it closes, each once, session by session as they end: insertions alone.

    A retraction takes its row away, which may make a session shorter or cut it in two. A part that ends before the watermark is
    emitted with the next one; so the watermark that goes on is held back, before the first end that a part can have.
    State: the rows of open sessions with their counts. A row is late when it extends no open session and its own would be
    closed; a retraction when its row is gone. Both are dropped and counted.
    """

    def __init__(self, spec: WindowTvfSpec, context: OperatorContext) -> None:
        super().__init__(WindowAggregateSpec(spec.keys, (), spec.window, spec.time_column), context)
        schema = to_arrow_schema(context.input_schemas[0])
        self._keys, self._time = spec.keys, spec.time_column
        self._gap_ms = spec.window.size_ms
        scope = context.state.scope
        self._table = context.state.add(KeyedMultiset("rows", schema, spec.keys, scope, list_length=0))
        # At or before the first end of a row of an open session.
        self._first_end = WATERMARK_MAX
        self._forwarded_ms = WATERMARK_MIN

    # -- input -------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if batch.num_rows == 0:
            return
        signs = signs_of(row_kinds(batch))
        keys, row_slots = self._table.apply(batch)
        self._table.writing(np.unique(keys))
        ends = self._ends(batch.column(self._time))
        earliest = int(ends.min())
        if earliest - 1 <= self.closed_ms:
            self._drop_late(row_slots, signs)
        self._table.sweep(np.unique(row_slots))
        # What a retraction leaves of a session ends a gap before it at the earliest.
        gone = ends[signs < 0]
        self.next_end = min(self.next_end, earliest, int(gone.min(initial=WATERMARK_MAX)) - self._gap_ms)
        self._first_end = min(self._first_end, earliest)

    def _drop_late(self, row_slots: Array, signs: Array) -> None:
        changed, numbers = np.unique(row_slots, return_inverse=True)
        sums = np.bincount(numbers, weights=signs, minlength=len(changed)).astype(np.int64)
        after = self._table.rows.counts[changed]
        found = self._found()
        # A session that has closed and has no row from before is one of late rows.
        places = np.minimum(np.searchsorted(changed, found.slots), len(changed) - 1)
        was_there = (changed[places] != found.slots) | ((after - sums)[places] > 0)
        has_old = np.zeros(found.sessions.count, dtype=bool)
        has_old[found.sessions.sessions[was_there]] = True
        late = ((found.sessions.ends - 1 <= self.closed_ms) & ~has_old)[found.sessions.sessions]
        self._drop(found.slots[late])
        absent = changed[after < 0]
        self._drop(absent[self._ends_of(absent) - 1 <= self.closed_ms])

    def _drop(self, slots: Array) -> None:
        if len(slots):
            self.context.count(LATE, int(np.abs(self._table.rows.counts[slots]).sum()))
            self._table.forget(slots)

    def _ends(self, times: pa.Array) -> Array:
        ends: Array = self.clock.local_ms(times_ms(times)) + self._gap_ms
        return ends

    def _ends_of(self, slots: Array) -> Array:
        return self._ends(self._table.rows.columns(slots, [self._time])[0])

    def _found(self) -> _Found:
        slots = self._table.rows.slots()
        slots = slots[self._table.rows.counts[slots] > 0]
        *keys, times = self._table.rows.columns(slots, [*self._keys, self._time])
        ends = self._ends(times)
        return _Found(slots, ends, find_sessions(keys, ends - self._gap_ms, ends))

    # -- time --------------------------------------------------------------------------------------

    def on_restored(self) -> None:
        self._see(self._found())

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        forwarded_ms = super().on_watermark(watermark_ms, output)
        if forwarded_ms is None or watermark_ms in (WATERMARK_MIN, WATERMARK_MAX):
            return forwarded_ms
        self._forwarded_ms = max(self._forwarded_ms, min(forwarded_ms, self._held_ms()))
        return self._forwarded_ms

    def _held_ms(self) -> int:
        """The last watermark that closes no window which ends with a row of an open session."""
        if self._first_end == WATERMARK_MAX:
            return WATERMARK_MAX
        end = to_array(pa.int64(), np.array([self._first_end])).view(pa.timestamp("ms"))
        return int(view_values(self.clock.instants(end, _INSTANT), np.int64)[0]) - 2

    def close_windows(self, watermark_ms: int, output: Output) -> None:
        found = self._found()
        closed = (found.sessions.ends - 1 <= watermark_ms)[found.sessions.sessions]
        if closed.any():
            self._emit(found, closed, output)
            self._table.forget(found.slots[closed])
        absent = self._absent()
        self._drop(absent[self._ends_of(absent) - 1 <= watermark_ms])
        self._see(self._found())

    def _absent(self) -> Array:
        """Rows whose retraction came and that did not."""
        slots = self._table.rows.slots()
        return slots[self._table.rows.counts[slots] < 0]

    def _see(self, found: _Found) -> None:
        absent = int(self._ends_of(self._absent()).min(initial=WATERMARK_MAX))
        self.next_end = min(int(found.sessions.ends.min(initial=WATERMARK_MAX)), absent)
        self._first_end = int(found.ends.min(initial=WATERMARK_MAX))

    def _emit(self, found: _Found, closed: Array, output: Output) -> None:
        """Emit the rows of these sessions, in the order in which they end."""
        numbers = found.sessions.sessions[closed]
        order = np.argsort(found.sessions.ends[numbers], kind="stable")
        slots, numbers = found.slots[closed][order], numbers[order]
        copies = self._table.rows.counts[slots]
        rows = self._table.rows.take(np.repeat(slots, copies))
        numbers = np.repeat(numbers, copies)
        bounds = found.sessions.starts[numbers], found.sessions.ends[numbers]
        output.emit(window_batch(self.schema, list(rows.columns), *bounds, self.clock))
