"""The channels of a task while the barriers of a checkpoint come in: those that have sent it wait for the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from runtime.taskmanager.checkpoints.barrier_round import Arrivals, BarrierRound, OnGivenUp
from runtime.taskmanager.input_gate import InputChannel
from sqlstream.elements import CheckpointBarrier

OnAligned = Callable[[CheckpointBarrier, Arrivals], None]
"""Called with the barrier and when it came from each channel."""


@dataclasses.dataclass(frozen=True)
class Alignment:
    """A checkpoint whose barrier has come from some channels, the first time at `since_ms` of the steady clock."""

    barrier: CheckpointBarrier
    arrived: tuple[InputChannel, ...]
    since_ms: int
    arrivals: Arrivals


class BarrierAligner(BarrierRound):
    """Blocks each channel whose barrier has come until those of all open channels have; a channel that ends has sent all.

    State: that of the round, the channels that its barrier has come from, and those of them that have more to read."""

    def __init__(
        self,
        count_open: Callable[[], int],
        on_aligned: OnAligned,
        on_given_up: OnGivenUp,
        steady_ms: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        super().__init__(on_given_up, steady_ms, timeout_ms)
        self._count_open = count_open
        self._on_aligned = on_aligned
        self._blocked: list[InputChannel] = []
        self._held: list[InputChannel] = []

    @property
    def overtakes_at_ms(self) -> int | None:
        """When the barrier passes what the late channels have before it, by the wall clock; None if it does not, or there is
        none."""
        return (self._barrier.overtakes_at_ms or None) if self._barrier is not None else None

    def give_over(self) -> Alignment:
        """The checkpoint that is under way goes on unaligned: all channels are read again."""
        assert self._barrier is not None
        alignment = Alignment(self._barrier, tuple(self._blocked), self._since_ms, self._arrivals)
        self._release()
        return alignment

    def on_barrier(self, channel: InputChannel, barrier: CheckpointBarrier) -> None:
        """The next item of an open channel was this barrier."""
        if not self._accepts(barrier):
            return
        if self._barrier is None:
            self._begin(barrier)
        self._note(channel)
        channel.is_blocked = True
        self._blocked.append(channel)
        self._complete_if_all()

    def on_end(self, channel: InputChannel) -> None:
        """The channel has ended, and is counted as open no more."""
        if self._barrier is not None:
            self._note(channel)
            self._complete_if_all()

    def hold(self, channel: InputChannel) -> None:
        """A blocked channel has something to read: it is announced again once it is not blocked."""
        self._held.append(channel)

    def wait_s(self) -> float | None:
        """How long the alignment may last yet; None without one."""
        if self._barrier is None:
            return None
        return max(0, self._timeout_ms - self._elapsed_ms()) / 1000

    def _complete_if_all(self) -> None:
        barrier = self._barrier
        if barrier is not None and len(self._blocked) == self._count_open():
            self._on_aligned(barrier, self._arrivals)
            self._release()

    def _release(self) -> None:
        """Read all channels again."""
        self._barrier = None
        blocked, self._blocked = self._blocked, []
        held, self._held = self._held, []
        for channel in blocked:
            channel.is_blocked = False
        for channel in held:
            channel.announce()
