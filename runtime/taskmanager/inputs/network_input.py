"""The channels from other tasks as the input of a task."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable

import pyarrow as pa

from sqlstream.elements import (
    WATERMARK_MAX,
    CheckpointBarrier,
    EndOfInput,
    Watermark,
    WatermarkStatus,
)
from sqlstream.messages.checkpoint import ChannelTime, SubtaskState
from sqlstream.runtime.kernels.key_hashes import known
from sqlstream.runtime.net.channels import QueuedItem, StreamItem
from sqlstream.runtime.taskmanager.checkpoints.barrier_aligner import BarrierAligner
from sqlstream.runtime.taskmanager.checkpoints.timed_barriers import TimedBarriers
from sqlstream.runtime.taskmanager.checkpoints.unaligned_capture import UnalignedCapture
from sqlstream.runtime.taskmanager.input_gate import InputChannel, InputGate
from sqlstream.runtime.taskmanager.inputs.task_input import NO_PAUSE, UNTIL_INPUT, Pause
from sqlstream.runtime.taskmanager.operator_chain import OperatorChain
from sqlstream.runtime.taskmanager.watermarks import TaskWatermarks


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
