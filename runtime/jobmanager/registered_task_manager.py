"""A registered TaskManager with its slots, as the ResourceManager sees it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from sqlstream.messages.rpc import RegisterTaskManager, TaskManagerOverview


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

    def overview(self) -> TaskManagerOverview:
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
        )
