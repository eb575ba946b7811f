"""The thread around a task: it runs the loop, waits where the loop pauses, and reports how the task is."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import traceback
from collections.abc import Callable, Iterator

import msgspec

from sqlstream import config
from sqlstream.elements import HAND_OVER, WATERMARK_MAX
from sqlstream.errors import ErrorInfo, JobError, SqlStreamError, UserError
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import Metrics, SinkCommittables, TaskDeploymentDescriptor, TaskMetrics
from sqlstream.runtime.checkpoint.local_copies import (
    SubtaskCopies,
    reads_local_copies,
    writes_local_copies,
)
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.logs import TaskLabels, label_thread
from sqlstream.runtime.memory.managed_memory import TaskMemory
from sqlstream.runtime.net.channels import ChannelClosed
from sqlstream.runtime.overflow import OVERFLOWS, on_overflow
from sqlstream.runtime.taskmanager.events import CheckpointMessage, TaskStateChanged
from sqlstream.runtime.taskmanager.inputs.network_input import NetworkInput
from sqlstream.runtime.taskmanager.inputs.source_input import SourceInput
from sqlstream.runtime.taskmanager.inputs.task_input import NO_PAUSE, UNTIL_ROOM, Pause
from sqlstream.runtime.taskmanager.mailbox import Mailbox
from sqlstream.runtime.taskmanager.metrics import Rates, TaskTimes, per_second
from sqlstream.runtime.taskmanager.task_context import TaskContext
from sqlstream.runtime.taskmanager.task_loop import OpenedTask
from sqlstream.runtime.taskmanager.task_opening import TaskOpening
from sqlstream.spi.connector import AssignedSplits

_TASK = -1
"""The place of the task itself among its operators' ids."""


class TaskFigures:
    """Reads the counters of a task, while its thread writes them. State: earlier readings, for rates; for one reader thread."""

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        opened: OpenedTask,
        times: TaskTimes,
        mailbox: Mailbox,
        now_ms: Callable[[], int],
    ) -> None:
        self._descriptor = descriptor
        self._opened = opened
        self._times = times
        self._mailbox = mailbox
        self._now_ms = now_ms
        self._rates: dict[int, Rates] = {_TASK: Rates()}

    def read(self) -> TaskMetrics:
        """The figures so far; time ratios since the last call, rates over the last seconds."""
        return self._figures(
            self._times.read_ratios(),
            lambda id, counters: self._rates.setdefault(id, Rates()).read(counters),
        )

    def read_last(self) -> TaskMetrics:
        """The figures of the ended task; ratios and rates over its whole life. Called by the task's thread."""
        lived_s = self._times.lived_s()
        return self._figures(
            self._times.total_ratios(), lambda _, counters: per_second(counters, lived_s, {})
        )

    def _figures(self, ratios: Metrics, rates: Callable[[int, Metrics], Metrics]) -> TaskMetrics:
        operators = {id: counters.read() for id, counters in list(self._opened.chain.counters.items())}
        if isinstance(self._opened.loop.input, SourceInput) and operators:
            next(iter(operators.values())).update(self._lag(operators))
        rated = {
            id: figures | rates(id, {name: figures[name] for name in ("numRecordsIn", "numRecordsOut")})
            for id, figures in operators.items()
        }
        return TaskMetrics(self._descriptor.execution_id, self._task_figures(operators, ratios, rates), rated)

    def _lag(self, operators: dict[int, Metrics]) -> Metrics:
        """How far the watermark that a source makes, by itself or by the operator behind it, is behind the clock."""
        made = [f["currentOutputWatermark"] for f in operators.values() if "currentOutputWatermark" in f]
        return {"watermarkLag": self._now_ms() - made[0]} if made and made[0] != WATERMARK_MAX else {}

    def _task_figures(
        self, operators: dict[int, Metrics], ratios: Metrics, rates: Callable[[int, Metrics], Metrics]
    ) -> Metrics:
        """Records and bytes of a task are those of its network inputs and outputs, as in Flink: a source has no input."""
        task_input = self._opened.loop.input
        heads = list(operators.values())[:1] if not isinstance(task_input, SourceInput) else []
        counters: Metrics = {
            "numRecordsIn": heads[0]["numRecordsIn"] if heads else 0,
            "numRecordsOut": sum(f["numRecordsOut"] for f in self._sending(operators)),
            "numBytesIn": task_input.bytes_in,
            "numBytesOut": sum(p.bytes_out for p in list(self._opened.partitions)),
        }
        task: Metrics = {
            **counters,
            **rates(_TASK, counters),
            "stateBytes": sum(f.get("stateBytes", 0) for f in operators.values()),
            "mailboxQueueSize": self._mailbox.queue_size,
            **ratios,
            **self._times.accumulated(),
        }
        file_bytes = sum(f.get("stateFileBytes", 0) for f in operators.values())
        if file_bytes:
            task["stateFileBytes"] = file_bytes
        if self._opened.state_budget_bytes:
            task["stateBudgetBytes"] = self._opened.state_budget_bytes
        if task_input.watermark_ms > HAND_OVER:
            task["currentInputWatermark"] = task_input.watermark_ms
        if isinstance(task_input, NetworkInput):
            task |= task_input.in_flight
        return task | self._opened.state_figures.read()

    def _sending(self, operators: dict[int, Metrics]) -> Iterator[Metrics]:
        senders = {output.edge.source_operator for output in self._descriptor.outputs}
        return (figures for id, figures in operators.items() if id in senders)


