"""The slots that one job holds (Flink: SlotPool)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.rpc import SlotOffer
from sqlstream.runtime.jobmanager.resources.hosts import host_of


@dataclass(frozen=True)
class AllocatedSlot:
    allocation_id: str
    task_manager_id: str
    address: str
    slot: int


class SlotPool:
    """Accepts the slots that TaskManagers offer, up to the job's need; forgets those of a lost TaskManager.

    A slot that is used keeps its place among `slots()`, so that tasks which run on are not concerned by the loss of others, and
    tasks that start again find what they left there. The place of a lost one goes to a slot on the same host, if there is one:
    the disk of that host may have local copies of their state.
    State: the slots, which of them has which place, and the host of each place's last slot; `wanted` slots are accepted, and
    `needed` of them have a place. A job whose parallelism follows its slots wants `aim` of them, and can do with `least`.
    """

    def __init__(self, needed: int) -> None:
        self.needed = self.wanted = needed
        self.aim = self.least = 0
        self._fills_task_managers = False
        self._slots: dict[str, AllocatedSlot] = {}
        self._places: list[str | None] = [None] * needed
        self._hosts: list[str | None] = [None] * needed

    @property
    def is_complete(self) -> bool:
        return len(self._slots) >= self.needed

    @property
    def has_all(self) -> bool:
        """Whether those that are reserved are there, too."""
        return len(self._slots) >= self.wanted

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def allocation_ids(self) -> tuple[str, ...]:
        return tuple(self._slots)

    def offer(self, task_manager_id: str, address: str, offer: SlotOffer) -> bool:
        """Whether the slot is now, or was already, the job's; False when the job has all its slots."""
        if offer.allocation_id in self._slots:
            return True
        if self.has_all:
            return False
        self._slots[offer.allocation_id] = AllocatedSlot(
            offer.allocation_id, task_manager_id, address, offer.slot
        )
        return True

    def slots(self) -> tuple[AllocatedSlot, ...]:
        """All slots of a complete pool, each at its place. Those without a place get the free ones, first those on the host that
        a place was on, ordered by TaskManager and slot, so that neighbouring subtasks share a TaskManager."""
        waiting = self._without_place()
        free = [i for i, place in enumerate(self._places) if place is None]
        for i in [*free]:
            if (
                found := next((s for s in waiting if host_of(s.address) == self._hosts[i]), None)
            ) is not None:
                waiting.remove(found)
                free.remove(i)
                self._places[i] = found.allocation_id
        for i, slot in zip(free, waiting, strict=False):
            self._places[i] = slot.allocation_id
        found_slots = tuple(self._slots[p] for p in self._places if p is not None)
        self._hosts = [host_of(slot.address) for slot in found_slots]
        return found_slots

    def aim_at(self, count: int, least: int, fills_task_managers: bool) -> None:
        """Accept so many whatever is needed. With `fills_task_managers` those of few TaskManagers are taken before others."""
        self.aim, self.least, self._fills_task_managers = count, least, fills_task_managers
        self.wanted = max(self.needed, count)

    def reserve(self, count: int) -> None:
        """Accept so many in all, for what the job needs next."""
        self.wanted = max(self.needed, count, self.aim)

    def resize(self, needed: int) -> None:
        """The job needs so many from here on. Places are kept as far as they go, and slots without one are dropped, but those
        that it wants."""
        self.needed, self.wanted = needed, max(needed, self.aim)
        self._places = [*self._places, *[None] * needed][:needed]
        self._hosts = [*self._hosts, *[None] * needed][:needed]
        placed = {p for p in self._places if p is not None}
        kept = placed | {s.allocation_id for s in self._without_place()[: self.wanted - len(placed)]}
        self._slots = {k: s for k, s in self._slots.items() if k in kept}

    def _without_place(self) -> list[AllocatedSlot]:
        placed = set(self._places)
        unplaced = (s for s in self._slots.values() if s.allocation_id not in placed)
        there: Mapping[str, int] = (
            Counter(s.task_manager_id for s in self._slots.values()) if self._fills_task_managers else {}
        )
        return sorted(unplaced, key=lambda s: (-there.get(s.task_manager_id, 0), s.task_manager_id, s.slot))

    def remove_task_manager(self, task_manager_id: str) -> None:
        self._slots = {k: s for k, s in self._slots.items() if s.task_manager_id != task_manager_id}
        self._places = [p if p in self._slots else None for p in self._places]

    def clear(self) -> None:
        self._slots.clear()
        self._places = [None] * self.needed
        self._hosts = [None] * self.needed


# Which subtask goes into which slot: all at once, with slot sharing (Flink: SlotSharingStrategy).


def sharing_groups(job_graph: JobGraph) -> dict[str, int]:
    """The slots that each slot sharing group needs, in the order of the vertices: its highest parallelism."""
    groups: dict[str, int] = {}
    for vertex in job_graph.vertices:
        groups[vertex.slot_sharing_group] = max(groups.get(vertex.slot_sharing_group, 0), vertex.parallelism)
    return groups


def slots_needed(job_graph: JobGraph) -> int:
    return sum(sharing_groups(job_graph).values())


def highest_parallelism(at: Callable[[int], JobGraph], highest: int, slots: int) -> int:
    """The highest parallelism up to `highest` at which a job needs no more slots; 0 when there are too few for 1. `at` is the job
    at a parallelism."""
    low = 0
    while low < highest:
        middle = (low + highest + 1) // 2
        if slots_needed(at(middle)) <= slots:
            low = middle
        else:
            highest = middle - 1
    return low


def assign_slots(
    job_graph: JobGraph, slots: tuple[AllocatedSlot, ...]
) -> dict[tuple[str, int], AllocatedSlot]:
    """The slot by (vertex id, subtask). Subtask `i` of every vertex of a group shares the group's slot `i`.

    A FORWARD edge then stays within one slot. `slots` has exactly `slots_needed` members.
    """
    first_slot: dict[str, int] = {}
    taken = 0
    for group, count in sharing_groups(job_graph).items():
        first_slot[group] = taken
        taken += count
    return {
        (vertex.id, subtask): slots[first_slot[vertex.slot_sharing_group] + subtask]
        for vertex in job_graph.vertices
        for subtask in range(vertex.parallelism)
    }
