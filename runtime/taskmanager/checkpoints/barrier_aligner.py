"""The channels of a task while the barriers of a checkpoint come in: those that have sent it wait for the others, but for those
of a job that counts rows at least once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

from sqlstream.elements import CheckpointBarrier
from sqlstream.runtime.taskmanager.checkpoints.barrier_round import Arrivals, BarrierRound, OnGivenUp
from sqlstream.runtime.taskmanager.input_gate import InputChannel

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

    Without `blocks` (Flink: CheckpointBarrierTracker) it counts the barriers, and rows behind one are worked on: they are in the
    checkpoint's state and come again when a job goes on from it. Barriers of savepoints, and of a checkpoint that ends the job,
    block all the same. So does the barrier of a later checkpoint: it waits until the one under way is decided.

    State: that of the round, the channels that its barrier has come from, those of them that have more to read, and barriers
    of later checkpoints that wait."""

    def __init__(
        self,
        count_open: Callable[[], int],
        on_aligned: OnAligned,
        on_given_up: OnGivenUp,
        steady_ms: Callable[[], int],
        timeout_ms: int,
        *,
        blocks: bool = True,
    ) -> None:
        super().__init__(on_given_up, steady_ms, timeout_ms)
        self._count_open = count_open
        self._on_aligned = on_aligned
        self._blocks = blocks
        self._arrived: list[InputChannel] = []
        self._held: list[InputChannel] = []
        self._waiting: list[tuple[InputChannel, CheckpointBarrier]] = []

    @property
    def overtakes_at_ms(self) -> int | None:
        """When the barrier passes what the late channels have before it, by the wall clock; None if it does not, or there is
        none."""
        return (self._barrier.overtakes_at_ms or None) if self._barrier is not None else None

    def give_over(self) -> Alignment:
        """The checkpoint that is under way goes on unaligned: all channels are read again."""
        assert self._barrier is not None
        alignment = Alignment(self._barrier, tuple(self._arrived), self._since_ms, self._arrivals)
        self._release()
        return alignment

    def on_barrier(self, channel: InputChannel, barrier: CheckpointBarrier) -> None:
        """The next item of an open channel was this barrier."""
        if self._barrier is not None and channel in self._arrived:
            # The channel was not blocked: its barrier of the checkpoint under way has come, so this is a later one's.
            channel.is_blocked = True
            self._waiting.append((channel, barrier))
            return
        self._take_barrier(channel, barrier)
        self._take_waiting()

    def _take_barrier(self, channel: InputChannel, barrier: CheckpointBarrier) -> None:
        if not self._accepts(barrier):
            return
        if self._barrier is None:
            self._begin(barrier)
        self._note(channel)
        channel.is_blocked = self._blocks or bool(barrier.directory) or barrier.is_last
        self._arrived.append(channel)
        self._complete_if_all()

    def _take_waiting(self) -> None:
        """Go on with the barriers that waited, once no checkpoint is under way."""
        while self._waiting and self._barrier is None:
            waiting, self._waiting = self._waiting, []
            for channel, _ in waiting:
                channel.is_blocked = False
            for channel, barrier in sorted(waiting, key=lambda each: each[1].checkpoint_id):
                self._take_barrier(channel, barrier)
            self._announce_held()

    def abort(self, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        super().abort(checkpoint_id, still_pending)
        self._take_waiting()

    def give_up_when_due(self) -> None:
        super().give_up_when_due()
        self._take_waiting()

    def on_end(self, channel: InputChannel) -> None:
        """The channel has ended, and is counted as open no more."""
        if self._barrier is not None:
            if channel in self._arrived:
                self._arrived.remove(channel)
            self._note(channel)
            self._complete_if_all()
            self._take_waiting()

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
        if barrier is not None and len(self._arrived) == self._count_open():
            self._on_aligned(barrier, self._arrivals)
            self._release()

    def _release(self) -> None:
        """Read all channels again, but those whose next barrier waits."""
        self._barrier = None
        arrived, self._arrived = self._arrived, []
        waiting = [channel for channel, _ in self._waiting]
        for channel in arrived:
            channel.is_blocked = channel in waiting
        self._announce_held()

    def _announce_held(self) -> None:
        held, self._held = self._held, []
        for channel in held:
            if channel.is_blocked:
                self._held.append(channel)
            else:
                channel.announce()
