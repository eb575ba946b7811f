"""The input of a task that had finished at the checkpoint that it goes on from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlstream.elements import WATERMARK_MAX, CheckpointBarrier, EndOfInput, Watermark
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.runtime.taskmanager.input_gate import InputChannel, InputGate
from sqlstream.runtime.taskmanager.inputs.task_input import NO_PAUSE, UNTIL_INPUT, Pause
from sqlstream.runtime.taskmanager.result_partition import ResultPartition


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
