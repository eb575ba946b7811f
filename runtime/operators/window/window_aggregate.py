"""Aggregation by window: rows become partials per slice at once; a window merges its slices when it closes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.aggregates.accumulator_set import partial_argument_types
from sqlstream.runtime.aggregates.partials import MergedPartials, Partials, SignedRows, row_partials
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.group import extent
from sqlstream.runtime.kernels.windows import renumber_into
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.closing import LATE, ClosingOperator
from sqlstream.runtime.operators.window.emitting_sessions import EmittingSessionAggregate
from sqlstream.runtime.operators.window.emitting_windows import EmittingAggregate
from sqlstream.runtime.operators.window.framed import (
    RESULTS_MAX,
    Frames,
    are_framed,
    framed_results,
    is_framing_cheaper,
)
from sqlstream.runtime.operators.window.runs import are_repeats, blocks_of_runs, runs_of_windows
from sqlstream.runtime.operators.window.sessions import SessionAggregate
from sqlstream.runtime.operators.window.slices import LocalWindowAggregate, RowSlicer, window_groups
from sqlstream.runtime.operators.window.windowing import (
    Times,
    first_window_ends,
    greatest_end,
    last_window_ends,
    slice_end,
    step_ms,
    window_batch,
    window_starts,
)
from sqlstream.runtime.state.logs.slice_log import SliceChunk, SliceColumns, SliceLog, concat
from sqlstream.runtime.state.storage.arrays import Array, first_slots
from sqlstream.specs.aggregate import AggregatePhase, WindowAggregateSpec
from sqlstream.specs.window import WindowKind

_LOG_ROWS_MIN = 262_144
"""No compaction of a log with fewer rows: it costs more than it saves."""
_ROWS_TOGETHER_MAX = 65_536
"""Windows are emitted together while they have no more rows than this, which are copied for them."""
_TOGETHER_MAX = 4_096
"""No more windows than this are emitted together, and no more than _KEYS_BY_WINDOWS_MAX pairs of a key and a window."""
_KEYS_BY_WINDOWS_MAX = 4_194_304
_ROWS_ALONE_MIN = 16_384
"""Slices that close at once are grouped together while they have fewer rows."""
_FOLD_ROWS_MIN = 1_024
"""No merge of slices that only longer windows still read, while there are fewer rows."""
_GROWING_MAX = 512
"""Of windows that begin together so many are emitted over one merge of the rows before them."""


def make_window_aggregate(
    spec: WindowAggregateSpec, context: OperatorContext
) -> Operator[WindowAggregateSpec]:
    """The operator for the spec's phase and window kind."""
    if spec.phase is AggregatePhase.LOCAL:
        return LocalWindowAggregate(spec, context)
    if spec.window.kind is WindowKind.SESSION and spec.time_column >= 0:
        if spec.emit is not None:
            return EmittingSessionAggregate(spec, context, spec.emit)
        return SessionAggregate(spec, context)
    if spec.emit is not None:
        return EmittingAggregate(spec, context, spec.emit)
    return SliceAggregate(spec, context)


