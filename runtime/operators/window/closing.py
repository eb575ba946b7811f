"""When windows close, by watermark or by processing time, and up to when they have closed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.graph.key_groups import key_groups_of
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.operators.aggregate.result_changes import ResultChanges
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.windowing import WindowClock, window_batch
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.operator_state import NeverExpires, SavedWhole
from sqlstream.runtime.state.snapshots.snapshot import SavedTables, key_group_column
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.aggregate import WindowAggregateSpec

Run = tuple[int, int, int]
"""A watermark, and the first and last key group whose windows it has closed."""


class ClosedTimes(SavedWhole, NeverExpires):
    """`value`, the watermark up to which this subtask has closed windows.

    Barriers follow the watermark on every channel, so old subtasks have closed the same windows, unless channels were idle: which
    of two turns idle first decides how far the others bring a subtask. Where old subtasks have come to different
    places, the least value counts: no row is late that was not. Key groups that were further emit no window a second time
    (`is_open`).
    State: the value, and the runs of key groups that were further at the restore, until the value has passed them."""

    def __init__(self, name: str, context: OperatorContext) -> None:
        self.name = name
        self._max_parallelism = context.max_parallelism
        self._key_groups = key_groups_of(context.subtask, context.parallelism, context.max_parallelism)
        self._value = WATERMARK_MIN
        self._further: tuple[Run, ...] = ()

    @property
    def value(self) -> int:
        return self._value

    @value.setter
    def value(self, watermark_ms: int) -> None:
        self._value = watermark_ms
        if self._further:
            self._further = tuple(run for run in self._further if run[0] > watermark_ms)

    def is_open(self, keys: list[pa.Array], ends: Array) -> Array | None:
        """bool[n]: whether the window of each row, with its key and end, has not been closed before the restore; None when none
        has."""
        if not self._further:
            return None
        groups = np.asarray(key_group_column(keys, len(ends), self._max_parallelism))
        return ends - 1 > self._by_key_group()[groups]

    def _by_key_group(self) -> Array:
        closed = np.full(self._max_parallelism, self._value, dtype=np.int64)
        for watermark_ms, first, last in self._further:
            closed[first : last + 1] = np.maximum(closed[first : last + 1], watermark_ms)
        return closed

    def save_later(self) -> Callable[[], SavedTables]:
        runs = [(self._value, self._key_groups.start, self._key_groups.stop - 1), *self._further]

        def made() -> SavedTables:
            closed, firsts, lasts = zip(*runs, strict=True)
            columns = {self.name: closed, "first_key_group": firsts, "last_key_group": lasts}
            return SavedTables(shared={self.name: pa.table(columns)})

        return made

    def load(self, saved: SavedTables) -> None:
        table = saved.shared.get(self.name)
        if table is None or not table.num_rows:
            return
        if table.num_columns == 1:
            # As it was saved before key groups were.
            self._value = min(table.column(0).to_pylist())
            return
        mine = self._key_groups
        runs = [
            (watermark_ms, max(first, mine.start), min(last, mine.stop - 1))
            for watermark_ms, first, last in zip(*(c.to_pylist() for c in table.columns), strict=True)
            if first < mine.stop and last >= mine.start
        ]
        self._value = min((run[0] for run in runs), default=WATERMARK_MIN)
        self._further = tuple(run for run in runs if run[0] > self._value)

    def nbytes(self) -> int:
        return 0


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
        self.schema = to_arrow_schema(context.output_schema)
        self._changes_schema = to_arrow_schema(context.output_schema, context.output_mode)

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

    def emit_changes(self, keys: list[pa.Array], changes: ResultChanges, output: Output) -> None:
        """Emit changes of the results of windows. `keys`: the columns of keys, then the starts and ends of the windows."""
        if not len(changes.rows):
            return
        chosen = pa.array(changes.rows)
        *own, starts, ends = (key.take(chosen) for key in keys)
        fields = list(self.schema)[: len(own)]
        declared = [k if k.type == f.type else k.cast(f.type) for k, f in zip(own, fields, strict=True)]
        first, last = (view_values(bound, np.int64) for bound in (starts, ends))
        batch = window_batch(self.schema, [*declared, *changes.results], first, last, self.clock)
        columns = [*batch.columns, *changes.kinds]
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._changes_schema))

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

    @property
    def due_ms(self) -> int:
        """When results are due before their window closes; WATERMARK_MAX when none are."""
        return WATERMARK_MAX

    def next_processing_time_ms(self) -> int | None:
        due_ms = self.due_ms
        if not self.spec.window.is_event_time and self.next_end != WATERMARK_MAX:
            due_ms = min(due_ms, self.clock.due_ms(self.next_end))
        return None if due_ms == WATERMARK_MAX else due_ms

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        if not self.spec.window.is_event_time:
            self._advance(self.clock.passed_ms(now_ms - 1), output)

    def on_finish(self, output: Output) -> None:
        # The end of bounded input closes all windows, also those that end later by processing time.
        self._advance(WATERMARK_MAX, output)
