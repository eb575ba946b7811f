"""Which subtask goes into which slot: all at once, with slot sharing (Flink: SlotSharingStrategy)."""

from __future__ import annotations

from sqlstream.graph.job_graph import JobGraph
from sqlstream.runtime.jobmanager.slot_pool import AllocatedSlot


def sharing_groups(job_graph: JobGraph) -> dict[str, int]:
    """The slots that each slot sharing group needs, in the order of the vertices: its highest parallelism."""
    groups: dict[str, int] = {}
    for vertex in job_graph.vertices:
        groups[vertex.slot_sharing_group] = max(groups.get(vertex.slot_sharing_group, 0), vertex.parallelism)
    return groups


def slots_needed(job_graph: JobGraph) -> int:
    return sum(sharing_groups(job_graph).values())


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
