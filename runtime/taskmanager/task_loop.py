"""What a task does with each thing that it is given: rows of its source, items of its channels, timers, the end.

No thread, clock or waiting in here: the shell around it (task.py, or a simulation) decides when to call, and what to do with a
pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import pyarrow as pa

from runtime.kernels.key_hashes import known
from runtime.net.channels import QueuedItem, StreamItem
from runtime.taskmanager.checkpoints.barrier_aligner import BarrierAligner
from runtime.taskmanager.checkpoints.barrier_round import Arrivals
from runtime.taskmanager.checkpoints.timed_barriers import TimedBarriers
from runtime.taskmanager.checkpoints.unaligned_capture import UnalignedCapture
from runtime.taskmanager.input_gate import InputChannel, InputGate
from runtime.taskmanager.operator_chain import ChainOutput, ChainPosition, OperatorChain
from runtime.taskmanager.result_partition import ResultPartition
from runtime.taskmanager.split_source import SplitSource
from runtime.taskmanager.watermarks import TaskWatermarks
from sqlstream.elements import (
    WATERMARK_MAX,
    WATERMARK_MIN,
    CheckpointBarrier,
    EndOfInput,
    Watermark,
    WatermarkStatus,
)
from sqlstream.errors import FailureReason, JobError
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.messages.checkpoint import ChannelTime, SubtaskState
from sqlstream.spi.connector import AssignedSplits, MakesWatermarks, SourceReader, SourceStatus

POLL_GRID_MS = 10
"""A source task without rows polls its reader again when the clock shows a multiple of this. All tasks then wake at the same
times, one directly after the other: a task that wakes alone finds no processor cache of use, and costs several times as much."""

WAKE_INTERVAL_MS = 20
"""How long rows may be queued for a consumer that waits, while the task has other work and the rows are few."""

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


class Pause:
    """What a task does next: go on at once (`NO_PAUSE`), or wait for mail, input or a timer, for `longest_s` at most (None: for
    as long as it takes)."""

    __slots__ = ("longest_s",)

    def __init__(self, longest_s: float | None) -> None:
        self.longest_s = longest_s


NO_PAUSE = Pause(0.0)
UNTIL_INPUT = Pause(None)
UNTIL_ROOM = Pause(None)
"""No input is taken until all outputs have room."""


class TaskInput(Protocol):
    """Where the rows of a task come from."""

    @property
    def is_finished(self) -> bool:
        """Whether all has been taken."""

    @property
    def watermark_ms(self) -> int:
        """That of the network's inputs; WATERMARK_MIN as long as there is none, and for a source."""

    @property
    def bytes_in(self) -> int: ...

    def open(self) -> None: ...

    def take(self) -> Pause:
        """Take in the next thing there is, and hand it to the operators; what follows when there is nothing."""

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """The JobMaster has begun a checkpoint."""

    def on_checkpoint_aborted(self, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        """All before this one are decided too, but for those that are still pending."""

    def wait_s(self, longest_s: float | None) -> float | None:
        """How long the task may wait for what this input waits for."""

    def fire_timers(self) -> None: ...

    def position(self) -> SubtaskState:
        """What it saves of itself in a checkpoint."""

    def finish(self, now_ms: int) -> None:
        """Every row was taken: let the operators end, the first first."""

    def close(self) -> None: ...


class SourceInput:
    """A reader that is polled. `assignment` is the number of the splits that came with the deployment, -1 if none did;
    `take_checkpoint` is called with the barrier of a checkpoint between two polls.

    A drained reader is not polled again: event time has ended, and its job ends with the savepoint, or this task fails with it.
    One that was stopped is polled again when the checkpoint is aborted.
    State: that of the reader, whether it has ended, and the checkpoints for which it was drained or stopped."""

    def __init__(
        self,
        chained: ChainedOperator,
        reader: SourceReader,
        output: ChainOutput,
        count_rows: Callable[[int], None],
        position: ChainPosition,
        now_ms: Callable[[], int],
        splits: SplitSource | None = None,
        assignment: int = -1,
        take_checkpoint: Callable[[CheckpointBarrier, Arrivals], None] = lambda barrier, arrivals: None,
    ) -> None:
        self._assignment = assignment
        self._take_checkpoint = take_checkpoint
        self._drained_for = self._stopped_for = 0
        self._chained = chained
        self._splits = splits
        self._reader = reader
        self._timed = reader if isinstance(reader, MakesWatermarks) else None
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
            return UNTIL_INPUT
        self._position.current = self._chained
        polled = self._reader.poll()
        if self._splits is not None:
            self._splits.request_when_wanted()
        if polled is SourceStatus.END:
            self.is_finished = True
            return NO_PAUSE
        if polled is not SourceStatus.NOTHING_YET:
            self._count_rows(polled.num_rows)
            self._output.emit(polled)
        if self._timed is not None:
            self._output.emit_watermark(self._timed.watermark_ms())
        if polled is not SourceStatus.NOTHING_YET:
            return NO_PAUSE
        return Pause(poll_pause_s(self._reader.next_poll_ms(), self._now_ms()))

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        if not self.is_finished and not self._drained_for:
            self._drained_for = barrier.checkpoint_id if barrier.is_drain else 0
            if barrier.is_last:
                self._stopped_for = barrier.checkpoint_id
            self._take_checkpoint(barrier, {})

    def on_checkpoint_aborted(self, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        if self._drained_for and self._drained_for <= checkpoint_id:
            raise JobError(
                "SS6221",
                f"savepoint {self._drained_for} has failed after event time was ended for it",
                reason=FailureReason.CHECKPOINT_FAILED,
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

    def on_assigned(self, number: int, assigned: AssignedSplits) -> None:
        """Further splits have come."""
        assert self._splits is not None
        self._position.current = self._chained
        self._splits.on_assigned(number, assigned)

    def finish(self, now_ms: int) -> None:
        self._output.finish(now_ms)

    def close(self) -> None:
        self._reader.close()


class NetworkInput:
    """The channels of a task, in the turn in which they become readable. State: event time of each channel, and the barriers of a
    checkpoint that not all of them have sent, and what is left of the items that were restored."""

    def __init__(
        self,
        gate: InputGate,
        take_readable: Callable[[], object | None],
        chain: OperatorChain,
        aligner: BarrierAligner,
        capture: UnalignedCapture,
        restored: Iterable[tuple[InputChannel, StreamItem]] = (),
    ) -> None:
        """`restored` was under way to the task at the checkpoint that it goes on from."""
        self._capture = capture
        self._restored = deque(restored)
        self._gate = gate
        self._take_readable = take_readable
        self._chain = chain
        self._aligner = aligner
        self._marks = TaskWatermarks(gate.channels_per_input)
        self._timed = TimedBarriers()
        self._is_timed = False

    @property
    def is_finished(self) -> bool:
        return self._gate.is_finished

    @property
    def watermark_ms(self) -> int:
        return self._marks.watermark_ms

    @property
    def bytes_in(self) -> int:
        return self._gate.bytes_in

    def open(self) -> None:
        self._gate.open(self._take_first, self._on_timed)

    def take(self) -> Pause:
        if self._restored:
            self.on_item(*self._restored.popleft())
            return NO_PAUSE
        channel = self._take_readable()
        if channel is None:
            self._gate.look()
            channel = self._take_readable()
        if channel is None:
            return UNTIL_INPUT
        if isinstance(channel, InputChannel):
            if channel.is_blocked:
                self._aligner.hold(channel)
                return NO_PAUSE
            queued = channel.take()
            if queued is not None:
                self._on_queued(channel, queued)
        return NO_PAUSE

    def _on_queued(self, channel: InputChannel, queued: QueuedItem) -> None:
        if channel.recorded is not None:
            channel.recorded.append(queued.item)
        if queued.key_hashes is not None:
            with known(queued.key_hashes):
                self.on_item(channel, queued.item)
        else:
            self.on_item(channel, queued.item, queued.passed)

    def _take_first(self, channel: InputChannel) -> None:
        """A barrier has passed what is queued in a channel; the task may take no input."""
        queued = channel.take_first()
        if queued is not None:
            self._on_queued(channel, queued)

    def on_item(self, channel: InputChannel, item: StreamItem, passed: tuple[QueuedItem, ...] = ()) -> None:
        """Hand a batch, or what an element means for all channels together, to the first operator. `passed`: what a barrier has
        passed."""
        head = self._chain.head
        match item:
            case pa.RecordBatch():
                head.on_batch(item, channel.input_index)
            case Watermark(timestamp_ms):
                risen_ms = self._marks.on_watermark(channel.input_index, channel.position, timestamp_ms)
                self._advance(risen_ms, None)
            case WatermarkStatus(is_idle):
                self._advance(*self._marks.on_status(channel.input_index, channel.position, is_idle))
            case EndOfInput():
                self._advance(*self._marks.on_end(channel.input_index, channel.position))
                self._gate.on_end(channel, head.on_end_of_input)
                self._aligner.on_end(channel)
                self._capture.on_end(channel)
            case CheckpointBarrier():
                self._on_barrier(channel, item, passed)

    def _on_barrier(
        self, channel: InputChannel, barrier: CheckpointBarrier, passed: tuple[QueuedItem, ...]
    ) -> None:
        if barrier.is_unaligned and self._aligner.is_under_way(barrier.checkpoint_id):
            self._capture.take_over(self._aligner.give_over(), self._restored)
        if barrier.is_unaligned or self._capture.is_under_way(barrier.checkpoint_id):
            self._aligner.abort(barrier.checkpoint_id - 1)
            self._capture.on_barrier(channel, barrier, passed, self._restored)
        else:
            self._capture.abort(barrier.checkpoint_id - 1)
            self._aligner.on_barrier(channel, barrier)
            self._watch(barrier)

    def _on_timed(self, channel: InputChannel, barrier: CheckpointBarrier) -> None:
        """A barrier has come that does not wait for ever behind the rows that are queued before it."""
        self._timed.add(channel, barrier)
        self._watch(barrier)

    def _watch(self, barrier: CheckpointBarrier) -> None:
        if barrier.overtakes_at_ms and not self._is_timed:
            self._is_timed = True
            self._chain.timers.watch(self._next_overtaking_ms, self._overtake_due)

    def _next_overtaking_ms(self) -> int | None:
        times = (self._timed.next_ms(), self._aligner.overtakes_at_ms)
        return min((time for time in times if time is not None), default=None)

    def _overtake_due(self, now_ms: int) -> None:
        self._timed.overtake_due(now_ms)
        due_ms = self._aligner.overtakes_at_ms
        if due_ms is not None and due_ms <= now_ms:
            self._capture.take_over(self._aligner.give_over(), self._restored)

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """Its checkpoints begin with the barriers of its channels."""

    def on_checkpoint_aborted(self, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        self._aligner.abort(checkpoint_id, still_pending)
        self._capture.abort(checkpoint_id, still_pending)

    def wait_s(self, longest_s: float | None) -> float | None:
        left_s = self._aligner.wait_s()
        return longest_s if left_s is None or (longest_s is not None and longest_s < left_s) else left_s

    def fire_timers(self) -> None:
        self._aligner.give_up_when_due()
        self._capture.give_up_when_due()

    def position(self) -> SubtaskState:
        times = (self._marks.channel(c.input_index, c.position) for c in self._gate.channels)
        return SubtaskState(channels=tuple(ChannelTime(*time) for time in times))

    def _advance(self, watermark_ms: int | None, is_idle: bool | None) -> None:
        head = self._chain.head
        if is_idle is False:
            head.on_idle(False)
        if watermark_ms is not None:
            head.on_watermark(watermark_ms)
        if is_idle:
            head.on_idle(True)

    def finish(self, now_ms: int) -> None:
        head = self._chain.head
        # Bounded inputs have sent the last watermark; operators get it in any case.
        if self._marks.watermark_ms != WATERMARK_MAX:
            head.on_watermark(WATERMARK_MAX)
        head.finish(now_ms)

    def close(self) -> None:
        self._gate.close()


class FinishedInput:
    """That of a task that goes on from a checkpoint at which it had finished: it only passes on the end, once that has come from
    its producers. Its rows, and what its sinks wrote, are part of the checkpoint. State: which channels have not ended."""

    watermark_ms = WATERMARK_MAX
    bytes_in = 0

    def __init__(
        self, gate: InputGate, take_readable: Callable[[], object | None], outputs: Sequence[ResultPartition]
    ) -> None:
        self._gate = gate
        self._take_readable = take_readable
        self._outputs = outputs

    @property
    def is_finished(self) -> bool:
        return self._gate.is_finished

    def open(self) -> None:
        self._gate.open()

    def take(self) -> Pause:
        channel = self._take_readable()
        if channel is None:
            self._gate.look()
            channel = self._take_readable()
        if not isinstance(channel, InputChannel):
            return UNTIL_INPUT
        queued = channel.take()
        if queued is not None and isinstance(queued.item, EndOfInput):
            self._gate.on_end(channel, lambda input_index: None)
        return NO_PAUSE

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        return None

    def on_checkpoint_aborted(self, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        return None

    def wait_s(self, longest_s: float | None) -> float | None:
        return longest_s

    def fire_timers(self) -> None:
        return None

    def position(self) -> SubtaskState:
        return SubtaskState()

    def finish(self, now_ms: int) -> None:
        for output in self._outputs:
            output.broadcast(Watermark(WATERMARK_MAX))
            output.broadcast(EndOfInput())

    def close(self) -> None:
        self._gate.close()


class TaskLoop:
    """A task between its opening and its end, one step at a time, all from one thread:

        while not loop.is_finished:
            pause = loop.take()           # wait as it says; before a wait for input: loop.flush()
            loop.fire_timers()
        loop.finish()

    It takes input only while its outputs have room, so that it waits between two items and not within an operator.
    State: that of the input and the operators, and when consumers were last woken.
    """

    def __init__(
        self,
        task_input: TaskInput,
        chain: OperatorChain,
        outputs: Sequence[ResultPartition],
        now_ms: Callable[[], int],
    ) -> None:
        self.input = task_input
        self.chain = chain
        self._outputs = outputs
        self._now_ms = now_ms
        self._woke_ms = 0

    @property
    def is_finished(self) -> bool:
        """Whether all input was taken, so that `finish` is next."""
        return self.input.is_finished

    def open(self) -> None:
        self.input.open()

    @property
    def has_room(self) -> bool:
        """Whether all outputs have room."""
        return all(output.has_room for output in self._outputs)

    def take(self) -> Pause:
        if not self.has_room:
            self.wake_consumers()
            self.chain.hold_back(self._now_ms())
            return UNTIL_ROOM
        pause = self.input.take()
        # Consumers that wait are not woken for every batch, but every now and then, and before this task waits.
        if self._outputs and not 0 <= self._now_ms() - self._woke_ms < WAKE_INTERVAL_MS:
            self.wake_consumers()
        return pause

    def wake_consumers(self) -> None:
        """Before the task waits: consumers that wait too are told what is queued for them."""
        if self._outputs:
            self._woke_ms = self._now_ms()
            for output in self._outputs:
                output.flush()

    def wait_s(self, pause: Pause) -> float | None:
        """How long a pause may last without missing a timer; None: as long as it takes."""
        return self.input.wait_s(self.chain.timers.wait_s(pause.longest_s))

    def flush(self) -> None:
        """Send what is held only to form larger batches: nothing comes for a while."""
        self.chain.flush()
        self.wake_consumers()

    def fire_timers(self) -> None:
        self.chain.timers.fire_due()
        self.input.fire_timers()

    def finish(self) -> None:
        self.input.finish(self._now_ms())

    def close(self) -> None:
        """Release everything, even when a part fails."""
        try:
            self.input.close()
        finally:
            self.chain.close()
