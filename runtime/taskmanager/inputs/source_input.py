"""The reader of a source as the input of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from sqlstream.elements import WATERMARK_MIN, CheckpointBarrier
from sqlstream.errors import JobError
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.messages.rpc import BATCH_LIMIT, LARGEST_BATCH, Metrics
from sqlstream.runtime.taskmanager.checkpoints.barrier_round import Arrivals
from sqlstream.runtime.taskmanager.inputs.readiness import DescriptorWait
from sqlstream.runtime.taskmanager.inputs.source_alignment import SourceAlignment
from sqlstream.runtime.taskmanager.inputs.task_input import NO_PAUSE, UNTIL_DECIDED, Pause
from sqlstream.runtime.taskmanager.metrics import split_figures
from sqlstream.runtime.taskmanager.operator_chain import ChainOutput, ChainPosition
from sqlstream.runtime.taskmanager.split_requests import SplitsRequested
from sqlstream.spi.connector import (
    AssignedSplits,
    ConnectorContext,
    MakesWatermarks,
    MeasuresSplits,
    NotesCheckpoints,
    SourceReader,
    SourceStatus,
    TakesSplits,
    TurnsIdle,
)

if TYPE_CHECKING:
    import pyarrow as pa


class SplitSource:
    """One request at a time, in the order of the assignments' numbers. It is made again when the reader returns a split
    meanwhile.

    State: the number of the last assignment, whether the next is requested, how many splits were returned, and of how many that
    is confirmed."""

    def __init__(
        self, execution_id: str, reader: TakesSplits, request: Callable[[SplitsRequested], None]
    ) -> None:
        self._execution_id = execution_id
        self._reader = reader
        self._request = request
        self._number = 0
        self._is_awaiting = False
        self._has_all = False
        self._returned = 0
        self._confirmed = 0

    @property
    def number(self) -> int:
        """That of the last assignment that the reader has got."""
        return self._number

    def request_when_wanted(self) -> None:
        returned = self._reader.returned_splits
        is_wanted = not self._is_awaiting and not self._has_all and self._reader.wants_splits
        if is_wanted or self._confirmed + len(returned) > self._returned:
            self._is_awaiting, self._returned = True, self._confirmed + len(returned)
            self._request(SplitsRequested(self._execution_id, self._number + 1, returned, self._confirmed))

    def on_assigned(self, number: int, assigned: AssignedSplits) -> None:
        if number != self._number + 1:
            # Answered twice, as the request was made again.
            return
        self._is_awaiting = False
        self._number = number
        self._has_all = assigned.is_last
        self._confirmed = assigned.returned
        self._reader.add_splits(assigned)


POLL_GRID_MS = 10
"""A source task without rows polls its reader again when the clock shows a multiple of this. All tasks then wake at the same
times, one directly after the other: a task that wakes alone finds no processor cache of use, and costs several times as much."""

POLL_PAUSE_MAX_S = 1.0
"""How long a source task waits at most: the reader's clock may be set forward meanwhile."""


def poll_pause_s(due_ms: int | None, now_ms: int) -> float:
    """How long to wait until a reader that has rows at `due_ms` (None: at any time) is polled.

    >>> poll_pause_s(1_015, now_ms=1_001), poll_pause_s(None, now_ms=1_001), poll_pause_s(9_000, now_ms=1_001)
    (0.019, 0.009, 1.0)
    """
    earliest_ms = now_ms + 1 if due_ms is None else max(due_ms, now_ms + 1)
    on_grid_ms = -(-earliest_ms // POLL_GRID_MS) * POLL_GRID_MS
    return min((on_grid_ms - now_ms) / 1000, POLL_PAUSE_MAX_S)


@dataclasses.dataclass(frozen=True)
class SourceHead:
    """The operator that begins a chain, its reader, and what asks for further splits. `assignment` is the number of the splits
    that came with the deployment, -1 if none did. `waiting`: for a reader that waits for a descriptor; `alignment`: for a
    table that waits for others; `batches`: for a job with a target for its latency; `hands_over`: it says that histories have
    ended."""

    chained: ChainedOperator
    reader: SourceReader
    splits: SplitSource | None = None
    assignment: int = -1
    waiting: DescriptorWait | None = None
    alignment: SourceAlignment | None = None
    batches: BatchLimit | None = None
    hands_over: bool = False


class BatchLimit:
    """How many rows a batch of a job with a `latency.target` has at most: what its reader is asked for, and where it gives more,
    the batch is emitted in parts. State: the limit, and the largest batch since the last `measure`."""

    def __init__(self, context: ConnectorContext) -> None:
        self._context = context
        self._largest = 0

    def on_limited(self, rows: int) -> None:
        self._context.batch_rows = max(1, rows)

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = self._context.batch_rows
        self._largest = max(self._largest, batch.num_rows)
        if batch.num_rows <= rows:
            yield batch
            return
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)

    def measure(self) -> Metrics:
        largest, self._largest = self._largest, 0
        return {BATCH_LIMIT: self._context.batch_rows, LARGEST_BATCH: largest}


