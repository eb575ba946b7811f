"""Barriers that wait in the inputs of a task, and not for ever."""

from __future__ import annotations

from sqlstream.elements import CheckpointBarrier
from sqlstream.runtime.taskmanager.input_gate import InputChannel


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
