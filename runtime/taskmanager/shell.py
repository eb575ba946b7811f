"""Carries out what the TaskExecutor decides: sends its messages, starts and cancels tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from sqlstream.errors import ErrorInfo
from sqlstream.messages.rpc import ControlMessage, TaskDeploymentDescriptor, TaskMetrics
from sqlstream.runtime.event_loop import EventLoop
from sqlstream.runtime.taskmanager import events
from sqlstream.runtime.taskmanager.registration import TaskExecutorConfig
from sqlstream.runtime.taskmanager.task_executor import TaskExecutor
from sqlstream.runtime.transport import Transport
from sqlstream.spi.connector import AssignedSplits

logger = logging.getLogger(__name__)


class TaskRunner(Protocol):
    """Runs tasks. Calls `TaskExecutorShell.task_state_changed` from any thread: RUNNING once its operators
    are open, then exactly one of FINISHED, CANCELED and FAILED, for every task that was started, cancelled or
    not."""

    def start(self, descriptor: TaskDeploymentDescriptor) -> None:
        """Start the task on a thread of its own and return at once; what goes wrong is reported, not
        raised."""

    def cancel(self, execution_id: str) -> None:
        """Request that the task end soon; does nothing when it ended already."""

    def give_splits(self, execution_id: str, number: int, assigned: AssignedSplits) -> None:
        """Hand a task splits that it has requested; does nothing when it ended already."""

    def align(self, execution_id: str, watermark_ms: int) -> None:
        """Tell a task how far its reader may go; does nothing when it ended already."""

    def limit(self, execution_id: str, rows: int, is_debloating: bool) -> None:
        """Tell a task how many rows its reader is to put in a batch; does nothing when it ended already."""

    def tell_of_checkpoint(self, message: events.CheckpointMessage) -> None:
        """Have a task take a checkpoint, or tell it the fate of one; does nothing when it ended already."""

    def forget_job(self, job_id: str) -> None:
        """The job holds no slot here any more; what was kept for its next attempts may go. Returns at once."""

    def metrics(self) -> tuple[TaskMetrics, ...]:
        """The latest figures of the running tasks."""


class TaskExecutorShell:
    """One thread around a TaskExecutor. Thread-safe: `receive`, `task_state_changed`, `disconnected`, `stop`.

    All deadlines are on the clock `steady_ms`: a change of the machine's clock does not trigger a timeout.
    `on_terminate(error)` is called once, on the loop's thread, when the process has to end.
    """

    def __init__(
        self,
        config: TaskExecutorConfig,
        job_manager_address: str,
        transport: Transport,
        runner: TaskRunner,
        steady_ms: Callable[[], int],
        on_terminate: Callable[[ErrorInfo], None],
    ) -> None:
        self._executor = TaskExecutor(config)
        self._job_manager_address = job_manager_address
        self._transport = transport
        self._runner = runner
        self._steady_ms = steady_ms
        self._on_terminate = on_terminate
        self._loop: EventLoop[events.TaskExecutorEvent] = EventLoop(
            f"task-executor-{config.resource_id}",
            self._handle,
            self._tick,
            self._crashed,
            self._executor.tick_after_ms,
        )

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop()

    def disconnect(self) -> None:
        """Stop, and tell the JobManager so: it restarts the tasks elsewhere at once. How they end here is not reported."""
        if self._loop.stop():
            self._handle(events.Stopped())

    def receive(self, message: ControlMessage) -> None:
        """A message from the JobManager."""
        self._loop.put(events.MessageReceived(message))

    def task_state_changed(self, change: events.TaskReport) -> None:
        """A report of the TaskRunner: the task's new state, what it needs, or a checkpoint that it has taken."""
        self._loop.put(change)

    def disconnected(self) -> None:
        self._loop.put(events.Disconnected())

    def _tick(self) -> None:
        self._handle(events.Tick())

    def _handle(self, event: events.TaskExecutorEvent) -> None:
        for instruction in self._executor.handle(event, self._steady_ms()):
            self._carry_out(instruction)

    def _carry_out(self, instruction: events.TaskExecutorInstruction) -> None:
        match instruction:
            case events.SendToJobManager(message):
                self._transport.send(self._job_manager_address, message)
            case events.StartTask(descriptor):
                self._runner.start(descriptor)
            case events.StopTask(execution_id):
                self._runner.cancel(execution_id)
            case events.GiveSplits(execution_id, number, assigned):
                self._runner.give_splits(execution_id, number, assigned)
            case events.AlignSource(execution_id, watermark_ms):
                self._runner.align(execution_id, watermark_ms)
            case events.LimitTask(execution_id, rows, is_debloating):
                self._runner.limit(execution_id, rows, is_debloating)
            case events.TellOfCheckpoint(message):
                self._runner.tell_of_checkpoint(message)
            case events.ForgetJob(job_id):
                self._runner.forget_job(job_id)
            case events.CollectMetrics():
                self._handle(events.MetricsCollected(self._runner.metrics()))
            case events.AbandonTask(error):
                logger.warning("%s; its slot stays taken until it ends", error.message)
            case events.Terminate(error):
                self._on_terminate(error)

    def _crashed(self, error: BaseException) -> None:
        self._on_terminate(ErrorInfo.of(error))
