"""The channels from other tasks as the input of a task."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Collection, Iterable

import pyarrow as pa

from sqlstream.elements import (
    HAND_OVER,
    WATERMARK_MAX,
    WATERMARK_MIN,
    CheckpointBarrier,
    EndOfInput,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from sqlstream.messages.checkpoint import ChannelTime, SubtaskState
from sqlstream.messages.rpc import Metrics
from sqlstream.runtime.kernels.keys.hashing import known
from sqlstream.runtime.net.channels import QueuedItem, StreamItem
from sqlstream.runtime.taskmanager.checkpoints.barrier_aligner import BarrierAligner
from sqlstream.runtime.taskmanager.checkpoints.unaligned_capture import UnalignedCapture
from sqlstream.runtime.taskmanager.input_gate import BufferDebloating, InputChannel, InputGate
from sqlstream.runtime.taskmanager.inputs.task_input import NO_PAUSE, UNTIL_INPUT, Pause
from sqlstream.runtime.taskmanager.operator_chain import OperatorChain


@dataclasses.dataclass
class _Part:
    """A channel of an input, or an input of a task. `reached_ms` is its last watermark before the one that ends event time."""

    watermark_ms: int = WATERMARK_MIN
    is_idle: bool = False
    reached_ms: int = WATERMARK_MIN

    def advance(self, watermark_ms: int) -> None:
        self.watermark_ms = max(self.watermark_ms, watermark_ms)
        if self.watermark_ms != WATERMARK_MAX:
            self.reached_ms = self.watermark_ms


class WatermarkMinimum:
    """The combined watermark and status of several parts.

    State: the last watermark and status of each part, and the combined ones last reported. The watermark never
    falls: a part that was idle and resumes with an older watermark does not count until it has caught up."""

    def __init__(self, parts: int) -> None:
        self._parts = [_Part() for _ in range(parts)]
        self.watermark_ms = WATERMARK_MIN
        self.is_idle = False

    def part(self, part: int) -> tuple[int, bool]:
        known = self._parts[part]
        return known.watermark_ms, known.is_idle

    def on_watermark(self, part: int, watermark_ms: int) -> bool:
        """Set a part's watermark; returns whether the combined one rose."""
        self._parts[part].advance(watermark_ms)
        return self._advance()

    def on_status(self, part: int, is_idle: bool) -> tuple[bool, bool]:
        """A part turned idle or active; returns whether the combined watermark rose and whether the combined
        status changed."""
        self._parts[part].is_idle = is_idle
        unfinished = [p for p in self._parts if p.watermark_ms != WATERMARK_MAX]
        was_idle, self.is_idle = self.is_idle, bool(unfinished) and all(p.is_idle for p in unfinished)
        return self._advance(), was_idle != self.is_idle

    def on_end(self, part: int) -> tuple[bool, bool]:
        """A part is finished: its event time is complete."""
        self._parts[part].advance(WATERMARK_MAX)
        return self.on_status(part, False)

    def _advance(self) -> bool:
        unfinished = [p for p in self._parts if p.watermark_ms != WATERMARK_MAX]
        if not unfinished:
            candidate = WATERMARK_MAX
        else:
            active = [p.watermark_ms for p in unfinished if not p.is_idle]
            # When all are idle, the highest watermark counts, also one that a part had before it finished: the others would
            # have waited for it if they had turned idle first, and subtasks hear of both in different orders.
            candidate = min(active) if active else max(p.reached_ms for p in self._parts)
        if candidate <= self.watermark_ms:
            return False
        self.watermark_ms = candidate
        return True


