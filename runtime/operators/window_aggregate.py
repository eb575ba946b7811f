"""Aggregation by window: rows become slice partials at once; windows are put together when they close."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.group import extent, group
from runtime.kernels.windows import renumber_into
from runtime.operators.aggregates.accumulator import Array
from runtime.operators.aggregates.accumulator_set import (
    AccumulatorSet,
    partial_argument_types,
    row_argument_types,
)
from runtime.operators.aggregates.partials import MergedPartials, Partials, RawRows, is_mergeable
from runtime.operators.closing import LATE, ClosingOperator
from runtime.operators.group_aggregate import batch_groups
from runtime.operators.key_group_column import key_group_column
from runtime.operators.operator import KEY_GROUP_COLUMN, Operator, OperatorContext, OperatorSnapshot, Output
from runtime.operators.session_aggregate import SessionAggregate
from runtime.operators.windowing import (
    first_window_ends,
    greatest_end,
    last_window_ends,
    slice_ends,
    step_ms,
    times_ms,
    window_batch,
    window_starts,
)
from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.specs.aggregate import AggregatePhase, WindowAggregateSpec
from sqlstream.specs.window import WindowKind
from sqlstream.types import TypeRoot

_LOCAL_ROWS_MAX = 65_536
"""Partials that LOCAL holds before it hands them on, window end or not."""
_LOG_ROWS_MIN = 262_144
"""Partials that may wait uncompacted, at least: below it compaction costs more than it saves."""


def make_window_aggregate(
    spec: WindowAggregateSpec, context: OperatorContext
) -> Operator[WindowAggregateSpec]:
    """The operator of a phase and window kind."""
    if spec.window.time_zone != "UTC" and _is_local_time(spec, context):
        raise UserError(
            "SS3090",
            f'windows in time zone "{spec.window.time_zone}" are not supported yet',
            hint="SET 'table.local-time-zone' = 'UTC'",
        )
    if spec.phase is AggregatePhase.LOCAL:
        return LocalWindowAggregate(spec, context)
    if spec.window.kind is WindowKind.SESSION and spec.time_column >= 0:
        return SessionAggregate(spec, context)
    return SliceAggregate(spec, context)


def _is_local_time(spec: WindowAggregateSpec, context: OperatorContext) -> bool:
    """Whether windows are cut in local time: the time zone does not touch a TIMESTAMP without one."""
    if spec.time_column < 0:
        return False
    return context.input_schemas[0].types[spec.time_column].root is TypeRoot.TIMESTAMP_LTZ


class RowSlicer:
    """Turns rows into one partial a key and slice: what LOCAL sends, and what SINGLE keeps."""

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext, form: Partials) -> None:
        self._spec = spec
        self._context = context
        self._is_attached = spec.window_end_column >= 0
        self._form = form

    def partials(self, batch: pa.RecordBatch, closed_ms: int) -> list[pa.Array]:
        """Key columns, partials, slice ends [, window starts]; `closed_ms` is the watermark that late rows missed."""
        ends = self._slice_ends(batch)
        batch, ends = self._drop_late(batch, ends, closed_ms)
        keys = [batch.column(k) for k in self._spec.keys]
        parts = [*keys, to_array(pa.int64(), ends)]
        if self._is_attached:
            parts.append(to_array(pa.int64(), times_ms(batch.column(self._spec.window_start_column))))
        if self._form.is_merging:
            groups, first_rows = window_groups(keys, parts[len(keys) :])
            chosen = pa.array(first_rows)
            parts = [part.take(chosen) for part in parts]
        else:
            groups = first_rows = np.arange(batch.num_rows)
        partials = self._form.from_rows(batch, groups, len(first_rows))
        return [*parts[: len(keys)], *partials, *parts[len(keys) :]]

    def _slice_ends(self, batch: pa.RecordBatch) -> Array:
        if self._is_attached:
            return times_ms(batch.column(self._spec.window_end_column))
        if not self._spec.window.is_event_time:
            return np.repeat(
                slice_ends(self._spec.window, np.array([self._context.now_ms()])), batch.num_rows
            )
        return slice_ends(self._spec.window, times_ms(batch.column(self._spec.time_column)))

    def _drop_late(self, batch: pa.RecordBatch, ends: Array, closed_ms: int) -> tuple[pa.RecordBatch, Array]:
        has_watermarks = self._spec.row_watermark_column >= 0
        if not has_watermarks and (closed_ms == WATERMARK_MIN or not self._spec.window.is_event_time):
            return batch, ends
        last = ends if self._is_attached else last_window_ends(self._spec.window, ends)
        if has_watermarks:
            closed = view_values(batch.column(self._spec.row_watermark_column), np.int64)
            late = last - 1 <= closed
        else:
            late = last - 1 <= closed_ms
        if has_watermarks and self._spec.window.kind is WindowKind.CUMULATE and not self._is_attached:
            ends = self._open_slice_ends(ends, closed)
        dropped = int(np.count_nonzero(late))
        if dropped == 0:
            return batch, ends
        self._context.count(LATE, dropped)
        kept = np.flatnonzero(~late)
        return batch.take(pa.array(kept)), ends[kept]

    def _open_slice_ends(self, ends: Array, closed: Array) -> Array:
        """CUMULATE: the slice that only windows hold which a row's own watermark has not closed.

        Whether they have fired here already differs with the cut into batches; a later slice of the same window does not.
        """
        step = self._spec.window.slide_ms
        behind = np.maximum(closed, ends - 2) + 2 - ends
        return ends + -(-behind // step) * step


class LocalWindowAggregate(Operator[WindowAggregateSpec]):
    """Rows to partials, batch by batch. Lateness is GLOBAL's business unless rows carry their watermark.

    Event-time partials wait until a window can close: GLOBAL does nothing before, and a few large batches cost less on their
    way than many small ones. A watermark that closes no window ends here. State: those partials, at most about
    _LOCAL_ROWS_MAX, until they are handed on.
    """

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        types = row_argument_types(spec.aggregates, context.input_schemas[0])
        self._slicer = RowSlicer(spec, context, MergedPartials(spec.aggregates, types))
        self._schema = to_arrow_schema(context.output_schema)
        self._waits = spec.window.is_event_time and spec.time_column >= 0
        self._waiting: list[list[pa.Array]] = []
        self._rows = 0
        self._closed_end: int | None = None

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        self._waiting.append(self._slicer.partials(batch, WATERMARK_MIN))
        self._rows += len(self._waiting[-1][-1])
        if not self._waits or self._rows >= _LOCAL_ROWS_MAX:
            self._hand_on(output)

    def _hand_on(self, output: Output) -> None:
        if self._rows:
            output.emit(self._waiting_batch())
        self._waiting, self._rows = [], 0

    def _waiting_batch(self) -> pa.RecordBatch:
        columns = [pa.concat_arrays([part[i] for part in self._waiting]) for i in range(len(self._schema))]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        end = watermark_ms if watermark_ms == WATERMARK_MAX else greatest_end(self.spec.window, watermark_ms)
        if self._waits and end == self._closed_end:
            return None
        self._closed_end = end
        self._hand_on(output)
        return watermark_ms

    def on_idle(self, is_idle: bool, output: Output) -> bool | None:
        # Without this input, the others may close the windows of what waits here.
        self._hand_on(output)
        return is_idle

    def on_finish(self, output: Output) -> None:
        self._hand_on(output)

    def snapshot(self) -> OperatorSnapshot:
        if not self._rows:
            return OperatorSnapshot()
        columns = self._waiting_batch().columns
        groups = key_group_column(columns[: len(self.spec.keys)], self._rows, self.context.max_parallelism)
        names = [KEY_GROUP_COLUMN, *(f"c{i}" for i in range(len(columns)))]
        return OperatorSnapshot({"waiting": pa.table([groups, *columns], names=names)})

    def restore(self, snapshot: OperatorSnapshot) -> None:
        waiting = snapshot.keyed.get("waiting")
        if waiting is not None and waiting.num_rows:
            self._waiting = [list(waiting.combine_chunks().to_batches()[0].columns[1:])]
            self._rows = waiting.num_rows

    def state_bytes(self) -> int:
        return sum(column.nbytes for part in self._waiting for column in part)


class SliceAggregate(ClosingOperator):
    """Keeps partials of open windows and emits a window's results when it closes.

    State: one partial a key and slice (every row, when a call cannot be merged), in an append-only log that is compacted
    before windows fire and when it has doubled. A partial is forgotten when the last window that holds it has fired.
    """

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = context.input_schemas[0]
        self._is_global = spec.phase is AggregatePhase.GLOBAL
        self._is_attached = spec.window_end_column >= 0
        self._keys = len(spec.keys)
        if self._is_global:
            types = partial_argument_types(spec.aggregates, schema, self._keys)
            self._form: Partials = MergedPartials(spec.aggregates, types)
        else:
            self._form = row_form(spec, context)
            self._slicer = RowSlicer(spec, context, self._form)
        self._schema = to_arrow_schema(context.output_schema)
        self._log: list[list[pa.Array]] = []
        self._log_rows = 0
        self._compacted_rows = 0

    # -- input -------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        columns = (
            self._drop_late_partials(batch)
            if self._is_global
            else self._slicer.partials(batch, self.closed_ms)
        )
        if len(columns[-1]) == 0:
            return
        self._log.append(columns)
        self._log_rows += len(columns[-1])
        self._note_next_end(self._ends(columns))
        if self._log_rows > max(_LOG_ROWS_MIN, 2 * self._compacted_rows):
            self._compact()

    def _drop_late_partials(self, batch: pa.RecordBatch) -> list[pa.Array]:
        columns = batch.columns
        ends = self._ends(columns)
        last = ends if self._is_attached else last_window_ends(self.spec.window, ends)
        if self.closed_ms == WATERMARK_MIN or int(last.min(initial=WATERMARK_MAX)) - 1 > self.closed_ms:
            return list(columns)
        late = last - 1 <= self.closed_ms
        if not self.spec.window.is_event_time:
            # A partial that was under way while its window closed belongs to the window that is open now.
            current = slice_ends(self.spec.window, np.array([self.closed_ms + 1]))[0]
            columns = list(columns)
            columns[self._end_position()] = to_array(pa.int64(), np.where(late, current, ends))
            return columns
        self.context.count(LATE, int(np.count_nonzero(late)))
        return list(batch.take(pa.array(np.flatnonzero(~late))).columns)

    def _end_position(self) -> int:
        return -2 if self._is_attached else -1

    def _ends(self, columns: list[pa.Array]) -> Array:
        return view_values(columns[self._end_position()], np.int64)

    def _note_next_end(self, ends: Array) -> None:
        first = int(ends.min(initial=WATERMARK_MAX))
        if not self._is_attached:
            first = (
                int(first_window_ends(self.spec.window, np.array([first]))[0]) if len(ends) else WATERMARK_MAX
            )
        self.next_end = min(self.next_end, first)

    # -- time --------------------------------------------------------------------------------------

    def close_windows(self, watermark_ms: int, output: Output) -> None:
        self._concatenate()
        for columns in self._log:
            self._fire(columns, watermark_ms, output)
        self._forget(watermark_ms)

    def _forget(self, watermark_ms: int) -> None:
        kept = []
        self.next_end = WATERMARK_MAX
        for columns in self._log:
            ends = self._ends(columns)
            last = ends if self._is_attached else last_window_ends(self.spec.window, ends)
            rows = np.flatnonzero(last - 1 > watermark_ms)
            if len(rows):
                chosen = pa.array(rows)
                kept.append([column.take(chosen) for column in columns])
        self._log = kept
        self._log_rows = sum(len(columns[-1]) for columns in kept)
        self._compacted_rows = min(self._compacted_rows, self._log_rows)
        for columns in kept:
            first = self._first_open_ends(self._ends(columns), watermark_ms)
            self.next_end = min(self.next_end, int(first.min(initial=WATERMARK_MAX)))

    # -- putting windows together --------------------------------------------------------------------

    def _concatenate(self) -> None:
        """Make the log one run of rows."""
        if len(self._log) > 1:
            width = len(self._log[0])
            self._log = [[pa.concat_arrays([part[i] for part in self._log]) for i in range(width)]]

    def _compact(self) -> None:
        """Put the log together: one partial a key and slice, or all rows that are kept."""
        if len(self._log) <= 1:
            return
        self._concatenate()
        self._compacted_rows = self._log_rows
        if not self._form.is_merging:
            return
        columns = self._log[0]
        trailing = 2 if self._is_attached else 1
        keys = [*columns[: self._keys], *columns[len(columns) - trailing :]]
        merged_keys, accumulators = self._merge(keys, columns[self._keys : len(columns) - trailing])
        rows = np.arange(len(merged_keys[0]))
        self._log = [[*merged_keys[: self._keys], *accumulators.columns(rows), *merged_keys[self._keys :]]]
        self._log_rows = self._compacted_rows = len(rows)

    def _merge(self, keys: list[pa.Array], partials: list[pa.Array]) -> tuple[list[pa.Array], AccumulatorSet]:
        groups, first_rows = group(keys)
        chosen = pa.array(first_rows)
        return [key.take(chosen) for key in keys], self._form.together(partials, groups, len(first_rows))

    def _first_open_ends(self, ends: Array, closed_ms: int) -> Array:
        """End of the first window around each slice that the watermark `closed_ms` has not closed."""
        if self._is_attached:
            return ends
        first = first_window_ends(self.spec.window, ends)
        if closed_ms == WATERMARK_MIN:
            return first
        step = step_ms(self.spec.window)
        behind = np.maximum(closed_ms + 2 - first, 0)
        return first + -(-behind // step) * step

    def _fire(self, columns: list[pa.Array], watermark_ms: int, output: Output) -> None:
        ends = self._ends(columns)
        if self._is_attached or self.spec.window.kind is WindowKind.TUMBLE:
            self._fire_slices(columns, np.flatnonzero(ends - 1 <= watermark_ms), output)
            return
        first = self._first_open_ends(ends, self.closed_ms)
        last = last_window_ends(self.spec.window, ends)
        if watermark_ms != WATERMARK_MAX:
            last = np.minimum(last, greatest_end(self.spec.window, watermark_ms))
        if (first <= last).any():
            self._fire_overlapping(columns, int(first.min()), int(last.max()), output)

    def _fire_slices(self, columns: list[pa.Array], rows: Array, output: Output) -> None:
        """Windows of one slice each, whole windows in the order in which they close."""
        if len(rows) == 0:
            return
        ends = self._ends(columns)[rows]
        if not np.all(ends[:-1] <= ends[1:]):
            order = np.argsort(ends, kind="stable")
            rows, ends = rows[order], ends[order]
        taken = columns
        if len(rows) < len(columns[-1]) or not np.array_equal(rows, np.arange(len(rows))):
            chosen = pa.array(rows)
            taken = [column.take(chosen) for column in columns]
        bounds = taken[self._keys + self._form.width :]
        groups, first_rows = window_groups(taken[: self._keys], bounds)
        starts = (
            view_values(taken[-1], np.int64) if self._is_attached else window_starts(self.spec.window, ends)
        )
        self._emit(taken, groups, first_rows, starts[first_rows], ends[first_rows], output)

    def _fire_overlapping(
        self, columns: list[pa.Array], first_end: int, last_end: int, output: Output
    ) -> None:
        """Windows of several slices, one after the other: rows sorted by slice make each window one run of rows."""
        by_slice = np.argsort(self._ends(columns), kind="stable")
        chosen = pa.array(by_slice)
        columns = [column.take(chosen) for column in columns]
        slices = self._ends(columns)
        keys = columns[: self._keys]
        key_ids, distinct = batch_groups(keys, len(slices))
        scratch = np.zeros(len(distinct), dtype=np.int32)
        for start, end, low, high in self._runs(slices, first_end, last_end):
            groups, first_rows = _renumbered(key_ids[low:high], scratch)
            window = [column.slice(low, high - low) for column in columns]
            bounds = (np.full(len(first_rows), start), np.full(len(first_rows), end))
            self._emit(window, groups, first_rows, *bounds, output)

    def _runs(self, slices: Array, first_end: int, last_end: int) -> Iterator[tuple[int, int, int, int]]:
        """Start, end and rows [low, high) of every window up to `last_end` that holds one of the sorted slices."""
        end = first_end
        while end <= last_end:
            start = int(window_starts(self.spec.window, np.array([end]))[0])
            low, high = np.searchsorted(slices, (start, end), side="right")
            if low < high:
                yield start, end, int(low), int(high)
                end += step_ms(self.spec.window)
            elif high == len(slices):
                return
            else:
                # Time may jump by years: the empty windows in between are too many to look at.
                end = int(first_window_ends(self.spec.window, slices[high : high + 1])[0])

    def _emit(
        self,
        columns: list[pa.Array],
        groups: Array,
        first_rows: Array,
        starts: Array,
        ends: Array,
        output: Output,
    ) -> None:
        """One result row a group of log rows."""
        partials = columns[self._keys : self._keys + self._form.width]
        results = self._form.together(partials, groups, len(first_rows)).results(np.arange(len(first_rows)))
        keys = columns[: self._keys]
        if len(first_rows) < len(groups):
            chosen = pa.array(first_rows)
            keys = [key.take(chosen) for key in keys]
        output.emit(window_batch(self._schema, [*keys, *results], starts, ends))

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> OperatorSnapshot:
        self._compact()
        if not self._log:
            return self.save_clock(OperatorSnapshot())
        columns = self._log[0]
        groups = key_group_column(columns[: self._keys], len(columns[-1]), self.context.max_parallelism)
        names = [KEY_GROUP_COLUMN, *(f"c{i}" for i in range(len(columns)))]
        return self.save_clock(OperatorSnapshot({"slices": pa.table([groups, *columns], names=names)}))

    def restore(self, snapshot: OperatorSnapshot) -> None:
        self.restore_clock(snapshot)
        slices = snapshot.keyed.get("slices")
        if slices is not None and slices.num_rows:
            self._log = [list(slices.combine_chunks().to_batches()[0].columns[1:])]
            self._log_rows = self._compacted_rows = slices.num_rows
            first = self._first_open_ends(self._ends(self._log[0]), self.closed_ms)
            self.next_end = int(first.min(initial=WATERMARK_MAX))

    def state_bytes(self) -> int:
        return sum(column.nbytes for columns in self._log for column in columns)


def window_groups(keys: list[pa.Array], bounds: list[pa.Array]) -> tuple[Array, Array]:
    """Group of each row by keys and window bounds, and the first row of each group."""
    numbers = [view_values(bound, np.int64) for bound in bounds]
    # Rows mostly lie in one slice or window: then the keys alone decide, at half the cost.
    if len(numbers[0]) and all(least == greatest for least, greatest in map(extent, numbers)):
        return batch_groups(keys, len(numbers[0]))
    return group([*keys, *bounds])


def _renumbered(ids: Array, scratch: Array) -> tuple[Array, Array]:
    groups, first_rows = np.empty(len(ids), dtype=np.int64), np.empty(len(ids), dtype=np.int64)
    count = renumber_into(ids, scratch, groups, first_rows)
    return groups, first_rows[:count]


def row_form(spec: WindowAggregateSpec, context: OperatorContext) -> Partials:
    """What a phase that reads rows keeps of them."""
    schema = context.input_schemas[0]
    types = row_argument_types(spec.aggregates, schema)
    if is_mergeable(spec.aggregates):
        return MergedPartials(spec.aggregates, types)
    return RawRows(spec.aggregates, types, schema)
