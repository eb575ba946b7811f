"""Runs one job: gets slots, deploys, follows its tasks, commits its sinks, ends it (Flink: JobMaster)."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.jobmanager.deployment import describe_tasks
from runtime.jobmanager.events import (
    AbortSinks,
    CancelRequested,
    CommitSinks,
    GiveUpTaskManager,
    JobFinished,
    JobMasterEvent,
    JobMasterInstruction,
    MetricsReceived,
    MetricsRequested,
    NoTaskManagerLeft,
    ReleaseSlots,
    RequestSlots,
    Send,
    SinkCommit,
    SinksAborted,
    SinksCommitFailed,
    SinksCommitted,
    SlotsOffered,
    TaskManagerLost,
    TaskStateChanged,
    Tick,
    WithdrawRequest,
)
from runtime.jobmanager.execution_graph import Execution, ExecutionGraph, ExecutionVertex
from runtime.jobmanager.execution_state import check_job_transition
from runtime.jobmanager.scheduler import assign_slots, slots_needed
from runtime.jobmanager.slot_pool import SlotPool
from runtime.story import Story
from sqlstream.errors import ErrorInfo, FailureReason, InternalError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.messages.rpc import (
    AcceptSlots,
    CancelTask,
    DeployTask,
    FreeSlot,
    RequestMetrics,
    TaskDeploymentDescriptor,
    TaskStateAck,
    TaskStateUpdate,
    ToTaskManager,
)
from sqlstream.specs import SinkSpec

METRICS_REQUEST_INTERVAL_MS = 1000
"""Interval between requests for figures, however often clients read them: each lasts for several seconds."""

_SETTLED = (ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.FINISHED)
"""States of an execution in which no answer of its TaskManager is due."""


@dataclass(frozen=True)
class JobMasterConfig:
    """`result_address` is where sinks send rows for the client. A task that does not end within
    `cancellation_timeout_ms` is given up; its TaskManager ends itself for the same reason."""

    result_address: str = ""
    slot_request_timeout_ms: int = 300_000
    cancellation_timeout_ms: int = 230_000
    resend_ms: int = 500


class JobMaster:
    """Takes one job from INITIALIZING to a final state, and there only once no task of it can be running.

    One failed task fails the job: the others are cancelled and the first cause is kept (a failed task or a lost
    TaskManager replaces the broken connections that it caused). Sinks are committed when every task has
    FINISHED, before the job is FINISHED; a cancellation during the commit is too late and has no effect.
    Committables of a job that does not finish are aborted, also when the failure was one of its commits.
    State: the ExecutionGraph, the slots, the cause. Forgotten with the job.
    """

    def __init__(self, job_graph: JobGraph, config: JobMasterConfig, now_ms: int) -> None:
        self.job_graph = job_graph
        self.job_id = job_graph.job_id
        self.config = config
        self.story = Story()
        self.status = JobStatus.INITIALIZING
        self.timestamps_ms = {JobStatus.INITIALIZING.value: now_ms}
        self.error: ErrorInfo | None = None
        self.graph = ExecutionGraph(job_graph, now_ms, self.story)
        self.slots = SlotPool(slots_needed(job_graph))
        self._descriptors: dict[str, TaskDeploymentDescriptor] = {}
        self._slots_deadline_ms = 0
        self._cancel_deadline_ms = 0
        self._is_committing = False
        self._is_aborting = False
        self._has_lost_tasks = False
        self._metrics_requested_ms = 0
        self._instructions: list[JobMasterInstruction] = []

    def start(self, now_ms: int) -> list[JobMasterInstruction]:
        """Schedule all tasks and request their slots."""
        self._instructions = []
        self._transition(JobStatus.CREATED, now_ms)
        self._transition(JobStatus.RUNNING, now_ms)
        for execution in self.graph.executions():
            execution.transition(ExecutionState.SCHEDULED, now_ms)
        self._slots_deadline_ms = now_ms + self.config.slot_request_timeout_ms
        self._instructions.append(RequestSlots(self.job_id, self.slots.needed, self.job_graph.is_on_spark))
        return self._instructions

    def handle(self, event: JobMasterEvent, now_ms: int) -> list[JobMasterInstruction]:
        """Take one event in and return the instructions. InternalError when the machine's own rules are broken."""
        self._instructions = []
        match event:
            case SlotsOffered():
                self._on_slots_offered(event, now_ms)
            case TaskStateChanged(update):
                self._on_task_state(update, now_ms)
            case MetricsReceived():
                self._on_metrics(event)
            case MetricsRequested():
                self._request_metrics(now_ms)
            case TaskManagerLost():
                self._on_task_manager_lost(event, now_ms)
            case NoTaskManagerLeft(error):
                self._on_no_task_manager_left(error, now_ms)
            case CancelRequested():
                self._on_cancel(now_ms)
            case SinksCommitted() | SinksCommitFailed() | SinksAborted():
                self._on_sinks(event, now_ms)
            case Tick():
                self._on_tick(now_ms)
        self.check()
        return self._instructions

    def is_settled(self) -> bool:
        """Whether a Tick changes nothing: all tasks are deployed, and none has to end."""
        is_deployed = self.status is JobStatus.RUNNING and bool(self._descriptors)
        is_finishing = self._is_committing or self._is_aborting
        return is_deployed and not is_finishing and all(e.state in _SETTLED for e in self.graph.executions())

    def check(self) -> None:
        """Check the invariants that hold after every step; InternalError with the story when one is broken."""
        if self.status.is_globally_terminal and not self.graph.are_all_terminal():
            raise InternalError(f"job {self.job_id} ended before its tasks", story=self.story.lines())
        if self.status is JobStatus.FINISHED and not self.graph.are_all(ExecutionState.FINISHED):
            raise InternalError(
                f"job {self.job_id} finished without all of its tasks", story=self.story.lines()
            )
        if (self.status is JobStatus.FAILED) and self.error is None:
            raise InternalError(f"job {self.job_id} failed without a cause", story=self.story.lines())

    # --- slots and deployment

    def _on_slots_offered(self, event: SlotsOffered, now_ms: int) -> None:
        accepted = []
        for offer in event.offers:
            is_wanted = self.status is JobStatus.RUNNING
            if is_wanted and self.slots.offer(event.task_manager_id, event.address, offer):
                accepted.append(offer.allocation_id)
            else:
                self._send(event.address, FreeSlot(event.task_manager_id, offer.allocation_id))
        if accepted:
            self._send(event.address, AcceptSlots(event.task_manager_id, self.job_id, tuple(accepted)))
        if self.slots.is_complete and self.status is JobStatus.RUNNING and not self._descriptors:
            self._deploy_all(now_ms)

    def _deploy_all(self, now_ms: int) -> None:
        self._instructions.append(WithdrawRequest(self.job_id))
        assignment = assign_slots(self.job_graph, self.slots.slots())
        for s in self.graph.subtasks():
            slot = assignment[s.vertex.id, s.subtask]
            s.execution.task_manager_id, s.execution.address = slot.task_manager_id, slot.address
            s.execution.allocation_id = slot.allocation_id
        self._descriptors = describe_tasks(self.graph, self.config.result_address)
        for execution in self.graph.executions():
            execution.transition(ExecutionState.DEPLOYING, now_ms)
            self._send_deployment(execution, now_ms)

    def _send_deployment(self, execution: Execution, now_ms: int) -> None:
        execution.sent_ms = now_ms
        descriptor = self._descriptors[execution.execution_id]
        self._send(execution.address, DeployTask(execution.task_manager_id, descriptor))

    # --- tasks

    def _on_task_state(self, update: TaskStateUpdate, now_ms: int) -> None:
        subtask = self.graph.find(update.execution_id)
        if subtask is None or subtask.execution.task_manager_id != update.task_manager_id:
            return
        execution = subtask.execution
        self._send(
            execution.address, TaskStateAck(update.task_manager_id, update.execution_id, update.sequence)
        )
        if update.sequence <= execution.last_sequence or execution.is_terminal:
            return
        execution.last_sequence = update.sequence
        execution.metrics = update.metrics or execution.metrics
        execution.committables = update.committables
        was_cancelling = execution.state is ExecutionState.CANCELING
        execution.follow(update.state, now_ms)
        if execution.state is ExecutionState.FAILED:
            execution.error = update.error or _no_cause(subtask)
            self._replace_broken_connection(execution.error)
            self._fail(execution.error, now_ms)
        elif update.state is ExecutionState.CANCELED and not was_cancelling:
            self._fail(_cancelled_elsewhere(subtask), now_ms)
        self._proceed(now_ms)

    def _on_metrics(self, event: MetricsReceived) -> None:
        for metrics in event.metrics:
            subtask = self.graph.find(metrics.execution_id)
            # The last figures of an ended task came with its final state; this delayed report is older.
            if subtask is not None and not subtask.execution.is_terminal:
                subtask.execution.metrics = metrics

    def _request_metrics(self, now_ms: int) -> None:
        if now_ms - self._metrics_requested_ms < METRICS_REQUEST_INTERVAL_MS:
            return
        self._metrics_requested_ms = now_ms
        running = (e for e in self.graph.executions() if e.state is ExecutionState.RUNNING)
        for task_manager_id, address in dict.fromkeys((e.task_manager_id, e.address) for e in running):
            self._send(address, RequestMetrics(task_manager_id))

    def _on_task_manager_lost(self, event: TaskManagerLost, now_ms: int) -> None:
        self.slots.remove_task_manager(event.task_manager_id)
        hit = [s for s in self.graph.subtasks() if s.execution.task_manager_id == event.task_manager_id]
        if hit:
            self._replace_broken_connection(event.error)
        running = [s.execution for s in hit if not s.execution.is_terminal]
        self._has_lost_tasks = self._has_lost_tasks or bool(running)
        for execution in running:
            if execution.state is ExecutionState.CANCELING:
                execution.transition(ExecutionState.CANCELED, now_ms)
            else:
                execution.error = event.error
                execution.transition(ExecutionState.FAILED, now_ms)
        if running:
            self._fail(event.error, now_ms)
        self._proceed(now_ms)

    def _on_no_task_manager_left(self, error: ErrorInfo, now_ms: int) -> None:
        if self.status is JobStatus.RUNNING and not self._descriptors:
            self._fail(error, now_ms)
            self._proceed(now_ms)

    # --- ending

    def fail_before_start(self, error: ErrorInfo, now_ms: int) -> list[JobMasterInstruction]:
        """The job could not be stored, so it does not run."""
        self._instructions = []
        if self.status is JobStatus.INITIALIZING:
            self.error = error
            self._cancel_tasks(now_ms)
            self._finish(JobStatus.FAILED, now_ms)
        return self._instructions

    def _on_cancel(self, now_ms: int) -> None:
        is_underway = self.status in (JobStatus.INITIALIZING, JobStatus.RUNNING)
        if is_underway and not self._is_committing:
            self._transition(JobStatus.CANCELLING, now_ms)
            self._cancel_tasks(now_ms)
            self._proceed(now_ms)

    def _fail(self, error: ErrorInfo, now_ms: int) -> None:
        if self.status is not JobStatus.RUNNING:
            return
        self.story.add(now_ms, f"job {self.job_id} fails: {error.code} {error.message}")
        self.error = error
        self._transition(JobStatus.FAILING, now_ms)
        self._cancel_tasks(now_ms)

    def _replace_broken_connection(self, error: ErrorInfo) -> None:
        """A failed producer breaks its consumers' connections, and their failures may be reported first."""
        is_effect = self.error is not None and self.error.reason is FailureReason.PARTITION_LOST
        if is_effect and error.reason is not FailureReason.PARTITION_LOST:
            self.error = error

    def _cancel_tasks(self, now_ms: int) -> None:
        self._cancel_deadline_ms = now_ms + self.config.cancellation_timeout_ms
        self._instructions.append(WithdrawRequest(self.job_id))
        for execution in self.graph.executions():
            if execution.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED):
                execution.transition(ExecutionState.CANCELED, now_ms)
            elif not execution.is_terminal and execution.state is not ExecutionState.CANCELING:
                execution.transition(ExecutionState.CANCELING, now_ms)
                self._send_cancel(execution, now_ms)

    def _send_cancel(self, execution: Execution, now_ms: int) -> None:
        execution.sent_ms = now_ms
        self._send(
            execution.address, CancelTask(execution.task_manager_id, self.job_id, execution.execution_id)
        )

    def _proceed(self, now_ms: int) -> None:
        """Continue once the last task has ended: commit, or clean up and end the job."""
        if self.status.is_terminal or self._is_committing or self._is_aborting:
            return
        if not self.graph.are_all_terminal():
            return
        commits = self._commits()
        if self.status is JobStatus.RUNNING:
            self._is_committing = True
            if commits:
                self._instructions.append(CommitSinks(self.job_id, commits))
            else:
                self._finish(JobStatus.FINISHED, now_ms)
            return
        # A lost TaskManager has not cleaned up after its tasks.
        leftovers = tuple(c for c in commits if c.committables or self._has_lost_tasks)
        if leftovers:
            self._is_aborting = True
            self._instructions.append(AbortSinks(self.job_id, leftovers))
        else:
            self._end_unfinished(now_ms)

    def _on_sinks(self, event: SinksCommitted | SinksCommitFailed | SinksAborted, now_ms: int) -> None:
        if self.status.is_terminal:
            return
        match event:
            case SinksCommitted() if self._is_committing:
                self._finish(JobStatus.FINISHED, now_ms)
            case SinksCommitFailed(_, error) if self._is_committing:
                self._is_committing = False
                self._fail(error, now_ms)
                # All of them: a sink that was committed before the one that failed must not stay visible.
                self._is_aborting = True
                self._instructions.append(AbortSinks(self.job_id, self._commits()))
            case SinksAborted() if self._is_aborting:
                self._end_unfinished(now_ms)

    def _end_unfinished(self, now_ms: int) -> None:
        is_failure = self.status is JobStatus.FAILING
        self._finish(JobStatus.FAILED if is_failure else JobStatus.CANCELED, now_ms)

    def _finish(self, status: JobStatus, now_ms: int) -> None:
        self._transition(status, now_ms)
        self.slots.clear()
        self._instructions.append(ReleaseSlots(self.job_id))
        self._instructions.append(JobFinished(self.job_id, status, self.error))

    def _commits(self) -> tuple[SinkCommit, ...]:
        """Every sink of the job, also those without committables: a sink without rows may have to create an
        empty result."""
        commits = []
        for vertex in self.job_graph.vertices:
            finished = [s.execution.committables for s in self.graph.vertices[vertex.id]]
            for operator in vertex.operators:
                if isinstance(operator.spec, SinkSpec):
                    parts = [c for task in finished for c in task if c.operator_id == operator.id]
                    committables = tuple(c for part in parts for c in part.committables)
                    commits.append(SinkCommit(vertex.id, operator.id, operator.spec, committables))
        return tuple(commits)

    # --- time

    def _on_tick(self, now_ms: int) -> None:
        if self.status.is_terminal:
            return
        if self.status is JobStatus.RUNNING and not self._descriptors and now_ms >= self._slots_deadline_ms:
            self._fail(self._no_slots(), now_ms)
        if self.status in (JobStatus.FAILING, JobStatus.CANCELLING) and now_ms >= self._cancel_deadline_ms:
            self._give_up_tasks(now_ms)
        for execution in self.graph.executions():
            if now_ms - execution.sent_ms < self.config.resend_ms:
                continue
            if execution.state is ExecutionState.DEPLOYING:
                self._send_deployment(execution, now_ms)
            elif execution.state is ExecutionState.CANCELING:
                self._send_cancel(execution, now_ms)
        self._proceed(now_ms)

    def _give_up_tasks(self, now_ms: int) -> None:
        lost: dict[str, None] = {}
        for execution in self.graph.executions():
            if not execution.is_terminal:
                self.story.add(now_ms, f"{execution.execution_id} did not end in time and is given up")
                lost[execution.task_manager_id] = None
                execution.transition(ExecutionState.FAILED, now_ms)

        # The stuck task still uses its slot, so no other task may get it: the TaskManager has to restart.
        self._has_lost_tasks = self._has_lost_tasks or bool(lost)
        self._instructions += [GiveUpTaskManager(task_manager_id) for task_manager_id in lost]

    def _no_slots(self) -> ErrorInfo:
        seconds = self.config.slot_request_timeout_ms / 1000
        return ErrorInfo(
            code="SS6003",
            message=f"job needs {self.slots.needed} slots and got {len(self.slots)} within {seconds:g} s",
            reason=FailureReason.NO_RESOURCES,
            hint="start more TaskManagers, raise taskmanager.numberOfTaskSlots or lower parallelism.default",
        )

    # --- small things

    def _send(self, address: str, message: ToTaskManager) -> None:
        self._instructions.append(Send(address, message))

    def _transition(self, target: JobStatus, now_ms: int) -> None:
        check_job_transition(self.status, target, self.job_id, self.story)
        self.story.add(now_ms, f"job {self.job_id} {self.status.value} -> {target.value}")
        self.status = target
        self.timestamps_ms[target.value] = now_ms


def _no_cause(subtask: ExecutionVertex) -> ErrorInfo:
    return ErrorInfo(
        code="SS9001",
        message="a task failed without reporting a cause",
        reason=FailureReason.INTERNAL,
        vertex=subtask.vertex.name,
        attempt=subtask.execution.attempt,
    )


def _cancelled_elsewhere(subtask: ExecutionVertex) -> ErrorInfo:
    return ErrorInfo(
        code="SS6011",
        message="a task was cancelled by its TaskManager, not by its job",
        reason=FailureReason.TASK_MANAGER_LOST,
        vertex=subtask.vertex.name,
        attempt=subtask.execution.attempt,
    )