logger = logging.getLogger(__name__)

IDLE_MIN_S = 0.004
"""A task that has waited for this long takes turns with others that wake at the same time; a busier one does not."""

WRITE_POLL_S = 0.01
"""How often a task that has finished looks whether its state is written."""

LOST_POLL_S = 0.5
"""How often a task that waits for its peers looks whether a producer is lost."""

PARTITION_LOST_GRACE_S = 2.0
"""How long a consumer that lost its producer waits to be cancelled. The JobManager cancels it once it has the real
cause."""


class Task:
    """One attempt of one subtask, on a thread of its own. Everything from outside comes through the mailbox, so that operators
    see one thread.

    Reports RUNNING once its operators are open, then exactly one of FINISHED, CANCELED and FAILED.
    State: what was opened; all of it is released when the thread ends.
    """

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        context: TaskContext,
        memory: TaskMemory | None = None,
    ) -> None:
        """`memory` is closed at the task's end; None: without a limit."""
        self.descriptor = descriptor
        context = context.of_task(memory, self._pause_ms, self._on_partition_lost, self._wait_for_peers)
        self._context = dataclasses.replace(context, copies=_copies_of(descriptor, context))
        self._mailbox, self._cancellation, self._times = context.mailbox, context.cancellation, context.times
        self._cancellation.add_interrupt(lambda: self._mailbox.post(self._cancellation.check))
        self._opened = OpenedTask(descriptor, self._context)
        self._figures = TaskFigures(descriptor, self._opened, self._times, self._mailbox, context.now_ms)
        self._state_measured_s = 0.0
        self._turn: threading.Lock | None = None
        self._lost: JobError | None = None
        self._thread = threading.Thread(target=self._run, name=descriptor.task_name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the task's end; returns whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def thread(self) -> threading.Thread:
        return self._thread

    def cancel(self) -> None:
        """Request that the task stop, and wake it where it waits. Called by any thread; returns at once."""
        self._cancellation.request()

    def give_splits(self, number: int, assigned: AssignedSplits) -> None:
        """Hand the source splits that it has requested. Called by any thread."""
        self._mailbox.post(lambda: self._opened.source().on_assigned(number, assigned))

    def align(self, watermark_ms: int) -> None:
        """Tell the source how far it may go. Called by any thread."""
        self._mailbox.post(lambda: self._opened.source().on_allowed(watermark_ms))

    def limit(self, rows: int, is_debloating: bool) -> None:
        """Tell a source how many rows to put in a batch, and a task with channels whether time bounds what is under way to it.
        Called by any thread."""
        self._mailbox.post(lambda: self._opened.input.on_limited(rows, is_debloating))

    def tell_of_checkpoint(self, message: CheckpointMessage) -> None:
        """Have the task take a checkpoint, or tell it the fate of one. Called by any thread."""
        self._mailbox.post(lambda: self._opened.checkpoints.on_message(message))

    def metrics(self) -> TaskMetrics:
        """The figures so far. For one reader thread."""
        return self._figures.read()

    # --- the thread

    def _run(self) -> None:
        name, subtask = self.descriptor.vertex.name, self.descriptor.subtask + 1
        label_thread(TaskLabels(self.descriptor.job_id, name, subtask, self.descriptor.attempt))
        with on_overflow(self._on_overflow):
            end = self._attempt()
        self._context.memory.close()
        self._end_turn()
        _log_end(end)
        self._context.report(msgspec.structs.replace(end, metrics=self._figures.read_last()))

    def _on_overflow(self, count: int, error: UserError) -> None:
        """Whole numbers have left the range of their type."""
        if config.get(self.descriptor.config, "table.exec.arithmetic-overflow") == "FAIL":
            raise error
        blamed = self._opened.position.current or self.descriptor.vertex.operators[0]
        self._opened.chain.counters[blamed.id].count(OVERFLOWS, count)

    def _attempt(self) -> TaskStateChanged:
        execution_id = self.descriptor.execution_id
        committables: tuple[SinkCommittables, ...] = ()
        try:
            try:
                TaskOpening(self.descriptor, self._context, self._opened).open()
                logger.info("the task is RUNNING")
                self._context.report(TaskStateChanged(execution_id, ExecutionState.RUNNING))
                self._process()
                committables = self._finish()
            except BaseException:
                # What sinks have prepared they do not remove: the job does.
                committables = self._opened.committables()
                self._give_up()
                raise
            self._release()
        except ChannelClosed:
            # The consumer of our rows has ended. The JobManager gets the cause and then cancels this
            # task.
            self._cancellation.wait()
        except (
            BaseException
        ) as error:  # the thread's boundary: every failure becomes data, a library's panic too
            if not self._cancellation.is_requested:
                self._cancellation.close_outputs()
                return TaskStateChanged(
                    execution_id,
                    ExecutionState.FAILED,
                    error=self._describe(error),
                    committables=committables,
                )
        else:
            return TaskStateChanged(execution_id, ExecutionState.FINISHED, committables=committables)
        return TaskStateChanged(execution_id, ExecutionState.CANCELED, committables=committables)

    def _process(self) -> None:
        loop = self._opened.loop
        loop.open()
        while not loop.is_finished:
            while (mail := self._mailbox.take_mail()) is not None:
                mail()
            pause = loop.take()
            if pause is not NO_PAUSE:
                self._wait(pause)
            loop.fire_timers()
            if steady_s() - self._state_measured_s >= self._context.memory.measure_interval_s:
                self._measure_state()

    def _wait(self, pause: Pause) -> None:
        """Wait for mail or a timer, and for input or room."""
        loop = self._opened.loop
        if pause is not UNTIL_ROOM:
            loop.flush()
        self._end_turn()
        since_s = steady_s()
        if pause is UNTIL_ROOM:
            with self._times.backpressured():
                self._mailbox.wait_for_room(lambda: loop.has_room, loop.wait_s(pause))
        else:
            with self._times.idle():
                self._mailbox.wait(loop.wait_s(pause))
        if steady_s() - since_s >= IDLE_MIN_S:
            self._turn = self._context.turns.begin()

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()

    def _finish(self) -> tuple[SinkCommittables, ...]:
        self._opened.loop.finish()
        self._opened.chain.update_state_bytes()
        for stream in self._opened.client_streams:
            stream.finish()
        for partition in self._opened.partitions:
            partition.wait_connected()
        self._await_writes()
        return self._opened.committables()

    def _await_writes(self) -> None:
        """A checkpoint whose barrier has passed this task is not broken off by the task's end, unless it is aborted meanwhile."""
        while not self._opened.checkpoints.are_written:
            while (mail := self._mailbox.take_mail()) is not None:
                mail()
            self._mailbox.wait_for_room(lambda: False, WRITE_POLL_S)

    def _measure_state(self) -> None:
        self._context.memory.measured(self._opened.chain.update_state_bytes())
        self._opened.state_budget_bytes = self._context.memory.budget_bytes
        self._opened.measure_source()
        self._state_measured_s = steady_s()

    # --- the end

    def _describe(self, error: BaseException) -> ErrorInfo:
        blamed = self._opened.position.current
        described = ErrorInfo.of(
            error,
            vertex=self.descriptor.vertex.name,
            attempt=self.descriptor.attempt,
            span=blamed.span if blamed is not None else None,
        )
        if isinstance(error, SqlStreamError):
            return described
        logger.error("task %s failed", self.descriptor.task_name, exc_info=error)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"in {frame.name}, {os.path.basename(frame.filename)} line {frame.lineno}"
        return msgspec.structs.replace(described, detail=where)

    def _give_up(self) -> None:
        """Release everything after a failure or a cancellation. A failure to clean up (a full disk, a broken file) is only
        logged: the job has to report the first cause."""
        try:
            self._release()
        except Exception as error:  # whatever it is, it must not replace the cause
            logger.warning("task %s could not clean up: %s", self.descriptor.task_name, error)

    def _release(self) -> None:
        """Release everything; outputs of a finished task keep the items that are not read yet."""
        blamed = self._opened.position.current
        self._opened.checkpoints.close()
        self._opened.loop.close()
        self._opened.position.current = blamed

    # --- called by others

    def _pause_ms(self, pause_ms: int) -> None:
        """Wait, but not beyond the task's cancellation."""
        self._opened.loop.wake_consumers()
        with self._times.idle():
            self._cancellation.wait(pause_ms / 1000)
        self._cancellation.check()

    def _wait_for_peers(self, event: threading.Event) -> None:
        """Wait until another task of the same vertex sets the event, or a producer is lost."""
        if event.is_set():
            return
        self._opened.loop.wake_consumers()
        self._end_turn()
        with self._times.idle():
            while not event.wait(LOST_POLL_S):
                if self._lost is not None:
                    raise self._lost

    def _on_partition_lost(self, cause: str) -> None:
        """Called by any thread. The JobManager gets the real cause of a lost producer: report our own only when no
        cancellation comes."""

        error = JobError("SS6053", f"lost the connection to a producer of the task: {cause}")

        def fail() -> None:
            raise error

        def lose() -> None:
            # A task that waits for its peers takes no mail.
            self._lost = error
            self._mailbox.post(fail)

        timer = threading.Timer(PARTITION_LOST_GRACE_S, lose)
        timer.daemon = True
        timer.start()


def _copies_of(task: TaskDeploymentDescriptor, context: TaskContext) -> SubtaskCopies | None:
    is_kept = writes_local_copies(task.config) or reads_local_copies(task.config)
    copies = context.local_copies
    if copies is None or not is_kept or not task.checkpoint_directory:
        return None
    return copies.of_subtask(task.job_id, task.vertex.id, task.subtask, context.state_figures)


def _log_end(end: TaskStateChanged) -> None:
    cause = f": error[{end.error.code}]: {end.error.message}" if end.error is not None else ""
    logger.info("the task is %s%s", end.state.value, cause)
