"""What the TaskManagers of one job report: the states of its tasks, their figures, what splits they need, and where they are."""

from __future__ import annotations

from sqlstream.errors import ErrorInfo, FailureReason, error_info
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import AlignWatermark, AssignSplits, RequestMetrics, TaskStateAck
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.execution_graph import Execution, ExecutionVertex
from sqlstream.runtime.jobmanager.job_parts import JobParts
from sqlstream.runtime.jobmanager.job_regions import JobRegions
from sqlstream.runtime.jobmanager.sources.watermark_alignment import WatermarkAlignment
from sqlstream.spi.connector import AssignedSplits

METRICS_REQUEST_INTERVAL_MS = 1000
"""Interval between requests for figures, however often clients read them: each lasts for several seconds."""

METRICS_READER_PAUSE_MS = 4000
"""Who has not read figures for so long gets those that TaskManagers send unasked. A client that draws reads more often, and one
that looks after a job every few seconds does not make all its tasks report several times a second."""

_NOT_OF_THE_HOST = (
    FailureReason.PARTITION_LOST,
    FailureReason.USER_DATA,
    FailureReason.ACCESS_REFUSED,
    FailureReason.SERVER_REFUSED,
    FailureReason.CANCELLED,
    FailureReason.CHECKPOINT_CORRUPT,
    FailureReason.CHECKPOINT_FAILED,
)
"""Failures of tasks that would be the same, or have their cause, on another host."""


