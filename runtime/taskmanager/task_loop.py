"""What a task consists of once it is open, and the loop over its input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlstream import config
from sqlstream.messages import rpc
from sqlstream.runtime.net.results import ClientStream
from sqlstream.runtime.operators.sink import SinkOperator
from sqlstream.runtime.taskmanager.checkpoints.task_checkpoints import TaskCheckpoints
from sqlstream.runtime.taskmanager.input_gate import InputGate
from sqlstream.runtime.taskmanager.inputs.source_input import SourceInput
from sqlstream.runtime.taskmanager.inputs.task_input import (
    UNTIL_ROOM,
    FinishedInput,
    Pause,
    TaskInput,
)
from sqlstream.runtime.taskmanager.operator_chain import ChainPosition, OperatorChain, TimedPosition
from sqlstream.runtime.taskmanager.result_partition import ResultPartition
from sqlstream.runtime.taskmanager.task_context import TaskContext

if TYPE_CHECKING:
    from sqlstream.runtime.batch.query_reader import BatchQueryReader

WAKE_INTERVAL_MS = 20
"""How long rows may be queued for a consumer that waits, while the task has other work and the rows are few."""


class TaskLoop:
    """A task between its opening and its end, one step at a time, all from one thread:

        while not loop.is_finished:
            pause = loop.take()           # wait as it says; before a wait for input: loop.flush()
            loop.fire_timers()
        loop.finish()

    It takes input only while its outputs and operators have room, so that it waits between two items and not within an operator.
    State: that of the input and the operators, when consumers were last woken, and whether the last pause holds input back.
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
        self._is_held = False

    @property
    def is_finished(self) -> bool:
        """Whether all input was taken and no row waits for another system, so that `finish` is next."""
        return self.input.is_finished and self.chain.is_settled

    def open(self) -> None:
        self.input.open()

    @property
    def has_room(self) -> bool:
        """Whether further input may be taken: there is some, and all outputs and operators have room."""
        return (
            all(output.has_room for output in self._outputs)
            and self.chain.has_room
            and not self.input.is_finished
        )

    def take(self) -> Pause:
        pause = self._take()
        self._is_held = pause.is_held
        self._hold_back()
        return pause

    def _take(self) -> Pause:
        if not self.has_room:
            self.wake_consumers()
            return UNTIL_ROOM
        pause = self.input.take()
        # Consumers that wait are not woken for every batch, but every now and then, and before this task waits.
        if self._outputs and not 0 <= self._now_ms() - self._woke_ms < WAKE_INTERVAL_MS:
            self.wake_consumers()
        return pause

    def _hold_back(self) -> None:
        """No row comes since none is taken: that makes nothing idle, however long it lasts."""
        if self._is_held:
            self.chain.hold_back(self._now_ms())

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
        self._hold_back()
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


OPERATOR_CPU = "sqlstream.metrics.operator-cpu"


class OpenedTask:
    """The parts of a task. They are there from the start, and grow while `TaskOpening.open` works: what was opened before a
    failure has to be closed, and figures are read at any time.

    State: the operators, the channels, the streams to the client."""

    def __init__(self, descriptor: rpc.TaskDeploymentDescriptor, context: TaskContext) -> None:
        is_timed = bool(config.get(descriptor.config, OPERATOR_CPU))
        self.position = TimedPosition() if is_timed else ChainPosition()
        # What runs in batch mode counts every row, whatever its time: none is late before the end.
        is_batch = config.get(descriptor.config, "execution.runtime-mode") == "BATCH"
        self.chain = OperatorChain(
            self.position,
            context.now_ms,
            context.cancellation.check,
            has_time_at_end=is_batch,
        )
        self.partitions: list[ResultPartition] = []
        no_input = FinishedInput(InputGate((), (), context.mailbox), lambda: None, self.partitions)
        self.checkpoints = TaskCheckpoints(
            descriptor,
            self,
            context,
        )
        self.loop = TaskLoop(no_input, self.chain, self.partitions, context.now_ms)
        self.state_figures = context.state_figures
        self.state_budget_bytes = 0
        self.client_streams: list[ClientStream] = []
        self.batch_query: BatchQueryReader | None = None

    @property
    def input(self) -> TaskInput:
        return self.loop.input

    def source(self) -> SourceInput:
        """The input of a task that has requested splits."""
        source = self.loop.input
        assert isinstance(source, SourceInput)
        return source

    def measure_source(self) -> None:
        """Read how far a source is, beside its counters."""
        if isinstance(self.loop.input, SourceInput):
            next(iter(self.chain.counters.values())).splits = self.loop.input.measure()

    def committables(self) -> tuple[rpc.SinkCommittables, ...]:
        """What the sinks have prepared and no completed checkpoint has covered."""
        written = tuple(self.batch_query.committables) if self.batch_query is not None else ()
        return tuple(
            rpc.SinkCommittables(id, sink.committables + written)
            for id, sink in self._sinks()
            if sink.committables + written
        )

    def prepare_commit(self, checkpoint_id: int) -> tuple[rpc.SinkCommittables, ...]:
        """All rows so far belong to this checkpoint; returns `committables`."""
        for _, sink in self._sinks():
            sink.prepare_commit(checkpoint_id)
        return self.committables()

    def counted(self) -> dict[int, rpc.Metrics]:
        """The counters of the operators so far, by id, and how many rows wait in them."""
        counters = self.chain.counters.items()
        found = {id: {n: v for n, v in c.read().items() if n.startswith(rpc.COUNTER)} for id, c in counters}
        for id, figure, rows in self.chain.held_rows():
            found[id][figure] = rows
        return found

    def on_checkpoint_completed(self, checkpoint_id: int) -> None:
        if isinstance(self.loop.input, SourceInput):
            self.loop.input.on_checkpoint_completed(checkpoint_id)
        for _, sink in self._sinks():
            sink.on_checkpoint_completed(checkpoint_id)

    def _sinks(self) -> Iterator[tuple[int, SinkOperator]]:
        for node in self.chain.nodes:
            if isinstance(node.operator, SinkOperator):
                yield node.chained.id, node.operator
