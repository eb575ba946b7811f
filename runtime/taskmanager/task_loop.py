"""What a task does between its opening and its end, step by step.

No thread, clock or waiting in here: the shell around it (task.py, or a simulation) decides when to call, and what to do with a
pause.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlstream.runtime.taskmanager.inputs.task_input import UNTIL_DECIDED, UNTIL_ROOM, Pause, TaskInput
from sqlstream.runtime.taskmanager.operator_chain import OperatorChain
from sqlstream.runtime.taskmanager.result_partition import ResultPartition

WAKE_INTERVAL_MS = 20
"""How long rows may be queued for a consumer that waits, while the task has other work and the rows are few."""


class TaskLoop:
    """A task between its opening and its end, one step at a time, all from one thread:

        while not loop.is_finished:
            pause = loop.take()           # wait as it says; before a wait for input: loop.flush()
            loop.fire_timers()
        loop.finish()

    It takes input only while its outputs have room, so that it waits between two items and not within an operator.
    State: that of the input and the operators, and when consumers were last woken.
    """

    def __init__(
        self,
        task_input: TaskInput,
        chain: OperatorChain,
        outputs: Sequence[ResultPartition],
        now_ms: Callable[[], int],
    ) -> None:
        self.input = task_input
        self.chain = chain
        self._outputs = outputs
        self._now_ms = now_ms
        self._woke_ms = 0

    @property
    def is_finished(self) -> bool:
        """Whether all input was taken, so that `finish` is next."""
        return self.input.is_finished

    def open(self) -> None:
        self.input.open()

    @property
    def has_room(self) -> bool:
        """Whether all outputs have room."""
        return all(output.has_room for output in self._outputs)

    def take(self) -> Pause:
        if not self.has_room:
            self.wake_consumers()
            self.chain.hold_back(self._now_ms())
            return UNTIL_ROOM
        pause = self.input.take()
        if pause is UNTIL_DECIDED:
            self.chain.hold_back(self._now_ms())
        # Consumers that wait are not woken for every batch, but every now and then, and before this task waits.
        if self._outputs and not 0 <= self._now_ms() - self._woke_ms < WAKE_INTERVAL_MS:
            self.wake_consumers()
        return pause

    def wake_consumers(self) -> None:
        """Before the task waits: consumers that wait too are told what is queued for them."""
        if self._outputs:
            self._woke_ms = self._now_ms()
            for output in self._outputs:
                output.flush()

    def wait_s(self, pause: Pause) -> float | None:
        """How long a pause may last without missing a timer; None: as long as it takes."""
        return self.input.wait_s(self.chain.timers.wait_s(pause.longest_s))

    def flush(self) -> None:
        """Send what is held only to form larger batches: nothing comes for a while."""
        self.chain.flush()
        self.wake_consumers()

    def fire_timers(self) -> None:
        self.chain.timers.fire_due()
        self.input.fire_timers()

    def finish(self) -> None:
        self.input.finish(self._now_ms())

    def close(self) -> None:
        """Release everything, even when a part fails."""
        try:
            self.input.close()
        finally:
            self.chain.close()