class TaskReports:
    """Takes each report once, of the present attempt only, and tells the regions of failures. State: when figures were last
    asked for; all else is that of the executions."""

    def __init__(self, parts: JobParts, regions: JobRegions) -> None:
        self._parts = parts
        self._regions = regions
        self._graph = parts.graph
        self._alignment = WatermarkAlignment(parts.graph)
        self._metrics_requested_ms = 0
        self._metrics_asked_ms = 0

    # --- states

    def on_task_state(self, event: events.TaskStateChanged, now_ms: int) -> None:
        update = event.update
        subtask = self._graph.find(update.execution_id)
        execution = subtask.execution if subtask else self._graph.find_earlier(update.execution_id)
        if execution is None or execution.task_manager_id != update.task_manager_id:
            return
        ack = TaskStateAck(update.task_manager_id, update.execution_id, update.sequence)
        self._parts.tasks.send(execution.address, ack)
        if subtask is None or update.sequence <= execution.last_sequence or execution.is_terminal:
            return
        execution.last_sequence = update.sequence
        execution.metrics = update.metrics or execution.metrics
        checkpoints = self._parts.checkpoints
        if update.state.is_terminal:
            # Of an attempt that has not finished they are what it could not remove itself.
            execution.add_committables(update.committables, checkpoints.coordinator.newest_completed_id)
        was_cancelling = execution.state is ExecutionState.CANCELING
        execution.follow(update.state, now_ms)
        if execution.state is ExecutionState.FAILED:
            execution.error = update.error or _no_cause(subtask)
            is_first = any(not region.is_under_restart for region in self._regions.of([subtask]))
            if is_first and execution.error.reason not in _NOT_OF_THE_HOST:
                job_id = self._parts.progress.job_id
                self._parts.emit(events.TaskFailed(execution.task_manager_id, job_id))
            self._regions.on_task_failure(subtask, execution.error, now_ms)
        elif update.state is ExecutionState.CANCELED and not was_cancelling:
            self._regions.on_task_failure(subtask, _cancelled_elsewhere(subtask), now_ms)
        elif execution.state is ExecutionState.FINISHED:
            checkpoints.on_finished(execution.execution_id, now_ms)

    def on_task_manager_lost(self, event: events.TaskManagerLost, now_ms: int) -> None:
        self._parts.tasks.slots.remove_task_manager(event.task_manager_id)
        subtasks = self._graph.subtasks()
        placed = [s for s in subtasks if s.execution.task_manager_id == event.task_manager_id]
        if placed:
            self._parts.progress.replace_broken_connection(event.error)
        hit = [s for s in placed if not s.execution.is_terminal]
        for s in hit:
            if s.execution.state is ExecutionState.CANCELING:
                s.execution.transition(ExecutionState.CANCELED, now_ms)
            else:
                s.execution.error = event.error
                s.execution.transition(ExecutionState.FAILED, now_ms)
        if hit:
            # It has not cleaned up after its tasks.
            self._parts.output.is_unclean = True
            self._regions.on_failure(event.error, self._regions.of(hit), now_ms)

    # --- figures

    def on_metrics(self, event: events.MetricsReceived, now_ms: int) -> None:
        for metrics in event.metrics:
            subtask = self._graph.find(metrics.execution_id)
            # The last figures of an ended task came with its final state; this delayed report is older.
            if subtask is not None and not subtask.execution.is_terminal:
                subtask.execution.metrics = metrics

    def request_metrics(self, event: events.MetricsRequested, now_ms: int) -> None:
        asked_before_ms, self._metrics_asked_ms = self._metrics_asked_ms, now_ms
        if now_ms - asked_before_ms > METRICS_READER_PAUSE_MS:
            return
        if now_ms - self._metrics_requested_ms < METRICS_REQUEST_INTERVAL_MS:
            return
        self._metrics_requested_ms = now_ms
        running = (e for e in self._graph.executions() if e.state is ExecutionState.RUNNING)
        for task_manager_id, address in dict.fromkeys((e.task_manager_id, e.address) for e in running):
            self._parts.tasks.send(address, RequestMetrics(task_manager_id))

    # --- splits

    def on_splits_discovered(self, event: events.SplitsDiscovered, now_ms: int) -> None:
        for subtask, number, assigned in self._parts.sources.on_discovered(event):
            execution = self._graph.vertices[event.vertex_id][subtask].execution
            self._send_splits(execution, number, assigned)

    def on_discovery_failed(self, event: events.DiscoveryFailed, now_ms: int) -> None:
        error = self._parts.sources.on_failed(event)
        if error is None:
            return
        readers = self._graph.vertices[event.vertex_id]
        self._regions.on_failure(error, self._regions.of(readers), now_ms)

    def on_splits_requested(self, event: events.SplitsRequested, now_ms: int) -> None:
        request = event.request
        subtask = self._graph.find(request.execution_id)
        if subtask is None or subtask.execution.task_manager_id != request.task_manager_id:
            return
        assigned, give_back = self._parts.sources.on_request(subtask, request)
        if give_back is not None:
            self._parts.emit(give_back)
        if assigned is not None:
            self._send_splits(subtask.execution, request.number, assigned)

    def on_watermark_reported(self, event: events.WatermarkReported, now_ms: int) -> None:
        report = event.report
        subtask = self._graph.find(report.execution_id)
        if subtask is None or subtask.execution.task_manager_id != report.task_manager_id:
            return
        for reader, allowed_ms in self._alignment.on_report(subtask, report):
            execution = reader.execution
            message = AlignWatermark(execution.task_manager_id, execution.execution_id, allowed_ms)
            self._parts.tasks.send(execution.address, message)

    def _send_splits(self, execution: Execution, number: int, assigned: AssignedSplits) -> None:
        message = AssignSplits(execution.task_manager_id, execution.execution_id, number, assigned)
        self._parts.tasks.send(execution.address, message)


def _no_cause(subtask: ExecutionVertex) -> ErrorInfo:
    return error_info(
        "SS9001",
        "a task failed without reporting a cause",
        vertex=subtask.vertex.name,
        attempt=subtask.execution.attempt,
    )


def _cancelled_elsewhere(subtask: ExecutionVertex) -> ErrorInfo:
    return error_info(
        "SS6011",
        "a task was cancelled by its TaskManager, not by its job",
        vertex=subtask.vertex.name,
        attempt=subtask.execution.attempt,
    )