class SliceAggregate(ClosingOperator):
    """Keeps partials of open windows and emits a window's results when it closes.

    State: one partial per key and slice (every row, when a call cannot be merged), in an append-only log. The log is compacted
    when it has doubled, or, if the last compaction merged few partials, when it has quadrupled. A partial is forgotten when
    the last of its windows has fired.
    """

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = context.input_schemas[0]
        self._is_global = spec.phase is AggregatePhase.GLOBAL
        self._is_attached = spec.window_end_column >= 0
        self._is_growing = spec.window.kind is WindowKind.CUMULATE
        # Disjoint windows have one slice each; the others share slices.
        self._is_disjoint = self._is_attached or spec.window.kind is WindowKind.TUMBLE
        self._keys = len(spec.keys)
        if self._is_global:
            types = partial_argument_types(spec.aggregates, schema, self._keys)
            self._form: Partials = MergedPartials(spec.aggregates, types)
            names = list(schema.names)
        else:
            self._form = (
                SignedRows(spec.aggregates, schema)
                if spec.is_retracting
                else row_partials(spec.aggregates, schema)
            )
            self._slicer = RowSlicer(spec, context, self._form)
            names = self._slicer.names
        self._is_framed = are_framed(self._form, is_growing=self._is_growing)
        columns = SliceColumns(names, range(self._keys), end=-2 if self._is_attached else -1)
        self._log = context.state.add(SliceLog("slices", columns, context.state.scope))
        self._compact_above = _LOG_ROWS_MIN
        self._fold_above = _FOLD_ROWS_MIN

    # -- input -------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        columns = (
            self._drop_late_partials(batch)
            if self._is_global
            else self._slicer.partials(batch, self.closed_ms)
        )
        if len(columns[-1]) == 0:
            return
        earliest = self._log.append(columns)
        self.next_end = min(self.next_end, self._first_open_end(earliest, self.closed_ms))
        if self._log.rows > self._compact_above:
            self._compact()

    def _drop_late_partials(self, batch: pa.RecordBatch) -> list[pa.Array]:
        columns: list[pa.Array] = list(batch.columns)
        if self.closed_ms == WATERMARK_MIN or batch.num_rows == 0:
            return columns
        ends = self._log.ends(columns)
        earliest, _ = extent(ends)
        if self._last_window_ends(int(earliest)) - 1 > self.closed_ms:
            return columns
        late = self._last_window_ends(ends) - 1 <= self.closed_ms
        if not self.spec.window.is_event_time:
            # A partial that arrives after its window has closed belongs to the window that is open now.
            current = slice_end(self.spec.window, self.closed_ms + 1)
            columns[-2 if self._is_attached else -1] = to_array(pa.int64(), np.where(late, current, ends))
            return columns
        self.context.count(LATE, int(np.count_nonzero(late)))
        return list(batch.take(to_array(pa.int64(), np.flatnonzero(~late))).columns)

    def _last_window_ends(self, slices: Times) -> Times:
        return slices if self._is_attached else last_window_ends(self.spec.window, slices)

    def _first_open_end(self, end: int, closed_ms: int) -> int:
        """End of the first window that holds the slice with that end and that the watermark `closed_ms` has not closed."""
        if self._is_attached or end == WATERMARK_MAX:
            return end
        first = first_window_ends(self.spec.window, end)
        step = step_ms(self.spec.window)
        return first + -(-max(closed_ms + 2 - first, 0) // step) * step

    # -- time --------------------------------------------------------------------------------------

    def on_restored(self) -> None:
        self._compact_above = max(_LOG_ROWS_MIN, 2 * self._log.rows)
        self.next_end = self._first_open_end(self._log.first_end, self.closed_ms)

    def close_windows(self, watermark_ms: int, output: Output) -> None:
        if self._is_disjoint:
            self._fire_slices(min(watermark_ms, WATERMARK_MAX - 1) + 1, output)
        else:
            self._fire_overlapping(watermark_ms, output)
            self._log.forget(lambda slices: self._last_window_ends(slices) - 1 <= watermark_ms)
            if self._is_growing and self._form.is_merging and self._log.rows > self._fold_above:
                self._fold(watermark_ms)
        self._compact_above = max(_LOG_ROWS_MIN, min(self._compact_above, 2 * self._log.rows))
        self._fold_above = max(_FOLD_ROWS_MIN, min(self._fold_above, 2 * self._log.rows))
        self.next_end = self._first_open_end(self._log.first_end, watermark_ms)

    # -- firing ------------------------------------------------------------------------------------

    def _fold(self, watermark_ms: int) -> None:
        """Merge the slices that the watermark has passed: all windows that are still to close and hold one of them, hold all. A
        watermark costs what came since the last one, however long ago the windows began."""
        passed = self._log.take_until(watermark_ms + 1)
        if passed is not None:
            order = to_array(pa.int64(), np.argsort(self._log.ends(passed), kind="stable"))
            self._log.append(self._merged_keys([column.take(order) for column in passed]))
        self._fold_above = max(_FOLD_ROWS_MIN, 2 * self._log.rows)

    def _compact(self) -> None:
        """Merge the log into one partial per key and slice; a log of rows remains as it is."""
        rows = self._log.rows
        if self._form.is_merging:
            self._log.replace([self._merged(chunks) for chunks in self._log.by_slice()])
        # Few partials were merged, because few keys occur twice: compact less often.
        factor = 2 if 4 * self._log.rows < 3 * rows else 4
        self._compact_above = max(_LOG_ROWS_MIN, factor * self._log.rows)

    def _merged(self, chunks: list[SliceChunk]) -> SliceChunk:
        """The partials of chunks, merged into one per key and slice."""
        if len(chunks) == 1 and (chunks[0].is_grouped or chunks[0].is_one_slice):
            return chunks[0]
        columns = concat(chunks)
        keys, _, bounds = self._parted(columns)
        columns = self._merged_groups(columns, *window_groups(keys, bounds))
        first, last = extent(self._log.ends(columns))
        return SliceChunk(columns, int(first), int(last), is_grouped=True)

    def _parted(self, columns: list[pa.Array]) -> tuple[list[pa.Array], list[pa.Array], list[pa.Array]]:
        """(key columns, partial columns, columns of window bounds)."""
        width = self._keys + self._form.width
        return columns[: self._keys], columns[self._keys : width], columns[width:]

    def _fire_slices(self, last_end: int, output: Output) -> None:
        """Emit and forget windows of one slice each, in the order in which they close. Slices of many rows are grouped alone:
        the table of the keys of each is small, and in the caches."""
        chunks = self._log.take_chunks_until(last_end)
        together: list[int] = []
        rows, latest = 0, WATERMARK_MIN
        for place in sorted(range(len(chunks)), key=lambda place: chunks[place].first_end):
            chunk = chunks[place]
            if rows >= _ROWS_ALONE_MIN and chunk.first_end > latest:
                self._fire_together([chunks[place] for place in sorted(together)], output)
                together, rows = [], 0
            together.append(place)
            rows, latest = rows + chunk.rows, max(latest, chunk.last_end)
        if together:
            self._fire_together([chunks[place] for place in sorted(together)], output)

    def _fire_together(self, chunks: list[SliceChunk], output: Output) -> None:
        """`chunks` are in order of arrival, which calls such as LAST_VALUE follow."""
        columns = concat(chunks)
        ends = self._log.ends(columns)
        if not np.all(ends[:-1] <= ends[1:]):
            order = to_array(pa.int64(), np.argsort(ends, kind="stable"))
            columns = [column.take(order) for column in columns]
            ends = self._log.ends(columns)
        keys, _, bounds = self._parted(columns)
        if len(chunks) == 1 and chunks[0].is_grouped:
            groups = first_rows = np.arange(len(ends))
        else:
            groups, first_rows = window_groups(keys, bounds)
        starts = (
            view_values(columns[-1], np.int64) if self._is_attached else window_starts(self.spec.window, ends)
        )
        results, kept = self._results(columns, groups, first_rows)
        first_rows = first_rows[kept]
        self._emit(results, starts[first_rows], ends[first_rows], output)

    def _fire_overlapping(self, watermark_ms: int, output: Output) -> None:
        """Emit windows of several slices: with rows sorted by slice, each window is one run of rows. Small windows are emitted
        together, in the order in which they close."""
        first_end = self._first_open_end(self._log.first_end, self.closed_ms)
        last_end = self._last_window_ends(self._log.last_end)
        if watermark_ms != WATERMARK_MAX:
            last_end = min(last_end, greatest_end(self.spec.window, watermark_ms))
        if first_end > last_end:
            return
        columns = self._log.sorted_until(last_end)
        for windows in runs_of_windows(self.spec.window, self._log.ends(columns), first_end, last_end):
            if len(windows) == 1:
                self._fire_alone(columns, windows[0], output)
            elif self._is_growing and self._form.is_merging:
                self._fire_growing(columns, windows, output)
            else:
                self._fire_runs(columns, windows, output)

    def _fire_growing(self, columns: list[pa.Array], windows: Array, output: Output) -> None:
        """Emit windows that begin together. The rows before a block of them are merged once for the block: the work grows with
        the rows and the windows, not with their product."""
        low, last = windows[0, 2], windows[-1, 3]
        keys = len(batch_groups([k.slice(low, last - low) for k in columns[: self._keys]], last - low)[1])
        is_framed = self._is_framed and is_framing_cheaper(_GROWING_MAX // 2, 1, keys)
        together_max = max(1, RESULTS_MAX // keys) if is_framed else _GROWING_MAX
        before = [column.slice(low, 0) for column in columns]
        for block in np.array_split(windows, -(-len(windows) // together_max)):
            high = int(block[0, 3])
            before = self._merged_keys(_joined(before, columns, low, high))
            kept, low = len(before[-1]), high
            rows = _joined(before, columns, high, int(block[-1, 3]))
            runs = np.column_stack((block[:, :2], np.zeros(len(block), np.int64), block[:, 3] - high + kept))
            self._fire_runs(rows, runs, output)

    def _merged_keys(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Partials merged into one for each key, under the bounds of its first row."""
        return self._merged_groups(columns, *batch_groups(columns[: self._keys], len(columns[-1])))

    def _merged_groups(self, columns: list[pa.Array], groups: Array, first_rows: Array) -> list[pa.Array]:
        """Partials merged into one for each group, with the key and the bounds of its first row."""
        if len(first_rows) == len(groups):
            return columns
        keys, partials, bounds = self._parted(columns)
        chosen = to_array(pa.int64(), first_rows)
        merged = self._form.together(partials, groups, len(first_rows)).columns(first_slots(len(first_rows)))
        return [*(key.take(chosen) for key in keys), *merged, *(bound.take(chosen) for bound in bounds)]

    def _fire_runs(self, columns: list[pa.Array], windows: Array, output: Output) -> None:
        """Emit windows, each a run of rows [low, high), many together."""
        # Keys are grouped once, however many windows their rows are in.
        key_ids, distinct = batch_groups(columns[: self._keys], len(columns[-1]))
        keys, sizes = len(distinct), windows[:, 3] - windows[:, 2]
        most = np.minimum(sizes, keys)
        rows = np.where(are_repeats(windows), most, sizes)
        if self._is_framed and is_framing_cheaper(int(rows.sum()), len(windows), keys):
            for block in blocks_of_runs(windows, most, RESULTS_MAX, RESULTS_MAX // keys):
                self._fire_framed(columns, block, key_ids, keys, output)
            return
        together_max = min(_TOGETHER_MAX, max(1, _KEYS_BY_WINDOWS_MAX // max(1, keys)))
        scratch = np.zeros(together_max * keys, dtype=np.int32)
        for block in blocks_of_runs(windows, rows, _ROWS_TOGETHER_MAX, together_max):
            self._fire_copied(columns, block, key_ids, keys, scratch, output)

    def _fire_framed(
        self, columns: list[pa.Array], windows: Array, key_ids: Array, keys: int, output: Output
    ) -> None:
        low, high = int(windows[0, 2]), int(windows[-1, 3])
        rows, key_ids = [column.slice(low, high - low) for column in columns], key_ids[low:high]
        frames = Frames(key_ids, keys, windows[:, 2] - low, windows[:, 3] - low)
        own, partials, _ = self._parted(rows)
        results = framed_results(self._form, partials, key_ids, frames)
        chosen = to_array(pa.int64(), frames.first_rows)
        results = [*(key.take(chosen) for key in own), *results]
        self._emit(results, windows[frames.windows, 0], windows[frames.windows, 1], output)

    def _fire_copied(
        self,
        columns: list[pa.Array],
        windows: Array,
        key_ids: Array,
        keys: int,
        scratch: Array,
        output: Output,
    ) -> None:
        """Emit windows whose rows are copied for each of them, but for those that have the rows of the window before."""
        is_new = ~are_repeats(windows)
        block = windows[is_new]
        if len(block) == 1:
            low, high = block[0, 2:].tolist()
            groups = key_ids[low:high]
            rows = [column.slice(low, high - low) for column in columns]
            windows_of = np.zeros(high - low, np.int64)
        else:
            counts = block[:, 3] - block[:, 2]
            windows_of, places = _ranges(block[:, 2], counts)
            taken = to_array(pa.int64(), places)
            rows = [column.take(taken) for column in columns]
            groups = windows_of * keys + key_ids[places]
        numbers, first_rows = _renumbered(groups, scratch)
        results, kept = self._results(rows, numbers, first_rows)
        window = windows_of[first_rows[kept]]
        if len(block) < len(windows):
            firsts = np.searchsorted(window, np.arange(len(block) + 1))
            block_of = np.cumsum(is_new) - 1
            window, places = _ranges(firsts[block_of], np.diff(firsts)[block_of])
            taken = to_array(pa.int64(), places)
            results = [column.take(taken) for column in results]
        self._emit(results, windows[window, 0], windows[window, 1], output)

    def _fire_alone(self, columns: list[pa.Array], window: Array, output: Output) -> None:
        start, end, low, high = window.tolist()
        rows = [column.slice(low, high - low) for column in columns]
        results, kept = self._results(rows, *batch_groups(rows[: self._keys], high - low))
        self._emit(results, np.full(len(kept), start), np.full(len(kept), end), output)

    def _results(
        self, columns: list[pa.Array], groups: Array, first_rows: Array
    ) -> tuple[list[pa.Array], Array]:
        """Keys and results of groups of log rows, and the groups that they are of: not those whose rows have all been
        retracted."""
        keys, partials, _ = self._parted(columns)
        left = np.arange(len(first_rows))
        if isinstance(self._form, SignedRows):
            left = np.flatnonzero(self._form.row_counts(partials, groups, len(first_rows)) > 0)
            if len(left) < len(first_rows):
                rows = np.flatnonzero(np.isin(groups, left))
                columns = [column.take(to_array(pa.int64(), rows)) for column in columns]
                groups = np.searchsorted(left, groups[rows])
                first_rows = np.unique(groups, return_index=True)[1]
                keys, partials, _ = self._parted(columns)
        count = len(first_rows)
        results = self._form.together(partials, groups, count).results(first_slots(count))
        if count < len(groups):
            chosen = to_array(pa.int64(), first_rows)
            keys = [key.take(chosen) for key in keys]
        return [*keys, *results], left

    def _emit(self, results: list[pa.Array], starts: Array, ends: Array, output: Output) -> None:
        """Emit one row for each key and window."""
        self.emit_once(window_batch(self.schema, results, starts, ends, self.clock), ends, output)


def _joined(before: list[pa.Array], columns: list[pa.Array], low: int, high: int) -> list[pa.Array]:
    """The rows of `before`, then those of `columns` from `low` to `high`."""
    return [
        pa.concat_arrays([first, column.slice(low, high - low)])
        if len(first)
        else column.slice(low, high - low)
        for first, column in zip(before, columns, strict=True)
    ]


def _ranges(firsts: Array, counts: Array) -> tuple[Array, Array]:
    """(number of the range, place) of each place in the ranges that begin at `firsts`, one after the other."""
    numbers = np.repeat(np.arange(len(counts)), counts)
    return numbers, np.arange(len(numbers)) + np.repeat(firsts - np.cumsum(counts) + counts, counts)


def _renumbered(ids: Array, scratch: Array) -> tuple[Array, Array]:
    groups, first_rows = np.empty(len(ids), dtype=np.int64), np.empty(len(ids), dtype=np.int64)
    count = renumber_into(ids, scratch, groups, first_rows)
    return groups, first_rows[:count]
