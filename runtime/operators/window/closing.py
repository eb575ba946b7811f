"""Decides when the windows of an aggregation close, by watermark or by processing time."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.closed_times import ClosedTimes
from sqlstream.runtime.operators.window.window_clock import WindowClock
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.aggregate import WindowAggregateSpec

LATE = "numLateRecordsDropped"


def drop_late(
    batch: pa.RecordBatch, ends: Array, closed_ms: int, context: OperatorContext
) -> tuple[pa.RecordBatch, Array]:
    """The rows whose window, with end `ends[i]`, the watermark `closed_ms` has not closed; the others are counted."""
    if closed_ms == WATERMARK_MIN or int(ends.min(initial=WATERMARK_MAX)) - 1 > closed_ms:
        return batch, ends
    late = ends - 1 <= closed_ms
    context.count(LATE, int(np.count_nonzero(late)))
    kept = np.flatnonzero(~late)
    return batch.take(to_array(pa.int64(), kept)), ends[kept]


def closed_ms() -> Broadcast[int]:
    """The watermark up to which an operator has closed windows. Barriers follow the watermark on every channel, so all old
    subtasks had closed the same windows; where their clocks differ, the least leaves no row in a closed window."""
    return Broadcast("closed_ms", WATERMARK_MIN, min)


class ClosingOperator(Operator[WindowAggregateSpec]):
    """Calls `close_windows` whenever time passes the end of a window.

    State: `closed_ms`, up to which windows are closed, as the `clock` of the windows shows it (by processing time: now - 1).
    `next_end` follows from the state: it is at or before the end of the first window that is still open (WATERMARK_MAX when
    there is none).
    """

    def __init__(self, spec: WindowAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._closed = context.state.add(ClosedTimes("closed_ms", context))
        self.clock = WindowClock(spec.window.time_zone)
        self.next_end = WATERMARK_MAX

    @property
    def closed_ms(self) -> int:
        return self._closed.value

    def emit_once(self, batch: pa.RecordBatch, ends: Array, output: Output) -> None:
        """Emit results, which begin with their keys, of windows with these ends, but for those that were closed before a
        restore."""
        if batch.num_rows:
            keys = [batch.column(i) for i in range(len(self.spec.keys))]
            is_open = self._closed.is_open(keys, ends)
            output.emit(batch if is_open is None else batch.filter(pa.array(is_open)))

    @abstractmethod
    def close_windows(self, watermark_ms: int, output: Output) -> None:
        """Emit and forget the windows with end - 1 <= watermark, and set `next_end`."""

    @abstractmethod
    def on_restored(self) -> None:
        """Set `next_end`."""

    def _advance(self, watermark_ms: int, output: Output) -> None:
        if watermark_ms <= self.closed_ms:
            return
        if self.next_end != WATERMARK_MAX and self.next_end - 1 <= watermark_ms:
            self.close_windows(watermark_ms, output)
        self._closed.value = watermark_ms

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if not self.spec.window.is_event_time:
            return watermark_ms
        passed_ms = self.clock.passed_ms(watermark_ms)
        if passed_ms < self.closed_ms:
            # Channels of a restored task may begin behind the place to which it had come, which those behind it know.
            return None
        self._advance(passed_ms, output)
        return self.clock.forwarded_ms(watermark_ms)

    def next_processing_time_ms(self) -> int | None:
        if self.spec.window.is_event_time or self.next_end == WATERMARK_MAX:
            return None
        return self.clock.due_ms(self.next_end)

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        if not self.spec.window.is_event_time:
            self._advance(self.clock.passed_ms(now_ms - 1), output)

    def on_finish(self, output: Output) -> None:
        # The end of bounded input closes all windows, also those that end later by processing time.
        self._advance(WATERMARK_MAX, output)
