"""The slots of one TaskManager: the allocation that holds each, and the tasks in it (Flink: TaskSlotTable)."""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass, field

from sqlstream.errors import InternalError
from sqlstream.messages.rpc import SlotOffer, SlotStatus

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

    def offers(self) -> dict[str, tuple[SlotOffer, ...]]:
        """By job, the offered slots that its JobMaster has not answered yet."""
        waiting: dict[str, tuple[SlotOffer, ...]] = {}
        for s in self._slots:
            if s.state is SlotState.ALLOCATED:
                waiting[s.job_id] = (*waiting.get(s.job_id, ()), SlotOffer(s.slot, s.allocation_id))
        return waiting

    def report(self) -> tuple[SlotStatus, ...]:
        return tuple(SlotStatus(s.slot, s.allocation_id, s.job_id) for s in self._slots)

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
