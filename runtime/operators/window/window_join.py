"""Join of the rows of the same window."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX
from sqlstream.messages.ledger import DONE, of_side
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.group import extent, group
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.operators.join.joined import PAIRS_MAX, JoinedRows, declare_sides, equal_pairs
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.closing import LATE, closed_ms, drop_late
from sqlstream.runtime.operators.window.windowing import WindowClock, times_ms
from sqlstream.runtime.state.logs.row_log import Chunk, concat_batches
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.join import JoinKind, WindowJoinSpec

_WINDOW_ROWS_MIN = 1_024
"""Windows are joined one by one when they have at least this many left rows each, on average."""
_WINDOWS_CUT_MAX = 64
"""A chunk with more windows than this is not cut by window."""
_LEFT, _RIGHT = 0, 1

Bounds = tuple[int, int]
"""End and start of a window."""
Sides = tuple[list[pa.RecordBatch], list[pa.RecordBatch]]


class WindowJoin(Operator[WindowJoinSpec]):
    """Emits the joined rows of a window when it closes, and of other kinds than INNER the rows with or without a match; the
    output is insert-only.

    State: the rows of both sides whose window is open. Late rows are dropped and counted.
    """

    def __init__(self, spec: WindowJoinSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schemas = [to_arrow_schema(schema) for schema in context.input_schemas]
        self._joined = JoinedRows(spec.condition, context)
        self._starts = (spec.left_window_start_column, spec.right_window_start_column)
        self._ends = (spec.left_window_end_column, spec.right_window_end_column)
        self._keys = (spec.left_keys, spec.right_keys)
        self._logs = declare_sides(context, self._keys, spec.broadcast_input)
        self._closed_ms = context.state.add(closed_ms())
        self._clock = WindowClock(spec.time_zone)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        ends = times_ms(batch.column(self._ends[input_index]))
        rows = batch.num_rows
        batch, ends = drop_late(batch, ends, self._closed_ms.value, self.context)
        if late := rows - batch.num_rows:
            self.context.count(of_side(LATE, input_index), late)
        self._logs[input_index].append(batch, ends)

    def held_by_side(self) -> tuple[int, int] | None:
        left, right = self._logs
        return left.row_count, right.row_count

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        passed_ms = self._clock.passed_ms(watermark_ms)
        if passed_ms > self._closed_ms.value:
            self._close(passed_ms, output)
            self._closed_ms.value = passed_ms
        return self._clock.forwarded_ms(watermark_ms)

    def _close(self, watermark_ms: int, output: Output) -> None:
        limit = watermark_ms if watermark_ms == WATERMARK_MAX else watermark_ms + 1
        closed = [log.take_until(limit) for log in self._logs]
        for side, chunks in enumerate(closed):
            self.count_of_side(DONE, side, sum(chunk.batch.num_rows for chunk in chunks))
        if not closed[_LEFT] and not self.spec.kind.pads(_RIGHT):
            return
        for sides, columns in self._parts(closed):
            left, right = (
                concat_batches(batches, schema) for batches, schema in zip(sides, self._schemas, strict=True)
            )
            self._join(left, right, columns, output)

    def _parts(self, closed: list[list[Chunk]]) -> list[tuple[Sides, list[list[int]]]]:
        """Independent joins: the batches of both sides, and the columns of each side that must be equal.

        Large windows are joined one by one, by key; small ones all in one join, by key and window bounds.
        """
        windows: dict[Bounds, Sides] = {}
        for side, chunks in enumerate(closed):
            for chunk in chunks:
                cut = self._cut(chunk, side)
                for bounds, batch in cut:
                    windows.setdefault(bounds, ([], []))[side].append(batch)
                if not cut:
                    return self._everything(closed)
        if sum(chunk.batch.num_rows for chunk in closed[0]) < len(windows) * _WINDOW_ROWS_MIN:
            return self._everything(closed)
        keys = [list(keys) for keys in self._keys]
        return [(windows[bounds], keys) for bounds in sorted(windows)]

    def _everything(self, closed: list[list[Chunk]]) -> list[tuple[Sides, list[list[int]]]]:
        left, right = ([chunk.batch for chunk in chunks] for chunks in closed)
        return [((left, right), [self._window_columns(side) for side in (_LEFT, _RIGHT)])]

    def _cut(self, chunk: Chunk, side: int) -> list[tuple[Bounds, pa.RecordBatch]]:
        """The rows of each window of a chunk, usually of one window; empty when there are too many windows to cut."""
        starts = times_ms(chunk.batch.column(self._starts[side]))
        earliest, latest = extent(starts)
        if chunk.earliest == chunk.latest and earliest == latest:
            return [((chunk.earliest, int(earliest)), chunk.batch)]
        windows, first_rows = group([to_array(pa.int64(), times) for times in (starts, chunk.times)])
        if len(first_rows) > _WINDOWS_CUT_MAX:
            return []
        order, places = argsort_stable_by(windows, len(first_rows))
        ordered = chunk.batch.take(to_array(pa.int64(), order))
        bounds = zip(chunk.times[first_rows].tolist(), starts[first_rows].tolist(), strict=True)
        return [
            (bound, ordered.slice(low, high - low))
            for bound, (low, high) in zip(bounds, itertools.pairwise(places.tolist()), strict=True)
        ]

    def _window_columns(self, side: int) -> list[int]:
        # Windows of a fixed size are identified by their ends alone: the start column is then the end column.
        return [*self._keys[side], *dict.fromkeys((self._starts[side], self._ends[side]))]

    def _join(
        self, left: pa.RecordBatch, right: pa.RecordBatch, columns: list[list[int]], output: Output
    ) -> None:
        matched = (np.zeros(left.num_rows, dtype=bool), np.zeros(right.num_rows, dtype=bool))
        if right.num_rows == 1 and not columns[_LEFT]:
            # No index is needed for the one right row, such as the result of an aggregate without keys.
            for start in range(0, left.num_rows, PAIRS_MAX):
                part = left.slice(start, PAIRS_MAX)
                flags = (matched[_LEFT][start : start + PAIRS_MAX], matched[_RIGHT])
                self._emit_pairs(part, right, None, np.zeros(part.num_rows, dtype=np.int64), flags, output)
        else:
            left_keys = [left.column(c) for c in columns[_LEFT]]
            right_keys = [right.column(c) for c in columns[_RIGHT]]
            for left_rows, right_rows in equal_pairs(left_keys, right_keys, (left.num_rows, right.num_rows)):
                self._emit_pairs(left, right, left_rows, right_rows, matched, output)
        kind = self.spec.kind
        if kind is JoinKind.SEMI:
            output.emit(self._joined.alone(left, np.flatnonzero(matched[_LEFT])))
        for side, batch in enumerate((left, right)):
            if kind.outputs_unmatched(side):
                output.emit(self._joined.unmatched(batch, np.flatnonzero(~matched[side]), side, kind))

    def _emit_pairs(
        self,
        left: pa.RecordBatch,
        right: pa.RecordBatch,
        left_rows: Array | None,
        right_rows: Array,
        matched: tuple[Array, Array],
        output: Output,
    ) -> None:
        """Emit the pairs that match, unless only left rows are output, and mark their rows. `left_rows` None: all."""
        if self.spec.kind.is_left_only:
            passed = self._joined.passing(left, right, left_rows, right_rows)
        else:
            joined, passed = self._joined.pairs(left, right, left_rows, right_rows)
            output.emit(joined)
        if self.spec.kind is not JoinKind.INNER:
            matched[_LEFT][passed if left_rows is None else left_rows[passed]] = True
            matched[_RIGHT][right_rows[passed]] = True
