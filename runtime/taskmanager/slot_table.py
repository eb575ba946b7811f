"""The slots of a TaskManager, and the tasks that run in them."""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass, field

from sqlstream.errors import ErrorInfo, InternalError, error_info
from sqlstream.messages import rpc
from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import CheckpointRefused, CheckpointReport
from sqlstream.runtime.taskmanager.split_requests import SplitsRequested

TOMBSTONES_MAX = 4096
"""How many freed allocation ids are remembered; a RequestSlot delayed past that many leases would pass for a new one."""


class SlotState(enum.Enum):
    """FREE ─► ALLOCATED (offered to the JobMaster) ─► ACTIVE (accepted) ─► RELEASING (its tasks end) ─► FREE.

    ALLOCATED and ACTIVE go straight to FREE when no task runs in the slot.
    """

    FREE = "FREE"
    ALLOCATED = "ALLOCATED"
    ACTIVE = "ACTIVE"
    RELEASING = "RELEASING"


@dataclass
class TaskSlot:
    slot: int
    state: SlotState = SlotState.FREE
    allocation_id: str = ""
    job_id: str = ""
    tasks: set[str] = field(default_factory=set)


class SlotTable:
    """Hands a slot to at most one allocation at a time, and to no allocation twice.

    State: the slots, and the ids of allocations freed before; the oldest of those are forgotten past a bound.
    """

    def __init__(self, slots: int) -> None:
        self._slots = [TaskSlot(i) for i in range(slots)]
        self._freed: OrderedDict[str, None] = OrderedDict()

    def allocate(self, slot: int, allocation_id: str, job_id: str) -> bool:
        """Reserve a slot; True when this allocation now holds it, or held it before; False when it is refused."""
        if allocation_id in self._freed or not 0 <= slot < len(self._slots):
            return False
        found = self._slots[slot]
        if found.allocation_id == allocation_id:
            return found.state is not SlotState.RELEASING
        if found.state is not SlotState.FREE:
            return False
        found.state, found.allocation_id, found.job_id = SlotState.ALLOCATED, allocation_id, job_id
        return True

    def activate(self, allocation_id: str) -> bool:
        """The JobMaster accepted the slot; False when the allocation no longer holds it."""
        found = self._find(allocation_id)
        if found is None or found.state is SlotState.RELEASING:
            return False
        found.state = SlotState.ACTIVE
        return True

    def add_task(self, allocation_id: str, execution_id: str) -> None:
        found = self._find(allocation_id)
        if found is None or found.state is not SlotState.ACTIVE:
            raise InternalError(f"task {execution_id} has no active slot {allocation_id}")
        found.tasks.add(execution_id)

    def remove_task(self, allocation_id: str, execution_id: str) -> bool:
        """The task ended; True when it was the last task of a slot in RELEASING, which is FREE then."""
        found = self._find(allocation_id)
        if found is None:
            return False
        found.tasks.discard(execution_id)
        if found.state is SlotState.RELEASING and not found.tasks:
            self._clear(found)
            return True
        return False

    def free(self, allocation_id: str) -> frozenset[str]:
        """End an allocation, which may be unknown here; returns the tasks that have to end first. Empty: the slot is FREE."""
        found = self._find(allocation_id)
        if found is None:
            self._bury(allocation_id)
            return frozenset()
        if not found.tasks:
            self._clear(found)
            return frozenset()
        found.state = SlotState.RELEASING
        return frozenset(found.tasks)

    def offers(self) -> dict[str, tuple[rpc.SlotOffer, ...]]:
        """By job, the offered slots that its JobMaster has not answered yet."""
        waiting: dict[str, tuple[rpc.SlotOffer, ...]] = {}
        for s in self._slots:
            if s.state is SlotState.ALLOCATED:
                waiting[s.job_id] = (*waiting.get(s.job_id, ()), rpc.SlotOffer(s.slot, s.allocation_id))
        return waiting

    def report(self) -> tuple[rpc.SlotStatus, ...]:
        return tuple(rpc.SlotStatus(s.slot, s.allocation_id, s.job_id) for s in self._slots)

    def allocations(self) -> tuple[str, ...]:
        return tuple(s.allocation_id for s in self._slots if s.state is not SlotState.FREE)

    def jobs(self) -> frozenset[str]:
        """The jobs that hold slots."""
        return frozenset(s.job_id for s in self._slots if s.state is not SlotState.FREE)

    def check(self) -> None:
        """InternalError when the table contradicts itself."""
        for s in self._slots:
            is_free = s.state is SlotState.FREE
            if is_free != (not s.allocation_id) or (is_free and s.tasks):
                raise InternalError(
                    f"slot {s.slot} is {s.state.value} with {s.allocation_id!r} and {sorted(s.tasks)}"
                )
            if s.state is SlotState.RELEASING and not s.tasks:
                raise InternalError(f"slot {s.slot} is releasing, but no task is left in it")

    def _find(self, allocation_id: str) -> TaskSlot | None:
        return (
            next((s for s in self._slots if s.allocation_id == allocation_id), None)
            if allocation_id
            else None
        )

    def _clear(self, slot: TaskSlot) -> None:
        self._bury(slot.allocation_id)
        slot.state, slot.allocation_id, slot.job_id = SlotState.FREE, "", ""

    def _bury(self, allocation_id: str) -> None:
        self._freed[allocation_id] = None
        while len(self._freed) > TOMBSTONES_MAX:
            self._freed.popitem(last=False)


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
    committables: tuple[rpc.SinkCommittables, ...] = ()
    metrics: rpc.TaskMetrics | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended, and does not have to."""
        return not self.state.is_terminal and self.stopping_since_ms < 0

    def is_overdue(self, now_ms: int) -> bool:
        """Whether it was to end long ago."""
        is_stopping = self.stopping_since_ms >= 0 and not self.state.is_terminal
        return is_stopping and now_ms - self.stopping_since_ms > self.cancellation_timeout_ms

    def refuse(self, descriptor: rpc.TaskDeploymentDescriptor) -> None:
        """Its slot is not there."""
        self.state = ExecutionState.FAILED
        self.error = error_info(
            "SS6004",
            f"task {descriptor.task_name} was deployed into a slot that is not there",
            vertex=descriptor.vertex.name,
            attempt=descriptor.attempt,
        )

    # --- what is told of it

    def update(self, task_manager_id: str) -> rpc.TaskStateUpdate:
        return rpc.TaskStateUpdate(
            task_manager_id,
            self.job_id,
            self.execution_id,
            self.sequence,
            self.state,
            error=self.error,
            committables=self.committables,
            metrics=self.metrics,
        )

    def splits_request(self, task_manager_id: str, request: SplitsRequested) -> rpc.RequestSplits:
        return rpc.RequestSplits(
            task_manager_id,
            self.job_id,
            request.execution_id,
            request.number,
            request.returned,
            request.returned_earlier,
        )

    def checkpoint_report(
        self, task_manager_id: str, report: CheckpointReport
    ) -> rpc.AcknowledgeCheckpoint | rpc.DeclineCheckpoint:
        ids = (task_manager_id, self.job_id, report.execution_id)
        if isinstance(report, CheckpointRefused):
            return rpc.DeclineCheckpoint(*ids, report.checkpoint_id, report.error)
        return rpc.AcknowledgeCheckpoint(
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