class SourceInput:
    """A reader that is polled. `take_checkpoint` is called with the barrier of a checkpoint between two polls, and behind the
    last one as long as rows wait for other systems, which `is_settled` tells.

    A drained reader is not polled again: event time has ended, and its job ends with the savepoint, or this task fails with it.
    One that was stopped is polled again when the checkpoint is aborted.
    State: that of the reader, whether it has ended, the checkpoints for which it was drained or stopped, and the positions in
    those that are not complete, for a reader that notes them."""

    def __init__(
        self,
        head: SourceHead,
        output: ChainOutput,
        count_rows: Callable[[int], None],
        position: ChainPosition,
        now_ms: Callable[[], int],
        take_checkpoint: Callable[[CheckpointBarrier, Arrivals], None] = lambda barrier, arrivals: None,
        is_settled: Callable[[], bool] = lambda: True,
    ) -> None:
        self._is_settled = is_settled
        self._assignment = head.assignment
        self._take_checkpoint = take_checkpoint
        self._drained_for = self._stopped_for = 0
        self._chained = head.chained
        self._splits = head.splits
        self._waiting = head.waiting
        self._alignment = head.alignment
        self._batches = head.batches
        self._hands_over = head.hands_over
        self._reader = head.reader
        self._timed = head.reader if isinstance(head.reader, MakesWatermarks) else None
        self._idling = head.reader if isinstance(head.reader, TurnsIdle) else None
        self._is_idle = False
        self._noting = head.reader if isinstance(head.reader, NotesCheckpoints) else None
        self._measuring = head.reader if isinstance(head.reader, MeasuresSplits) else None
        self._positions: dict[int, list[dict[str, Any]]] = {}
        self._output = output
        self._count_rows = count_rows
        self._position = position
        self._now_ms = now_ms
        self.is_finished = False
        self.watermark_ms = WATERMARK_MIN
        self.bytes_in = 0

    def open(self) -> None:
        return None

    def take(self) -> Pause:
        if self._drained_for or self._stopped_for:
            return UNTIL_DECIDED
        if self._alignment is not None and not self._alignment.may_read():
            return Pause(self._alignment.due_s(), is_held=True)
        if self._hands_over:
            self._hands_over = False
            self._output.emit_hand_over()
        if self._waiting is not None:
            if early_s := self._waiting.early_s():
                return Pause(early_s)
            self._waiting.on_poll()
        self._position.current = self._chained
        polled = self._reader.poll()
        if self._splits is not None:
            self._splits.request_when_wanted()
        if polled is SourceStatus.END:
            self.is_finished = True
            if self._alignment is not None:
                self._alignment.on_end()
            return NO_PAUSE
        if polled is not SourceStatus.NOTHING_YET:
            self._count_rows(polled.num_rows)
            if self._batches is None:
                self._output.emit(polled)
            else:
                for part in self._batches.parts(polled):
                    self._output.emit(part)
        if self._timed is not None:
            self._output.emit_watermark(self._timed.watermark_ms())
        if self._idling is not None and self._idling.is_idle != self._is_idle:
            self._is_idle = not self._is_idle
            self._output.emit_idle(self._is_idle)
        if polled is not SourceStatus.NOTHING_YET:
            return NO_PAUSE
        if self._waiting is not None:
            self._waiting.begin()
        pause_s = poll_pause_s(self._reader.next_poll_ms(), self._now_ms())
        return Pause(pause_s if self._alignment is None else min(pause_s, self._alignment.due_s()))

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        if not (self.is_finished and self._is_settled()) and not self._drained_for:
            self._drained_for = barrier.checkpoint_id if barrier.is_drain else 0
            if barrier.is_last:
                self._stopped_for = barrier.checkpoint_id
            if self._noting is not None:
                self._positions[barrier.checkpoint_id] = self._reader.snapshot()
            self._take_checkpoint(barrier, {})

    def on_checkpoint_completed(self, checkpoint_id: int) -> None:
        if self._noting is not None and checkpoint_id in self._positions:
            self._noting.on_checkpoint_completed(self._positions[checkpoint_id])
            self._positions = {id_: of for id_, of in self._positions.items() if id_ > checkpoint_id}

    def on_checkpoint_aborted(self, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        if self._drained_for and self._drained_for <= checkpoint_id:
            raise JobError(
                "SS6221", f"savepoint {self._drained_for} has failed after event time was ended for it"
            )
        if self._stopped_for <= checkpoint_id:
            self._stopped_for = 0

    def wait_s(self, longest_s: float | None) -> float | None:
        return longest_s

    def fire_timers(self) -> None:
        return None

    def position(self) -> SubtaskState:
        number = self._assignment if self._splits is None else self._splits.number
        return SubtaskState(splits=tuple(self._reader.snapshot()), assignment=number)

    def measure(self) -> Metrics:
        """How far the reader is, where it can say so."""
        figures = split_figures(self._measuring.measure()) if self._measuring is not None else {}
        return figures | (self._batches.measure() if self._batches is not None else {})

    def on_assigned(self, number: int, assigned: AssignedSplits) -> None:
        """Further splits have come."""
        assert self._splits is not None
        self._position.current = self._chained
        self._splits.on_assigned(number, assigned)

    def on_allowed(self, watermark_ms: int) -> None:
        """How far it may go, as the JobMaster says."""
        if self._alignment is not None and not self.is_finished:
            self._alignment.on_allowed(watermark_ms)

    def on_limited(self, rows: int, is_debloating: bool) -> None:
        """How many rows it is to put in a batch, as the JobMaster says."""
        if self._batches is not None:
            self._batches.on_limited(rows)

    def finish(self, now_ms: int) -> None:
        self._output.finish(now_ms)

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.end()
        self._reader.close()
