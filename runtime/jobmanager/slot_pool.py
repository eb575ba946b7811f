"""The slots that one job holds (Flink: SlotPool)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.messages.rpc import SlotOffer


@dataclass(frozen=True)
class AllocatedSlot:
    allocation_id: str
    task_manager_id: str
    address: str
    slot: int


class SlotPool:
    """Accepts the slots that TaskManagers offer, up to the job's need; forgets those of a lost TaskManager."""

    def __init__(self, needed: int) -> None:
        self.needed = needed
        self._slots: dict[str, AllocatedSlot] = {}

    @property
    def is_complete(self) -> bool:
        return len(self._slots) >= self.needed

    def __len__(self) -> int:
        return len(self._slots)

    def offer(self, task_manager_id: str, address: str, offer: SlotOffer) -> bool:
        """Whether the slot is now, or was already, the job's; False when the job has all its slots."""
        if offer.allocation_id in self._slots:
            return True
        if self.is_complete:
            return False
        self._slots[offer.allocation_id] = AllocatedSlot(
            offer.allocation_id, task_manager_id, address, offer.slot
        )
        return True

    def slots(self) -> tuple[AllocatedSlot, ...]:
        """The slots ordered by TaskManager and slot, so that neighbouring subtasks share a TaskManager."""
        return tuple(sorted(self._slots.values(), key=lambda s: (s.task_manager_id, s.slot)))

    def remove_task_manager(self, task_manager_id: str) -> None:
        self._slots = {k: s for k, s in self._slots.items() if s.task_manager_id != task_manager_id}

    def clear(self) -> None:
        self._slots.clear()
