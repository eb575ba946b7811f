"""A barrier on its way out of a task, behind rows that wait for slow consumers."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.elements import CheckpointBarrier
from sqlstream.runtime.net.channels import StreamItem
from sqlstream.runtime.taskmanager.checkpoints.in_flight import Place
from sqlstream.runtime.taskmanager.result_partition import ResultPartition

LOOK_INTERVAL_MS = 10
"""How often a task looks whether the barrier has left its outputs."""


class DepartingBarrier:
    """Has the barrier pass the rows that it waits behind, when it has waited for too long: they become part of its checkpoint,
    which is therefore not written before the barrier has left. State: that of the outputs."""

    def __init__(self, barrier: CheckpointBarrier, partitions: Sequence[ResultPartition]) -> None:
        self._barrier = barrier
        self._partitions = partitions

    def next_look_ms(self, now_ms: int) -> int:
        return min(max(self._barrier.overtakes_at_ms, now_ms), now_ms + LOOK_INTERVAL_MS)

    def passed(self, now_ms: int) -> dict[Place, list[StreamItem]] | None:
        """What the barrier has passed in the outputs, once it has left them all; None while it waits."""
        checkpoint_id = self._barrier.checkpoint_id
        is_due = now_ms >= self._barrier.overtakes_at_ms
        if not is_due and any(partition.holds(checkpoint_id) for partition in self._partitions):
            return None
        return {
            (True, edge, consumer): [item for item in items if not isinstance(item, CheckpointBarrier)]
            for edge, partition in enumerate(self._partitions)
            for consumer, items in enumerate(partition.overtake(checkpoint_id))
        }
