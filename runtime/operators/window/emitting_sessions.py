"""Aggregation by session windows that emit their results before they close, and update them by late rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MAX
from sqlstream.runtime.kernels.accumulate import add_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.group import group
from sqlstream.runtime.operators.aggregate.result_changes import result_changes
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.window.sessions import SessionAggregate, Sessions
from sqlstream.runtime.state.logs.slice_log import SliceColumns, SliceLog, concat
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.aggregate import EmitSpec, WindowAggregateSpec


class EmittingSessionAggregate(SessionAggregate):
    """Emits the changes of all sessions at once: when a delay has passed, and when one of them closes or is forgotten. A session
    that a row extends, or joins with another one, has other bounds: its old result is deleted before the new one is inserted.

    State: that of SessionAggregate, until `lateness_ms` after a session's end, and `emitted`, the results that were emitted last.
    Columns of `emitted`: keys, results, session start, session end, number of rows, by which a change of a session is known.
    """

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext, emit: EmitSpec) -> None:
        super().__init__(spec, context)
        self.lateness_ms = emit.lateness_ms
        self._emit_spec = emit
        self._results = list(self.schema)[self._keys : -3]
        names = [field.name for field in list(self.schema)[:-3]]
        columns = SliceColumns([*names, *self.bounds], range(self._keys), end=-2)
        self._emitted = context.state.add(SliceLog("emitted", columns, context.state.scope))
        self._due_ms = WATERMARK_MAX

    # -- input -------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        super().on_batch(batch, input_index, output)
        # A row that is behind the watermark may extend a session that is open, or one that is not: that is open again then.
        is_behind = self.next_end - 1 <= self.closed_ms
        if self.lateness_ms and not is_behind:
            is_behind = int(self._times(batch).min(initial=WATERMARK_MAX)) - 1 <= self.closed_ms
        delay_ms = self._emit_spec.early_ms
        if is_behind:
            self.next_end = self._next_end()
            if self.lateness_ms:
                late_ms = self._emit_spec.late_ms
                delay_ms = min(delay_ms, late_ms) if delay_ms >= 0 else late_ms
        if delay_ms == 0:
            self._fire(self.closed_ms, output)
        elif delay_ms > 0:
            self._due_ms = min(self._due_ms, self.context.now_ms() + delay_ms)

    # -- time --------------------------------------------------------------------------------------

    def on_restored(self) -> None:
        self.next_end = self._next_end()
        if self.next_end != WATERMARK_MAX:
            delay_ms = max(self._emit_spec.early_ms, self._emit_spec.late_ms, 0)
            self._due_ms = self.context.now_ms() + delay_ms

    @property
    def due_ms(self) -> int:
        return self._due_ms

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        super().on_processing_time(now_ms, output)
        if self._due_ms <= now_ms:
            self._fire(self.closed_ms, output)

    def close_windows(self, watermark_ms: int, output: Output) -> None:
        self._fire(watermark_ms, output)
        if self._log.chunks:
            columns = self._merge_log()
            self._keep(columns, self._is_reached(self._ends_of_rows(self._log, columns), watermark_ms))
        if self._emitted.chunks:
            columns = concat(self._emitted.chunks)
            kept = pa.array(self._is_reached(self._emitted.ends(columns), watermark_ms))
            self._emitted.replace_by([column.filter(kept) for column in columns])
        self.next_end = self._next_end(watermark_ms)

    def _is_reached(self, ends: Array, watermark_ms: int) -> Array:
        """Whether a row may still come to sessions with these ends."""
        reached: Array = ends - 1 + self.lateness_ms > watermark_ms
        return reached

    def _ends_of_rows(self, log: SliceLog, columns: list[pa.Array]) -> Array:
        """The end of the session that each row of the log is in."""
        if log is self._emitted:
            return log.ends(columns)
        found = self._sessions(columns)
        return found.ends[found.sessions]

    def _next_end(self, watermark_ms: int | None = None) -> int:
        """The first end of a session that is still to come, or the moment when one that has closed is forgotten: where the
        watermark has something to do."""
        closed_ms = self.closed_ms if watermark_ms is None else watermark_ms
        first = WATERMARK_MAX
        for log in (self._log, self._emitted):
            if log.chunks:
                columns = self._merge_log() if log is self._log else concat(log.chunks)
                ends = self._ends_of_rows(log, columns)
                moments = np.where(ends - 1 > closed_ms, ends, ends + self.lateness_ms)
                first = min(first, int(moments.min(initial=WATERMARK_MAX)))
        return first

    # -- firing ------------------------------------------------------------------------------------

    def _fire(self, closed_ms: int, output: Output) -> None:
        """Emit what has changed since the last time, of all sessions or, without early firing, of those that have closed."""
        self._due_ms = WATERMARK_MAX
        if not self._log.chunks and not self._emitted.chunks:
            return
        columns = self._merge_log() if self._log.chunks else None
        before = concat(self._emitted.chunks) if self._emitted.chunks else None
        shown = self._shown(columns, closed_ms) if columns is not None else None
        now = shown.columns if shown is not None else None
        sides = [side for side in (before, now) if side is not None]
        if not sides:
            return
        keyed = [
            pa.concat_arrays([side[i] for side in sides]) if len(sides) > 1 else sides[0][i]
            for i in (*range(self._keys), -3, -2)
        ]
        groups, first_rows = group(keyed)
        count, split = len(first_rows), len(before[-1]) if before is not None else 0
        places = [_places(side, count) for side in (groups[:split], groups[split:])]
        rows = [
            _at(side[-1] if side is not None else None, place)
            for side, place in zip((before, now), places, strict=True)
        ]
        is_new, is_gone = (place < 0 for place in places)
        changed = np.flatnonzero(is_new | is_gone | (rows[0] != rows[1]))
        if len(changed) == 0:
            return
        # What is deleted comes first: the session that takes its place may have the same key to the consumer.
        changed = changed[np.argsort(~is_gone[changed], kind="stable")]
        after = self._results_of(columns, shown, places[1][changed])
        given = before[self._keys : -3] if before is not None else []
        taken = pa.array(places[0][changed], mask=is_new[changed])
        old = [column.take(taken) for column in given] or [
            pa.nulls(len(changed), f.type) for f in self._results
        ]
        changes = result_changes(self.context.output_mode, is_new[changed], is_gone[changed], old, after)
        own = [key.take(to_array(pa.int64(), first_rows[changed])) for key in keyed]
        self._remember(before, places[0][changed], own, after, rows[1][changed], ~is_gone[changed])
        self.emit_changes(own, changes, output)

    def _shown(self, columns: list[pa.Array], closed_ms: int) -> _Shown:
        """The sessions of the log's rows that may have a result now."""
        found = self._sessions(columns)
        counts = np.zeros(found.count, dtype=np.int64)
        add_into(counts, found.sessions, view_values(columns[-1], np.int64))
        numbers = np.arange(found.count)
        if self._emit_spec.early_ms < 0:
            numbers = np.flatnonzero(found.ends - 1 <= closed_ms)
        owners = to_array(pa.int64(), found.first_rows[numbers])
        bounds = [to_array(pa.int64(), b[numbers]) for b in (found.starts, found.ends, counts)]
        return _Shown(found, numbers, [*(key.take(owners) for key in columns[: self._keys]), *bounds])

    def _results_of(
        self, columns: list[pa.Array] | None, shown: _Shown | None, places: Array
    ) -> list[pa.Array]:
        """The results of these of the shown sessions, NULL at -1."""
        is_there = places >= 0
        if columns is None or shown is None or not is_there.any():
            return [pa.nulls(len(places), field.type) for field in self._results]
        wanted = shown.numbers[places[is_there]]
        numbers = np.full(shown.found.count, -1, dtype=np.int64)
        numbers[wanted] = np.arange(len(wanted))
        of_rows = numbers[shown.found.sessions]
        rows = np.flatnonzero(of_rows >= 0)
        partials = [column.take(to_array(pa.int64(), rows)) for column in columns[self._keys : -3]]
        together = self._form.together(partials, of_rows[rows], len(wanted))
        results = together.results(np.arange(len(wanted)))
        back = pa.array(np.cumsum(is_there) - 1, mask=~is_there)
        return [result.take(back) for result in results]

    def _remember(
        self,
        before: list[pa.Array] | None,
        replaced: Array,
        own: list[pa.Array],
        after: list[pa.Array],
        counts: Array,
        is_kept: Array,
    ) -> None:
        kept = pa.array(is_kept)
        added = [
            column.filter(kept) for column in (*own[:-2], *after, *own[-2:], to_array(pa.int64(), counts))
        ]
        if before is not None:
            stays = np.ones(len(before[-1]), dtype=bool)
            stays[replaced[replaced >= 0]] = False
            mask = pa.array(stays)
            added = [pa.concat_arrays([b.filter(mask), a]) for b, a in zip(before, added, strict=True)]
        self._emitted.replace_by(added)


class _Shown:
    """Sessions that have a result: `numbers` in `found`, and their columns: keys, start, end, number of rows."""

    def __init__(self, found: Sessions, numbers: Array, columns: list[pa.Array]) -> None:
        self.found, self.numbers, self.columns = found, numbers, columns


def _places(groups: Array, count: int) -> Array:
    """The row of each group, -1 for none; no group has two."""
    places = np.full(count, -1, dtype=np.int64)
    places[groups] = np.arange(len(groups))
    return places


def _at(column: pa.Array | None, places: Array) -> Array:
    """The numbers at these places, -1 where there is none."""
    if column is None or len(column) == 0:
        return np.full(len(places), -1, dtype=np.int64)
    return np.where(places >= 0, view_values(column, np.int64)[places], -1)
