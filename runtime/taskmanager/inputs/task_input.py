"""Where the rows of a task come from, and what follows when there are none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from sqlstream.elements import WATERMARK_MAX, CheckpointBarrier, EndOfInput, Watermark
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.runtime.taskmanager.input_gate import InputChannel, InputGate
from sqlstream.runtime.taskmanager.result_partition import ResultPartition


class Pause:
    """What a task does next: go on at once (`NO_PAUSE`), or wait for mail, input or a timer, for `longest_s` at most (None: for
    as long as it takes). `is_held`: it takes no input though there may be some, so that the wait makes nothing idle."""

    __slots__ = ("is_held", "longest_s")

    def __init__(self, longest_s: float | None, *, is_held: bool = False) -> None:
        self.longest_s, self.is_held = longest_s, is_held


NO_PAUSE = Pause(0.0)
UNTIL_INPUT = Pause(None)
UNTIL_ROOM = Pause(None, is_held=True)
"""No input is taken until all outputs have room."""
UNTIL_DECIDED = Pause(None, is_held=True)
"""No input is taken until the checkpoint is decided for which the source has stopped: that no row comes means nothing."""


class TaskInput(Protocol):
    """Where the rows of a task come from."""

    @property
    def is_finished(self) -> bool:
        """Whether all has been taken."""

    @property
    def watermark_ms(self) -> int:
        """That of the network's inputs; WATERMARK_MIN as long as there is none, and for a source."""

    @property
    def bytes_in(self) -> int: ...

    def open(self) -> None: ...

    def take(self) -> Pause:
        """Take in the next thing there is, and hand it to the operators; what follows when there is nothing."""

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        """The JobMaster has begun a checkpoint."""

    def on_checkpoint_aborted(self, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        """All before this one are decided too, but for those that are still pending."""

    def on_limited(self, rows: int, is_debloating: bool) -> None:
        """How many rows a reader is to put in a batch, and whether time bounds what is under way in channels."""

    def wait_s(self, longest_s: float | None) -> float | None:
        """How long the task may wait for what this input waits for."""

    def fire_timers(self) -> None: ...

    def position(self) -> SubtaskState:
        """What it saves of itself in a checkpoint."""

    def finish(self, now_ms: int) -> None:
        """Every row was taken: let the operators end, the first first."""

    def close(self) -> None: ...


class FinishedInput:
    """The task computes nothing more: its rows, and what its sinks wrote, are part of the checkpoint. It passes the end on to its
    consumers once its producers have ended. State: which channels have not ended."""

    watermark_ms = WATERMARK_MAX
    bytes_in = 0

    def __init__(
        self, gate: InputGate, take_readable: Callable[[], object | None], outputs: Sequence[ResultPartition]
    ) -> None:
        self._gate = gate
        self._take_readable = take_readable
        self._outputs = outputs

    @property
    def is_finished(self) -> bool:
        return self._gate.is_finished

    def open(self) -> None:
        self._gate.open()

    def take(self) -> Pause:
        channel = self._take_readable()
        if channel is None:
            self._gate.look()
            channel = self._take_readable()
        if not isinstance(channel, InputChannel):
            return UNTIL_INPUT
        queued = channel.take()
        if queued is not None and isinstance(queued.item, EndOfInput):
            self._gate.on_end(channel, lambda input_index: None)
        return NO_PAUSE

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        return None

    def on_checkpoint_aborted(self, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        return None

    def on_limited(self, rows: int, is_debloating: bool) -> None:
        return None

    def wait_s(self, longest_s: float | None) -> float | None:
        return longest_s

    def fire_timers(self) -> None:
        return None

    def position(self) -> SubtaskState:
        return SubtaskState()

    def finish(self, now_ms: int) -> None:
        for output in self._outputs:
            output.broadcast(Watermark(WATERMARK_MAX))
            output.broadcast(EndOfInput())

    def close(self) -> None:
        self._gate.close()
