"""The slots of one job, and the tasks in them: how these are deployed and ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlstream.errors import ErrorInfo, error_info
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages import rpc
from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.deployment import Deployment, describe_tasks
from sqlstream.runtime.jobmanager.execution_graph import Execution, ExecutionGraph, ExecutionVertex
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.resources.slot_pool import SlotPool, assign_slots, slots_needed
from sqlstream.runtime.story import Story

_NOT_YET_DEPLOYED = (ExecutionState.CREATED, ExecutionState.SCHEDULED)


class JobTasks:
    """Gets the slots of a job, deploys its tasks into them and ends them; a message that is not answered is sent again. `emit`
    takes its instructions.

    State: the slots, until when those that are missing are awaited, and the descriptors of the present attempts."""

    def __init__(
        self,
        graph: ExecutionGraph,
        config: JobMasterConfig,
        story: Story,
        emit: Callable[[events.JobMasterInstruction], None],
    ) -> None:
        self.slots = SlotPool(slots_needed(graph.job_graph))
        self._graph = graph
        self._config = config
        self._story = story
        self._emit = emit
        self._descriptors: dict[str, rpc.TaskDeploymentDescriptor] = {}
        self._slots_deadline_ms = 0

    @property
    def _job_graph(self) -> JobGraph:
        return self._graph.job_graph

    def send(self, address: str, message: rpc.ToTaskManager) -> None:
        self._emit(events.Send(address, message))

    # --- slots

    def request_slots(self, now_ms: int) -> None:
        self._slots_deadline_ms = now_ms + self._config.slot_request_timeout_ms
        job = self._job_graph
        self._emit(
            events.RequestSlots(job.job_id, self.slots.wanted, job.is_on_spark, job.owner, self.slots.least)
        )

    def take_slots(self, event: events.SlotsOffered) -> None:
        accepted = []
        for offer in event.offers:
            if self.slots.offer(event.task_manager_id, event.address, offer):
                accepted.append(offer.allocation_id)
            else:
                self.send(event.address, rpc.FreeSlot(event.task_manager_id, offer.allocation_id))
        if accepted:
            message = rpc.AcceptSlots(event.task_manager_id, self._job_graph.job_id, tuple(accepted))
            self.send(event.address, message)

    def refuse_slots(self, event: events.SlotsOffered) -> None:
        for offer in event.offers:
            self.send(event.address, rpc.FreeSlot(event.task_manager_id, offer.allocation_id))

    def are_slots_late(self, now_ms: int) -> bool:
        return not self.slots.is_complete and now_ms >= self._slots_deadline_ms

    def no_slots(self) -> ErrorInfo:
        seconds = self._config.slot_request_timeout_ms / 1000
        there = self._config.describe_slots()
        return error_info(
            "SS6003",
            f"job needs {self.slots.needed} slots and got {len(self.slots)} within {seconds:g} s (slot.request.timeout)"
            f"{f'; {there}' if there else ''}",
            hint="start more TaskManagers, raise taskmanager.numberOfTaskSlots, lower parallelism.default, or "
            "SET 'jobmanager.scheduler' = 'Adaptive' to start with fewer",
        )

    # --- deployment

    def deploy(self, subtasks: Iterable[ExecutionVertex], deployment: Deployment, now_ms: int) -> None:
        """Into the slots, which must be complete."""
        if self.slots.has_all:
            self._emit(events.WithdrawRequest(self._job_graph.job_id))
        assignment = assign_slots(self._job_graph, self.slots.slots())
        placed = list(subtasks)
        for s in placed:
            slot = assignment[s.vertex.id, s.subtask]
            s.execution.task_manager_id, s.execution.address = slot.task_manager_id, slot.address
            s.execution.allocation_id = slot.allocation_id
        self._descriptors |= describe_tasks(self._graph, placed, deployment)
        for s in placed:
            s.execution.transition(ExecutionState.DEPLOYING, now_ms)
            self._send_deployment(s.execution, now_ms)

    def forget(self, execution: Execution) -> None:
        """Another attempt is about to replace it."""
        self._descriptors.pop(execution.execution_id, None)

    def _send_deployment(self, execution: Execution, now_ms: int) -> None:
        execution.sent_ms = now_ms
        descriptor = self._descriptors[execution.execution_id]
        self.send(execution.address, rpc.DeployTask(execution.task_manager_id, descriptor))

    # --- ends

    def end_all(self, now_ms: int) -> None:
        self._emit(events.WithdrawRequest(self._job_graph.job_id))
        self.end(self._graph.executions(), now_ms)

    def end(self, executions: Iterable[Execution], now_ms: int) -> None:
        for execution in executions:
            if execution.state in _NOT_YET_DEPLOYED:
                execution.transition(ExecutionState.CANCELED, now_ms)
            elif not execution.is_terminal and execution.state is not ExecutionState.CANCELING:
                execution.transition(ExecutionState.CANCELING, now_ms)
                self._send_cancel(execution, now_ms)

    def _send_cancel(self, execution: Execution, now_ms: int) -> None:
        execution.sent_ms = now_ms
        message = rpc.CancelTask(execution.task_manager_id, self._job_graph.job_id, execution.execution_id)
        self.send(execution.address, message)

    # --- time

    def resend(self, now_ms: int) -> None:
        """Deployments and cancellations that no TaskManager has answered."""
        for execution in self._graph.executions():
            if now_ms - execution.sent_ms < self._config.resend_ms:
                continue
            if execution.state is ExecutionState.DEPLOYING:
                self._send_deployment(execution, now_ms)
            elif execution.state is ExecutionState.CANCELING:
                self._send_cancel(execution, now_ms)

    def give_up(self, now_ms: int) -> bool:
        """Give up tasks that do not end in time; returns whether there are any."""
        lost: dict[str, None] = {}
        for execution in self._graph.executions():
            since_ms = execution.timestamps_ms.get(ExecutionState.CANCELING.value, now_ms)
            is_late = now_ms - since_ms >= self._config.cancellation_timeout_ms
            if execution.state is ExecutionState.CANCELING and is_late:
                self._story.add(now_ms, f"{execution.execution_id} did not end in time and is given up")
                lost[execution.task_manager_id] = None
                execution.transition(ExecutionState.FAILED, now_ms)

        # The stuck task still uses its slot, so no other task may get it: the TaskManager has to restart.
        for task_manager_id in lost:
            self.slots.remove_task_manager(task_manager_id)
            self._emit(events.GiveUpTaskManager(task_manager_id))
        return bool(lost)
