"""The executions that a TaskExecutor knows."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    RequestSplits,
    SinkCommittables,
    TaskDeploymentDescriptor,
    TaskMetrics,
    TaskStateUpdate,
)
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import CheckpointRefused, CheckpointReport
from sqlstream.runtime.taskmanager.split_requests import SplitsRequested

FINISHED_EXECUTIONS_MAX = 4096
"""How many ended executions are remembered; a DeployTask delayed past that many would run its attempt again."""


@dataclass
class TaskEntry:
    """One execution: what is known of it until the JobMaster has acknowledged its end."""

    job_id: str
    execution_id: str
    allocation_id: str
    state: ExecutionState
    cancellation_timeout_ms: int
    sequence: int = 0
    is_acknowledged: bool = False
    sent_ms: int = 0
    stopping_since_ms: int = -1
    error: ErrorInfo | None = None
    committables: tuple[SinkCommittables, ...] = ()
    metrics: TaskMetrics | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended, and does not have to."""
        return not self.state.is_terminal and self.stopping_since_ms < 0

    def is_overdue(self, now_ms: int) -> bool:
        """Whether it was to end long ago."""
        is_stopping = self.stopping_since_ms >= 0 and not self.state.is_terminal
        return is_stopping and now_ms - self.stopping_since_ms > self.cancellation_timeout_ms

    def refuse(self, descriptor: TaskDeploymentDescriptor) -> None:
        """Its slot is not there."""
        self.state = ExecutionState.FAILED
        self.error = ErrorInfo(
            code="SS6004",
            message=f"task {descriptor.task_name} was deployed into a slot that is not there",
            reason=FailureReason.DEPLOYMENT_FAILED,
            vertex=descriptor.vertex.name,
            attempt=descriptor.attempt,
        )

    # --- what is told of it

    def update(self, task_manager_id: str) -> TaskStateUpdate:
        return TaskStateUpdate(
            task_manager_id,
            self.job_id,
            self.execution_id,
            self.sequence,
            self.state,
            error=self.error,
            committables=self.committables,
            metrics=self.metrics,
        )

    def splits_request(self, task_manager_id: str, request: SplitsRequested) -> RequestSplits:
        return RequestSplits(
            task_manager_id,
            self.job_id,
            request.execution_id,
            request.number,
            request.returned,
            request.returned_earlier,
        )

    def checkpoint_report(
        self, task_manager_id: str, report: CheckpointReport
    ) -> AcknowledgeCheckpoint | DeclineCheckpoint:
        ids = (task_manager_id, self.job_id, report.execution_id)
        if isinstance(report, CheckpointRefused):
            return DeclineCheckpoint(*ids, report.checkpoint_id, report.error)
        return AcknowledgeCheckpoint(
            *ids,
            report.checkpoint_id,
            report.state,
            committables=report.committables,
            figures=report.figures,
        )


class EndedExecutions:
    """State: the ids of the last FINISHED_EXECUTIONS_MAX executions whose end is acknowledged."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, execution_id: str) -> bool:
        return execution_id in self._ids

    def add(self, execution_id: str) -> None:
        self._ids[execution_id] = None
        while len(self._ids) > FINISHED_EXECUTIONS_MAX:
            self._ids.popitem(last=False)
