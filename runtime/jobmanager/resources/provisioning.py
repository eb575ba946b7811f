"""How many TaskManagers a cluster has: which to request from the provider, which to release (Flink:
ActiveResourceManager)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from sqlstream import config as options
from sqlstream.errors import ErrorInfo, FailureReason, InternalError, UserError, error_info
from sqlstream.messages.rpc import RegisterTaskManager, TaskManagerOverview
from sqlstream.runtime.jobmanager.events import NoTaskManagerLeft, ReleaseTaskManager, RequestTaskManagers

REPLACEMENTS_MAX = 10
"""How many TaskManagers are replaced between two requests of jobs: a fault that ends each one is not cured by another."""

SLOTS_MAX = "slotmanager.number-of-slots.max"
SLOTS_MIN = "slotmanager.number-of-slots.min"
SLOTS_PER_TASK_MANAGER = "taskmanager.numberOfTaskSlots"


@dataclass(frozen=True)
class ProvisioningConfig:
    """The bounds of a cluster whose provider starts TaskManagers of `slots_per_task_manager` slots each.

    There are at most `slots_max` slots. `task_managers_min` TaskManagers run also without a job; beyond these, and beyond
    the first, one without a job is released after `idle_timeout_ms`."""

    resource_id_prefix: str
    slots_per_task_manager: int = 1
    slots_max: int = 64
    task_managers_min: int = 0
    idle_timeout_ms: int = 30_000
    registration_timeout_ms: int = 300_000

    @property
    def task_managers_max(self) -> int:
        return self.slots_max // self.slots_per_task_manager

    @property
    def task_managers_kept(self) -> int:
        """How many TaskManagers stay when no job uses them."""
        return max(self.task_managers_min, 1)

    @staticmethod
    def of(
        config: Mapping[str, str], resource_id_prefix: str, task_managers_min: int | None
    ) -> ProvisioningConfig:
        """The bounds that the settings state; `task_managers_min` replaces slotmanager.number-of-slots.min. UserError when
        the bounds exclude each other."""
        slots, slots_max = options.get(config, SLOTS_PER_TASK_MANAGER), options.get(config, SLOTS_MAX)
        if task_managers_min is None:
            task_managers_min = -(-options.get(config, SLOTS_MIN) // slots)
        if max(task_managers_min, 1) * slots > slots_max:
            raise UserError(
                "SS4002",
                f'option "{SLOTS_MAX}" is {slots_max}, too few for {max(task_managers_min, 1)} TaskManagers of '
                f"{slots} slots each",
                hint=f"raise {SLOTS_MAX}, or lower {SLOTS_PER_TASK_MANAGER} or the number of TaskManagers",
            )
        return ProvisioningConfig(
            resource_id_prefix,
            slots,
            # Slots that no whole TaskManager can have do not count.
            slots_max // slots * slots,
            task_managers_min,
            options.get(config, "resourcemanager.taskmanager-timeout"),
            options.get(config, "resourcemanager.taskmanager-registration.timeout"),
        )


class TaskManagerState(enum.Enum):
    """REQUESTED ─► REGISTERED ─► RELEASED; REQUESTED ─► RELEASED when it does not register in time. Each is forgotten when
    the provider reports that it has ended."""

    REQUESTED = "REQUESTED"
    REGISTERED = "REGISTERED"
    RELEASED = "RELEASED"


@dataclass
class _Provisioned:
    state: TaskManagerState
    requested_ms: int


class Provisioning:
    """Requests TaskManagers while jobs lack slots, within the bounds of its config.

    Each is requested under a resource id that was never used before, and counts from its request until its provider
    reports that it has ended. One that ends or is lost without a request is replaced when its slots are needed, at most
    REPLACEMENTS_MAX times, and never when its provider says that others would fail alike (NO_RESOURCES); `on_job` starts that
    count again. State: the TaskManagers by resource id, how many were requested, how many were lost since the last job, the cause
    of the last loss, and whether jobs were told that no other is requested."""

    def __init__(self, config: ProvisioningConfig) -> None:
        self.config = config
        self._task_managers: dict[str, _Provisioned] = {}
        self._requested = 0
        self._lost = 0
        self._last_loss: ErrorInfo | None = None
        self._is_told = False

    # --- what is there

    def count(self, *states: TaskManagerState) -> int:
        return sum(t.state in states for t in self._task_managers.values())

    def is_expected(self, resource_id: str) -> bool:
        """Whether a TaskManager of that id may register: it was requested, and not released."""
        found = self._task_managers.get(resource_id)
        return found is not None and found.state is not TaskManagerState.RELEASED

    @property
    def slots_possible(self) -> int:
        """The slots that the cluster has, has requested or may still request."""
        if self.is_given_up:
            expected = self.count(TaskManagerState.REQUESTED, TaskManagerState.REGISTERED)
            return expected * self.config.slots_per_task_manager
        return self.config.task_managers_max * self.config.slots_per_task_manager

    @property
    def is_given_up(self) -> bool:
        """Whether too many were lost since the last job came, so that none is requested."""
        return self._lost > REPLACEMENTS_MAX

    @property
    def _is_refused(self) -> bool:
        """Whether the provider has said that others would fail alike."""
        last = self._last_loss
        return self.is_given_up and last is not None and last.reason is FailureReason.NO_RESOURCES

    def check(self, registered: set[str]) -> None:
        """InternalError when there are too many, or when the registered ones are not those of the ResourceManager."""
        if len(self._task_managers) > self.config.task_managers_max:
            raise InternalError(f"{len(self._task_managers)} TaskManagers are too many")
        known = {i for i, t in self._task_managers.items() if t.state is TaskManagerState.REGISTERED}
        if known != registered:
            raise InternalError(f"TaskManagers {sorted(known ^ registered)} are registered in one place only")

    # --- events

    def on_job(self) -> None:
        """A new job is a reason to try again what failed before."""
        self._lost = 0
        self._is_told = False

    def on_registered(self, resource_id: str) -> None:
        self._task_managers[resource_id].state = TaskManagerState.REGISTERED

    def on_exited(self, resource_id: str, error: ErrorInfo) -> None:
        found = self._task_managers.pop(resource_id, None)
        if found is not None and found.state is not TaskManagerState.RELEASED:
            self._lose(error)

    def release_idle(self, resource_id: str) -> ReleaseTaskManager:
        self._task_managers[resource_id].state = TaskManagerState.RELEASED
        return ReleaseTaskManager(resource_id, is_lost=False)

    def release_lost(self, resource_id: str, error: ErrorInfo) -> ReleaseTaskManager:
        """The TaskManager does not answer, or a task in it does not end: its process has to."""
        found = self._task_managers.get(resource_id)
        if found is not None and found.state is not TaskManagerState.RELEASED:
            found.state = TaskManagerState.RELEASED
            self._lose(error)
        return ReleaseTaskManager(resource_id, is_lost=True)

    def release_overdue(self, now_ms: int) -> list[ReleaseTaskManager]:
        """Give up those that have not registered in time."""
        timeout_ms = self.config.registration_timeout_ms
        overdue = [
            resource_id
            for resource_id, found in self._task_managers.items()
            if found.state is TaskManagerState.REQUESTED and now_ms - found.requested_ms > timeout_ms
        ]
        return [self.release_lost(i, _unregistered(i, timeout_ms)) for i in overdue]

    def request(self, slots_missing: int, now_ms: int) -> list[RequestTaskManagers | NoTaskManagerLeft]:
        """Request what covers `slots_missing` slots, which no registered TaskManager has free, and the minimum."""
        pending = self.count(TaskManagerState.REQUESTED)
        expected = pending + self.count(TaskManagerState.REGISTERED)
        for_jobs = -(-slots_missing // self.config.slots_per_task_manager) - pending
        wanted = max(for_jobs, self.config.task_managers_min - expected)
        if self.is_given_up:
            is_hopeless = slots_missing > 0 and pending == 0 and not (self._is_told and expected)
            if not is_hopeless or self._last_loss is None:
                return []
            self._is_told = True
            return [NoTaskManagerLeft(_none_comes(self._last_loss, expected), expected)]
        count = min(wanted, self.config.task_managers_max - len(self._task_managers))
        if count <= 0:
            return []
        return [RequestTaskManagers(tuple(self._request_one(now_ms) for _ in range(count)))]

    # --- small things

    def _request_one(self, now_ms: int) -> str:
        self._requested += 1
        resource_id = f"{self.config.resource_id_prefix}-{self._requested}"
        self._task_managers[resource_id] = _Provisioned(TaskManagerState.REQUESTED, now_ms)
        return resource_id

    def _lose(self, error: ErrorInfo) -> None:
        is_in_vain = error.reason is FailureReason.NO_RESOURCES
        if self._is_refused and not is_in_vain:
            # What is lost later is not why no other is requested.
            return
        self._lost = REPLACEMENTS_MAX + 1 if is_in_vain else self._lost + 1
        self._last_loss = error


def _unregistered(resource_id: str, timeout_ms: int) -> ErrorInfo:
    return error_info(
        "SS6050", f"TaskManager {resource_id} did not register within {timeout_ms / 1000:g} s of its request"
    )


def _none_comes(last: ErrorInfo, registered: int) -> ErrorInfo:
    """Why a job gets no slots when no other TaskManager is requested; `last` is the cause of the last one's end."""
    if last.reason is FailureReason.NO_RESOURCES:
        return last
    left = "a TaskManager and" if registered else "no TaskManager is left and"
    return msgspec.structs.replace(
        last,
        code="SS6003",
        message=f"{left} {REPLACEMENTS_MAX} replacements have ended too: {last.message}",
        reason=FailureReason.NO_RESOURCES,
        hint="correct the cause in the last lines, then run the statement again"
        if last.detail
        else last.hint or "see what else ends processes of this user, then run the statement again",
    )


