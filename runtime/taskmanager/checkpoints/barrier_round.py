"""The time from the first barrier of a checkpoint to the last, at a task that reads channels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from sqlstream.elements import CheckpointBarrier

OnGivenUp = Callable[[int, str], None]
"""Called with the id of a checkpoint whose barrier will not have come from all channels, and why."""


class BarrierRound(ABC):
    """One checkpoint at a time. A barrier of a later checkpoint gives the earlier one up, and barriers of a checkpoint that is
    decided are dropped. A checkpoint is given up `timeout_ms` after its first barrier too: by then the JobMaster has aborted it,
    and its word may be lost.

    State: the id of the last checkpoint that began or was aborted; while one is under way, its first barrier and its time."""

    def __init__(self, on_given_up: OnGivenUp, steady_ms: Callable[[], int], timeout_ms: int) -> None:
        self._on_given_up = on_given_up
        self._steady_ms = steady_ms
        self._timeout_ms = timeout_ms
        self._last_id = 0
        self._barrier: CheckpointBarrier | None = None
        self._since_ms = 0

    def abort(self, checkpoint_id: int) -> None:
        """This checkpoint will not be completed, nor an earlier one that is under way."""
        self._last_id = max(self._last_id, checkpoint_id)
        if self._barrier is not None and self._barrier.checkpoint_id <= checkpoint_id:
            self._release()

    def give_up_when_due(self) -> None:
        if self._barrier is not None and self._elapsed_ms() >= self._timeout_ms:
            self._give_up(f"its barriers did not come from all inputs within {self._timeout_ms / 1000:g} s")

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
        if barrier.checkpoint_id <= self._last_id:
            return False
        if under_way is not None:
            self._give_up(f"the barrier of checkpoint {barrier.checkpoint_id} came before it was complete")
        return True

    def _begin(self, barrier: CheckpointBarrier) -> None:
        self._barrier = barrier
        self._last_id = barrier.checkpoint_id
        self._since_ms = self._steady_ms()

    def _give_up(self, why: str) -> None:
        assert self._barrier is not None
        checkpoint_id = self._barrier.checkpoint_id
        self._release()
        self._on_given_up(checkpoint_id, why)
