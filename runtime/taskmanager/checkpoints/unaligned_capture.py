"""What is in flight towards a task while the barriers of an unaligned checkpoint come in: it becomes part of the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from runtime.net.channels import QueuedItem, StreamItem
from runtime.taskmanager.checkpoints.barrier_aligner import OnGivenUp
from runtime.taskmanager.input_gate import InputChannel
from sqlstream.elements import CheckpointBarrier, EndOfInput

Recorded = dict[int, list[StreamItem]]
"""The items of each channel that has any, by its number among all of the task's."""

OnCaptured = Callable[[CheckpointBarrier, Recorded, int], None]
"""Called with the barrier, what was in flight, and the milliseconds from the first channel's barrier to the last's."""


class UnalignedCapture:
    """Begins a checkpoint with its first barrier, and records what each channel yields until its own barrier has come, or its
    end.

    Nothing is blocked: what is recorded is worked on at once, as rows of the next checkpoint. A barrier that passed items which
    had arrived brings them along. A later barrier gives the earlier checkpoint up; barriers of one that is decided are dropped.
    What a restored task has still to work on stands before all that its channels yield.
    State: the id of the last checkpoint that began or was aborted; while one is under way, its barrier and what was recorded."""

    def __init__(
        self,
        channels: Sequence[InputChannel],
        on_begun: Callable[[CheckpointBarrier], None],
        on_captured: OnCaptured,
        on_given_up: OnGivenUp,
        steady_ms: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        self._channels = channels
        self._on_begun = on_begun
        self._on_captured = on_captured
        self._on_given_up = on_given_up
        self._steady_ms = steady_ms
        self._timeout_ms = timeout_ms
        self._last_id = 0
        self._barrier: CheckpointBarrier | None = None
        self._recorded: dict[InputChannel, list[StreamItem]] = {}
        self._since_ms = 0

    def on_barrier(
        self,
        channel: InputChannel,
        barrier: CheckpointBarrier,
        passed: Iterable[QueuedItem],
        replayed: Iterable[tuple[InputChannel, StreamItem]],
    ) -> None:
        """The barrier came from a channel, and passed these items; `replayed` is left of what was restored."""
        under_way = self._barrier
        if under_way is None or barrier.checkpoint_id != under_way.checkpoint_id:
            if barrier.checkpoint_id <= self._last_id:
                return
            if under_way is not None:
                self._give_up(
                    f"the barrier of checkpoint {barrier.checkpoint_id} came before it was complete"
                )
            self._begin(barrier, replayed)
        if channel.recorded is not None:
            channel.recorded += [queued.item for queued in passed]
        self._end_recording(channel)

    def on_end(self, channel: InputChannel) -> None:
        """A channel has ended: no barrier comes from it."""
        if self._barrier is not None:
            self._end_recording(channel)

    def abort(self, checkpoint_id: int) -> None:
        """This checkpoint will not be completed, nor an earlier one that is under way."""
        self._last_id = max(self._last_id, checkpoint_id)
        if self._barrier is not None and self._barrier.checkpoint_id <= checkpoint_id:
            self._release()

    def give_up_when_due(self) -> None:
        """What is recorded must not grow for ever when the JobMaster's word is lost."""
        if self._barrier is not None and self._steady_ms() - self._since_ms >= self._timeout_ms:
            self._give_up(f"its barriers did not come from all inputs within {self._timeout_ms / 1000:g} s")

    def _begin(self, barrier: CheckpointBarrier, replayed: Iterable[tuple[InputChannel, StreamItem]]) -> None:
        self._barrier = barrier
        self._last_id = barrier.checkpoint_id
        self._since_ms = self._steady_ms()
        self._on_begun(barrier)
        for channel in self._channels:
            self._recorded[channel] = []
            channel.recorded = None if channel.has_ended else self._recorded[channel]
        for channel, item in replayed:
            self._recorded[channel].append(item)

    def _end_recording(self, channel: InputChannel) -> None:
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
        self._on_captured(barrier, recorded, self._steady_ms() - self._since_ms)

    def _give_up(self, why: str) -> None:
        assert self._barrier is not None
        checkpoint_id = self._barrier.checkpoint_id
        self._release()
        self._on_given_up(checkpoint_id, why)

    def _release(self) -> None:
        self._barrier = None
        self._recorded = {}
        for channel in self._channels:
            channel.recorded = None


def _without_marks(items: Iterable[StreamItem]) -> list[StreamItem]:
    """Without barriers of aborted checkpoints, and the end, which a restored producer sends again."""
    return [item for item in items if not isinstance(item, CheckpointBarrier | EndOfInput)]