# A registered TaskManager with its slots, as the ResourceManager sees it.


class SlotState(enum.Enum):
    """FREE ─► REQUESTED (until the TaskManager offers it) ─► ALLOCATED ─► RELEASING (until SlotFreed) ─►
    FREE."""

    FREE = "FREE"
    REQUESTED = "REQUESTED"
    ALLOCATED = "ALLOCATED"
    RELEASING = "RELEASING"


@dataclass
class Slot:
    index: int
    state: SlotState = SlotState.FREE
    allocation_id: str = ""
    job_id: str = ""
    sent_ms: int = 0

    @property
    def is_leased(self) -> bool:
        return self.state in (SlotState.REQUESTED, SlotState.ALLOCATED)


@dataclass
class RegisteredTaskManager:
    """Times are on the steady clock. `last_message_ms` is the time of its last message; `idle_since_ms` is None while a
    slot is not FREE."""

    registration: RegisterTaskManager
    registered_ms: int
    last_message_ms: int
    slots: list[Slot]
    next_heartbeat_ms: int = 0
    heartbeat_sequence: int = 0
    idle_since_ms: int | None = None

    @property
    def id(self) -> str:
        return self.registration.task_manager_id

    @property
    def resource_id(self) -> str:
        return self.registration.resource_id

    @property
    def address(self) -> str:
        return self.registration.address

    def free_slots(self) -> list[Slot]:
        return [s for s in self.slots if s.state is SlotState.FREE]

    def note_idleness(self, now_ms: int) -> None:
        is_idle = all(s.state is SlotState.FREE for s in self.slots)
        if not is_idle:
            self.idle_since_ms = None
        elif self.idle_since_ms is None:
            self.idle_since_ms = now_ms

    def overview(self, is_blocked: bool) -> TaskManagerOverview:
        return TaskManagerOverview(
            task_manager_id=self.id,
            address=self.address,
            slots=len(self.slots),
            free_slots=len(self.free_slots()),
            registered_ms=self.registered_ms,
            last_heartbeat_ms=self.last_message_ms,
            process_id=self.registration.process_id,
            cores=self.registration.cores,
            memory_bytes=self.registration.memory_bytes,
            is_blocked=is_blocked,
        )
