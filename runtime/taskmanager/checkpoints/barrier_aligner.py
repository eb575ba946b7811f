"""The channels of a task while the barriers of a checkpoint come in: those that have sent it wait for the others."""

from __future__ import annotations

from collections.abc import Callable

from runtime.taskmanager.input_gate import InputChannel
from sqlstream.elements import CheckpointBarrier

OnAligned = Callable[[CheckpointBarrier, int], None]
"""Called with the barrier and the milliseconds from the first channel's barrier to the last's."""

OnGivenUp = Callable[[int, str], None]
"""Called with the id of a checkpoint whose barrier will not have come from all channels, and why."""


class BarrierAligner:
    """Blocks each channel whose barrier has come until those of all open channels have; a channel that ends has sent all.

    A barrier of a later checkpoint gives the earlier one up, and barriers of a checkpoint that is decided are dropped. An
    alignment is given up `timeout_ms` after its first barrier too: by then the JobMaster has aborted the checkpoint, and its word
    may be lost. State: the id of the last checkpoint that began or was aborted; while one is aligned, its barrier, the channels
    that it has come from, and those of them that have more to read."""

    def __init__(
        self,
        count_open: Callable[[], int],
        on_aligned: OnAligned,
        on_given_up: OnGivenUp,
        steady_ms: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        self._count_open = count_open
        self._on_aligned = on_aligned
        self._on_given_up = on_given_up
        self._steady_ms = steady_ms
        self._timeout_ms = timeout_ms
        self._last_id = 0
        self._barrier: CheckpointBarrier | None = None
        self._blocked: list[InputChannel] = []
        self._held: list[InputChannel] = []
        self._since_ms = 0

    @property
    def is_aligning(self) -> bool:
        return self._barrier is not None

    def on_barrier(self, channel: InputChannel, barrier: CheckpointBarrier) -> None:
        """The next item of an open channel was this barrier."""
        under_way = self._barrier
        if under_way is None or barrier.checkpoint_id != under_way.checkpoint_id:
            if barrier.checkpoint_id <= self._last_id:
                return
            if under_way is not None:
                self._give_up(
                    f"the barrier of checkpoint {barrier.checkpoint_id} came before it was complete"
                )
            self._begin(barrier)
        channel.is_blocked = True
        self._blocked.append(channel)
        self._complete_if_all()

    def on_end(self) -> None:
        """A channel has ended, and is counted as open no more."""
        if self._barrier is not None:
            self._complete_if_all()

    def hold(self, channel: InputChannel) -> None:
        """A blocked channel has something to read: it is announced again once it is not blocked."""
        self._held.append(channel)

    def abort(self, checkpoint_id: int) -> None:
        """This checkpoint will not be completed, nor an earlier one that is under way."""
        self._last_id = max(self._last_id, checkpoint_id)
        if self._barrier is not None and self._barrier.checkpoint_id <= checkpoint_id:
            self._release()

    def wait_s(self) -> float | None:
        """How long the alignment may last yet; None without one."""
        if self._barrier is None:
            return None
        return max(0, self._since_ms + self._timeout_ms - self._steady_ms()) / 1000

    def give_up_when_due(self) -> None:
        if self._barrier is not None and self._steady_ms() - self._since_ms >= self._timeout_ms:
            self._give_up(f"its barriers did not come from all inputs within {self._timeout_ms / 1000:g} s")

    def _begin(self, barrier: CheckpointBarrier) -> None:
        self._barrier = barrier
        self._last_id = barrier.checkpoint_id
        self._since_ms = self._steady_ms()

    def _complete_if_all(self) -> None:
        barrier = self._barrier
        if barrier is not None and len(self._blocked) == self._count_open():
            self._on_aligned(barrier, self._steady_ms() - self._since_ms)
            self._release()

    def _give_up(self, why: str) -> None:
        assert self._barrier is not None
        checkpoint_id = self._barrier.checkpoint_id
        self._release()
        self._on_given_up(checkpoint_id, why)

    def _release(self) -> None:
        """Read all channels again."""
        self._barrier = None
        blocked, self._blocked = self._blocked, []
        held, self._held = self._held, []
        for channel in blocked:
            channel.is_blocked = False
        for channel in held:
            channel.announce()
