"""Window table-valued functions: append the window columns to each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.intervals import milliseconds_of
from sqlstream.runtime.evaluate.local_time import from_local, to_local
from sqlstream.runtime.evaluate.time_range import require_range
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.changing_session_tvf import ChangingSessionTvf
from sqlstream.runtime.operators.window.session_tvf import SessionTvf
from sqlstream.runtime.operators.window.window_clock import WindowClock
from sqlstream.runtime.update_pairs import derived_kinds
from sqlstream.specs.window import WindowKind, WindowSpec, WindowTvfSpec
from sqlstream.time_zones import check_time_zone

Times = np.ndarray[Any, Any]


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
        rows, starts, ends = assign_windows(self._times_ms(batch), self.spec.window)
        columns = batch.columns
        kinds = [columns.pop()] if is_changelog(batch) else []
        if rows is not None:
            columns = [c.take(pa.array(rows)) for c in columns]
            kinds = [pa.array(derived_kinds(row_kinds(batch), rows))] if kinds else []
        window = [self._bound(starts, -3), self._bound(ends, -2), self._bound(ends - 1, -1)]
        output.emit(pa.RecordBatch.from_arrays([*columns, *window, *kinds], schema=self._schema))

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        return self._clock.forwarded_ms(watermark_ms) if self.spec.window.is_event_time else watermark_ms

    def _times_ms(self, batch: pa.RecordBatch) -> Times:
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
        return milliseconds_of(to_local(column, zone)).to_numpy()

    def _bound(self, times_ms: Times, column: int) -> pa.Array:
        """A window column; window_time of a TIMESTAMP_LTZ input is an instant again."""
        has_kinds = not self.context.output_mode.is_insert_only
        target = self._schema.field(len(self._schema) + column - has_kinds).type
        local = require_range(pa.array(times_ms).view(pa.timestamp("ms")))
        return local if local.type == target else from_local(local, target, self._time_zone)


def assign_windows(times_ms: Times, window: WindowSpec) -> tuple[Times | None, Times, Times]:
    """(rows of the input, or None when each has one window; window starts; window ends), earliest first."""
    if window.kind is WindowKind.TUMBLE:
        starts = floor_to(times_ms, window.size_ms, window.offset_ms)
        return None, starts, starts + window.size_ms
    if window.kind is WindowKind.HOP:
        return _hop(times_ms, window)
    return _cumulate(times_ms, window)


def floor_to(times_ms: Times, step_ms: int, offset_ms: int) -> Times:
    """The last multiple of the step plus the offset that is not after each time; below zero too."""
    return times_ms - np.mod(times_ms - offset_ms, step_ms)


def _hop(times_ms: Times, window: WindowSpec) -> tuple[Times | None, Times, Times]:
    """Windows that start at multiples of the slide: ceil(size / slide) of them at most."""
    count = -(-window.size_ms // window.slide_ms)
    last = floor_to(times_ms, window.slide_ms, window.offset_ms)
    starts = last[:, None] - np.arange(count - 1, -1, -1) * window.slide_ms
    rows, starts = _keep(starts, starts + window.size_ms > times_ms[:, None])
    return rows, starts, starts + window.size_ms


def _cumulate(times_ms: Times, window: WindowSpec) -> tuple[Times | None, Times, Times]:
    """Windows with one start that end a step later each, from the row's step up to the full size."""
    count = -(-window.size_ms // window.slide_ms)
    start = floor_to(times_ms, window.size_ms, window.offset_ms)
    first_end = start + ((times_ms - start) // window.slide_ms + 1) * window.slide_ms
    ends = first_end[:, None] + np.arange(count) * window.slide_ms
    rows, ends = _keep(ends, ends <= (start + window.size_ms)[:, None])
    return rows, start[rows], ends


def _keep(bounds: Times, is_window: Times) -> tuple[Times, Times]:
    """Flatten row by row, without the bounds that are no window of the row."""
    rows = np.repeat(np.arange(len(bounds)), bounds.shape[1]).reshape(bounds.shape)
    return rows[is_window], bounds[is_window]
