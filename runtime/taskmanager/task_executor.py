"""The control half of a TaskManager as a pure machine: slots, tasks, registration (Flink: TaskExecutor)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from sqlstream import config as options
from sqlstream.errors import ErrorInfo, FailureReason, InternalError, error_info
from sqlstream.messages import rpc
from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.story import Story
from sqlstream.runtime.taskmanager import events
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import (
    CheckpointRefused,
    CheckpointReport,
    CheckpointReports,
    CheckpointTaken,
)
from sqlstream.runtime.taskmanager.metrics import METRICS_INTERVAL_MS, MetricsSchedule
from sqlstream.runtime.taskmanager.registration import Registration, TaskExecutorConfig
from sqlstream.runtime.taskmanager.slot_table import EndedExecutions, SlotTable, TaskEntry
from sqlstream.runtime.taskmanager.split_requests import SplitRequests, SplitsRequested

TICK_MS = 50
"""Interval between ticks while something has to be sent again, ended or measured."""

SETTLED_TICK_MS = 1000
"""Interval between ticks while everything is acknowledged: only the heartbeat timeout is checked then."""

_ANSWERS_TO_REGISTRATION = (rpc.RegistrationAccepted, rpc.RegistrationRefused, rpc.UnknownTaskManager)


class TaskExecutor:
    """Runs each task that its JobManager deploys once, and repeats its reports until they are acknowledged.

    A task that does not react to its cancellation in time ends the process (`Terminate`), unless other jobs hold slots of it.
    Then it is abandoned: reported as ended, while its slot stays taken until its thread ends, or until no other job is left.

    Repeated messages change nothing. A TaskManager that loses its JobManager (no heartbeat, or UnknownTaskManager
    received) ends all tasks, frees all slots, and registers under its next incarnation; it terminates when that takes longer
    than `registration_timeout_ms`. State: the registration, the slot
    table, one entry per execution until its end is acknowledged, and the ids of ended executions up to a bound.
    """

    def __init__(self, config: TaskExecutorConfig) -> None:
        self.config = config
        self.story = Story()
        self.registration = Registration(config)
        self.slots = SlotTable(config.slots)
        self.tasks: dict[str, TaskEntry] = {}
        # Those whose threads still run, by execution.
        self.abandoned: dict[str, TaskEntry] = {}
        self._ended = EndedExecutions()
        self._split_requests = SplitRequests()
        self._checkpoint_reports = CheckpointReports(config.resend_ms)
        self._metrics = MetricsSchedule()
        self._is_terminated = False
        self._offers_sent_ms = 0
        self._metrics_sequence = 0
        self._jobs: frozenset[str] = frozenset()
        self._instructions: list[events.TaskExecutorInstruction] = []

    @property
    def task_manager_id(self) -> str:
        return self.registration.task_manager_id

    def handle(self, event: events.TaskExecutorEvent, now_ms: int) -> list[events.TaskExecutorInstruction]:
        """Take one event in and return the instructions. InternalError when the machine's own rules are broken."""
        self._instructions = []
        if self._is_terminated:
            return []
        match event:
            case events.MessageReceived(message):
                self._on_message(message, now_ms)
            case events.TaskStateChanged():
                self._on_task_state(event, now_ms)
            case SplitsRequested():
                self._on_splits_requested(event, now_ms)
            case events.WatermarkReported():
                self._on_watermark_reported(event)
            case CheckpointTaken() | CheckpointRefused():
                self._on_checkpoint_report(event, now_ms)
            case events.MetricsCollected(metrics):
                self._on_metrics(metrics)
            case events.Disconnected():
                if self.registration.is_connected:
                    self._leave("the JobManager is gone", now_ms)
            case events.Stopped():
                self._send(rpc.DisconnectTaskManager(self.task_manager_id))
                self._is_terminated = True
            case events.Tick():
                self._on_tick(now_ms)
        self._forget_jobs()
        self.check()
        return self._instructions

    def _forget_jobs(self) -> None:
        before, self._jobs = self._jobs, self.slots.jobs()
        self._instructions += (events.ForgetJob(job_id) for job_id in sorted(before - self._jobs))

    def tick_after_ms(self) -> int:
        """How long after the last event the next Tick is due, at the latest."""
        if not self._is_settled():
            return TICK_MS
        longest_ms = METRICS_INTERVAL_MS if self._metrics.is_watched and self.tasks else SETTLED_TICK_MS
        # Silence is noticed up to a tick late, so a tick is at most a tenth of the timeout.
        return max(TICK_MS, min(longest_ms, self.registration.heartbeat_timeout_ms // 10))

    def _is_settled(self) -> bool:
        """Whether the JobManager has acknowledged everything, and no task has to end."""
        if not self.registration.is_connected or self.slots.offers():
            return False
        return all(t.is_acknowledged and t.stopping_since_ms < 0 for t in self.tasks.values())

    def check(self) -> None:
        """Check the invariants that hold after every step; InternalError with the story when one is broken."""
        self.slots.check()
        held = set(self.slots.allocations())
        for task in self.tasks.values():
            if not task.state.is_terminal and task.allocation_id not in held:
                raise InternalError(f"task {task.execution_id} runs without a slot", story=self.story.lines())

    # --- messages

    def _on_message(self, message: Any, now_ms: int) -> None:
        if getattr(message, "task_manager_id", None) != self.task_manager_id:
            return
        if self.registration.is_leaving:
            return
        handler = self._HANDLERS.get(type(message))
        if handler is None:
            raise InternalError(f"a TaskManager got {type(message).__name__}", story=self.story.lines())
        if self.registration.is_connected or isinstance(message, _ANSWERS_TO_REGISTRATION):
            self.registration.heard(now_ms)
            handler(self, message, now_ms)

    def _on_accepted(self, message: rpc.RegistrationAccepted, now_ms: int) -> None:
        if self.registration.accepted(message):
            self.story.add(now_ms, f"registered as {self.task_manager_id}")

    def _on_refused(self, message: rpc.RegistrationRefused, now_ms: int) -> None:
        self.story.add(now_ms, f"registration refused: {message.error.message}")
        self._terminate(message.error)

    def _on_unknown(self, message: rpc.UnknownTaskManager, now_ms: int) -> None:
        self._leave("the JobManager does not know this TaskManager", now_ms)

    def _on_heartbeat(self, message: rpc.Heartbeat, now_ms: int) -> None:
        self._send(rpc.HeartbeatReply(self.task_manager_id, message.sequence, self.slots.report()))

    def _on_request_slot(self, message: rpc.RequestSlot, now_ms: int) -> None:
        if not self.slots.allocate(message.slot, message.allocation_id, message.job_id):
            self._send(rpc.SlotRefused(self.task_manager_id, message.slot, message.allocation_id))
            return
        self.story.add(now_ms, f"slot {message.slot} allocated as {message.allocation_id}")
        self._send_offers(now_ms)

    def _on_accept_slots(self, message: rpc.AcceptSlots, now_ms: int) -> None:
        for allocation_id in message.allocation_ids:
            self.slots.activate(allocation_id)

    def _on_free_slot(self, message: rpc.FreeSlot, now_ms: int) -> None:
        running = self.slots.free(message.allocation_id)
        self.story.add(now_ms, f"free {message.allocation_id}, {len(running)} tasks run in it")
        for execution_id in sorted(running - self.abandoned.keys()):
            self._stop(self.tasks[execution_id], now_ms)
        if not running:
            self._send(rpc.SlotFreed(self.task_manager_id, message.allocation_id))

    def _on_deploy(self, message: rpc.DeployTask, now_ms: int) -> None:
        descriptor = message.descriptor
        known = self.tasks.get(descriptor.execution_id)
        if known is not None:
            self._send_update(known, now_ms)
        elif descriptor.execution_id not in self._ended:
            self._start(descriptor, now_ms)

    def _start(self, descriptor: rpc.TaskDeploymentDescriptor, now_ms: int) -> None:
        task = TaskEntry(
            descriptor.job_id,
            descriptor.execution_id,
            descriptor.allocation_id,
            ExecutionState.INITIALIZING,
            self._cancellation_timeout_ms(descriptor),
        )
        self.tasks[task.execution_id] = task
        # The deployment proves that the JobMaster has the slot, even when its AcceptSlots was lost.
        if self.slots.activate(descriptor.allocation_id):
            self.slots.add_task(descriptor.allocation_id, task.execution_id)
            self._instructions.append(events.StartTask(descriptor))
            self._metrics.watch(now_ms)
        else:
            task.refuse(descriptor)
        self.story.add(now_ms, f"{task.execution_id} {task.state.value}")
        self._send_update(task, now_ms)

    def _cancellation_timeout_ms(self, descriptor: rpc.TaskDeploymentDescriptor) -> int:
        """The job's own timeout, if it has set one."""
        key = "task.cancellation.timeout"
        of_job: int = options.get(descriptor.config, key)
        return of_job if key in descriptor.config else self.config.cancellation_timeout_ms

    def _on_cancel(self, message: rpc.CancelTask, now_ms: int) -> None:
        task = self.tasks.get(message.execution_id)
        if task is None:
            if message.execution_id in self._ended:
                return
            # The deployment is delayed or lost: the execution is remembered as cancelled, so it does not start
            # when it arrives.
            task = TaskEntry(message.job_id, message.execution_id, "", ExecutionState.CANCELED, 0)
            self.tasks[message.execution_id] = task
        if task.state.is_terminal:
            self._send_update(task, now_ms)
        else:
            self._stop(task, now_ms)

    def _on_ack(self, message: rpc.TaskStateAck, now_ms: int) -> None:
        task = self.tasks.get(message.execution_id)
        if task is None or message.sequence != task.sequence:
            return
        task.is_acknowledged = True
        if task.state.is_terminal:
            del self.tasks[task.execution_id]
            self._ended.add(task.execution_id)

    def _on_assign_splits(self, message: rpc.AssignSplits, now_ms: int) -> None:
        if self._split_requests.is_answered_by(message):
            self._instructions.append(
                events.GiveSplits(message.execution_id, message.number, message.assigned)
            )

    def _on_align(self, message: rpc.AlignWatermark, now_ms: int) -> None:
        if self._is_running(message.execution_id):
            self._instructions.append(events.AlignSource(message.execution_id, message.watermark_ms))

    def _on_limit(self, message: rpc.LimitBatches, now_ms: int) -> None:
        if self._is_running(message.execution_id):
            self._instructions.append(
                events.LimitTask(message.execution_id, message.rows, message.is_debloating)
            )

    def _on_trigger_checkpoint(self, message: rpc.TriggerCheckpoint, now_ms: int) -> None:
        reports, ids = self._checkpoint_reports, (message.execution_id, message.checkpoint_id)
        if not self._is_running(message.execution_id):
            return
        if reports.is_first(*ids):
            self._instructions.append(events.TellOfCheckpoint(message))
        elif (reported := reports.of(*ids)) is not None:
            # The JobMaster asks again, so it has not got the answer.
            self._send_checkpoint_report(reported)
        elif reports.is_skipped(*ids):
            self._send_checkpoint_report(CheckpointRefused(*ids, _skipped(message.checkpoint_id)))

    def _on_checkpoint_fate(
        self, message: rpc.CheckpointCompleted | rpc.CheckpointAborted, now_ms: int
    ) -> None:
        pending = message.still_pending if isinstance(message, rpc.CheckpointAborted) else ()
        self._checkpoint_reports.settle(message.execution_id, message.checkpoint_id, pending)
        if self._is_running(message.execution_id):
            self._instructions.append(events.TellOfCheckpoint(message))

    def _on_request_metrics(self, message: rpc.RequestMetrics, now_ms: int) -> None:
        self._metrics.watch(now_ms)

    _HANDLERS: dict[type, Callable[[TaskExecutor, Any, int], None]] = {
        rpc.RegistrationAccepted: _on_accepted,
        rpc.RegistrationRefused: _on_refused,
        rpc.UnknownTaskManager: _on_unknown,
        rpc.Heartbeat: _on_heartbeat,
        rpc.RequestSlot: _on_request_slot,
        rpc.AcceptSlots: _on_accept_slots,
        rpc.FreeSlot: _on_free_slot,
        rpc.DeployTask: _on_deploy,
        rpc.CancelTask: _on_cancel,
        rpc.TaskStateAck: _on_ack,
        rpc.AssignSplits: _on_assign_splits,
        rpc.AlignWatermark: _on_align,
        rpc.LimitBatches: _on_limit,
        rpc.TriggerCheckpoint: _on_trigger_checkpoint,
        rpc.CheckpointCompleted: _on_checkpoint_fate,
        rpc.CheckpointAborted: _on_checkpoint_fate,
        rpc.RequestMetrics: _on_request_metrics,
    }

    # --- tasks

    def _on_task_state(self, event: events.TaskStateChanged, now_ms: int) -> None:
        if event.execution_id in self.abandoned:
            self._on_abandoned_state(event, now_ms)
            return
        task = self.tasks.get(event.execution_id)
        if task is None or task.state.is_terminal:
            raise InternalError(
                f"task {event.execution_id} reports {event.state.value} but does not run",
                story=self.story.lines(),
            )
        self.story.add(now_ms, f"{event.execution_id} {event.state.value}")
        task.state, task.error, task.committables = event.state, event.error, event.committables
        task.metrics = event.metrics or task.metrics
        task.sequence += 1
        task.is_acknowledged = False
        if event.state.is_terminal:
            self._split_requests.forget(event.execution_id)
            self._checkpoint_reports.forget(event.execution_id)
        if event.state.is_terminal and self.slots.remove_task(task.allocation_id, task.execution_id):
            self._send(rpc.SlotFreed(self.task_manager_id, task.allocation_id))
        self._send_update(task, now_ms)
        if self.registration.is_leaving:
            self._register_anew_when_empty(now_ms)

    def _on_abandoned_state(self, event: events.TaskStateChanged, now_ms: int) -> None:
        """The JobMaster knows its end already."""
        if not event.state.is_terminal:
            return
        task = self.abandoned.pop(event.execution_id)
        self.story.add(now_ms, f"{event.execution_id}, which was abandoned, has ended")
        if self.slots.remove_task(task.allocation_id, task.execution_id):
            self._send(rpc.SlotFreed(self.task_manager_id, task.allocation_id))

    def _on_splits_requested(self, event: SplitsRequested, now_ms: int) -> None:
        if event.execution_id in self.abandoned:
            return
        self._split_requests.ask(event, now_ms)
        self._send_splits_request(event)

    def _on_watermark_reported(self, event: events.WatermarkReported) -> None:
        if self._is_running(event.execution_id):
            job_id, progress = self.tasks[event.execution_id].job_id, (event.watermark_ms, event.is_idle)
            self._send(rpc.ReportWatermark(self.task_manager_id, job_id, event.execution_id, *progress))

    def _is_running(self, execution_id: str) -> bool:
        task = self.tasks.get(execution_id)
        return task is not None and task.is_running

    def _on_checkpoint_report(self, report: CheckpointReport, now_ms: int) -> None:
        # What was written beside a task may be reported behind the task's end.
        if self._is_running(report.execution_id):
            self._checkpoint_reports.add(report, now_ms)
            self._send_checkpoint_report(report)

    def _on_metrics(self, metrics: tuple[rpc.TaskMetrics, ...]) -> None:
        jobs: dict[str, tuple[rpc.TaskMetrics, ...]] = {}
        for m in metrics:
            task = self.tasks.get(m.execution_id)
            if task is not None and not task.state.is_terminal:
                jobs[task.job_id] = (*jobs.get(task.job_id, ()), m)
        if jobs:
            self._metrics_sequence += 1
            self._send(rpc.MetricsReport(self.task_manager_id, self._metrics_sequence, jobs))

    def _collect_metrics(self, now_ms: int) -> None:
        is_running = any(not t.state.is_terminal for t in self.tasks.values())
        if self._metrics.is_due(now_ms, is_running):
            self._instructions.append(events.CollectMetrics())

    def _stop(self, task: TaskEntry, now_ms: int) -> None:
        """Also again and again, as it is asked for: a call of another system that is about to begin misses the first time."""
        if task.state.is_terminal:
            return
        if task.is_running:
            task.stopping_since_ms = now_ms
            self.story.add(now_ms, f"{task.execution_id} is being cancelled")
        self._instructions.append(events.StopTask(task.execution_id))

    # --- time

    def _on_tick(self, now_ms: int) -> None:
        self._check_cancellations(now_ms)
        if self._is_terminated:
            return
        if self.registration.is_leaving:
            self._register_anew_when_empty(now_ms)
        elif not self.registration.is_connected:
            self._register(now_ms)
        elif self.registration.is_silent(now_ms):
            self._leave("no heartbeat from the JobManager", now_ms)
        else:
            asked = self.registration.ask_again(bool(self.slots.allocations()), now_ms)
            if asked is not None:
                self._send(asked)
            self._resend(now_ms)
            self._collect_metrics(now_ms)

    def _resend(self, now_ms: int) -> None:
        for task in self.tasks.values():
            if not task.is_acknowledged and now_ms - task.sent_ms >= self.config.resend_ms:
                self._send_update(task, now_ms)
        for request in self._split_requests.due(now_ms):
            self._send_splits_request(request)
        for report in self._checkpoint_reports.due(now_ms):
            self._send_checkpoint_report(report)
        if now_ms - self._offers_sent_ms >= self.config.resend_ms:
            self._send_offers(now_ms)

    def _check_cancellations(self, now_ms: int) -> None:
        overdue = [t for t in self.tasks.values() if t.is_overdue(now_ms)]
        stuck = [*overdue, *self.abandoned.values()]
        if not stuck:
            return
        others = self.slots.jobs() - {t.job_id for t in stuck}
        if others and not self.registration.is_leaving:
            for task in overdue:
                self._abandon(task, now_ms)
        else:
            self._terminate(_unresponsive(stuck[0]))

    def _abandon(self, task: TaskEntry, now_ms: int) -> None:
        """Report the end of a task whose thread still runs: to end the process would end tasks of other jobs."""
        self.abandoned[task.execution_id] = dataclasses.replace(task)
        self._instructions.append(events.AbandonTask(_unresponsive(task)))
        self.story.add(now_ms, f"{task.execution_id} is abandoned")
        task.state = ExecutionState.CANCELED
        task.sequence += 1
        task.is_acknowledged = False
        self._split_requests.forget(task.execution_id)
        self._checkpoint_reports.forget(task.execution_id)
        self._send_update(task, now_ms)

    # --- the connection to the JobManager

    def _register(self, now_ms: int) -> None:
        asked = self.registration.ask(now_ms)
        if isinstance(asked, ErrorInfo):
            self._terminate(asked)
        elif asked is not None:
            self._send(asked)

    def _leave(self, why: str, now_ms: int) -> None:
        if not self.registration.leave():
            return
        self.story.add(now_ms, f"leaving as {self.task_manager_id}: {why}")
        for task in self.tasks.values():
            self._stop(task, now_ms)
        self._register_anew_when_empty(now_ms)

    def _register_anew_when_empty(self, now_ms: int) -> None:
        if any(not t.state.is_terminal for t in self.tasks.values()):
            return
        if self.abandoned:
            self._terminate(_unresponsive(next(iter(self.abandoned.values()))))
            return
        for allocation_id in self.slots.allocations():
            self.slots.free(allocation_id)
        for execution_id in self.tasks:
            self._ended.add(execution_id)
        self.tasks.clear()
        self.registration.renewed()
        self._metrics_sequence = 0
        self._register(now_ms)

    def _terminate(self, error: ErrorInfo) -> None:
        self._is_terminated = True
        self._instructions.append(events.Terminate(error))

    # --- sending

    def _send(self, message: rpc.ToJobManager) -> None:
        # A TaskManager that leaves sends nothing more: its registration has ended.
        if not self.registration.is_leaving:
            self._instructions.append(events.SendToJobManager(message))

    def _send_offers(self, now_ms: int) -> None:
        self._offers_sent_ms = now_ms
        for job_id, offers in self.slots.offers().items():
            self._send(rpc.OfferSlots(self.task_manager_id, job_id, offers))

    def _send_splits_request(self, request: SplitsRequested) -> None:
        task = self.tasks[request.execution_id]
        self._send(task.splits_request(self.task_manager_id, request))

    def _send_checkpoint_report(self, report: CheckpointReport) -> None:
        task = self.tasks[report.execution_id]
        self._send(task.checkpoint_report(self.task_manager_id, report))

    def _send_update(self, task: TaskEntry, now_ms: int) -> None:
        task.sent_ms = now_ms
        self._send(task.update(self.task_manager_id))


def _unresponsive(task: TaskEntry) -> ErrorInfo:
    return error_info("SS6005", f"task {task.execution_id} does not react to its cancellation")


def _skipped(checkpoint_id: int) -> ErrorInfo:
    return error_info(
        "SS6220",
        f"checkpoint {checkpoint_id} was given up: the task has taken a later one before it",
        reason=FailureReason.CANCELLED,
    )
