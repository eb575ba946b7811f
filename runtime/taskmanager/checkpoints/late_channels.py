"""The channels of a task that a checkpoint waited for, as its figures name them."""

from __future__ import annotations

from sqlstream.messages.rpc import LATE_CHANNELS_MAX, LateChannel, TaskDeploymentDescriptor
from sqlstream.runtime.taskmanager.checkpoints.barrier_round import Arrivals


def late_channels(task: TaskDeploymentDescriptor, arrivals: Arrivals) -> tuple[LateChannel, ...]:
    """Those whose barrier came a millisecond or more behind the first, the latest first."""
    if not any(arrivals.values()):
        return ()
    producers = [(gate.edge.source, channel.subtask) for gate in task.inputs for channel in gate.channels]
    latest = sorted(arrivals, key=lambda number: (-arrivals[number], number))[:LATE_CHANNELS_MAX]
    return tuple(LateChannel(*producers[number], arrivals[number]) for number in latest if arrivals[number])
