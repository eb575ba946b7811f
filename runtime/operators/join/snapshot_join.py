"""Join of rows with what the other side holds when they come: LATERAL SNAPSHOT."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds, signs_of, to_arrow_schema, without_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.messages.ledger import DONE, EXPIRED_ROWS, RETRACTED, of_side
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.evaluate.program import Program
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.operators.deferred_rows import RowsOfBatch, RowsOfState
from sqlstream.runtime.operators.join.joined import JoinedRows, complete_rows, portions
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.logs.row_log import RowLog, concat_batches
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows
from sqlstream.specs.join import SnapshotJoinSpec

_LEFT, _RIGHT = 0, 1
UNMATCHED_COUNT = "numUnmatchedProbeRecords"
BUFFERED_COUNT = "numProbeSideRecordsBuffered"
PHASE_COUNT = "currentPhase"


class SnapshotJoin(Operator[SnapshotJoinSpec]):
    """Loads the right side first, and keeps left rows meanwhile; then it joins each left row as it comes. The output is
    insert-only.

    Changes of the right side wait until the watermark of the right side passes their times, those of a key in their order of
    arrival. The two halves of an update wait for the later of their times, so that no row sees one without the other.
    State: the left rows and the changes that wait, the right rows, the watermark of the right side, up to when it is loaded and
    whether it is. Where old subtasks differ in that, the new ones load again. `_latest` follows from the changes that wait.
    """

    side_input = _RIGHT

    def __init__(self, spec: SnapshotJoinSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._joined = JoinedRows(spec.condition, context)
        left, right = (to_arrow_schema(schema) for schema in context.input_schemas)
        state, scope, mode = context.state, context.state.scope, context.input_modes[_RIGHT]
        self._left = state.add(RowLog("left", left, scope, spec.left_keys))
        changes = to_arrow_schema(context.input_schemas[_RIGHT], mode)
        self._changes = state.add(RowLog("changes", changes, scope, spec.right_keys))
        self._right = state.add(
            KeyedRows(
                "right",
                right,
                spec.right_keys,
                scope,
                is_retracting=not mode.is_insert_only,
                ttl_ms=spec.right_ttl_ms,
            )
        )
        self._right.on_expired = partial(context.count, of_side(EXPIRED_ROWS, _RIGHT))
        self._right_ms = state.add(Broadcast("right_ms", WATERMARK_MIN, min))
        self._load_until_ms = state.add(Broadcast("load_until_ms", self._load_completed_ms(), max))
        self._is_loaded = state.add(Broadcast("is_loaded", False, all))
        self._right.keeps_all = True
        self._latest = _LatestTimes([right.field(key).type for key in spec.right_keys])
        self._left_ms = WATERMARK_MIN
        self._risen_ms = context.now_ms()

    def _load_completed_ms(self) -> int:
        time = self.spec.load_completed_time
        if time is None:
            return self.context.now_ms()
        evaluation = EvaluationContext.of(self.context.now_ms, self.context.config)
        (found,) = Program((time,), evaluation).run((), 1)
        return int(times_ms(found)[0]) if found.null_count == 0 else self.context.now_ms()

    def on_restored(self) -> None:
        self._right.keeps_all = not self._is_loaded.value
        self.context.count(PHASE_COUNT, int(self._is_loaded.value))
        self.context.count(BUFFERED_COUNT, sum(len(chunk.times) for chunk in self._left.chunks))
        self._note_waiting()

    def held_by_side(self) -> tuple[int, int] | None:
        return self._left.row_count, self._changes.row_count + self._right.held

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if input_index == _RIGHT:
            self._take_changes(batch)
        elif self._is_loaded.value:
            self._join(batch, output)
        else:
            self.context.count(BUFFERED_COUNT, batch.num_rows)
            self._left.append(batch, np.zeros(batch.num_rows, dtype=np.int64))

    # -- when the right side is loaded -----------------------------------------------------------------

    def on_side_watermark(self, watermark_ms: int, output: Output) -> None:
        if watermark_ms <= self._right_ms.value:
            return
        self._risen_ms = self.context.now_ms()
        self._right_ms.value = watermark_ms
        self._apply_until(watermark_ms)
        if watermark_ms >= self._load_until_ms.value:
            self._end_loading(output)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self._left_ms = watermark_ms
        return watermark_ms if self._is_loaded.value else None

    def next_processing_time_ms(self) -> int | None:
        waits = not self._is_loaded.value or bool(self._changes.chunks)
        return self._risen_ms + self.spec.idle_timeout_ms if waits and self.spec.idle_timeout_ms else None

    def on_held_back(self, now_ms: int) -> None:
        self._risen_ms = now_ms

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        due_ms = self.next_processing_time_ms()
        if due_ms is not None and due_ms <= now_ms:
            self._risen_ms = now_ms
            # Nothing is under way any more that could come before the changes that wait.
            self._apply_until(WATERMARK_MAX)
            self._end_loading(output)

    def _end_loading(self, output: Output) -> None:
        if self._is_loaded.value:
            return
        self._is_loaded.value = True
        self.context.count(PHASE_COUNT, 1)
        self._right.touch(self._right.row_ids())
        self._right.keeps_all = False
        for chunk in self._left.take_until(WATERMARK_MAX):
            self.context.count(BUFFERED_COUNT, -chunk.batch.num_rows)
            self._join(chunk.batch, output)
        if WATERMARK_MIN < self._left_ms < WATERMARK_MAX:
            output.emit_watermark(self._left_ms)

    # -- what the right side holds ---------------------------------------------------------------------

    def _take_changes(self, batch: pa.RecordBatch) -> None:
        complete = complete_rows([batch.column(key) for key in self.spec.right_keys])
        times = times_ms(batch.column(self.spec.right_time_column))
        if is_changelog(batch):
            times = _of_updates(times, row_kinds(batch))
        if complete is not None:
            self.count_of_side(DONE, _RIGHT, batch.num_rows - len(complete))
            batch, times = batch.take(to_array(pa.int64(), complete)), times[complete]
        if not batch.num_rows:
            return
        times = self._latest.raised([batch.column(key) for key in self.spec.right_keys], times)
        self._changes.append(batch, times)
        if times.min() <= self._right_ms.value:
            self._apply_until(self._right_ms.value)

    def _apply_until(self, limit_ms: int) -> None:
        """Changes with times up to `limit_ms` take effect, in the order of their times."""
        due = self._changes.take_until(limit_ms)
        if not due:
            return
        times = np.concatenate([chunk.times for chunk in due])
        batch = concat_batches([chunk.batch for chunk in due], self._changes.schema)
        order = to_array(pa.int64(), np.argsort(times, kind="stable"))
        batch = batch.take(order)
        rows = without_row_kinds(batch)
        if is_changelog(batch):
            signs = signs_of(row_kinds(batch))
            if gone := self._right.apply(rows, signs, np.zeros(len(signs), dtype=np.int64)):
                self.context.count(of_side(RETRACTED, _RIGHT), gone)
        else:
            self._right.append(rows)
        if self.spec.right_ttl_ms:
            keys = [rows.column(key) for key in self.spec.right_keys]
            self._touch(self._right.match(np.unique(self._right.find(keys, rows.num_rows)))[1])
        if len(self._latest) > 2 * sum(len(chunk.times) for chunk in self._changes.chunks):
            self._note_waiting()

    def _note_waiting(self) -> None:
        self._latest.clear()
        for chunk in self._changes.chunks:
            self._latest.raised([chunk.batch.column(key) for key in self.spec.right_keys], chunk.times)

    def _touch(self, row_ids: Array) -> None:
        """Rows whose key is used live on."""
        if self.spec.right_ttl_ms:
            self._right.touch(np.unique(row_ids))

    # -- matching --------------------------------------------------------------------------------------

    def _join(self, rows: pa.RecordBatch, output: Output) -> None:
        self.count_of_side(DONE, _LEFT, rows.num_rows)
        found = self._right.find([rows.column(key) for key in self.spec.left_keys], rows.num_rows)
        for start, stop in portions(self._right.match_counts(found)):
            self._join_portion(rows.slice(start, stop - start), found[start:stop], output)

    def _join_portion(self, rows: pa.RecordBatch, found: Array, output: Output) -> None:
        mine, theirs = self._right.match(found)
        self._touch(theirs)
        counts = self._right.counts_of(theirs)
        if (counts != 1).any():
            mine, theirs = np.repeat(mine, counts), np.repeat(theirs, counts)
        joined, passed = self._joined.deferred(
            RowsOfBatch(rows, mine), RowsOfState(self._right, theirs), len(mine)
        )
        output.emit_deferred(joined)
        is_matched = np.zeros(rows.num_rows, dtype=bool)
        is_matched[mine if passed is None else mine[passed]] = True
        unmatched = np.flatnonzero(~is_matched)
        self.context.count(UNMATCHED_COUNT, len(unmatched))
        if self.spec.kind.pads(_LEFT):
            output.emit(self._joined.padded(rows, unmatched))


def _of_updates(times: Array, kinds: Array) -> Array:
    """The time of each change; that of a -U is not before that of its +U, which is the next row."""
    befores = np.flatnonzero(kinds[:-1] == RowKind.UPDATE_BEFORE)
    raised = times.copy()
    raised[befores] = np.maximum(times[befores], times[befores + 1])
    return raised


class _LatestTimes:
    """The latest time of each key of which changes wait."""

    def __init__(self, types: list[pa.DataType]) -> None:
        self._types = types
        self.clear()

    def __len__(self) -> int:
        return len(self._index)

    def clear(self) -> None:
        self._index = KeyIndex(self._types)
        self._times = GrowingArray(np.int64, fill=WATERMARK_MIN)

    def raised(self, keys: list[pa.Array], times: Array) -> Array:
        """int64[n]: `times`, each not before that of an earlier change with its key."""
        slots, _ = self._index.get_or_insert(keys)
        self._times.reserve(self._index.slot_count)
        order, starts = argsort_stable_by(slots, self._index.slot_count)
        sorted_slots = slots[order]
        ordered = np.maximum(times[order], self._times.values[sorted_slots])
        # One number orders keys and times: times count by their place, so that it cannot overflow.
        distinct, places = np.unique(ordered, return_inverse=True)
        first = sorted_slots * len(distinct)
        ordered = distinct[np.maximum.accumulate(first + places) - first]
        lasts = starts[1:][np.diff(starts) > 0] - 1
        self._times.values[sorted_slots[lasts]] = ordered[lasts]
        raised = np.empty_like(ordered)
        raised[order] = ordered
        return raised
