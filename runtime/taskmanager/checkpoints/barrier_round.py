"""The barriers of one checkpoint at a task: those that arrive, those that come late, and the one that leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence

from sqlstream.elements import CheckpointBarrier
from sqlstream.messages.rpc import LATE_CHANNELS_MAX, LateChannel, TaskDeploymentDescriptor
from sqlstream.runtime.net.channels import StreamItem
from sqlstream.runtime.taskmanager.checkpoints.in_flight import Place
from sqlstream.runtime.taskmanager.input_gate import InputChannel
from sqlstream.runtime.taskmanager.result_partition import ResultPartition


def late_channels(task: TaskDeploymentDescriptor, arrivals: Arrivals) -> tuple[LateChannel, ...]:
    """Those whose barrier came a millisecond or more behind the first, the latest first."""
    if not any(arrivals.values()):
        return ()
    producers = [(gate.edge.source, channel.subtask) for gate in task.inputs for channel in gate.channels]
    latest = sorted(arrivals, key=lambda number: (-arrivals[number], number))[:LATE_CHANNELS_MAX]
    return tuple(LateChannel(*producers[number], arrivals[number]) for number in latest if arrivals[number])


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


Arrivals = dict[int, int]
"""The milliseconds from the first barrier of a checkpoint to that of each channel, or to its end, by its number among all of the
task's; without channels that had ended."""

OnGivenUp = Callable[[int, str, bool], None]
"""Called with the id of a checkpoint whose barrier will not have come from all channels, why, and whether that is a failure; it
is none that another checkpoint came before."""


class BarrierRound(ABC):
    """One checkpoint at a time: each channel has its barriers in the order of their ids, so that a task with several pending
    checkpoints works on the earliest. A barrier of a later one gives the earlier up, whose own that channel does not have, and
    barriers of a checkpoint that is decided are dropped. A checkpoint is given up `timeout_ms` after its first barrier too: by
    then the JobMaster has aborted it, and its word may be lost.

    State: the id of the last checkpoint that began, or was aborted with all before it; later ones that were aborted; while one is
    under way, its first barrier and its time, and when each channel's came."""

    def __init__(self, on_given_up: OnGivenUp, steady_ms: Callable[[], int], timeout_ms: int) -> None:
        self._on_given_up = on_given_up
        self._steady_ms = steady_ms
        self._timeout_ms = timeout_ms
        self._last_id = 0
        self._aborted: set[int] = set()
        self._barrier: CheckpointBarrier | None = None
        self._since_ms = 0
        self._arrivals: Arrivals = {}

    def is_under_way(self, checkpoint_id: int) -> bool:
        return self._barrier is not None and self._barrier.checkpoint_id == checkpoint_id

    def abort(self, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        """This checkpoint will not be completed, nor an earlier one that is not `still_pending`."""
        if any(n > self._last_id for n in still_pending):
            self._aborted.add(checkpoint_id)
        else:
            self._last_id = max(self._last_id, checkpoint_id)
        under_way = self._barrier
        if under_way is None or under_way.checkpoint_id in still_pending:
            return
        if under_way.checkpoint_id <= checkpoint_id:
            self._release()

    def give_up_when_due(self) -> None:
        if self._barrier is not None and self._elapsed_ms() >= self._timeout_ms:
            why = f"its barriers did not come from all inputs within {self._timeout_ms / 1000:g} s"
            self._give_up(why, is_failure=True)

    @abstractmethod
    def _release(self) -> None:
        """No checkpoint is under way from here on."""

    def _elapsed_ms(self) -> int:
        return self._steady_ms() - self._since_ms

    def _accepts(self, barrier: CheckpointBarrier) -> bool:
        """Whether the barrier is of the checkpoint that is under way, or of a new one: then none is under way after this call."""
        under_way = self._barrier
        if under_way is not None and barrier.checkpoint_id == under_way.checkpoint_id:
            return True
        if barrier.checkpoint_id <= self._last_id or barrier.checkpoint_id in self._aborted:
            return False
        if under_way is not None:
            why = f"the barrier of checkpoint {barrier.checkpoint_id} came before it was complete"
            self._give_up(why, is_failure=False)
        return True

    def _begin(self, barrier: CheckpointBarrier) -> None:
        self._barrier = barrier
        self._last_id = barrier.checkpoint_id
        self._aborted = {n for n in self._aborted if n > self._last_id}
        self._since_ms = self._steady_ms()
        self._arrivals = {}

    def _note(self, channel: InputChannel) -> None:
        """The barrier came from this channel, or will not, as that has ended."""
        self._arrivals.setdefault(channel.number, self._elapsed_ms())

    def _give_up(self, why: str, *, is_failure: bool) -> None:
        assert self._barrier is not None
        checkpoint_id = self._barrier.checkpoint_id
        self._release()
        self._on_given_up(checkpoint_id, why, is_failure)
