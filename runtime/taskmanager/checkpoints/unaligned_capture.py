"""What is in flight towards a task while the barriers of an unaligned checkpoint come in: it becomes part of the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from sqlstream.elements import CheckpointBarrier, EndOfInput
from sqlstream.runtime.net.channels import QueuedItem, StreamItem
from sqlstream.runtime.taskmanager.checkpoints.barrier_aligner import Alignment
from sqlstream.runtime.taskmanager.checkpoints.barrier_round import Arrivals, BarrierRound, OnGivenUp
from sqlstream.runtime.taskmanager.input_gate import InputChannel

Recorded = dict[int, list[StreamItem]]
"""The items of each channel that has any, by its number among all of the task's."""

OnCaptured = Callable[[CheckpointBarrier, Recorded, Arrivals], None]
"""Called with the barrier, what was in flight, and when the barrier came from each channel."""


class UnalignedCapture(BarrierRound):
    """Begins a checkpoint with its first barrier, and records what each channel yields until its own barrier has come, or its
    end.

    Nothing is blocked: what is recorded is worked on at once, as rows of the next checkpoint. A barrier that passed items which
    had arrived brings them along. What a restored task has still to work on stands before all that its channels yield. So that
    what is recorded does not grow for ever when the JobMaster's word is lost, the round ends in time.
    State: that of the round, and what was recorded."""

    def __init__(
        self,
        channels: Sequence[InputChannel],
        on_begun: Callable[[CheckpointBarrier], None],
        on_captured: OnCaptured,
        on_given_up: OnGivenUp,
        steady_ms: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        super().__init__(on_given_up, steady_ms, timeout_ms)
        self._channels = channels
        self._on_begun = on_begun
        self._on_captured = on_captured
        self._recorded: dict[InputChannel, list[StreamItem]] = {}

    def take_over(self, alignment: Alignment, replayed: Iterable[tuple[InputChannel, StreamItem]]) -> None:
        """A checkpoint that was aligned goes on unaligned: what the late channels yield from here on becomes part of it."""
        self._accepts(alignment.barrier)
        self._begin_recording(msgspec.structs.replace(alignment.barrier, is_unaligned=True), replayed)
        self._since_ms, self._arrivals = alignment.since_ms, alignment.arrivals
        for channel in alignment.arrived:
            self._end_recording(channel)

    def on_barrier(
        self,
        channel: InputChannel,
        barrier: CheckpointBarrier,
        passed: Iterable[QueuedItem],
        replayed: Iterable[tuple[InputChannel, StreamItem]],
    ) -> None:
        """The barrier came from a channel, and passed these items; `replayed` is left of what was restored."""
        if not self._accepts(barrier):
            return
        if self._barrier is None:
            self._begin_recording(barrier, replayed)
        if channel.recorded is not None:
            channel.recorded += [queued.item for queued in passed]
        self._end_recording(channel)

    def on_end(self, channel: InputChannel) -> None:
        """A channel has ended: no barrier comes from it."""
        if self._barrier is not None:
            self._end_recording(channel)

    def _begin_recording(
        self, barrier: CheckpointBarrier, replayed: Iterable[tuple[InputChannel, StreamItem]]
    ) -> None:
        self._begin(barrier)
        self._on_begun(barrier)
        for channel in self._channels:
            self._recorded[channel] = []
            channel.recorded = None if channel.has_ended else self._recorded[channel]
        for channel, item in replayed:
            self._recorded[channel].append(item)

    def _end_recording(self, channel: InputChannel) -> None:
        self._note(channel)
        channel.recorded = None
        barrier = self._barrier
        if barrier is None or any(c.recorded is not None for c in self._channels):
            return
        recorded = {
            number: items
            for number, channel in enumerate(self._channels)
            if (items := _without_marks(self._recorded[channel]))
        }
        self._release()
        self._on_captured(barrier, recorded, self._arrivals)

    def _release(self) -> None:
        self._barrier = None
        self._recorded = {}
        for channel in self._channels:
            channel.recorded = None


def _without_marks(items: Iterable[StreamItem]) -> list[StreamItem]:
    """Without barriers of aborted checkpoints, and the end, which a restored producer sends again."""
    return [item for item in items if not isinstance(item, CheckpointBarrier | EndOfInput)]