class TaskWatermarks:
    """Event time of a task with several inputs of several channels each.

    Each call returns the new combined watermark and the new combined status of all inputs (None: unchanged), but for the last
    one where it is a `side_input`."""

    def __init__(self, channels_per_input: tuple[int, ...], side_input: int | None = None) -> None:
        count = len(channels_per_input)
        assert side_input in (None, count - 1)
        self._inputs = [WatermarkMinimum(n) for n in channels_per_input]
        self._side_input = side_input
        self._all = WatermarkMinimum(count if side_input is None else side_input)

    @property
    def watermark_ms(self) -> int:
        return self._all.watermark_ms

    @property
    def side_watermark_ms(self) -> int:
        """WATERMARK_MIN without a side input."""
        return WATERMARK_MIN if self._side_input is None else self._inputs[self._side_input].watermark_ms

    def channel(self, input_index: int, channel: int) -> tuple[int, bool]:
        """The last watermark of a channel, and whether it is idle."""
        return self._inputs[input_index].part(channel)

    def on_watermark(self, input_index: int, channel: int, watermark_ms: int) -> int | None:
        rose = self._inputs[input_index].on_watermark(channel, watermark_ms)
        if input_index == self._side_input:
            return None
        if not rose or not self._all.on_watermark(input_index, self._inputs[input_index].watermark_ms):
            return None
        return self._all.watermark_ms

    def on_status(self, input_index: int, channel: int, is_idle: bool) -> tuple[int | None, bool | None]:
        return self._combine(input_index, *self._inputs[input_index].on_status(channel, is_idle))

    def on_end(self, input_index: int, channel: int) -> tuple[int | None, bool | None]:
        return self._combine(input_index, *self._inputs[input_index].on_end(channel))

    def _combine(self, input_index: int, rose: bool, changed: bool) -> tuple[int | None, bool | None]:
        part = self._inputs[input_index]
        is_higher, is_other = False, False
        if input_index == self._side_input:
            return None, None
        if rose:
            is_higher = self._all.on_watermark(input_index, part.watermark_ms)
        if changed:
            more, is_other = self._all.on_status(input_index, part.is_idle)
            is_higher = is_higher or more
        return (self._all.watermark_ms if is_higher else None, self._all.is_idle if is_other else None)


class TimedBarriers:
    """Has barriers that have come from other processes pass the rows that they came behind, when they have waited for too long.
    Those of this process are passed on by their producers (DepartingBarrier). State: the barriers, until their time has come."""

    def __init__(self) -> None:
        self._waiting: list[tuple[InputChannel, CheckpointBarrier]] = []

    def add(self, channel: InputChannel, barrier: CheckpointBarrier) -> None:
        """It may have been taken already."""
        self._waiting.append((channel, barrier))

    def next_ms(self) -> int | None:
        return min((barrier.overtakes_at_ms for _, barrier in self._waiting), default=None)

    def overtake_due(self, now_ms: int) -> None:
        due = [(c, b) for c, b in self._waiting if b.overtakes_at_ms <= now_ms]
        self._waiting = [(c, b) for c, b in self._waiting if b.overtakes_at_ms > now_ms]
        for channel, barrier in due:
            channel.channel.overtake(barrier.checkpoint_id, keeps_passed=True)


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
        debloating: BufferDebloating | None = None,
    ) -> None:
        """`restored` was under way to the task at the checkpoint that it goes on from."""
        self._debloating = debloating
        self._capture = capture
        self._restored = deque(restored)
        self._gate = gate
        self._take_readable = take_readable
        self._chain = chain
        self._aligner = aligner
        self._marks = TaskWatermarks(gate.channels_per_input, chain.head.operator.side_input)
        self._side_ms = WATERMARK_MIN
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

    @property
    def in_flight(self) -> Metrics:
        """How what is under way to the task is bounded, where it is by how fast it is."""
        return self._debloating.read() if self._debloating is not None else {}

    def on_limited(self, rows: int, is_debloating: bool) -> None:
        if self._debloating is not None:
            self._debloating.turn(is_on=is_debloating)

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
                if self._debloating is not None:
                    self._debloating.on_taken()
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
            case LatencyMarker():
                head.on_marker(item)
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
        if self._marks.side_watermark_ms > self._side_ms:
            self._side_ms = self._marks.side_watermark_ms
            head.on_side_watermark(self._side_ms)
        if is_idle is False:
            head.on_idle(False)
        if watermark_ms == HAND_OVER:
            head.on_hand_over()
        elif watermark_ms is not None:
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
